//! The probe pool of Prequal: the latest load reports of a few servers.
//!
//! A probe is answered with the requests in flight at a server, from all edges, and with its
//! latency at about that many. The pool keeps the last answers of up to 16 servers:
//!
//! ```text
//!  answer --> a place of the pool --> used by up to b_reuse requests --> gone
//!                    |                            '-- one more is removed with each request,
//!                    '-- gone after 1 s               the oldest and the worst in turn
//! ```
//! Of an answer it keeps the requests of others, those that this edge does not know: its own it
//! knows exactly, at any time. Where nobody else has any, answers say nothing new, and few are
//! asked for.
//!
//! Source: B. Wydrowski, R. Kleinberg, S. Rumble, A. Archer, Load is not what you should balance:
//! Introducing Prequal, NSDI 2024 (arXiv 2312.10172), section 4, with the constants of its testbed.
//! What concerns an edge that knows its own requests is ours.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::{
        atomic::{AtomicU32, AtomicU64},
        plan::{GroupPlan, ServerPlan},
        policy::{
            PolicyKind,
            draw::{part, splitmix64},
        },
    },
    time::{Duration, Instant},
};

/// How a server answers a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// Requests in flight at the server, from all edges.
    pub in_flight: u32,
    /// The median of its latest latencies at about that many; zero where it knows none.
    pub latency: Duration,
}

impl GroupPlan {
    /// The servers to ask for their load after a request was sent here, with the time and a random
    /// number; none where the policy has no use for it.
    pub fn to_probe(&self, now: Instant, draw: u64) -> impl Iterator<Item = &ServerPlan> {
        let asks = self.policy == PolicyKind::Prequal;
        let places = asks.then(|| self.state.probes.to_ask(now, draw, self.servers.len()));
        places.into_iter().flatten().map(|place| &self.servers[place])
    }

    /// Takes in what a server answered.
    pub fn probed(&self, now: Instant, server: &ServerPlan, result: ProbeResult, draw: u64) {
        let own = server.state.in_flight();
        let whole = (self.servers.len(), draw);
        self.state.probes.record(now, (server.index, own), result, whole);
        server.state.report_in_flight(now, result.in_flight);
    }
}

/// Answers to probes, and what they say together.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbePool {
    places: [Place; POOL],
    /// What separates hot servers from cold ones, in parts of [`REQUEST`].
    threshold: AtomicU32,
    /// The share of answers that tell of requests of others, in millionths.
    shared: AtomicU32,
    /// Counts removals, of which every second removes the worst.
    removals: AtomicU32,
    /// When a server was last asked, in nanoseconds.
    asked_at: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Place {
    /// The index of the server, and how many more requests may use this; zero is nothing.
    whose: AtomicU64,
    /// Requests in flight from other edges.
    others: AtomicU32,
    latency: AtomicU64,
    at: AtomicU64,
}

/// What is known of a server in the pool.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    place: usize,
    server: u16,
    /// Sort key: cold servers by latency, then hot ones by requests in flight.
    rank: (bool, u64),
    at: u64,
}

impl ProbePool {
    /// Takes in an answer, of a server that has `own` requests of this edge; `servers` are in the
    /// group.
    pub(crate) fn record(
        &self,
        now: Instant,
        (server, own): (u16, u32),
        result: ProbeResult,
        (servers, draw): (usize, u64),
    ) {
        let others = result.in_flight.saturating_sub(own);
        self.learn(result.in_flight, others);
        let place = self.place_for(now, server);
        let place = &self.places[place];
        place.others.store(others, Relaxed);
        place.latency.store(result.latency.as_nanos(), Relaxed);
        place.at.store(now.as_nanos(), Relaxed);
        let uses = u64::from(rounded(reuse_budget(servers), draw));
        place.whose.store(u64::from(server) << 32 | uses, Relaxed);
    }

    /// Moves the threshold to the quantile of what is answered, and notes whether others are there.
    fn learn(&self, in_flight: u32, others: u32) {
        let sample = in_flight.min(IN_FLIGHT_MAX) * REQUEST;
        let threshold = self.threshold.load(Relaxed);
        let step = (threshold / 16).max(REQUEST / 8);
        let next = match sample > threshold {
            true => threshold + (f64::from(step) * HOT_QUANTILE) as u32,
            false => threshold.saturating_sub((f64::from(step) * (1.0 - HOT_QUANTILE)) as u32),
        };
        self.threshold.store(next, Relaxed);
        let shared = self.shared.load(Relaxed);
        let target = if others > 0 { 1_000_000 } else { 0 };
        self.shared.store(shared - shared / SHARED_SAMPLES + target / SHARED_SAMPLES, Relaxed);
    }

