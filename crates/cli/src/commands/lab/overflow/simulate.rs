//! Groups of servers in virtual time, behind the decisions of `loadline serve`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use loadline_core::{
    decide::{
        controller::{Controller, Output},
        permit::Permit,
        plan::{Decision, PickContext, Plan},
    },
    fleet::{Capacity, Edge, Fleet, Group, PolicyKind, Server, Service, WhenFull},
    time::{Duration, Instant},
    units::Rate,
};

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrivals {
    Even,
    Poisson,
    Batches,
}

impl Arrivals {
    pub(super) const ALL: [Self; 3] = [Self::Even, Self::Poisson, Self::Batches];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Poisson => "Poisson",
            Self::Batches => "batches",
        }
    }
}

/// What comes.
pub(super) struct Load {
    pub(super) arrivals: Arrivals,
    pub(super) per_sec: f64,
    pub(super) seconds: f64,
    pub(super) seed: u64,
    /// What a core takes for a request.
    pub(super) service: Duration,
}

/// A group of servers, nearest first.
#[derive(Clone, Copy)]
pub(super) struct Budgeted {
    pub(super) rate: Option<Rate>,
    pub(super) burst: Option<u32>,
    pub(super) distance: Duration,
    pub(super) cores: usize,
}

/// What became of a group, and of all requests.
#[derive(Clone)]
pub(super) struct Run {
    /// Requests that the group was given.
    pub(super) given: u64,
    /// The part of its rate that it was given, once the first tenth of the time is over.
    pub(super) used: f64,
    /// The most that it was given in any window beyond its rate.
    pub(super) burst: f64,
    /// Response times of all requests, near and far.
    pub(super) mean: Duration,
    pub(super) p99: Duration,
}

/// Runs the load through the groups; one [`Run`] for each.
pub(super) fn simulate(load: &Load, groups: &[Budgeted]) -> anyhow::Result<Vec<Run>> {
    let mut world = World::new(groups, load)?;
    Times::of(load).for_each(|now| world.arrive(now));
    let (mean, p99) = world.response_times();
    let run = |(group, given): (&Budgeted, &Vec<Instant>)| {
        let rate = group.rate.unwrap_or_default().as_per_sec_f64();
        Run {
            given: given.len() as u64,
            used: used(given, rate, load.seconds),
            burst: burst(given, rate),
            mean,
            p99,
        }
    };
    Ok(groups.iter().zip(&world.given).map(run).collect())
}

struct World {
    plan: Arc<Plan>,
    service: Duration,
    distances: Vec<Duration>,
    /// When the cores of each group are free.
    free_at: Vec<BinaryHeap<Reverse<Instant>>>,
    /// What is under way, by its end.
    under_way: BTreeMap<(Instant, usize), Permit>,
    given: Vec<Vec<Instant>>,
    responses: Vec<Duration>,
}

impl World {
    fn new(groups: &[Budgeted], load: &Load) -> anyhow::Result<Self> {
        let mut controller = Controller::new(Instant::ZERO, fleet(groups));
        let Some(Output::Publish(plan)) = controller.poll() else {
            anyhow::bail!("the controller publishes no plan");
        };
        let cores = |group: &Budgeted| {
            let all = load.per_sec * load.service.as_secs_f64() * 2.0;
            let cores = group.cores.min(all.ceil() as usize + 12);
            (0..cores).map(|_| Reverse(Instant::ZERO)).collect()
        };
        Ok(Self {
            plan,
            service: load.service,
            distances: groups.iter().map(|group| group.distance).collect(),
            free_at: groups.iter().map(cores).collect(),
            under_way: BTreeMap::new(),
            given: vec![Vec::new(); groups.len()],
            responses: Vec::new(),
        })
    }

    fn arrive(&mut self, now: Instant) {
        while let Some(first) = self.under_way.first_entry()
            && first.key().0 <= now
        {
            let ((end, _), permit) = first.remove_entry();
            permit.answered(end);
            permit.finish(end);
        }
        let ask = PickContext { now, key: 0, draw: 0, tried: &[], stick: None };
        // What finds no room at all is counted by its absence.
        if let Decision::Send(permit) = self.plan.services[0].pick(&ask) {
            self.send(now, permit);
        }
    }

    fn send(&mut self, now: Instant, permit: Permit) {
        let group = permit.place().0;
        let way = self.distances[group] / 2;
        let Some(Reverse(free)) = self.free_at[group].pop() else { return };
        let done = free.max(now + way) + self.service;
        self.free_at[group].push(Reverse(done));
        self.given[group].push(now);
        self.under_way.insert((done + way, self.responses.len()), permit);
        self.responses.push((done + way).since(now));
    }

