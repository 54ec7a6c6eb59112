//! The counters of one server.

use alloc::sync::Arc;
use core::{
    mem::size_of,
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    decide::{
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64},
        average::{LatencyAverage, PeakLatency},
        ledger::{GroupState, RequestCount, ServerId, release, reserve},
        limits::Admission,
        policy::draw::splitmix64,
        probe_pool::AGE_MAX,
        relative_latency::RelativeLatency,
    },
    health::{outlier::Answers, stall::Stall},
    time::{Duration, Instant},
};

/// What is counted of a server. With the counts of its [`Arc`] it takes 256 bytes of an allocator
/// that has sizes, as the program's has, and begins at a multiple of that: so two servers never
/// share a cache line, and a request touches no line for the counts alone. What a choice and a
/// permit look at is together on the first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ServerState {
    pub(crate) in_flight: AtomicU32,
    id: ServerId,
    /// Its finish tag, as in fair queueing: requests it was given per weight. Of servers that are
    /// tied the one with the least is chosen.
    pub(crate) tag: AtomicU64,
    /// Requests it was chosen for, but for those that found no connection to spare.
    pub(crate) requests: RequestCount,
    pub(crate) group: Arc<GroupState>,
    pub(crate) latency: LatencyAverage,
    /// Its last response was a 5xx, or its last request failed.
    pub(crate) errs: AtomicBool,
    /// What became of each [`Trouble`]: a [`Reported`].
    told: [AtomicU8; 2],
    /// A [`Leave`].
    leave: AtomicU8,
    /// Number of ejections.
    pub(crate) ejections: AtomicU32,
    /// Responses, and those with 5xx; counted where shares of 5xx are compared.
    pub(crate) answers: AtomicU64,
    pub(crate) answers_5xx: AtomicU64,
    pub(crate) silence: Stall,
    pub(crate) errors_in_a_row: AtomicU32,
    /// Relative latency, for policies that learn it.
    relative: RelativeLatency,
    pub(crate) admission: Admission,
    pub(crate) peak: PeakLatency,
    /// Requests from other edges in its latest report, and the millisecond of that report.
    others: AtomicU64,
    /// Failed requests, and 5xx after which another server was asked.
    pub(crate) failures: AtomicU64,
    /// Connections that were forwarded to it, and how many are open, as bits of an `f64`.
    pub(crate) forwarded: (AtomicU64, AtomicU64),
    /// A hash of the address, the same in every process.
    seed: u64,
    address: SocketAddr,
}

const _: () = {
    let size = size_of::<ServerState>() + 2 * size_of::<usize>();
    assert!(size > 224 && size <= 256, "the next size is larger, or two share a line");
};

impl ServerState {
    pub(super) fn new(id: ServerId, address: SocketAddr, group: Arc<GroupState>) -> Self {
        Self {
            in_flight: AtomicU32::new(0),
            id,
            tag: AtomicU64::new(0),
            requests: RequestCount::default(),
            group,
            latency: LatencyAverage::default(),
            errs: AtomicBool::new(false),
            told: Default::default(),
            leave: AtomicU8::new(Leave::Stays as u8),
            ejections: AtomicU32::new(0),
            answers: AtomicU64::new(0),
            answers_5xx: AtomicU64::new(0),
            silence: Stall::default(),
            errors_in_a_row: AtomicU32::new(0),
            relative: RelativeLatency::default(),
            admission: Admission::default(),
            peak: PeakLatency::default(),
            others: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            forwarded: (AtomicU64::new(0), AtomicU64::new(0f64.to_bits())),
            seed: seed(address),
            address,
        }
    }

    /// What is counted, in another ledger, with nothing under way.
    pub(super) fn snapshot(&self, group: Arc<GroupState>) -> Self {
        Self { in_flight: AtomicU32::new(0), group, ..self.clone() }
    }

    /// Takes a place for a request unless as many are in flight as may be.
    pub(crate) fn reserve(&self, limit: u32) -> bool {
        let reserved = reserve(&self.in_flight, limit);
        self.group.changes.count(self.id);
        reserved
    }

    /// Gives back the place of a request.
    pub(crate) fn release(&self) {
        release(&self.in_flight);
        self.group.changes.count(self.id);
    }

    /// Resets its tag to that of a server never chosen.
    pub(crate) fn begin_turns_anew(&self) {
        self.tag.store(0, Relaxed);
        self.group.changes.count(self.id);
    }

    /// The number by which inputs and plans name it.
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

    /// Requests in flight, with those from other edges if it reported them lately.
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

    /// The relative latency, less what is forgiven because the server was not asked.
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
        self.requests.get() + self.forwarded.0.load(Relaxed)
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

    /// Whether to tell the controller of this trouble: once until it has looked, so that at most
    /// one report is on its way.
    pub(crate) fn tells(&self, trouble: Trouble) -> bool {
        let (told, nothing) = (&self.told[trouble as usize], Reported::Nothing as u8);
        let tell = || told.compare_exchange(nothing, Reported::Once as u8, Relaxed, Relaxed);
        told.load(Relaxed) == nothing && tell().is_ok()
    }

    /// Lets the controller be told again.
    pub(crate) fn hear_again(&self) {
        self.told.iter().for_each(|told| told.store(Reported::Nothing as u8, Relaxed));
    }

    /// Lets the controller be told of this trouble again.
    pub(crate) fn hear_again_of(&self, trouble: Trouble) {
        self.told[trouble as usize].store(Reported::Nothing as u8, Relaxed);
    }

    /// Spares the controller to be told.
    pub(crate) fn hear_no_more(&self) {
        self.told.iter().for_each(|told| told.store(Reported::InVain as u8, Relaxed));
    }

    /// Whether its failures have the controller eject it, or have already, though the plan may
    /// still have it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.told[Trouble::Fails as usize].load(Relaxed) == Reported::Once as u8
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

/// What became of a trouble.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Reported {
    /// There is none, or the controller has looked and may be told again.
    Nothing,
    /// The controller was told, and looks soon or has ejected the server.
    Once,
    /// The controller was told, and may not eject the server.
    InVain,
}

/// Whether a server is about to be given up by its operator; health is another matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Leave {
    /// The server stays.
    Stays,
    /// It gets no new requests; those under way go on.
    Drains,
    /// Its requests under way are cut.
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