    /// The server that the next request is best sent to, by its index; none where fewer than two
    /// are known. `own` gives the requests of this edge at a server that can be chosen.
    pub(crate) fn choose(
        &self,
        now: Instant,
        draw: u64,
        own: impl Fn(u16) -> Option<u32>,
    ) -> Option<u16> {
        let start = part(draw, POOL as u64) as usize;
        let mut known = 0;
        let (mut best, mut worst): (Option<Candidate>, Option<Candidate>) = (None, None);
        let mut oldest: Option<Candidate> = None;
        for place in (start..POOL).chain(0..start) {
            let Some(next) = self.candidate(place, now, &own) else { continue };
            known += 1;
            best = best.filter(|best| best.rank <= next.rank).or(Some(next));
            worst = worst.filter(|worst| worst.rank >= next.rank).or(Some(next));
            oldest = oldest.filter(|oldest| oldest.at <= next.at).or(Some(next));
        }
        let chosen = best.filter(|_| known >= KNOWN_MIN)?;
        self.use_up(chosen.place);
        let is_even = self.removals.fetch_add(1, Relaxed).is_multiple_of(2);
        let removed = if is_even { oldest } else { worst };
        // The others are too few to lose one.
        if let Some(removed) = removed.filter(|_| known > KNOWN_MIN) {
            self.places[removed.place].whose.store(0, Relaxed);
        }
        Some(chosen.server)
    }

    /// Hot servers come after cold ones, by their requests in flight; cold ones by their latency.
    fn candidate(
        &self,
        place: usize,
        now: Instant,
        own: &impl Fn(u16) -> Option<u32>,
    ) -> Option<Candidate> {
        let server = self.server_at(place, now)?;
        let at = &self.places[place];
        let in_flight = at.others.load(Relaxed).saturating_add(own(server)?).min(IN_FLIGHT_MAX);
        let is_hot = in_flight * REQUEST > self.threshold.load(Relaxed);
        let cost = if is_hot { u64::from(in_flight) } else { at.latency.load(Relaxed) };
        Some(Candidate { place, server, rank: (is_hot, cost), at: at.at.load(Relaxed) })
    }

    /// The server whose answer is at this place, if it still holds.
    fn server_at(&self, place: usize, now: Instant) -> Option<u16> {
        let place = &self.places[place];
        let whose = place.whose.load(Relaxed);
        let at = Instant::from_nanos(place.at.load(Relaxed));
        (whose > 0 && now.since(at) <= AGE_MAX).then_some((whose >> 32) as u16)
    }

    /// Where the next answer goes: to the last one of the same server, else to a place that is
    /// free, else to the oldest.
    fn place_for(&self, now: Instant, server: u16) -> usize {
        let same = (0..POOL).find(|place| self.server_at(*place, now) == Some(server));
        let age = |place: &usize| match self.server_at(*place, now) {
            Some(_) => self.places[*place].at.load(Relaxed) + 1,
            None => 0,
        };
        same.or_else(|| (0..POOL).min_by_key(age)).unwrap_or(0)
    }

    fn use_up(&self, place: usize) {
        let whose = &self.places[place].whose;
        let used = whose.load(Relaxed);
        whose.store(if used as u32 <= 1 { 0 } else { used - 1 }, Relaxed);
    }

    /// Whether no other edge sends requests to these servers, as far as they say.
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.load(Relaxed) < ALONE
    }

    /// Servers to probe next, as places among `servers`, at most [`PROBES`].
    pub(crate) fn to_ask(
        &self,
        now: Instant,
        draw: u64,
        servers: usize,
    ) -> impl Iterator<Item = usize> + use<> {
        let last = Instant::from_nanos(self.asked_at.load(Relaxed));
        let wanted = match self.is_alone() {
            false => PROBES,
            true if now.since(last) >= ALONE_INTERVAL => 1,
            true => 0,
        };
        if wanted > 0 {
            self.asked_at.store(now.as_nanos(), Relaxed);
        }
        sample(draw, servers).take(wanted)
    }
}

