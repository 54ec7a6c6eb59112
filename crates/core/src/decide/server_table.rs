//! The table of all servers, with the state of their checks and errors, by service and group.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::net::SocketAddr;

use crate::{
    decide::{
        ledger::{GroupState, Ledger, ServerId, ServiceState},
        priority_tier::{Counted, PriorityTier},
    },
    fleet::{Fleet, Group, Service},
    health::{outlier::Watch, round_trip::is_news},
    time::{Duration, Instant},
    units::Ratio,
};

mod entry;

pub(crate) use entry::{Checks, ServerEntry};

/// All servers of the fleet.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerTable {
    /// In the order of the file.
    services: Vec<OfService>,
    /// By number of the server.
    places: Vec<Option<Place>>,
}

/// What is known of a service.
#[derive(Clone, Debug)]
pub(crate) struct OfService {
    pub state: Arc<ServiceState>,
    /// In the order of the file.
    pub groups: Vec<OfGroup>,
    /// When its plan was made.
    pub planned_at: Instant,
}

/// Where what is known of a service comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// It is new.
    New,
    /// It was at this place of the file before, and is another now.
    Changed(usize),
    /// It was at this place of the file before, and is unchanged.
    Same(usize),
}

/// The origin of each service of a fleet that follows another.
#[derive(Debug)]
pub(crate) struct Origins {
    /// In the order of the file.
    pub of: Vec<Origin>,
    /// Whether each service is where it was, and no other was there.
    pub in_place: bool,
    /// The servers that changed services had, and those that are gone.
    pub were: Vec<ServerId>,
}

/// What is known of a group.
#[derive(Clone, Debug)]
pub(crate) struct OfGroup {
    pub state: Arc<GroupState>,
    /// In the order of the file.
    pub entries: Vec<ServerEntry>,
    pub standing: GroupRank,
    /// Where errors occur in it.
    pub watch: Option<Box<Watch>>,
    /// Round-trip time as checks measured it, moved only by what is more than noise.
    pub distance: Option<Duration>,
}

/// Whether a group yields to others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupRank {
    pub yields: bool,
    /// Whether it yields since all its servers are drained.
    pub drained: bool,
    pub well_since: Option<Instant>,
}

/// Where a server stands in the file, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub service: usize,
    pub group: usize,
    pub server: usize,
}

impl ServerTable {
    /// Adopts the servers of `fleet`, which follows `before`: keeps what is known of servers that
    /// stay, forgets the others. Gives the origin of each service.
    pub(crate) fn enlist(
        &mut self,
        now: Instant,
        (before, fleet): (&Fleet, &Fleet),
        ledger: &mut Ledger,
    ) -> Origins {
        let up_since = if self.services.is_empty() { Instant::ZERO } else { now };
        let is_here = before.edge.region == fleet.edge.region;
        let (before, after) = (&before.services, &fleet.services);
        let in_place = before.have_names_of(after);
        let names = before.iter().enumerate().filter(|_| !in_place);
        let places: BTreeMap<&str, usize> = names.map(|(at, it)| (&*it.name, at)).collect();
        let was_at = |at, name| if in_place { Some(at) } else { places.get(name).copied() };
        let mut known: Vec<Option<OfService>> = self.services.drain(..).map(Some).collect();
        let (mut origins, mut were) = (Vec::with_capacity(after.len()), Vec::new());
        for (n, service) in after.iter().enumerate() {
            let was_at = was_at(n, &*service.name);
            let (origin, known) = match was_at.and_then(|at| Some((at, known[at].take()?))) {
                Some((at, known)) if is_here && after.is_same(n, (before, at)) => {
                    (Origin::Same(at), known)
                }
                Some((at, known)) => {
                    were.extend(
                        known.groups.iter().flat_map(|it| &it.entries).map(ServerEntry::id),
                    );
                    let groups = before[at].groups.iter().zip(known.groups);
                    let groups = groups.map(|(group, known)| (&*group.name, known)).collect();
                    (Origin::Changed(at), OfService::new(service, groups, up_since, ledger))
                }
                None => (Origin::New, OfService::new(service, BTreeMap::new(), up_since, ledger)),
            };
            origins.push(origin);
            self.services.push(known);
        }
        for group in known.iter().flatten().flat_map(|service| &service.groups) {
            group.state.hear_errors_again();
            were.extend(group.entries.iter().map(ServerEntry::id));
        }
        let origins = Origins { of: origins, in_place, were };
        self.find_places(&origins);
        origins
    }

