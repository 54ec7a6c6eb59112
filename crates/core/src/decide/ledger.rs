//! Counters that must be exact, shared by all workers and kept across plans.
//!
//! A reload or a health change builds a new [`Plan`](crate::decide::plan::Plan) on the same states,
//! so it resets no in-flight count, no rate budget, no latency average and no round-robin position.
//! Everything is an atomic with relaxed ordering: each is a number of its own, none guards data.

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{net::SocketAddr, sync::atomic::Ordering::Relaxed};

use crate::{
    cluster::share::Share,
    decide::{
        atomic::{AtomicBool, AtomicU32, AtomicU64},
        average::{ArrivalRate, LatencyAverage},
        concurrency::AutoLimit,
        limits::Admission,
        probe_pool::ProbePool,
        relative_latency::LatencyByLoad,
        retry::RetryBudget,
    },
    fleet::{Class, Service},
    health::stall::LongestLatency,
    rules::Limiters,
    time::{Duration, Instant},
    units::Ratio,
};
use changes::Changes;
pub(crate) use departed::Departed;
pub(crate) use request_count::RequestCount;
pub use server::ServerState;
pub(crate) use server::{Leave, Trouble};

pub(crate) mod changes;
mod departed;
mod request_count;
mod server;

/// All states by name; owned by the controller.
#[derive(Debug, Default)]
pub struct Ledger {
    services: BTreeMap<String, OfService>,
    /// Until when shares of groups may be used.
    shares_until: Option<Instant>,
    /// What a group is given that nobody has given a share yet; none where none is shared.
    pub(crate) floor: Option<Share>,
    /// Rate limits of routes.
    pub(crate) limiters: Limiters,
    ids: Ids,
}

/// What is known by the name of a service.
#[derive(Debug, Default)]
struct OfService {
    state: Arc<ServiceState>,
    groups: BTreeMap<String, OfGroup>,
}

/// What is known by the name of a group.
#[derive(Debug, Default)]
struct OfGroup {
    state: Arc<GroupState>,
    servers: BTreeMap<SocketAddr, Arc<ServerState>>,
    /// What servers were given that it no longer has.
    departed: Arc<Departed>,
}

impl OfService {
    fn snapshot(&self) -> Self {
        let state = ServiceState { queued: AtomicU32::new(0), ..(*self.state).clone() };
        let groups = self.groups.iter().map(|(name, of)| (name.clone(), of.snapshot()));
        Self { state: Arc::new(state), groups: groups.collect() }
    }
}

impl OfGroup {
    fn snapshot(&self) -> Self {
        let group = Arc::new(self.state.snapshot());
        let servers = self.servers.iter();
        let servers = servers
            .map(|(address, state)| (*address, Arc::new(state.snapshot(group.clone()))))
            .collect();
        let departed = Arc::new(self.departed.snapshot(&servers));
        Self { servers, state: group, departed }
    }

    /// Forgets servers that do not stay, except those with requests in flight.
    fn forget(&mut self, stays: &BTreeSet<SocketAddr>, ids: &mut Ids) {
        let leaves = |address: &SocketAddr| !stays.contains(address);
        let gone = self.servers.extract_if(.., |at, state| leaves(at) && state.in_flight() == 0);
        let forgotten: Vec<_> = gone.map(|(_, state)| state).collect();
        forgotten.iter().for_each(|state| ids.leave(state));
        let lingering = self.servers.iter().filter(|(address, _)| leaves(address));
        let lingering = lingering.map(|(_, state)| state.clone()).collect();
        self.departed = Arc::new(self.departed.after(forgotten, lingering));
    }
}

impl Ledger {
    /// The state of a service, made on first use.
    pub fn service(&mut self, name: &str) -> Arc<ServiceState> {
        self.of_service(name).state.clone()
    }

    /// The state of a group, made on first use.
    pub fn group(&mut self, service: &str, name: &str) -> Arc<GroupState> {
        let (until, floor) = (self.shares_until, self.floor);
        let group = self.of_service(service).groups.entry(name.to_string()).or_default();
        group.state.set_share_until(until);
        if let Some(floor) = floor.filter(|_| group.state.share().is_none()) {
            group.state.set_share(floor);
        }
        group.state.clone()
    }

    /// Lets shares of groups be used until then, for ever if none.
    pub(crate) fn set_shares_until(&mut self, until: Option<Instant>) {
        self.shares_until = until;
        let groups = self.services.values().flat_map(|service| service.groups.values());
        groups.for_each(|group| group.state.set_share_until(until));
    }

    /// The state of a server, made on first use.
    pub fn server(&mut self, service: &str, group: &str, address: SocketAddr) -> Arc<ServerState> {
        let of_service = self.services.entry(service.to_string()).or_default();
        let OfGroup { state: owner, servers, .. } =
            of_service.groups.entry(group.to_string()).or_default();
        let ids = &mut self.ids;
        let new = || Arc::new(ServerState::new(ids.take(), address, owner.clone()));
        servers.entry(address).or_insert_with(new).clone()
    }

