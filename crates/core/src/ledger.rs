//! What must be counted exactly, shared by all workers and kept across plans.
//!
//! A reload or a health change builds a new [`Plan`](crate::plan::Plan) on the same states, so it
//! resets no in-flight count, no rate budget, no latency average and no round-robin position.
//! Everything is an atomic with relaxed ordering: each is a number of its own, none guards data.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
};
use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crate::{
    average::{ArrivalRate, LatencyAverage, PeakLatency},
    budget::Budget,
    fleet::Fleet,
    gradient::AutoLimit,
    orca::Utilization,
    outlier::Answers,
    policy::draw::again,
    retry::RetryBudget,
    rules::Limiters,
    silence::Silence,
    time::{Duration, Instant},
    units::Ratio,
};

/// All states by name; owned by the controller.
#[derive(Debug, Default)]
pub struct Ledger {
    services: BTreeMap<String, Arc<ServiceState>>,
    groups: BTreeMap<(String, String), Arc<GroupState>>,
    servers: BTreeMap<(String, String, SocketAddr), Arc<ServerState>>,
    /// Rate limits of routes.
    pub(crate) limiters: Limiters,
    next_id: u32,
}

impl Ledger {
    /// The state of a service, made on first use.
    pub fn service(&mut self, name: &str) -> Arc<ServiceState> {
        self.services.entry(name.to_string()).or_default().clone()
    }

    /// The state of a group, made on first use.
    pub fn group(&mut self, service: &str, name: &str) -> Arc<GroupState> {
        let key = (service.to_string(), name.to_string());
        self.groups.entry(key).or_default().clone()
    }

    /// The state of a server, made on first use.
    pub fn server(&mut self, service: &str, group: &str, address: SocketAddr) -> Arc<ServerState> {
        let owner = self.group(service, group);
        let key = (service.to_string(), group.to_string(), address);
        let next_id = &mut self.next_id;
        let state = self.servers.entry(key).or_insert_with(|| {
            *next_id += 1;
            Arc::new(ServerState::new(ServerId(*next_id - 1), address, owner))
        });
        state.clone()
    }

    /// Every server that is known, with the names of its service and its group.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&str, &str, &Arc<ServerState>)> {
        self.servers.iter().map(|((service, group, _), state)| (&**service, &**group, state))
    }

    /// Forgets what is no longer in the fleet, except servers that still have requests in flight:
    /// should one come back meanwhile, its count must be right.
    pub fn retain(&mut self, fleet: &Fleet) {
        self.servers.retain(|(service, group, address), state| {
            state.in_flight() > 0 || has_server(fleet, service, group, *address)
        });
        let servers = &self.servers;
        self.groups.retain(|(service, group), _| {
            servers.keys().any(|key| key.0 == *service && key.1 == *group)
        });
        self.services.retain(|name, _| fleet.services.iter().any(|service| service.name == *name));
    }
}

fn has_server(fleet: &Fleet, service: &str, group: &str, address: SocketAddr) -> bool {
    let services = fleet.services.iter().filter(|s| s.name == service);
    let mut groups = services.flat_map(|s| &s.groups).filter(|g| g.name == group);
    groups.any(|g| g.servers.iter().any(|server| server.address == address))
}

/// A number for a server that never changes while the server is known; small, for use as an
/// index by whoever keeps something per server (a pool of connections).
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
#[derive(Debug, Default)]
pub struct ServiceState {
    pub(crate) queued: AtomicU32,
    pub(crate) arrivals: ArrivalRate,
    pub(crate) retries: RetryBudget,
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
    /// The limit that is found by latency, for groups that have one.
    pub(crate) auto: AutoLimit,
    /// Position of the round-robin schedule.
    pub(crate) turn: AtomicU64,
    /// How long a permit is held, on average.
    pub(crate) held: LatencyAverage,
    pub(crate) utilization: Utilization,
    /// Requests that came because nearer groups were full or down.
    pub(crate) overflowed: AtomicU64,
    /// The controller has been told that servers answer 5xx, and has not looked yet.
    pub(crate) errors_told: AtomicBool,
}

impl GroupState {
    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Mean utilization of the servers that report one, if any did lately.
    #[must_use]
    pub fn utilization(&self, now: Instant) -> Option<Ratio> {
        self.utilization.mean(now)
    }
}

/// What is counted of a server. Aligned so that two servers never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct ServerState {
    pub(crate) in_flight: AtomicU32,
    /// Its finish tag, as in fair queueing: requests it was given per weight. Of servers that are
    /// tied the one with the least is chosen.
    pub(crate) tag: AtomicU64,
    /// Its last answer was a 5xx, or its last request failed.
    pub(crate) errs: AtomicBool,
    /// What it has answered, where shares of 5xx are compared, and how much of that was 5xx.
    pub(crate) answers: AtomicU64,
    pub(crate) answers_5xx: AtomicU64,
    pub(crate) latency: LatencyAverage,
    pub(crate) peak: PeakLatency,
    pub(crate) budget: Budget,
    pub(crate) errors_in_a_row: AtomicU32,
    pub(crate) silence: Silence,
    pub(crate) utilization: Utilization,
    /// Requests it was given; on the cache line that taking a place on it has just written.
    pub(crate) requests: AtomicU64,
    /// Requests it failed.
    pub(crate) failures: AtomicU64,
    /// How often its errors took it out.
    pub(crate) ejections: AtomicU32,
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
            silence: Silence::default(),
            utilization: Utilization::default(),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ejections: AtomicU32::new(0),
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

    pub(crate) fn count_ejection(&self) {
        self.ejections.fetch_add(1, Relaxed);
    }

    /// Mean time from pick to the head of the answer; zero before the first answer.
    #[must_use]
    pub fn latency(&self) -> Duration {
        self.latency.get()
    }

    /// How fast it is expected to answer: its mean, less a hundredth of the time since it last
    /// answered, so that a server that was slow once is asked again; zero before the first answer.
    pub(crate) fn latency_at(&self, now: Instant) -> Duration {
        self.latency.get().forgiven(now.since(self.silence.heard_at()) / LATENCY_MEMORY)
    }
}

/// What is spent on asking slower servers again is a hundredth of the time.
const LATENCY_MEMORY: u64 = 100;

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

fn seed(address: SocketAddr) -> u64 {
    let ip = match address.ip() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let port = u64::from(address.port());
    again(ip as u64 ^ again((ip >> 64) as u64 ^ again(port)))
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
