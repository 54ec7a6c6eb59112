//! What is simulated: edges, servers, clients, the ways between them, and what goes wrong.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{Class, Fleet, Group, Service, Services},
    time::{Duration, Instant},
};

pub use crate::cache::{Cache, Objects};
use crate::{
    arrivals::{Arrivals, Factor},
    cluster::Cluster,
    service_time::ServiceTime,
    speed::Pauses,
    station::OutageKind,
};

/// Everything that determines a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The configuration as each edge has it; the same services in all, seen from different
    /// regions.
    pub edges: Vec<Arc<Fleet>>,
    /// Which of the runs of the scenario.
    pub seed: u64,
    /// How long requests come. The run ends when each of them has ended.
    pub lasts: Duration,
    /// From when on requests are counted.
    pub warm_up: Duration,
    /// How far apart the points of the timeline are; above 0.
    pub step: Duration,
    /// Where requests come from.
    pub sources: Vec<Source>,
    /// Models of servers; the last one that selects a server holds, and [`ServerModel::default`]
    /// where none does.
    pub servers: Vec<(Selector, Arc<ServerModel>)>,
    /// The ways between regions that are not as the configuration says.
    pub links: Vec<Link>,
    /// What goes wrong, and when.
    pub faults: Vec<Fault>,
    /// What requests are for, by the index of the service; nothing that is stored where none.
    pub objects: Vec<Option<Objects>>,
    /// The caches of edges, at most one each.
    pub caches: Vec<Cache>,
    /// How edges share the capacity of groups; each has all of it if none.
    pub cluster: Option<Cluster>,
}

impl Scenario {
    /// The services, as the first edge has them.
    pub(crate) fn services(&self) -> &Services {
        self.edges.first().map_or(&NO_SERVICES, |fleet| &fleet.services)
    }

    /// What a server is like; none where no entry selects it.
    pub(crate) fn model_of(
        &self,
        (service, group): (&Service, &Group),
        server: SocketAddr,
    ) -> Option<&Arc<ServerModel>> {
        let names = (group.name.as_str(), group.region.as_str());
        let mut models = self.servers.iter().rev();
        let found = models.find(|(of, _)| of.fits(&service.name, names, server));
        found.map(|(_, model)| model)
    }

    /// The way between two regions, if it is not as the configuration says.
    pub(crate) fn link_between(&self, one: &str, other: &str) -> Option<&Link> {
        let joins = |link: &&Link| {
            let (from, to) = (link.between[0].as_str(), link.between[1].as_str());
            (from, to) == (one, other) || (to, from) == (one, other)
        };
        self.links.iter().rev().find(joins)
    }

    /// What the traffic of a source is multiplied by, and when.
    pub(crate) fn traffic_factors(&self, source: &Source) -> Vec<Factor> {
        let fleet = &self.edges[source.edge];
        let service = &fleet.services[source.service].name;
        let is = |said: &Option<String>, it| said.as_ref().is_none_or(|said| said == it);
        let factors = self.faults.iter().filter_map(|fault| match fault.what {
            Trouble::Traffic(factor)
                if is(&fault.whom.region, &fleet.edge.region)
                    && is(&fault.whom.service, service) =>
            {
                Some((fault.at, fault.end(), factor))
            }
            _ => None,
        });
        factors.collect()
    }
}

/// Clients of one kind.
#[derive(Clone, Debug)]
pub struct Source {
    /// What it is called in results.
    pub name: String,
    /// Index of the edge in [`Scenario::edges`] where its requests come in.
    pub edge: usize,
    /// Index of the service in the configuration.
    pub service: usize,
    /// When requests come.
    pub arrivals: Arrivals,
    /// How much they matter where not all find room.
    pub class: Class,
    /// How many clients there are, for policies that hash.
    pub clients: u32,
    /// From a client to the edge and back.
    pub distance: Duration,
    /// How long a client waits for a response; for ever if none.
    pub gives_up: Option<Duration>,
    /// What a client does when a request fails.
    pub retry: ClientRetry,
}

/// What clients do about failures: a 5xx, no response, or having given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRetry {
    /// Further attempts of one request.
    pub times: u32,
    /// What a client waits before the first; twice as long before each next one, and half of it at
    /// random.
    pub after: Duration,
}