    fn find_places(&mut self, origins: &Origins) {
        if origins.in_place {
            origins.were.iter().for_each(|server| self.places[server.index()] = None);
            origins.changed().for_each(|service| self.place_servers(service));
        } else {
            self.places.clear();
            (0..self.services.len()).for_each(|service| self.place_servers(service));
        }
    }

    fn place_servers(&mut self, service: usize) {
        for (group, known) in self.services[service].groups.iter().enumerate() {
            for (server, entry) in known.entries.iter().enumerate() {
                let index = entry.id().index();
                if self.places.len() <= index {
                    self.places.resize(index + 1, None);
                }
                self.places[index] = Some(Place { service, group, server });
            }
        }
    }

    pub(crate) fn place(&self, server: ServerId) -> Option<Place> {
        self.places.get(server.index()).copied().flatten()
    }

    pub(crate) fn at(&self, place: Place) -> &ServerEntry {
        &self.services[place.service].groups[place.group].entries[place.server]
    }

    pub(crate) fn at_mut(&mut self, place: Place) -> &mut ServerEntry {
        &mut self.services[place.service].groups[place.group].entries[place.server]
    }

    pub(crate) fn get(&self, server: ServerId) -> Option<&ServerEntry> {
        self.place(server).map(|place| self.at(place))
    }

    /// In the order of the file.
    pub(crate) fn services(&self) -> &[OfService] {
        &self.services
    }

    pub(crate) fn service_mut(&mut self, service: usize) -> &mut OfService {
        &mut self.services[service]
    }

    pub(crate) fn group(&self, service: usize, group: usize) -> &OfGroup {
        &self.services[service].groups[group]
    }

    pub(crate) fn group_mut(&mut self, service: usize, group: usize) -> &mut OfGroup {
        &mut self.services[service].groups[group]
    }

    /// The servers of a service.
    pub(crate) fn servers(&self, service: usize) -> impl Iterator<Item = &ServerEntry> {
        self.services[service].groups.iter().flat_map(|group| &group.entries)
    }

    /// How many servers of a service are out by ejection, and how many there are.
    pub(crate) fn ejected_of(&self, service: usize) -> (usize, usize) {
        let groups = self.services[service].groups.iter().map(OfGroup::ejected);
        groups.fold((0, 0), |(out, all), (o, a)| (out + o, all + a))
    }

    /// Panics where entries and fleet differ.
    pub(crate) fn check_invariants(&self, fleet: &Fleet) {
        let mut known = 0;
        for (s, (service, of)) in self.services.iter().zip(&fleet.services).enumerate() {
            for (g, (group, of_group)) in service.groups.iter().zip(&of.groups).enumerate() {
                assert_eq!(group.entries.len(), of_group.servers.len(), "an entry for each server");
                let entries = group.entries.iter().zip(&of_group.servers).enumerate();
                for (n, (entry, server)) in entries {
                    assert_eq!(server.address, entry.address());
                    assert_eq!(of.health.is_some(), entry.checks != Checks::Off);
                    let place = Place { service: s, group: g, server: n };
                    assert_eq!(self.place(entry.id()), Some(place));
                    known += 1;
                }
                let GroupRank { yields, well_since, .. } = group.standing;
                assert!(yields || well_since.is_none(), "{} waits for nothing", of_group.name);
            }
        }
        assert_eq!(self.services.len(), fleet.services.len());
        assert_eq!(self.places.iter().flatten().count(), known, "nobody who left");
    }
}

impl OfService {
    /// A service of which something may be known by the names of its groups.
    fn new(
        service: &Service,
        mut known: BTreeMap<&str, OfGroup>,
        up_since: Instant,
        ledger: &mut Ledger,
    ) -> Self {
        let groups = service.groups.iter().map(|group| {
            let known = known.remove(&*group.name);
            OfGroup::new((service, group), known, up_since, ledger)
        });
        let groups = groups.collect();
        // Who looked at a group that is gone looks at it no more.
        known.values().for_each(|group| group.state.hear_errors_again());
        Self { state: ledger.service(&service.name), groups, planned_at: Instant::ZERO }
    }
}

