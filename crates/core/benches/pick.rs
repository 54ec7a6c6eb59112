//! What one decision costs: `ServicePlan::pick` with 10 groups of 100 servers.
//!
//! One line a policy, `pick POLICY NS ns ALLOCS allocs`: the median over batches of the mean time
//! of a pick, and how often the allocator was called in all of them. The servers are loaded: a
//! thousand requests are in flight on the group that is near, and each pick ends one of them at
//! random, outside of the time measured, so that no two servers stay equal.
//!
//! `pick full` is a service of which every group is at its `max_rate`, so that all ten are looked
//! at, and `pick soonest` one with `overflow = "soonest"`. The lines `pick crowded/POLICY` have
//! servers that take 16 requests each, of which the heavy ones are mostly full. `build POLICY MS
//! ms` is the time of a plan for one group of 1000 servers.
#![expect(unsafe_code, reason = "an allocator that counts is an unsafe impl of GlobalAlloc")]
#![expect(clippy::print_stdout, reason = "the lines are the result")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time,
};

use loadline_core::{
    decide::{
        controller::{Controller, Input, Output},
        permit::Permit,
        plan::{Decision, PickContext, Plan},
    },
    fleet::{Capacity, Edge, Fleet, Group, Overflow, PolicyKind, Server, Service, WhenFull},
    time::{Duration, Instant},
    units::Rate,
};

fn main() {
    let near = |places: u32| Capacity { max_in_flight: Some(places), ..Capacity::default() };
    for &policy in PolicyKind::ALL {
        Bench::new(service(policy, ROOMY, Capacity::default())).measure(policy.name());
    }
    for &policy in PolicyKind::ALL {
        let name = format!("crowded/{}", policy.name());
        Bench::new(service(policy, CROWDED, Capacity::default())).measure(&name);
    }
    let full = Capacity { max_rate: Some(Rate::per_sec(1)), ..Capacity::default() };
    let service_full = service(PolicyKind::LeastRequests, ROOMY, full);
    Bench::new(Service { when_full: WhenFull::Shed, ..service_full }).measure("full");
    let soonest = service(PolicyKind::LeastRequests, ROOMY, near(2_000));
    Bench::new(Service { overflow: Overflow::Soonest, ..soonest }).measure("soonest");
    PolicyKind::ALL.iter().copied().for_each(build);
}

/// A service under load.
struct Bench {
    plan: Arc<Plan>,
    now: Instant,
    draws: Draws,
    held: Vec<Permit>,
}

impl Bench {
    /// Loads the near group at random, then goes over to the policy: a reload keeps counts.
    fn new(service: Service) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let warm = Service { policy: PolicyKind::PeakEwma, ..service.clone() };
        let mut controller = Controller::new(now, fleet(warm));
        let mut bench = Self { plan: plan(&mut controller), now, draws: Draws(1), held: vec![] };
        bench.load();
        let random = Service { policy: PolicyKind::Random, ..service.clone() };
        controller.handle(bench.now, Input::Reload(fleet(random).into()));
        bench.plan = plan(&mut controller);
        bench.held.clear();
        bench.load();
        controller.handle(bench.now, Input::Reload(fleet(service).into()));
        bench.plan = plan(&mut controller);
        bench
    }

    fn load(&mut self) {
        while self.held.len() < IN_FLIGHT {
            let Some(permit) = self.pick() else { return };
            let latency = Duration::from_micros(self.draws.next() % 20_000 + 1_000);
            permit.answered(permit.since() + latency);
            self.held.push(permit);
        }
    }

    fn pick(&mut self) -> Option<Permit> {
        self.now = self.now + Duration::from_micros(1);
        let ask = PickContext {
            now: self.now,
            key: self.draws.next(),
            draw: self.draws.next(),
            tried: &[],
            stick: None,
        };
        match self.plan.services[0].pick(&ask) {
            Decision::Send(permit) => Some(permit),
            _ => None,
        }
    }

    fn measure(&mut self, name: &str) {
        let mut nanos = Vec::with_capacity(BATCHES);
        let mut fresh: Vec<Option<Permit>> = Vec::with_capacity(BATCH);
        let before = ALLOCS.load(Relaxed);
        for _ in 0..BATCHES {
            let start = time::Instant::now();
            for _ in 0..BATCH {
                let permit = self.pick();
                fresh.push(permit);
            }
            nanos.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
            for permit in fresh.drain(..).flatten() {
                let old = (self.draws.next() % self.held.len() as u64) as usize;
                self.held[old] = permit;
            }
        }
        let allocs = ALLOCS.load(Relaxed) - before;
        println!("pick {name} {:.0} ns {allocs} allocs", median(&mut nanos));
    }
}

/// Times the making of plans for one group of 1000 servers of equal weight.
fn build(policy: PolicyKind) {
    let servers = 1..=1_000;
    let mut service = service(policy, ROOMY, Capacity::default());
    service.groups.truncate(1);
    service.groups[0].servers = servers.map(|n| server(0, n, 1, ROOMY)).collect();
    let mut controller = Controller::new(Instant::ZERO, fleet(service.clone()));
    let mut millis: Vec<f64> = (0..20)
        .map(|turn: u32| {
            // A service that is as it was keeps its plan.
            service.retry.attempts = turn % 2;
            let fleet = fleet(service.clone());
            let start = time::Instant::now();
            controller.handle(Instant::ZERO, Input::Reload(fleet.into()));
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    println!("build {} {:.2} ms", policy.name(), median(&mut millis));
}

fn plan(controller: &mut Controller) -> Arc<Plan> {
    let outputs = std::iter::from_fn(|| controller.poll());
    let plans = outputs.filter_map(|output| match output {
        Output::Publish(plan) => Some(plan),
        _ => None,
    });
    plans.last().expect("a new configuration is followed by a plan")
}

fn fleet(service: Service) -> Fleet {
    let drain_timeout = Duration::from_secs(1);
    let edge = Edge { threads: 1, drain_timeout, ..Edge::within("r0") };
    Fleet::of(edge, vec![], vec![service])
}

/// 10 groups of 100 servers of weights 1 to 3, each of which takes so many requests at a time.
fn service(policy: PolicyKind, places: u32, capacity: Capacity) -> Service {
    let group = |g: u64| Group {
        rtt: Some(Duration::from_millis(10 * g)),
        capacity,
        ..Group::within(
            &format!("r{g}"),
            (1..=100).map(|n| server(g as u16, n, u32::from(n) % 3 + 1, places)).collect(),
        )
    };
    let groups = (0..10).map(group).collect();
    Service { policy, health: None, groups, ..Service::named("web") }
}

fn server(group: u16, n: u16, weight: u32, places: u32) -> Server {
    let address =
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + (u32::from(group) << 16) + u32::from(n));
    let capacity = Capacity { max_in_flight: Some(places), ..Capacity::default() };
    Server { weight, capacity, ..Server::at((address, 80).into()) }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Random numbers: xorshift64*.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// The system's allocator, counted.
struct Counting;

static ALLOCS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise holds for the system's allocator too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Requests in flight on the near group: ten a server.
const IN_FLIGHT: usize = 1_000;

/// Requests a server takes at a time, where that is no hindrance.
const ROOMY: u32 = 1_000;

/// The same where heavy servers are full.
const CROWDED: u32 = 16;

/// Picks between two looks at the clock, which costs as much as a fraction of one.
const BATCH: usize = 64;

const BATCHES: usize = 4_000;
