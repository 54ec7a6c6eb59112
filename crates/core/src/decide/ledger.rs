//! What must be counted exactly, shared by all workers and kept across plans.
//!
//! A reload or a health change builds a new [`Plan`](crate::decide::plan::Plan) on the same states,
//! so it resets no in-flight count, no rate budget, no latency average and no round-robin position.
//! Everything is an atomic with relaxed ordering: each is a number of its own, none guards data.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    sync::{Arc, Weak},
    vec::Vec,
};
use core::{
    mem::size_of,
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    cluster::share::Share,
    decide::{
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64},
        average::{ArrivalRate, LatencyAverage, PeakLatency},
        budget::Budget,
        concurrency::AutoLimit,
        orca::Utilization,
        policy::draw::splitmix64,
        probe_pool::{AGE_MAX, ProbePool},
        relative_latency::{LatencyByLoad, RelativeLatency},
        retry::RetryBudget,
    },
    fleet::Service,
    health::{outlier::Answers, stall::Stall},
    rules::Limiters,
    time::{Duration, Instant},
    units::Ratio,
};

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
        let servers = self.servers.iter().map(|(address, state)| {
            let (in_flight, group) = (AtomicU32::new(0), group.clone());
            (*address, Arc::new(ServerState { in_flight, group, ..(**state).clone() }))
        });
        Self { servers: servers.collect(), state: group.clone() }
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
        let OfGroup { state: owner, servers } =
            of_service.groups.entry(group.to_string()).or_default();
        let ids = &mut self.ids;
        let new = || Arc::new(ServerState::new(ids.take(), address, owner.clone()));
        servers.entry(address).or_insert_with(new).clone()
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

    /// Every server of a service that is known, with the name of its group.
    pub(crate) fn servers(&self, service: &str) -> impl Iterator<Item = (&str, &Arc<ServerState>)> {
        let groups = self.services.get(service).into_iter().flat_map(|it| &it.groups);
        groups.flat_map(|(name, group)| group.servers.values().map(|state| (&**name, state)))
    }

    /// Makes numbers free that nobody knows any more.
    pub(crate) fn reclaim(&mut self) {
        let unused = self.ids.left.extract_if(.., |(_, state)| state.strong_count() == 0);
        self.ids.free.extend(unused.map(|(id, _)| id));
    }

    /// Forgets of services that are not as they were what they no longer have, except servers that
    /// still have requests in flight: should one come back meanwhile, its count must be right.
    pub(crate) fn retain<'a>(&mut self, fate: impl Fn(&str) -> ServiceTransition<'a>) {
        let ids = &mut self.ids;
        self.services.retain(|name, known| {
            let service = match fate(name) {
                ServiceTransition::Same => return true,
                ServiceTransition::Changed(service) => Some(service),
                ServiceTransition::Gone => None,
            };
            known.groups.retain(|name, known| {
                let group = service.and_then(|it| it.groups.iter().find(|it| it.name == *name));
                let servers = group.into_iter().flat_map(|group| &group.servers);
                let stays: BTreeSet<SocketAddr> = servers.map(|server| server.address).collect();
                let gone = known.servers.extract_if(.., |address, state| {
                    state.in_flight() == 0 && !stays.contains(address)
                });
                gone.for_each(|(_, state)| ids.leave(&state));
                group.is_some() || !known.servers.is_empty()
            });
            service.is_some() || !known.groups.is_empty()
        });
    }

    fn of_service(&mut self, name: &str) -> &mut OfService {
        self.services.entry(name.to_string()).or_default()
    }
}

/// What becomes of a service when another configuration comes into force.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServiceTransition<'a> {
    /// It is as it was.
    Same,
    /// It is new or another.
    Changed(&'a Service),
    Gone,
}

/// The numbers of servers. That of a server that left is given again once nobody holds what is
/// counted of it: no plan, no request and no connection means the old one by it then.
#[derive(Debug, Default)]
struct Ids {
    next: u32,
    free: Vec<u32>,
    /// Those of servers that left, and what is counted of them.
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
        self.left.push((state.id.0, Arc::downgrade(state)));
    }
}

/// A number for a server that never changes while the server is known; small, for use as an
/// index by whoever keeps something per server (a pool of connections). Those of servers that left
/// are given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub(crate) u32);

impl ServerId {
    /// The number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is counted of a service.
#[derive(Clone, Debug, Default)]
pub struct ServiceState {
    pub(crate) queued: AtomicU32,
    pub(crate) arrivals: ArrivalRate,
    pub(crate) retries: RetryBudget,
    /// Requests that have come, whatever became of them; counted where capacity is shared.
    pub(crate) asked: AtomicU64,
}

impl ServiceState {
    /// Requests that wait for a server.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.queued.load(Relaxed)
    }
}

