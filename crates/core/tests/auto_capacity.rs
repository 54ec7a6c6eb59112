//! `capacity = "auto"` against queues of known capacity: the whole decision, simulated.
//!
//! Servers of so many cores, each with one queue, behind a plan that finds its limit by latency and
//! sheds what is over it. Arrivals are Poisson, service times constant, exponential or lognormal;
//! the same seed gives the same run.

#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

use std::{cmp::Reverse, collections::BinaryHeap, net::SocketAddr};

use loadline_core::{
    controller::{Controller, Output},
    fleet::{Capacity, Edge, Fleet, Forwarding, Group, Server, Service, WhenFull},
    permit::Permit,
    plan::{Ask, Decision, Plan},
    state::State,
    time::{Duration, Instant},
    units::Ratio,
};

/// How long a request takes on a core.
#[derive(Clone, Copy, Debug)]
enum Work {
    Constant(f64),
    Exponential(f64),
    /// Mean, and the standard deviation of the logarithm.
    Lognormal(f64, f64),
}

/// Servers behind a plan, and time.
struct Simulation {
    plan: std::sync::Arc<Plan>,
    /// By server: when each core is free, in seconds.
    cores: Vec<Vec<f64>>,
    work: Work,
    now: f64,
    /// Requests under way by the nanosecond they end at; the second number is their arrival.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    permits: std::collections::BTreeMap<u64, Permit>,
    random: u64,
}

/// What came of a span of time.
#[derive(Debug, Default)]
struct Outcome {
    offered: usize,
    shed: usize,
    /// Seconds, in the order of the ends.
    latencies: Vec<f64>,
    limits: Vec<u32>,
}

impl Outcome {
    fn per_sec(&self, seconds: f64) -> f64 {
        self.latencies.len() as f64 / seconds
    }

    fn p99(&self) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() * 99 / 100]
    }

    fn shed_part(&self) -> f64 {
        self.shed as f64 / self.offered as f64
    }

    fn highest_limit(&self) -> u32 {
        self.limits.iter().copied().max().unwrap()
    }
}

impl Simulation {
    fn new(servers: u8, cores: usize, work: Work) -> Self {
        let server = |n| Server {
            max_connections: u32::MAX,
            ..Server::at(SocketAddr::from(([127, 0, 0, n], 80)))
        };
        let group = Group {
            name: "here".into(),
            region: "here".into(),
            rtt: None,
            capacity: Capacity { auto: true, ..Capacity::default() },
            scaler: Ratio::ONE,
            servers: (0..servers).map(server).collect(),
            discovery: None,
        };
        let service =
            Service { when_full: WhenFull::Shed, groups: vec![group], ..Service::named("web") };
        let drain_timeout = Duration::from_secs(1);
        let edge = Edge { threads: 1, drain_timeout, ..Edge::within("here") };
        let fleet = Fleet {
            edge,
            forwarding: Forwarding::default(),
            listeners: vec![],
            services: vec![service],
        };
        let mut controller = Controller::new(Instant::ZERO, fleet);
        let Some(Output::Publish(plan)) = controller.poll() else { panic!("a plan comes first") };
        Self {
            plan,
            cores: vec![vec![0.0; cores]; usize::from(servers)],
            work,
            now: 0.0,
            ends: BinaryHeap::new(),
            permits: std::collections::BTreeMap::new(),
            random: 1,
        }
    }

    /// Offers so many requests per second for a while.
    fn offer(&mut self, per_sec: f64, seconds: f64) -> Outcome {
        let mut outcome = Outcome::default();
        let end = self.now + seconds;
        loop {
            let arrival = self.now - self.unit().ln() / per_sec;
            if arrival >= end {
                break;
            }
            self.end_until(arrival, &mut outcome);
            self.now = arrival;
            outcome.offered += 1;
            if outcome.offered.is_multiple_of(50) {
                outcome.limits.push(self.limit());
            }
            self.arrive(&mut outcome);
        }
        self.end_until(end, &mut outcome);
        self.now = end;
        outcome.limits.push(self.limit());
        outcome
    }

    fn arrive(&mut self, outcome: &mut Outcome) {
        let draw = self.draw();
        let ask = Ask { now: instant(self.now), key: 0, draw, tried: &[], stick: None };
        let Decision::Send(permit) = self.plan.services[0].pick(&ask) else {
            outcome.shed += 1;
            return;
        };
        let work = self.service_time();
        let cores = &mut self.cores[permit.place().1];
        let free = cores.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
        *free = free.max(self.now) + work;
        let ends = instant(*free).as_nanos();
        let id = self.draw();
        self.ends.push(Reverse((ends, id)));
        self.permits.insert(id, permit);
    }

    fn end_until(&mut self, until: f64, outcome: &mut Outcome) {
        while let Some(Reverse((ends, id))) = self.ends.peek().copied() {
            let now = Instant::from_nanos(ends);
            if now > instant(until) {
                return;
            }
            self.ends.pop();
            let permit = self.permits.remove(&id).unwrap();
            outcome.latencies.push(now.since(permit.since()).as_secs_f64());
            permit.answered(now);
            permit.answered_well(now);
            permit.finish(now);
        }
    }

