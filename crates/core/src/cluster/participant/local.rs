//! Shares and demand of one edge in one service.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};

use crate::{
    cluster::{
        demand::Demand,
        participant::{Action, GroupObservation, Observation, RequestId, SharedService},
        share::Share,
        table::{GroupReport, Revision, ServiceReport, SessionId, Table},
    },
    time::{Duration, Instant},
};

/// A service at this edge.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) name: String,
    groups: Vec<LocalGroup>,
    demand: [Demand; 3],
    /// The version of the table in force.
    seen: u64,
    /// The table under way.
    writing: Option<Writing>,
    /// When the last one was sent.
    wrote: Instant,
    /// Whether the table in force has anything of this session.
    is_in_table: bool,
}

/// A table on its way to the store.
#[derive(Clone, Copy, Debug)]
struct Writing {
    id: RequestId,
    at: Instant,
    /// When the table was written that it replaces.
    replaces: Option<Revision>,
}

#[derive(Debug)]
struct LocalGroup {
    name: String,
    seen: GroupObservation,
    /// As the table says.
    share: Share,
    /// What was in force last under a lease.
    last: Share,
    /// What is in force, floor included.
    applied: Option<Share>,
    /// What was in force when requests in flight were counted last, or since: as many may be in
    /// flight.
    uncounted: Share,
}

impl Local {
    /// A service of which something may be known already.
    pub(super) fn new(service: SharedService, known: Option<Self>) -> Self {
        let mut known = known.unwrap_or_else(|| Self {
            name: service.name,
            groups: Vec::new(),
            demand: Default::default(),
            seen: 0,
            writing: None,
            wrote: Instant::ZERO,
            is_in_table: false,
        });
        let mut before = core::mem::take(&mut known.groups);
        for name in service.groups {
            let at = before.iter().position(|group| group.name == name);
            known.groups.push(at.map_or_else(
                || LocalGroup {
                    name,
                    seen: GroupObservation::default(),
                    share: Share::NONE,
                    last: Share::NONE,
                    applied: None,
                    uncounted: Share::NONE,
                },
                |at| before.swap_remove(at),
            ));
            // A new group has its share by the table that is in force already.
            known.seen = if at.is_some() { known.seen } else { 0 };
        }
        known
    }

    pub(super) fn observe(&mut self, now: Instant, observation: Observation) {
        let classes = self.demand.iter_mut().zip(observation.asked);
        classes.for_each(|(demand, total)| demand.count(now, total));
        let groups = self.groups.iter_mut().zip(observation.groups);
        for (group, seen) in groups {
            group.seen = seen;
            group.uncounted = group.applied.unwrap_or_default();
        }
    }

    /// Takes its shares out of the table.
    pub(super) fn follow(&mut self, session: Option<SessionId>, table: Option<&Table>) {
        self.seen = table.map_or(0, |table| table.version);
        let mut entries = table.into_iter().flat_map(|table| table.groups.values().flatten());
        self.is_in_table = entries.any(|entry| Some(entry.session) == session);
        for group in &mut self.groups {
            let share =
                session.zip(table).map(|(session, table)| table.share(&group.name, session));
            group.share = share.unwrap_or_default();
        }
    }

    /// Brings shares into force: those of the table while the lease is valid, else the last ones
    /// if they are `kept`, and the floor. After a break they are kept until there is a table again.
    pub(super) fn apply(
        &mut self,
        (valid, kept): (bool, bool),
        floor: Share,
        actions: &mut VecDeque<Action>,
    ) {
        let follows = valid && (self.is_in_table || !kept);
        for group in &mut self.groups {
            if follows {
                group.last = group.share;
            }
            let share = floor + if follows || kept { group.last } else { Share::NONE };
            if group.applied != Some(share) {
                group.uncounted = group.uncounted.max(share);
                group.applied = Some(share);
                let (service, group) = (self.name.clone(), group.name.clone());
                actions.push_back(Action::Share { service, group, share });
            }
        }
    }

    /// Uses nothing more.
    pub(super) fn leave(&mut self, actions: &mut VecDeque<Action>) {
        for group in &mut self.groups {
            group.applied = Some(Share::NONE);
            let (service, group) = (self.name.clone(), group.name.clone());
            actions.push_back(Action::Share { service, group, share: Share::NONE });
        }
    }

    pub(super) fn report(&self, floor: Share) -> ServiceReport {
        let groups = self.groups.iter().map(|group| (group.name.clone(), group.report(floor)));
        let demand = [0, 1, 2].map(|class: usize| self.demand[class].per_thousand_seconds());
        let (seen, margin) = (self.seen, self.margin());
        ServiceReport { seen, demand, margin, groups: groups.collect::<BTreeMap<_, _>>() }
    }

    /// Whether clients want more than all its shares let through, as far as that is known.
    pub(super) fn is_short(&self, floor: Share) -> bool {
        self.lacks(floor) > 0
    }

    /// Requests per thousand seconds that its shares do not cover.
    fn lacks(&self, floor: Share) -> u64 {
        let reached = self.groups.iter().filter(|group| group.seen.distance.is_some());
        let covered = reached.map(|group| group.covers(floor)).fold(0, u64::saturating_add);
        self.wanted().saturating_sub(covered)
    }

