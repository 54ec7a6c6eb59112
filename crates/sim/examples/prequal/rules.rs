//! Rules of the paper that are no policies of ours.

use loadline_core::{
    decide::probe_pool::ProbeResult,
    time::{Duration, Instant},
};
use loadline_sim::{Director, Servers};

/// Any of them.
pub(crate) type Rule = Box<dyn Director>;

/// Weighted round robin with the weights `requests served / utilization`, smoothed: the rule that
/// Prequal replaced.
#[derive(Debug)]
pub(crate) struct WeightedRoundRobin {
    weights: Vec<f64>,
    /// What each server had served, and how long it had been busy, at the last update.
    used: Vec<(u64, f64)>,
    updated: Instant,
    /// By edge: the turn of each server, as in nginx.
    turns: Vec<Vec<f64>>,
}

impl WeightedRoundRobin {
    pub(crate) fn new(edges: usize) -> Self {
        let (weights, used) = (Vec::new(), Vec::new());
        Self { weights, used, updated: Instant::ZERO, turns: vec![Vec::new(); edges] }
    }

    fn update(&mut self, servers: &mut Servers<'_>) {
        self.weights.resize(servers.count(), 1.0);
        self.used.resize(servers.count(), (0, 0.0));
        if servers.now().since(self.updated) < UPDATE {
            return;
        }
        self.updated = servers.now();
        let used: Vec<(u64, f64)> = (0..servers.count()).map(|at| servers.used(at)).collect();
        let each = used.iter().zip(&self.used);
        let fresh: Vec<f64> =
            each.map(|(now, was)| (now.0 - was.0) as f64 / (now.1 - was.1).max(1e-3)).collect();
        let mean = fresh.iter().sum::<f64>() / fresh.len() as f64;
        for (weight, fresh) in self.weights.iter_mut().zip(fresh) {
            *weight += (fresh / mean - *weight) * SMOOTHING;
        }
        self.used = used;
    }
}

impl Director for WeightedRoundRobin {
    fn choose(&mut self, edge: usize, servers: &mut Servers<'_>) -> usize {
        self.update(servers);
        let turns = &mut self.turns[edge];
        if turns.is_empty() {
            let place = servers.draw() as usize % servers.count();
            *turns = self.weights.clone();
            turns.rotate_left(place);
        }
        let whole: f64 = self.weights.iter().sum();
        turns.iter_mut().zip(&self.weights).for_each(|(turn, weight)| *turn += weight);
        let best = (0..turns.len()).max_by(|a, b| turns[*a].total_cmp(&turns[*b])).unwrap_or(0);
        turns[best] -= whole;
        best
    }
}

/// Chooses by a score, of what the last probes said; as many probes as Prequal, kept as long.
#[derive(Debug)]
struct Scored {
    pools: Vec<Vec<Known>>,
    removals: u64,
    score: fn(f64, f64) -> f64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    place: usize,
    at: Instant,
    others: u32,
    latency: Duration,
}

impl Scored {
    fn new(edges: usize, score: fn(f64, f64) -> f64) -> Self {
        Self { pools: vec![Vec::new(); edges], removals: 0, score }
    }

    fn choose(&mut self, edge: usize, servers: &mut Servers<'_>) -> usize {
        let pool = &mut self.pools[edge];
        let now = servers.now();
        pool.retain(|known| now.since(known.at) <= Duration::from_secs(1));
        let score = |known: &Known| {
            let in_flight = f64::from(known.others + servers.own(known.place));
            (self.score)(in_flight, known.latency.as_millis_f64())
        };
        let by_score = |a: &usize, b: &usize| score(&pool[*a]).total_cmp(&score(&pool[*b]));
        let best = (0..pool.len()).min_by(by_score);
        let worst = (0..pool.len()).max_by(by_score);
        let chosen = best.map(|best| pool[best].place);
        self.removals += 1;
        // The one that is used up, and one more: the worst, or the oldest, which is the first.
        let other = if self.removals.is_multiple_of(2) { worst } else { Some(0) };
        let mut gone: Vec<usize> =
            best.into_iter().chain(other.filter(|_| best.is_some())).collect();
        gone.sort_unstable();
        gone.dedup();
        for at in gone.into_iter().rev() {
            pool.remove(at);
        }
        for _ in 0..PROBES {
            let place = servers.draw() as usize % servers.count();
            if let Some(ProbeResult { in_flight, latency }) = servers.ask(place) {
                pool.retain(|known| known.place != place);
                let others = in_flight.saturating_sub(servers.own(place));
                pool.push(Known { place, at: now, others, latency });
            }
        }
        let much = pool.len().saturating_sub(POOL);
        pool.drain(..much);
        chosen.unwrap_or_else(|| servers.draw() as usize % servers.count())
    }
}

/// The score of C3 (Suresh et al., NSDI 2015) on probes: latency times the cube of the queue.
#[derive(Debug)]
pub(crate) struct C3(Scored);

impl C3 {
    pub(crate) fn new(edges: usize) -> Self {
        Self(Scored::new(edges, |in_flight, latency| (in_flight + 1.0).powi(3) * latency))
    }
}

impl Director for C3 {
    fn choose(&mut self, edge: usize, servers: &mut Servers<'_>) -> usize {
        self.0.choose(edge, servers)
    }
}

/// Latency and requests in flight, half and half: one of these counts as 75 ms.
#[derive(Debug)]
pub(crate) struct Linear(Scored);

impl Linear {
    pub(crate) fn new(edges: usize) -> Self {
        Self(Scored::new(edges, |in_flight, latency| latency + 75.0 * in_flight))
    }
}

impl Director for Linear {
    fn choose(&mut self, edge: usize, servers: &mut Servers<'_>) -> usize {
        self.0.choose(edge, servers)
    }
}

/// The paper smooths over what it does not say; this is as quick as a monitoring system is.
const UPDATE: Duration = Duration::from_secs(5);
const SMOOTHING: f64 = 0.5;

const PROBES: usize = 3;
const POOL: usize = 16;