/// Up to [`PROBES`] different places of so many, each as likely as the others (Floyd's algorithm;
/// Bentley and Floyd, "Programming pearls: a sample of brilliance", 1987).
fn sample(draw: u64, whole: usize) -> impl Iterator<Item = usize> + use<> {
    let mut taken = [usize::MAX; PROBES];
    let wanted = whole.min(PROBES);
    for at in 0..wanted {
        let last = whole - wanted + at;
        let drawn = part(splitmix64(draw ^ at as u64), last as u64 + 1) as usize;
        taken[at] = if taken.contains(&drawn) { last } else { drawn };
    }
    taken.into_iter().take(wanted)
}

/// How many requests may use one answer, on average:
/// `max(1, (1 + d) / ((1 - m / n) r_probe - r_remove))` with `d` 1, `m` answers in the pool of `n`
/// servers; without bound where the pool holds them all.
fn reuse_budget(servers: usize) -> f64 {
    let new = (1.0 - POOL as f64 / servers.max(1) as f64) * PROBES as f64 - 1.0;
    if new > 0.0 { (2.0 / new).clamp(1.0, REUSE_MAX) } else { REUSE_MAX }
}

/// A whole number that is this one on average.
fn rounded(number: f64, draw: u64) -> u32 {
    let whole = libm::floor(number);
    let up = ((splitmix64(draw) >> 11) as f64) < (number - whole) * (1u64 << 53) as f64;
    whole as u32 + u32::from(up)
}

/// "A pool size of 16 suffices" (section 4).
pub(crate) const POOL: usize = 16;

/// Probes a request, `r_probe` of the testbed (section 5).
pub(crate) const PROBES: usize = 3;

/// How long an answer holds (section 5).
pub(crate) const AGE_MAX: Duration = Duration::from_secs(1);

/// `Q_RIF`. The paper recommends 0.6 to 0.9 and has 0.84 in its testbed; simulated, 0.7 is 8 %
/// slower than that at 70 % of the allocation and twice as fast at 174 %
/// (`docs/studies/prequal.md`).
const HOT_QUANTILE: f64 = 0.7;

/// Fewest answers to choose by. Below, the paper draws (section 4); the edge uses what it knows.
const KNOWN_MIN: u32 = 2;

/// Where answers come slower than they are removed, one is used up by so many requests.
const REUSE_MAX: f64 = 16.0;

/// One request in the numbers of the threshold.
const REQUEST: u32 = 256;

/// Numbers stay below 2^32.
const IN_FLIGHT_MAX: u32 = 1 << 20;

/// One answer that shows other edges is enough to probe as often as the paper; it takes about ten
/// without them until the edge counts as alone.
const SHARED_SAMPLES: u32 = 4;
const ALONE: u32 = 1_000_000 / 20;