impl Origins {
    /// The services that are new or another, by their places now.
    pub(crate) fn changed(&self) -> impl Iterator<Item = usize> + Clone {
        let all = self.of.iter().enumerate();
        all.filter(|(_, origin)| origin.same().is_none()).map(|(at, _)| at)
    }
}

impl Origin {
    /// Its place before.
    pub(crate) fn was_at(self) -> Option<usize> {
        match self {
            Self::New => None,
            Self::Changed(at) | Self::Same(at) => Some(at),
        }
    }

    /// Its place before, if it is unchanged.
    pub(crate) fn same(self) -> Option<usize> {
        if let Self::Same(at) = self { Some(at) } else { None }
    }
}

impl OfGroup {
    fn new(
        (service, group): (&Service, &Group),
        known: Option<Self>,
        up_since: Instant,
        ledger: &mut Ledger,
    ) -> Self {
        let state = ledger.group(&service.name, &group.name);
        let known = known.unwrap_or_else(|| Self {
            state: state.clone(),
            entries: Vec::new(),
            standing: GroupRank::default(),
            watch: None,
            distance: None,
        });
        let Self { entries, standing, mut watch, distance, .. } = known;
        let mut known: BTreeMap<SocketAddr, ServerEntry> =
            entries.into_iter().map(|entry| (entry.address(), entry)).collect();
        let (mut new, mut serves) = (Vec::new(), false);
        let entries = group.servers.iter().enumerate().map(|(at, server)| {
            let entry = known.remove(&server.address);
            let is_new = entry.is_none();
            let mut entry = entry.unwrap_or_else(|| {
                let state = ledger.server(&service.name, &group.name, server.address);
                ServerEntry::new(state, up_since)
            });
            entry.configure(server, service.health.as_ref(), up_since);
            if !is_new {
                serves |= entry.takes_part && entry.is_healthy();
            } else if entry.takes_part {
                new.push(at);
            }
            entry
        });
        let mut entries: Vec<ServerEntry> = entries.collect();
        // As many as have gone take the places of those: the few that stay are not given what was
        // meant for all.
        let counts = |entry: &&ServerEntry| {
            entry.counted().is_some_and(|counted| counted != Counted::Drained)
        };
        let gone = known.values().filter(counts).count();
        if serves {
            new.into_iter().skip(gone).for_each(|at| entries[at].is_joining = true);
        }
        for gone in known.values() {
            watch.iter_mut().for_each(|watch| watch.forget(gone.id()));
            // What it told last may not be heard any more.
            state.hear_errors_again();
        }
        Self { state, entries, standing, watch, distance }
    }

    /// The servers that take part now.
    pub(crate) fn taking_part(&self) -> impl Iterator<Item = &ServerEntry> {
        self.entries.iter().filter(|entry| entry.takes_part && entry.is_healthy())
    }

    /// How many servers are out by ejection, and how many there are.
    pub(crate) fn ejected(&self) -> (usize, usize) {
        let out = self.entries.iter().filter(|entry| entry.is_ejected());
        (out.count(), self.entries.len())
    }

    /// The healthy share of the group, as far as its servers take part.
    pub(crate) fn healthy_share(&self) -> Ratio {
        self.tier().healthy_share()
    }

    /// How many servers are healthy, and of how many.
    pub(crate) fn healthy(&self) -> (usize, usize) {
        self.tier().healthy()
    }

    fn tier(&self) -> PriorityTier {
        PriorityTier::of(&self.entries.iter().filter_map(|it| Some((it.priority, it.counted()?))))
    }

    /// Whether it has servers and none of them takes part.
    pub(crate) fn is_drained(&self) -> bool {
        !self.entries.is_empty() && !self.entries.iter().any(|entry| entry.takes_part)
    }

    /// Looks how far it is by the checks; true if that is news.
    pub(crate) fn measure_distance(&mut self) -> bool {
        let measured = self.entries.iter().filter_map(|entry| entry.round_trip.get()).min();
        let moved = match (self.distance, measured) {
            (Some(old), Some(new)) => is_news(old, new),
            (old, new) => old.is_none() && new.is_some(),
        };
        if moved {
            self.distance = measured;
        }
        moved
    }
}