/// What is counted of a group.
#[derive(Debug, Default)]
pub struct GroupState {
    pub(crate) in_flight: AtomicU32,
    pub(crate) budget: Budget,
    /// The limit that is found while requests are served, for groups that have one.
    pub(crate) auto: AutoLimit,
    /// Position of the round-robin schedule.
    pub(crate) turn: AtomicU64,
    /// How long a permit is held, on average.
    pub(crate) held: LatencyAverage,
    pub(crate) utilization: Utilization,
    /// What is usual, and what its servers said, for policies that learn it.
    pub(crate) latencies: LatencyByLoad,
    pub(crate) probes: ProbePool,
    /// Requests that came because nearer groups were full or down.
    pub(crate) overflowed: AtomicU64,
    /// The part of its capacity that this edge may use, in parts and one more; zero where it is not
    /// shared. Written by the controller only.
    pub(crate) share: AtomicU64,
    /// The tolerance of the budget as the last plan had it.
    pub(crate) tolerance: AtomicU64,
    /// When the share ends, in nanoseconds; zero where it does not.
    pub(crate) share_until: AtomicU64,
    /// The controller has been told that servers answer 5xx, and has not looked yet.
    pub(crate) errors_told: AtomicBool,
}

impl GroupState {
    /// What is counted, with nothing under way.
    fn snapshot(&self) -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            budget: self.budget.clone(),
            auto: self.auto.snapshot(),
            turn: self.turn.clone(),
            held: self.held.clone(),
            utilization: self.utilization.clone(),
            latencies: self.latencies.clone(),
            probes: self.probes.clone(),
            overflowed: self.overflowed.clone(),
            share: self.share.clone(),
            share_until: self.share_until.clone(),
            tolerance: self.tolerance.clone(),
            errors_told: self.errors_told.clone(),
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
        self.utilization.mean(now)
    }
}

/// What is counted of a server. With the counts of its [`Arc`] it takes 256 bytes of an allocator
/// that has sizes, as the program's has, and begins at a multiple of that: so two servers never
/// share a cache line, and a request touches no line for the counts alone.
#[derive(Clone, Debug)]
pub struct ServerState {
    pub(crate) in_flight: AtomicU32,
    /// Its finish tag, as in fair queueing: requests it was given per weight. Of servers that are
    /// tied the one with the least is chosen.
    pub(crate) tag: AtomicU64,
    /// Its last response was a 5xx, or its last request failed.
    pub(crate) errs: AtomicBool,
    /// What it has answered, where shares of 5xx are compared, and how much of that was 5xx.
    pub(crate) answers: AtomicU64,
    pub(crate) answers_5xx: AtomicU64,
    pub(crate) latency: LatencyAverage,
    pub(crate) peak: PeakLatency,
    pub(crate) budget: Budget,
    pub(crate) errors_in_a_row: AtomicU32,
    pub(crate) silence: Stall,
    /// For policies that learn it.
    relative: RelativeLatency,
    /// Requests of others in its latest report, and in which millisecond that came.
    others: AtomicU64,
    pub(crate) utilization: Utilization,
    /// Requests it was given; on the cache line that taking a place on it has just written.
    pub(crate) requests: AtomicU64,
    /// Requests it failed.
    pub(crate) failures: AtomicU64,
    /// How often its errors took it out.
    pub(crate) ejections: AtomicU32,
    /// The controller has been told that it fails, or that it hangs, and has not looked yet.
    told: [AtomicBool; 2],
    /// A [`Leave`].
    leave: AtomicU8,
    /// Connections that were forwarded to it, and how many are open, as bits of an `f64`.
    pub(crate) forwarded: (AtomicU64, AtomicU64),
    pub(crate) group: Arc<GroupState>,
    id: ServerId,
    /// A hash of the address, the same in every process.
    seed: u64,
    address: SocketAddr,
}

const _: () = {
    let size = size_of::<ServerState>() + 2 * size_of::<usize>();
    assert!(size > 224 && size <= 256, "the next size is larger, or two share a line");
};