/// Time between two probes of an edge that is alone, to see whether it still is.
const ALONE_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};
    use proptest::prelude::*;

    const NOW: Instant = Instant::from_nanos(5_000_000_000);

    fn answer(in_flight: u32, millis: u64) -> ProbeResult {
        ProbeResult { in_flight, latency: Duration::from_millis(millis) }
    }

    /// A pool in which answers of 2 requests in flight are usual.
    fn usual() -> ProbePool {
        let pool = ProbePool::default();
        (0..200).for_each(|_| pool.learn(2, 2));
        pool
    }

    fn nobody(_: u16) -> Option<u32> {
        Some(0)
    }

    #[test]
    fn of_cold_servers_the_fastest_is_chosen_and_a_hot_one_is_not() {
        let pool = usual();
        for (server, result) in [(1, answer(2, 30)), (2, answer(1, 40)), (3, answer(9, 1))] {
            pool.record(NOW, (server, 0), result, (16, 0));
        }
        assert_eq!(pool.choose(NOW, 7, nobody), Some(1));
    }

    #[test]
    fn of_hot_servers_the_one_with_the_fewest_requests_is_chosen() {
        let pool = usual();
        for (server, result) in [(1, answer(12, 1)), (2, answer(8, 40)), (3, answer(9, 2))] {
            pool.record(NOW, (server, 0), result, (16, 0));
        }
        assert_eq!(pool.choose(NOW, 7, nobody), Some(2));
    }

    #[test]
    fn own_requests_count_from_the_moment_they_are_sent() {
        let pool = usual();
        pool.record(NOW, (1, 3), answer(4, 10), (16, 0));
        pool.record(NOW, (2, 0), answer(2, 20), (16, 0));
        // Of the four at the first server three were ours; now eight are.
        let own = |server| Some(if server == 1 { 8 } else { 0 });
        assert_eq!(pool.choose(NOW, 7, own), Some(2));
    }

    #[test]
    fn one_answer_is_not_enough_and_an_old_one_is_none() {
        let pool = usual();
        pool.record(NOW, (1, 0), answer(1, 10), (100, 0));
        assert_eq!(pool.choose(NOW, 7, nobody), None);
        pool.record(NOW, (2, 0), answer(1, 10), (100, 0));
        assert!(pool.choose(NOW, 7, nobody).is_some());
        let later = NOW + AGE_MAX + Duration::from_nanos(1);
        assert_eq!(pool.choose(later, 7, nobody), None);
    }

    /// The figures that the formula gives for the paper's testbed: 100 servers, 3 probes a request,
    /// one removal.
    #[test]
    fn an_answer_is_used_as_often_as_the_paper_says() {
        assert!((reuse_budget(100) - 2.0 / 1.52).abs() < 1e-9);
        assert!((reuse_budget(16) - REUSE_MAX).abs() < 1e-9);
        let draws = 20_000u64;
        let sum: u64 = (0..draws).map(|draw| u64::from(rounded(1.3, draw))).sum();
        assert!((sum as f64 / draws as f64 - 1.3).abs() < 0.02, "{sum}");
    }

    #[test]
    fn an_edge_that_is_alone_asks_seldom() {
        let pool = ProbePool::default();
        let asked = |at: Instant| pool.to_ask(at, at.as_nanos(), 50).count();
        assert_eq!((asked(NOW), asked(NOW + Duration::from_millis(1))), (1, 0));
        pool.record(NOW, (4, 1), answer(3, 10), (50, 0));
        assert_eq!(asked(NOW + Duration::from_millis(2)), PROBES);
        (0..20).for_each(|_| pool.record(NOW, (4, 1), answer(1, 10), (50, 0)));
        assert_eq!(asked(NOW + Duration::from_millis(3)), 0);
    }

    proptest! {
        /// Whatever is answered and whoever is closed: the pool has an answer a server at most, and
        /// chooses nobody who is closed or whose answer is gone.
        #[test]
        fn it_chooses_only_who_is_known_and_open(
            answers in prop::collection::vec((0u16..40, 0u32..30, 0u64..100), 1..80),
            closed in prop::collection::vec(0u16..40, 0..30),
            draws in prop::collection::vec(any::<u64>(), 1..40),
        ) {
            let pool = ProbePool::default();
            let mut at = NOW;
            for (server, in_flight, millis) in &answers {
                at = at + Duration::from_millis(20);
                pool.record(at, (*server, 0), answer(*in_flight, *millis), (40, draws[0]));
            }
            let held: Vec<u16> = (0..POOL).filter_map(|place| pool.server_at(place, at)).collect();
            let mut once = held.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), held.len());
            for draw in draws {
                let open = |server| (!closed.contains(&server)).then_some(0);
                let Some(chosen) = pool.choose(at, draw, open) else { break };
                prop_assert!(held.contains(&chosen) && !closed.contains(&chosen));
            }
        }

        /// Who is asked is different, and each as often as the others.
        #[test]
        fn probes_go_to_different_servers(draw: u64, servers in 0usize..60) {
            let mut asked: Vec<usize> = sample(draw, servers).collect();
            prop_assert_eq!(asked.len(), servers.min(PROBES));
            prop_assert!(asked.iter().all(|place| *place < servers));
            asked.sort_unstable();
            asked.dedup();
            prop_assert_eq!(asked.len(), servers.min(PROBES));
        }
    }

    #[test]
    fn probes_are_spread_evenly() {
        let mut counts = vec![0u32; 10];
        for draw in 0..20_000u64 {
            sample(splitmix64(draw), 10).for_each(|place| counts[place] += 1);
        }
        assert!(counts.iter().all(|count| (5_600..6_400).contains(count)), "{counts:?}");
    }
}