    /// What servers were given that a group no longer has.
    pub(crate) fn departed(&self, service: &str, group: &str) -> Arc<Departed> {
        let known = self.services.get(service).and_then(|it| it.groups.get(group));
        known.map(|it| it.departed.clone()).unwrap_or_default()
    }

    /// All that is counted, copied: nothing is shared, and nothing is under way.
    pub(crate) fn snapshot(&self) -> Self {
        let services = self.services.iter().map(|(name, of)| (name.clone(), of.snapshot()));
        let Self { limiters, ids, shares_until, floor, .. } = self;
        Self {
            shares_until: *shares_until,
            floor: *floor,
            services: services.collect(),
            limiters: limiters.snapshot(),
            ids: Ids { next: ids.next, free: ids.free.clone(), left: Vec::new() },
        }
    }

    /// The names of all services of which something is known.
    pub(crate) fn services(&self) -> impl Iterator<Item = &str> {
        self.services.keys().map(|name| &**name)
    }

    /// How many those are.
    pub(crate) fn service_count(&self) -> usize {
        self.services.len()
    }

    /// Every server of a service that is known, with the name of its group.
    pub(crate) fn servers(&self, service: &str) -> impl Iterator<Item = (&str, &Arc<ServerState>)> {
        let groups = self.services.get(service).into_iter().flat_map(|it| &it.groups);
        groups.flat_map(|(name, group)| group.servers.values().map(|state| (&**name, state)))
    }

    /// Lets the controller be told again that servers of the group of this one answer 5xx.
    pub(crate) fn hear_errors_again(&self, server: ServerId) {
        let groups = self.services.values().flat_map(|service| service.groups.values());
        let mut of_server =
            groups.filter(|group| group.servers.values().any(|state| state.id() == server));
        if let Some(group) = of_server.next() {
            group.state.hear_errors_again();
        }
    }

    /// Makes numbers free that nobody knows any more.
    pub(crate) fn reclaim(&mut self) {
        let unused = self.ids.left.extract_if(.., |(_, state)| state.strong_count() == 0);
        self.ids.free.extend(unused.map(|(id, _)| id));
    }

    /// Forgets groups and servers that changed services no longer have, except servers with
    /// requests in flight: their count must be right if they come back.
    pub(crate) fn retain(&mut self, changes: &[ServiceChange<'_>]) {
        let ids = &mut self.ids;
        for ServiceChange { name, after, .. } in changes {
            let Some(known) = self.services.get_mut(&**name) else { continue };
            known.groups.retain(|name, known| {
                let group = after.and_then(|it| it.groups.iter().find(|it| it.name == *name));
                let servers = group.into_iter().flat_map(|group| &group.servers);
                let stays: BTreeSet<SocketAddr> = servers.map(|server| server.address).collect();
                known.forget(&stays, ids);
                group.is_some() || !known.servers.is_empty()
            });
            if after.is_none() && known.groups.is_empty() {
                self.services.remove(&**name);
            }
        }
    }

    fn of_service(&mut self, name: &str) -> &mut OfService {
        self.services.entry(name.to_string()).or_default()
    }
}

/// A service that another configuration, as it comes into force, has otherwise than the one before.
#[derive(Clone, Debug)]
pub(crate) struct ServiceChange<'a> {
    pub name: Cow<'a, str>,
    /// As it was; none where it is new or was gone before.
    pub before: Option<&'a Service>,
    /// None where it is gone.
    pub after: Option<&'a Service>,
}

/// Assigns the numbers of servers. The number of a server that left is reused once no plan, request
/// or connection holds its state.
#[derive(Debug, Default)]
struct Ids {
    next: u32,
    free: Vec<u32>,
    /// Numbers of servers that left, with their states.
    left: Vec<(u32, Weak<ServerState>)>,
}

impl Ids {
    fn take(&mut self) -> ServerId {
        ServerId(self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        }))
    }

    fn leave(&mut self, state: &Arc<ServerState>) {
        self.left.push((state.id().0, Arc::downgrade(state)));
    }
}

/// A number for a server that never changes while the server is known; small, for use as an
/// index by whoever keeps something per server (a pool of connections). Those of servers that left
/// are given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub(crate) u32);

impl ServerId {
    /// The number as an index into tables by server.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is counted of a service.
#[derive(Clone, Debug, Default)]
pub struct ServiceState {
    pub(crate) queued: AtomicU32,
    /// When a request of each class last found no room, in nanoseconds; zero for never.
    pub(crate) no_room: [AtomicU64; 3],
    pub(crate) arrivals: ArrivalRate,
    pub(crate) retries: RetryBudget,
    /// Requests that have come, whatever their ending; counted only where capacity is shared.
    pub(crate) asked: AtomicU64,
}

impl ServiceState {
    /// Requests that wait for a server.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.queued.load(Relaxed)
    }