    /// Requests per thousand seconds that clients want.
    pub(super) fn wanted(&self) -> u64 {
        self.demand.iter().map(Demand::per_thousand_seconds).sum()
    }

    /// Margin above the demand.
    fn margin(&self) -> u64 {
        Demand::margin(self.demand.iter().map(Demand::variance).sum())
    }

    /// What is in force of each group, 0 to 1.
    pub(super) fn shares(&self) -> impl Iterator<Item = (String, f64)> {
        self.groups.iter().map(|group| {
            let share = group.applied.unwrap_or_default();
            (group.name.clone(), share.parts() as f64 / Share::WHOLE.parts() as f64)
        })
    }

    /// Takes free shares that this edge lacks, those of the nearest group first, and leaves half of
    /// each for others unless that is next to nothing. True if it took any.
    pub(super) fn slice(&self, floor: Share, session: SessionId, table: &mut Table) -> bool {
        let mut lacks = self.lacks(floor).saturating_add(self.margin());
        let mut groups: Vec<&LocalGroup> =
            self.groups.iter().filter(|group| group.seen.distance.is_some()).collect();
        groups.sort_by_key(|group| group.seen.distance);
        let mut taken = false;
        for group in groups {
            let Some(capacity) = group.seen.capacity.filter(|_| lacks > 0) else { continue };
            let free = table.free(&group.name);
            let most = if free < CRUMB { free } else { Share::from_parts(free.parts() / 2) };
            let wanted = group.worth(lacks, capacity, floor).min(most);
            let got = table.take(&group.name, session, wanted);
            lacks = lacks.saturating_sub(got.of(capacity));
            taken |= got > Share::NONE;
        }
        taken
    }

    /// Whether no table is under way: one is until the watch has told of it or of another.
    pub(super) fn may_write(&self, now: Instant, table: Option<Revision>) -> bool {
        self.writing.is_none_or(|it| it.replaces != table || now >= it.at + PATIENCE)
    }

    pub(super) fn writes(&mut self, now: Instant, id: RequestId, replaces: Option<Revision>) {
        self.writing = Some(Writing { id, at: now, replaces });
        self.wrote = now;
    }

    pub(super) fn wrote(&self) -> Instant {
        self.wrote
    }

    /// Notes that the store has refused this write, so that its table is not awaited.
    pub(super) fn refused(&mut self, id: RequestId) {
        if self.writing.is_some_and(|writing| writing.id == id) {
            self.writing = None;
        }
    }
}

impl LocalGroup {
    /// The rate that its share lets through; all that is wanted where nobody knows.
    fn covers(&self, floor: Share) -> u64 {
        let share = self.applied.unwrap_or(floor);
        self.seen.capacity.map_or(u64::MAX, |capacity| share.of(capacity))
    }

    /// Share needed to let `lacks` more through; whole places, where places are limited.
    fn worth(&self, lacks: u64, capacity: u64, floor: Share) -> Share {
        let Some(places) = self.seen.places else { return Share::part(lacks, capacity) };
        let has = self.share + floor;
        let more = (u128::from(lacks) * u128::from(places)).div_ceil(u128::from(capacity.max(1)));
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        let wanted = u64::from(has.of_places(places)).saturating_add(more);
        Share::part(wanted.min(places.into()), places.into()).saturating_sub(has)
    }

    fn report(&self, floor: Share) -> GroupReport {
        let GroupObservation { distance, capacity, places, in_flight } = self.seen;
        let micros =
            |distance: Duration| u32::try_from(distance.as_nanos() / 1_000).unwrap_or(u32::MAX);
        let held = places.map_or(Share::NONE, |places| {
            let allowed = self.applied.unwrap_or_default();
            let counted = Share::part(in_flight.into(), places.into());
            let used = if self.uncounted > allowed {
                self.uncounted.max(counted)
            } else if in_flight > allowed.of_places(places) {
                counted
            } else {
                return Share::NONE;
            };
            used.saturating_sub(floor)
        });
        GroupReport { distance: distance.map(micros), capacity, places, held }
    }
}

/// Whether a report says more than one of before, but for what table is in force.
pub(super) fn is_news(told: &ServiceReport, now: &ServiceReport) -> bool {
    let mut demands = told.demand.into_iter().zip(now.demand);
    demands.any(|(told, wanted)| Demand::is_news(told, wanted, now.margin))
        || Demand::is_other_margin(told.margin, now.margin)
        || told.groups.len() != now.groups.len()
        || now.groups.iter().any(|(name, now)| {
            let told = told.groups.get(name);
            told.is_none_or(|told| {
                told.places != now.places
                    || differs(told.capacity, now.capacity, 0)
                    || differs(told.distance.map(u64::from), now.distance.map(u64::from), NOISE)
            })
        })
}

/// Whether two figures differ by more than a tenth and some noise.
fn differs(told: Option<u64>, now: Option<u64>, noise: u64) -> bool {
    match (told, now) {
        (Some(told), Some(now)) => told.abs_diff(now) > told.max(now) / 10 + noise,
        (told, now) => told.is_some() != now.is_some(),
    }
}

/// Microseconds by which a distance may differ and be the same.
const NOISE: u64 = 1_000;

/// What is free and less than this is taken whole.
const CRUMB: Share = Share::from_parts(Share::WHOLE.parts() / 64);

/// After this nobody waits any more for what became of a table.
const PATIENCE: Duration = Duration::from_secs(1);