/// What a server is like.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerModel {
    /// How long it works on a request.
    pub time: ServiceTime,
    /// On how many at a time, at least 1.
    pub cores: u32,
    /// Which requests are worked on.
    pub discipline: Discipline,
    /// How many requests may wait for a core; it responds with 503 to further ones.
    pub queue: Option<u32>,
    /// When it stands still, again and again.
    pub pauses: Option<Pauses>,
    /// What else runs on its machine.
    pub antagonist: Option<Antagonist>,
    /// Time from its start until it has full speed; it begins with a third of that.
    pub warm_up: Duration,
}

impl Default for ServerModel {
    /// One core, exponential times of 10 ms, first come first served.
    fn default() -> Self {
        Self {
            time: ServiceTime::Exponential { mean: Duration::from_millis(10) },
            cores: 1,
            discipline: Discipline::FirstCome,
            queue: None,
            pauses: None,
            antagonist: None,
            warm_up: Duration::ZERO,
        }
    }
}

/// Another program on the machine of a server, which takes a share of its speed that changes at
/// random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Antagonist {
    /// The largest share, below 1; each up to it is equally likely.
    pub most: f64,
    /// How long it takes the same share, on average; the times are exponential. Above 0.
    pub every: Duration,
}

/// In which order a server works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First come, first served, one request a core.
    FirstCome,
    /// All at a time, each with an equal part of the cores and at most one of them.
    ProcessorSharing,
}

/// A selection of servers: those that match every given field; all servers if none is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// In this region.
    pub region: Option<String>,
    /// Of this service.
    pub service: Option<String>,
    /// Of the group of this name.
    pub group: Option<String>,
    /// At this address.
    pub server: Option<SocketAddr>,
}

impl Selector {
    /// Whether all that is said is a region.
    pub(crate) fn is_region(&self) -> bool {
        let Self { region, service, group, server } = self;
        region.is_some() && service.is_none() && group.is_none() && server.is_none()
    }

    /// Whether it selects a server: its service, the name and region of its group, its address.
    #[must_use]
    pub fn fits(&self, service: &str, group: (&str, &str), server: SocketAddr) -> bool {
        let (group, region) = group;
        let is = |said: &Option<String>, it: &str| said.as_deref().is_none_or(|said| said == it);
        is(&self.service, service)
            && is(&self.group, group)
            && is(&self.region, region)
            && self.server.is_none_or(|said| said == server)
    }
}

/// The way between two regions, in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Names of the two regions.
    pub between: [String; 2],
    /// There and back; as the configuration says if none.
    pub rtt: Option<Duration>,
    /// The mean of what comes on top of each way, exponential.
    pub jitter: Duration,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// When it begins.
    pub at: Instant,
    /// How long it lasts; to the end if none.
    pub lasts: Option<Duration>,
    /// What it is.
    pub what: Trouble,
    /// Which servers have it; for [`Trouble::Traffic`] the edges of the region and the service, for
    /// [`Trouble::Cache`] and [`Trouble::CutOff`] the edges of the region.
    pub whom: Selector,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// Servers do not respond. Clients of an edge in a region that is unreachable or down come in
    /// at the nearest edge that is not.
    Outage(OutageKind),
    /// Servers take so many times as long, above 0.
    Slow(f64),
    /// Servers stand still and keep their connections.
    Stall,
    /// This share of responses is a 500, 0 to 1.
    Errors(f64),
    /// So many times as many requests come, at least 0; of [`Arrivals::Closed`] so many times as
    /// many users.
    Traffic(f64),
    /// The caches of edges lose everything, and store nothing while it lasts; one that does not end
    /// leaves them empty and in use.
    Cache,
    /// The store through which edges share is away; afterwards it has another leader.
    StoreAway,
    /// Edges and that store do not reach each other.
    CutOff,
}

impl Trouble {
    /// Whether servers have it.
    pub(crate) fn is_of_servers(self) -> bool {
        !matches!(self, Self::Traffic(_) | Self::Cache | Self::StoreAway | Self::CutOff)
    }
}

impl Fault {
    /// When it ends, if it does.
    #[must_use]
    pub fn end(&self) -> Option<Instant> {
        self.lasts.map(|lasts| self.at + lasts)
    }

    /// Whether all of a region is out.
    pub(crate) fn takes_out(&self, region: &str) -> bool {
        let is_it = self.whom.is_region() && self.whom.region.as_deref() == Some(region);
        is_it && matches!(self.what, Trouble::Outage(_))
    }
}

/// Where there is no edge.
static NO_SERVICES: Services = Services::NONE;