    fn limit(&self) -> u32 {
        let state = State::of(&self.plan, instant(self.now));
        state.services[0].groups[0].limits.in_flight.unwrap()
    }

    fn service_time(&mut self) -> f64 {
        match self.work {
            Work::Constant(mean) => mean,
            Work::Exponential(mean) => -mean * self.unit().ln(),
            Work::Lognormal(mean, sigma) => {
                let angle = 2.0 * std::f64::consts::PI * self.unit();
                let normal = (-2.0 * self.unit().ln()).sqrt() * angle.cos();
                mean * (sigma * normal - sigma * sigma / 2.0).exp()
            }
        }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Above 0, below 1.
    fn unit(&mut self) -> f64 {
        ((self.draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

fn instant(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9) as u64)
}

#[test]
fn at_twice_the_capacity_the_servers_are_busy_and_answers_stay_fast() {
    let mut here = Simulation::new(2, 4, Work::Constant(0.020));
    let run = here.offer(800.0, 30.0);
    assert!(run.per_sec(30.0) >= 0.97 * 400.0, "{}/s", run.per_sec(30.0));
    assert!(run.p99() <= 0.045, "{} s", run.p99());
    here.offer(50.0, 0.1);
    let after = here.offer(50.0, 10.0);
    assert_eq!(after.shed, 0);
    assert!(after.p99() <= 0.021, "{} s", after.p99());
}

#[test]
fn service_times_that_vary_cost_little() {
    for work in [Work::Exponential(0.020), Work::Lognormal(0.020, 1.0)] {
        let mut here = Simulation::new(2, 4, work);
        let run = here.offer(800.0, 60.0);
        assert!(run.per_sec(60.0) >= 0.93 * 400.0, "{}/s", run.per_sec(60.0));
        assert!(run.highest_limit() <= 40, "{:?}", run.limits);
    }
}

#[test]
fn a_group_that_is_half_loaded_turns_almost_nobody_away() {
    for work in [Work::Constant(0.020), Work::Exponential(0.020), Work::Lognormal(0.020, 1.5)] {
        let shed_part = |seed| {
            let mut here = Simulation::new(2, 4, work);
            here.random = seed;
            here.offer(200.0, 5.0);
            here.offer(200.0, 120.0).shed_part()
        };
        // One run differs from the next by a factor of four where a few requests take seconds.
        let most = if let Work::Lognormal(..) = work { 0.03 } else { 0.02 };
        let parts: Vec<f64> = (1..=8).map(shed_part).collect();
        let mean = parts.iter().sum::<f64>() / 8.0;
        assert!(mean <= most, "{work:?}: {parts:?}");
    }
}

#[test]
fn few_and_slow_cores_are_found_too_and_the_limit_does_not_creep() {
    for (servers, cores) in [(1, 1), (2, 1), (3, 2)] {
        let mut here = Simulation::new(servers, cores, Work::Constant(0.050));
        let capacity = f64::from(servers) * cores as f64 / 0.050;
        here.offer(2.0 * capacity, 5.0);
        let early = here.offer(2.0 * capacity, 60.0);
        let late = here.offer(2.0 * capacity, 300.0);
        assert!(late.per_sec(300.0) >= 0.93 * capacity, "{servers} x {cores}: {late:?}");
        let (before, after) = (early.highest_limit(), late.highest_limit());
        assert!(after <= before + 3, "{servers} x {cores}: {before}, then {after}");
    }
}

#[test]
fn a_service_that_becomes_slower_or_faster_is_followed() {
    let mut here = Simulation::new(2, 4, Work::Constant(0.020));
    here.offer(800.0, 20.0);
    here.work = Work::Constant(0.040);
    here.offer(800.0, 20.0);
    let slower = here.offer(800.0, 20.0);
    assert!(slower.per_sec(20.0) >= 0.93 * 200.0, "{}/s", slower.per_sec(20.0));
    here.work = Work::Constant(0.010);
    here.offer(1_600.0, 20.0);
    let faster = here.offer(1_600.0, 20.0);
    assert!(faster.per_sec(20.0) >= 0.93 * 800.0, "{}/s", faster.per_sec(20.0));
    assert!(faster.highest_limit() <= 20, "{:?}", faster.limits);
}

#[test]
fn a_pause_of_all_servers_is_recovered_from() {
    let mut here = Simulation::new(2, 4, Work::Constant(0.020));
    here.offer(350.0, 20.0);
    for cores in &mut here.cores {
        cores.iter_mut().for_each(|core| *core = core.max(20.5));
    }
    here.offer(350.0, 1.5);
    let after = here.offer(350.0, 10.0);
    assert!(after.shed_part() <= 0.05, "{}", after.shed_part());
    assert!(after.per_sec(10.0) >= 0.95 * 350.0, "{}/s", after.per_sec(10.0));
}