    /// The mean and the 99th percentile.
    fn response_times(&mut self) -> (Duration, Duration) {
        let count = self.responses.len().max(1);
        let sum: f64 = self.responses.iter().map(|it| it.as_secs_f64()).sum();
        let mean = Duration::from_secs(1).scale(sum / count as f64);
        let at = (count * 99 / 100).min(count - 1);
        if self.responses.is_empty() {
            return (mean, mean);
        }
        (mean, *self.responses.select_nth_unstable(at).1)
    }
}

/// One service of these groups, of one server each.
fn fleet(groups: &[Budgeted]) -> Fleet {
    let group = |(n, of): (u8, &Budgeted)| {
        let address = SocketAddr::from((Ipv4Addr::new(10, n, 0, 1), 80));
        Group {
            rtt: Some(of.distance),
            capacity: Capacity { max_rate: of.rate, burst: of.burst, ..Capacity::default() },
            ..Group::within(
                &format!("region-{n}"),
                vec![Server { max_connections: u32::MAX, ..Server::at(address) }],
            )
        }
    };
    let service = Service {
        policy: PolicyKind::RoundRobin,
        when_full: WhenFull::Shed,
        groups: (0..).zip(groups).map(group).collect(),
        ..Service::named("web")
    };
    let edge = Edge { threads: 1, ..Edge::within("region-0") };
    Fleet::of(edge, vec![], vec![service])
}

/// The times at which requests come.
struct Times<'a> {
    load: &'a Load,
    draws: Draws,
    /// Seconds.
    now: f64,
    /// How many of the batch have not come.
    left: u64,
}

impl<'a> Times<'a> {
    fn of(load: &'a Load) -> Self {
        Self { load, draws: Draws(load.seed), now: 0.0, left: 0 }
    }
}

impl Iterator for Times<'_> {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        let Self { load, draws, now, left } = self;
        if *left == 0 {
            let size = if load.arrivals == Arrivals::Batches { BATCH } else { 1.0 };
            let gap =
                if load.arrivals == Arrivals::Even { 1.0 } else { -(1.0 - draws.uniform()).ln() };
            *now += gap * size / load.per_sec;
            *left = 1;
            while draws.uniform() * size >= 1.0 && size > 1.0 {
                *left += 1;
            }
        }
        *left -= 1;
        (*now < load.seconds).then(|| Instant::from_nanos((*now * 1e9) as u64))
    }
}

/// A splitmix64: the randomness of arrivals, from a seed.
struct Draws(u64);

impl Draws {
    /// Uniform in [0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What was given after the first tenth of the time, over what the rate allows in it.
fn used(given: &[Instant], rate: f64, seconds: f64) -> f64 {
    let from = seconds / 10.0;
    let counted = given.iter().filter(|at| at.as_nanos() as f64 / 1e9 >= from).count();
    counted as f64 / (rate * (seconds - from))
}

/// The most that was given in any window beyond the rate: how far the number given less the
/// number earned ever rises.
fn burst(given: &[Instant], rate: f64) -> f64 {
    let beyond = |(n, at): (usize, &Instant)| n as f64 - at.as_nanos() as f64 / 1e9 * rate;
    let (mut lowest, mut burst) = (f64::INFINITY, 0.0f64);
    for beyond in given.iter().enumerate().map(beyond) {
        lowest = lowest.min(beyond);
        burst = burst.max(beyond - lowest + 1.0);
    }
    burst
}

/// Requests in a batch, on average; sizes are geometric.
const BATCH: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn load(arrivals: Arrivals) -> Load {
        let service = Duration::from_millis(10);
        Load { arrivals, per_sec: 50.0, seconds: 400.0, seed: 1, service }
    }

    #[test]
    fn arrivals_have_the_rate_that_was_asked_for() {
        for arrivals in Arrivals::ALL {
            let count = Times::of(&load(arrivals)).count();
            assert!(count.abs_diff(20_000) <= 600, "{}: {count}", arrivals.name());
        }
    }

    #[test]
    fn what_a_window_was_given_beyond_its_rate_is_seen() {
        let at = |millis: &u64| Instant::from_nanos(millis * 1_000_000);
        let given: Vec<Instant> = [0, 1_000, 2_000, 2_000, 2_000, 9_000].iter().map(at).collect();
        assert!((burst(&given, 1.0) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn near_gets_its_burst_and_a_far_answer_takes_its_way() {
        let rate = Some(Rate::milli_per_sec(1));
        let near = Budgeted { rate, burst: Some(1), distance: Duration::ZERO, cores: 1 };
        let far = Budgeted { rate: None, distance: Duration::from_millis(30), cores: 9, ..near };
        let runs = simulate(&load(Arrivals::Even), &[near, far]).expect("it runs");
        assert_eq!((runs[0].given, runs[1].given), (1, 19_999));
        assert_eq!(runs[0].p99, Duration::from_millis(40));
    }
}