impl ServerState {
    fn new(id: ServerId, address: SocketAddr, group: Arc<GroupState>) -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            tag: AtomicU64::new(0),
            errs: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            answers_5xx: AtomicU64::new(0),
            latency: LatencyAverage::default(),
            peak: PeakLatency::default(),
            budget: Budget::default(),
            errors_in_a_row: AtomicU32::new(0),
            silence: Stall::default(),
            relative: RelativeLatency::default(),
            others: AtomicU64::new(0),
            utilization: Utilization::default(),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ejections: AtomicU32::new(0),
            told: Default::default(),
            leave: AtomicU8::new(Leave::Stays as u8),
            forwarded: (AtomicU64::new(0), AtomicU64::new(0f64.to_bits())),
            group,
            id,
            seed: seed(address),
            address,
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ServerId {
        self.id
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Takes in how many requests it reports to have in flight, from all edges.
    pub(crate) fn report_in_flight(&self, now: Instant, in_flight: u32) {
        let others = in_flight.saturating_sub(self.in_flight());
        self.others.store(u64::from(others) << 32 | u64::from(millis(now)), Relaxed);
    }

    /// Requests in flight, with those of others as far as it has reported them of late.
    pub(crate) fn in_flight_of_all(&self, now: Instant) -> u32 {
        let others = self.others.load(Relaxed);
        if others >> 32 == 0 {
            return self.in_flight();
        }
        let is_fresh =
            Duration::from_millis(u64::from(millis(now).wrapping_sub(others as u32))) <= AGE_MAX;
        self.in_flight().saturating_add(if is_fresh { (others >> 32) as u32 } else { 0 })
    }

    /// Takes in how long a request took that had so many ahead of it.
    pub(crate) fn learn(&self, group: &GroupState, ahead: u32, latency: Duration) {
        self.relative.record(&group.latencies, ahead, latency);
    }

    /// Its latency beside that of the others with as much to do, in parts of
    /// [`TYPICAL`](crate::decide::relative_latency::TYPICAL).
    pub(crate) fn relative_latency(&self) -> u32 {
        self.relative.get()
    }

    /// The same less what it is forgiven because it was not asked.
    pub(crate) fn slowness(&self, now: Instant) -> u32 {
        let (mean, forgiven) = (self.latency.get(), self.latency_at(now));
        let known = u128::from(self.relative.get());
        match mean.as_nanos() {
            0 => known as u32,
            mean => (known * u128::from(forgiven.as_nanos()) / u128::from(mean)) as u32,
        }
    }

    /// Takes in how many connections have been forwarded to it since this was told last, and how
    /// many are open.
    pub fn tell_forwarded(&self, opened: u64, open: f64) {
        self.forwarded.0.fetch_add(opened, Relaxed);
        self.forwarded.1.store(open.to_bits(), Relaxed);
    }

    /// Requests and forwarded connections that it was given.
    pub(crate) fn given(&self) -> u64 {
        self.requests.load(Relaxed) + self.forwarded.0.load(Relaxed)
    }

    /// Requests in flight and forwarded connections that are open.
    pub(crate) fn active(&self) -> f64 {
        f64::from(self.in_flight()) + f64::from_bits(self.forwarded.1.load(Relaxed))
    }

    /// What it has answered, as far as shares of 5xx are compared.
    pub(crate) fn answered(&self) -> Answers {
        let errors = self.answers_5xx.load(Relaxed);
        Answers { all: self.answers.load(Relaxed), errors }
    }

    pub(crate) fn set_leave(&self, leave: Leave) {
        self.leave.store(leave as u8, Relaxed);
    }

    /// Whether it is given nothing more, so that no connection to it is worth keeping.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leave.load(Relaxed) != Leave::Stays as u8
    }

    /// Whether what is under way with it may not go on.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.leave.load(Relaxed) == Leave::Cut as u8
    }

    /// Whether the controller is to be told of such a thing: not while it has not looked since it
    /// was told last, so that no more is ever on its way to it than this.
    pub(crate) fn tells(&self, trouble: Trouble) -> bool {
        let told = &self.told[trouble as usize];
        !told.load(Relaxed) && !told.swap(true, Relaxed)
    }

    /// Lets the controller be told again.
    pub(crate) fn hear_again(&self) {
        self.told.iter().for_each(|told| told.store(false, Relaxed));
    }

    /// Spares the controller to be told.
    pub(crate) fn hear_no_more(&self) {
        self.told.iter().for_each(|told| told.store(true, Relaxed));
    }

    pub(crate) fn count_ejection(&self) {
        self.ejections.fetch_add(1, Relaxed);
    }

    /// Mean time from pick to the head of the response; zero before the first response.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.latency.get()
    }

    /// How fast it is expected to answer: its mean, less a hundredth of the time since it last
    /// answered, so that a server that was slow once is asked again; zero before the first
    /// response.
    pub(crate) fn latency_at(&self, now: Instant) -> Duration {
        self.latency.get().forgiven(now.since(self.silence.heard_at()) / LATENCY_MEMORY)
    }
}

/// What is spent on asking slower servers again is a hundredth of the time.
const LATENCY_MEMORY: u64 = 100;

/// What the controller is told of a server.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Trouble {
    /// It fails requests.
    Fails,
    /// It answers nobody.
    Hangs,
}

/// Whether a server is about to be given up by its operator; health is another matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Leave {
    /// It is not.
    Stays,
    /// It is given nothing more; what is under way goes on.
    Drains,
    /// What is left of that is cut.
    Cut,
}

/// A millisecond, of 49 days.
const fn millis(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

fn seed(address: SocketAddr) -> u64 {
    let ip = match address.ip() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let port = u64::from(address.port());
    splitmix64(ip as u64 ^ splitmix64((ip >> 64) as u64 ^ splitmix64(port)))
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