    /// Notes that a request of this class found no room.
    pub(crate) fn note_no_room(&self, class: Class, now: Instant) {
        self.no_room[class as usize].store(now.as_nanos(), Relaxed);
    }

    /// Whether requests of a class below this one found no room of late.
    pub(crate) fn is_above_others(&self, class: Class, now: Instant) -> bool {
        let mut lower = self.no_room.iter().skip(class as usize + 1).map(|at| at.load(Relaxed));
        lower.any(|at| at > 0 && now.since(Instant::from_nanos(at)) <= OF_LATE)
    }
}

/// What is counted of a group.
#[derive(Debug, Default)]
pub struct GroupState {
    pub(crate) in_flight: AtomicU32,
    pub(crate) admission: Admission,
    /// The limit that is found while requests are served, for groups that have one.
    pub(crate) auto: AutoLimit,
    /// Position of the round-robin schedule.
    pub(crate) turn: AtomicU64,
    /// How long a permit is held, on average.
    pub(crate) held: LatencyAverage,
    /// The longest latency of late.
    pub(crate) longest: LongestLatency,
    /// Usual latencies and probe answers, for the policies that need them.
    pub(crate) latencies: LatencyByLoad,
    pub(crate) probes: ProbePool,
    /// Requests that came because nearer groups were full or down.
    pub(crate) overflowed: RequestCount,
    /// Requests that were sent beyond its capacity.
    pub(crate) over_capacity: RequestCount,
    /// The part of its capacity that this edge may use, in parts and one more; zero where it is not
    /// shared. Written by the controller only.
    pub(crate) share: AtomicU64,
    /// The tolerance of the budget as the last plan had it.
    pub(crate) tolerance: AtomicU64,
    /// When the share ends, in nanoseconds; zero where it does not.
    pub(crate) share_until: AtomicU64,
    /// The controller has been told that servers answer 5xx, and has not looked yet.
    pub(crate) errors_told: AtomicBool,
    /// Counts of changes of its servers.
    pub(crate) changes: Changes,
}

impl GroupState {
    /// What is counted, with nothing under way.
    fn snapshot(&self) -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            admission: self.admission.clone(),
            auto: self.auto.snapshot(),
            turn: self.turn.clone(),
            held: self.held.clone(),
            longest: self.longest.clone(),
            latencies: self.latencies.clone(),
            probes: self.probes.clone(),
            overflowed: self.overflowed.clone(),
            over_capacity: self.over_capacity.clone(),
            share: self.share.clone(),
            share_until: self.share_until.clone(),
            tolerance: self.tolerance.clone(),
            errors_told: self.errors_told.clone(),
            changes: self.changes.clone(),
        }
    }

    /// The part of its capacity that this edge may use; none where it is not shared.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        self.share.load(Relaxed).checked_sub(1).map(Share::from_parts)
    }

    pub(crate) fn set_share_until(&self, until: Option<Instant>) {
        self.share_until.store(until.map_or(0, Instant::as_nanos), Relaxed);
    }

    /// Whether the share has ended and no other has come.
    pub(crate) fn share_has_ended(&self, now: Instant) -> bool {
        let until = self.share_until.load(Relaxed);
        until > 0 && now.as_nanos() >= until
    }

    /// From the next plan on.
    pub(crate) fn set_share(&self, share: Share) {
        self.share.store(share.parts() + 1, Relaxed);
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Lets the controller be told again that servers answer 5xx.
    pub(crate) fn hear_errors_again(&self) {
        self.errors_told.store(false, Relaxed);
    }

    /// The limit that is found while requests are served, for groups that have one.
    #[must_use]
    pub fn auto(&self) -> &AutoLimit {
        &self.auto
    }

    /// Mean utilization of the servers that report one, if any did lately.
    #[must_use]
    pub fn utilization(&self, now: Instant) -> Option<Ratio> {
        self.admission.utilization.mean(now)
    }
}

/// Adds one to `count` unless it has reached `cap`.
pub(crate) fn reserve(count: &AtomicU32, cap: u32) -> bool {
    if cap == u32::MAX {
        count.fetch_add(1, Relaxed);
        return true;
    }
    count.fetch_update(Relaxed, Relaxed, |n| (n < cap).then_some(n + 1)).is_ok()
}

/// Takes one off `count`.
pub(crate) fn release(count: &AtomicU32) {
    let before = count.fetch_sub(1, Relaxed);
    debug_assert!(before > 0, "released more than was reserved");
}

/// For how long it counts that requests of a lower class found no room.
const OF_LATE: Duration = Duration::from_secs(5);
