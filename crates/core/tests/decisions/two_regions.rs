//! Two regions of three servers, two cores of 38 ms each, the far one 30 ms away: the load of the
//! published study, in simulated time, on the decision code that the proxy runs.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use loadline_core::{
    fleet::{Capacity, Overflow, PolicyKind, Server, Service},
    permit::Permit,
    plan::{Ask, Decision, Plan, QueuePlace, QueuedDecision},
    time::{Duration, Instant},
    units::Rate,
};

const SERVICE: Duration = Duration::from_millis(38);

/// One run: response times, and how many requests were sent far.
struct Run {
    responses: Vec<Duration>,
    far: usize,
}

impl Run {
    fn mean_ms(&self) -> f64 {
        self.responses.iter().map(|r| r.as_millis_f64()).sum::<f64>() / self.responses.len() as f64
    }

    fn max_ms(&self) -> f64 {
        self.responses.iter().map(|r| r.as_millis_f64()).fold(0.0, f64::max)
    }
}

/// Servers that answer in the order of their arrival, and requests that wait at the edge.
struct World {
    plan: Arc<Plan>,
    draws: Draws,
    /// Ends of requests under way, by time.
    ends: BinaryHeap<Reverse<(Instant, usize)>>,
    permits: Vec<Option<Permit>>,
    /// When each core of each server of each group is free.
    free_at: [[[Instant; 2]; 3]; 2],
    waiting: std::collections::VecDeque<(Instant, QueuePlace)>,
    run: Run,
}

impl World {
    fn new(service: Service, seed: u64) -> Self {
        let (_, plan) = crate::fleets::started(service);
        let free_at = [[[Instant::ZERO; 2]; 3]; 2];
        let run = Run { responses: vec![], far: 0 };
        let (ends, waiting) = (BinaryHeap::new(), std::collections::VecDeque::new());
        Self { plan, draws: Draws(seed), ends, permits: vec![], free_at, waiting, run }
    }

    fn ask(&mut self, now: Instant) -> Ask<'static> {
        Ask { now, key: 0, draw: self.draws.next(), tried: &[], stick: None }
    }

    fn arrive(&mut self, now: Instant) {
        let ask = self.ask(now);
        match self.plan.services[0].pick(&ask) {
            Decision::Send(permit) => self.send(now, now, permit),
            Decision::Queue(place) => self.waiting.push_back((now, place)),
            Decision::Refuse(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    fn send(&mut self, planned: Instant, now: Instant, permit: Permit) {
        let (group, server) = permit.place();
        let travel = Duration::from_millis(15) * group as u64;
        self.run.far += group;
        let core = self.free_at[group][server].iter_mut().min().unwrap();
        *core = (*core).max(now + travel) + SERVICE;
        let end = *core + travel;
        self.run.responses.push(end.since(planned));
        self.ends.push(Reverse((end, self.permits.len())));
        self.permits.push(Some(permit));
    }

    /// Lets everything happen that ends before `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(Reverse((end, index))) = self.ends.peek().copied()
            && end <= now
        {
            self.ends.pop();
            let permit = self.permits[index].take().unwrap();
            permit.answered(end);
            permit.finish(end);
            self.wake(end);
        }
    }

    fn wake(&mut self, now: Instant) {
        while let Some((planned, _)) = self.waiting.front() {
            let planned = *planned;
            let ask = self.ask(now);
            let QueuedDecision::Send(permit) = self.plan.services[0].pick_queued(&ask) else {
                return;
            };
            self.waiting.pop_front();
            self.send(planned, now, permit);
        }
    }
}

/// A splitmix64: the simulation's randomness, from a seed.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        mean.scale(-(1.0 - uniform).ln())
    }
}

fn service(overflow: Overflow, near: Capacity, far: Capacity) -> Service {
    let groups =
        vec![crate::fleets::group("near", 0, 3, near), crate::fleets::group("far", 30, 3, far)];
    Service { overflow, groups, ..Service::named("web") }
}

/// Two requests at a time on each near server, its cores; three on each far one: as this edge sees
/// it a request takes 68 ms there in place of 38, so that one more is on its way meanwhile.
fn soonest() -> Service {
    let mut service = service(Overflow::Soonest, Capacity::default(), Capacity::default());
    for (group, places) in service.groups.iter_mut().zip([2, 3]) {
        let limit = |server: &mut Server| server.capacity.max_in_flight = Some(places);
        group.servers.iter_mut().for_each(limit);
    }
    service.policy = PolicyKind::RoundRobin;
    service
}

fn run(service: Service, rate: Rate, poisson: bool, seed: u64) -> Run {
    let mut world = World::new(service, seed);
    let mut arrivals = Draws(seed ^ 0xa5a5);
    let mut now = Instant::ZERO + Duration::from_secs(1);
    for _ in 0..500 {
        let gap = if poisson { arrivals.exponential(rate.interval()) } else { rate.interval() };
        now = now + gap;
        world.advance(now);
        world.arrive(now);
    }
    world.advance(now + Duration::from_secs(60));
    assert_eq!(world.run.responses.len(), 500, "every request is answered");
    world.run
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn at_twice_its_rate_a_region_keeps_its_share_and_the_first_second_is_right() {
    let capacity = Capacity { max_rate: Some(Rate::per_sec(100)), ..Capacity::default() };
    let at_rate =
        run(service(Overflow::Capacity, capacity, capacity), Rate::per_sec(100), false, 1);
    assert_eq!(at_rate.far, 0, "nothing overflows at the line");
    let twice = run(service(Overflow::Capacity, capacity, capacity), Rate::per_sec(200), false, 1);
    assert!((235..=250).contains(&twice.far), "{} of 500 sent far", twice.far);
    assert!(twice.mean_ms() <= 1.5 * at_rate.mean_ms(), "{}", twice.mean_ms());
    assert!(twice.max_ms() < 5.0 * at_rate.mean_ms(), "{}", twice.max_ms());
}

#[test]
fn soonest_keeps_random_arrivals_near_at_half_load() {
    let far = |seed| run(soonest(), Rate::per_sec(80), true, seed).far;
    let sent: usize = (0..100).map(far).sum();
    let share = sent as f64 / (100.0 * 500.0);
    assert!(share <= 0.005, "{:.2} % sent far", share * 100.0);
}

#[test]
fn soonest_is_ahead_of_every_peer_at_a_quarter_over_the_near_capacity() {
    let at = |seed| run(soonest(), Rate::per_sec(200), true, seed);
    let runs: Vec<Run> = (0..101).map(at).collect();
    let mean = median(runs.iter().map(Run::mean_ms).collect());
    let max = median(runs.iter().map(Run::max_ms).collect());
    assert!(mean <= 52.0, "mean {mean:.1} ms");
    assert!(max <= 90.0, "max {max:.1} ms");
}
