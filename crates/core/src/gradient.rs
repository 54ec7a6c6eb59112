//! `capacity = "auto"`: how many requests a group can have in flight, found by its latency.
//!
//! A group with `k` cores answers in its service time `B` while at most `k` requests are in
//! flight; beyond that they queue in the servers and the mean latency is `R = B * L / k`. So the
//! quotient of the two says where the line is, whatever `k` is:
//!
//! `g = clamp(T * B / R, 1/2, T)` and then `L = g * L + sqrt(L)`
//!
//! with the tolerance `T` 1.25 and a square root of headroom for what arrives unevenly. It comes to
//! rest where `L = T * k + sqrt(L)`: above `k`, so that no core idles, and below `2 * k` from four
//! cores on. The form is that of Envoy's adaptive concurrency filter (gradient controller) and of
//! Netflix' concurrency-limits (`Gradient2Limit`); their known traps are met like this:
//!
//! - *The baseline is measured under the load that it is to judge*, and both drift up together
//!   (concurrency-limits issue 165). `B` is measured by *probes*: for a few answers only a third
//!   of the limit is let in, and only requests that were sent after the queues in the servers have
//!   had time to drain count. Where the traffic leaves the group that empty anyway, its answers
//!   are the probe.
//! - *Probes cost*: one takes `PROBE_SAMPLES` answers, and only a group that was full is probed,
//!   after one second, then after two, four, eight, and every ten. At 2 x 4 cores of 20 ms that is
//!   less than 1 % of the capacity.
//! - *The limit grows while nobody needs it*: it grows only in windows in which it turned
//!   requests away.
//! - *Failures are fast*: answers with status 5xx are no samples.
//! - *A window of few answers is noise*: a window has `WINDOW_SAMPLES` answers at least, and a
//!   fall goes half the way.
//!
//! States: *probing* (from the start, and now and then) and *steering*. A window in either counts
//! the requests that were sent after it began.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::time::{Duration, Instant};

/// Between what the limit of a group stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// One request for each server: less would idle some of them.
    pub floor: u32,
    /// Never more, whatever is measured.
    pub ceiling: u32,
}

/// What was measured in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Mean time from sending a request to the head of its answer.
    pub latency: Duration,
    /// Whether a request was turned away because the limit was reached.
    pub was_full: bool,
    /// Requests in flight at its end.
    pub in_flight: u32,
}

/// Where the search for the limit stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient {
    limit: f64,
    /// The latency of a group that is not loaded; zero before the first probe.
    baseline: Duration,
    probing: bool,
    /// Requests that were sent earlier say nothing about this window.
    begins: Instant,
    probe_at: Instant,
    probe_gap: Duration,
}

impl Gradient {
    /// Begins with a probe.
    #[must_use]
    pub fn new(now: Instant, bounds: Bounds) -> Self {
        Self {
            limit: f64::from(bounds.floor.saturating_mul(PLACES_AT_FIRST).min(bounds.ceiling)),
            baseline: Duration::ZERO,
            probing: true,
            begins: now,
            probe_at: now,
            probe_gap: PROBE_GAP_MIN,
        }
    }

    /// Requests that may be in flight now.
    #[must_use]
    pub fn allowed(&self, bounds: Bounds) -> u32 {
        let first = self.baseline == Duration::ZERO;
        let part = if self.probing && !first { self.limit / PROBE_PART } else { self.limit };
        (part as u32).clamp(bounds.floor, bounds.ceiling)
    }

    /// Whether a window with so many answers is long enough.
    #[must_use]
    pub fn is_over(&self, now: Instant, answers: u32) -> bool {
        if self.probing {
            return answers >= PROBE_SAMPLES;
        }
        answers >= WINDOW_SAMPLES && now.since(self.begins) >= WINDOW_MIN
    }

    /// Where it stands after a window.
    #[must_use]
    pub fn after(self, now: Instant, window: Window, bounds: Bounds) -> Self {
        if self.probing { self.probed(now, window) } else { self.steered(now, window, bounds) }
    }

    fn probed(self, now: Instant, window: Window) -> Self {
        Self {
            baseline: self.blended(window.latency, PROBE_BLEND),
            probing: false,
            begins: now,
            probe_at: now + self.probe_gap,
            probe_gap: (self.probe_gap * 2).min(PROBE_GAP_MAX),
            ..self
        }
    }

    fn steered(self, now: Instant, window: Window, bounds: Bounds) -> Self {
        let is_light = !window.was_full && f64::from(window.in_flight) * PROBE_PART <= self.limit;
        let baseline = if is_light {
            self.blended(window.latency, PROBE_BLEND)
        } else if window.latency < self.baseline {
            self.blended(window.latency, FASTER_BLEND)
        } else {
            self.baseline
        };
        let next = Self { limit: self.moved(window, bounds), baseline, begins: now, ..self };
        if window.was_full && now >= self.probe_at {
            // What is queued in the servers has left them after about one more latency.
            return Self { probing: true, begins: now + window.latency, ..next };
        }
        next
    }

    fn moved(&self, window: Window, bounds: Bounds) -> f64 {
        let quotient = self.baseline.as_secs_f64() / window.latency.as_secs_f64().max(1e-9);
        let gradient = (TOLERANCE * quotient).clamp(GRADIENT_MIN, TOLERANCE);
        let target = gradient * self.limit + libm::sqrt(self.limit);
        let limit = if target < self.limit {
            self.limit + (target - self.limit) * FALL_BLEND
        } else if window.was_full {
            target
        } else {
            self.limit
        };
        limit.clamp(f64::from(bounds.floor), f64::from(bounds.ceiling))
    }

    /// The baseline moved towards a measurement. The first one is the baseline, and so is one that
    /// is so far off that it must be another workload.
    fn blended(&self, latency: Duration, part: f64) -> Duration {
        let (old, new) = (self.baseline.as_secs_f64(), latency.as_secs_f64());
        if old == 0.0 || !(1.0 / OTHER_WORKLOAD..=OTHER_WORKLOAD).contains(&(new / old)) {
            return latency;
        }
        Duration::from_nanos(((old + (new - old) * part) * 1e9) as u64)
    }
}

/// The search of one group as all workers share it. Whoever brings the answer that completes a
/// window moves the search on; nobody waits for that.
#[derive(Debug, Default)]
pub struct AutoLimit {
    floor: AtomicU32,
    ceiling: AtomicU32,
    /// What [`Gradient::allowed`] said last; zero before the first plan.
    allowed: AtomicU32,
    was_full: AtomicBool,
    /// Of the window: answers, and the sum of their latencies in nanoseconds.
    answers: AtomicU32,
    nanos: AtomicU64,
    /// The [`Gradient`], field by field; written by who holds `moving`.
    moving: AtomicBool,
    limit: AtomicU64,
    baseline: AtomicU64,
    probing: AtomicBool,
    begins: AtomicU64,
    probe_at: AtomicU64,
    probe_gap: AtomicU64,
}

impl AutoLimit {
    /// Requests that may be in flight now, all servers healthy.
    #[must_use]
    pub fn allowed(&self) -> u32 {
        self.allowed.load(Relaxed)
    }

    /// The latency without load that was measured last; zero before the first measurement.
    #[must_use]
    pub fn baseline(&self) -> Duration {
        Duration::from_nanos(self.baseline.load(Relaxed))
    }

    /// Takes the bounds of a plan in; starts the search at the first one.
    pub(crate) fn bound(&self, now: Instant, bounds: Bounds) {
        self.floor.store(bounds.floor, Relaxed);
        self.ceiling.store(bounds.ceiling, Relaxed);
        if self.allowed() == 0 {
            self.store(&Gradient::new(now, bounds), bounds);
        }
    }

    /// Notes that a request was turned away by the limit.
    pub(crate) fn note_full(&self) {
        if !self.was_full.load(Relaxed) {
            self.was_full.store(true, Relaxed);
        }
    }

    /// Takes the latency of a request in that was sent at `since` and answered well.
    pub(crate) fn record(&self, now: Instant, since: Instant, in_flight: u32) {
        if since.as_nanos() < self.begins.load(Relaxed) {
            return;
        }
        self.nanos.fetch_add(now.since(since).as_nanos(), Relaxed);
        let answers = self.answers.fetch_add(1, Relaxed) + 1;
        if answers >= PROBE_SAMPLES && self.load().is_over(now, answers) {
            self.move_on(now, in_flight);
        }
    }

    #[cold]
    fn move_on(&self, now: Instant, in_flight: u32) {
        if self.moving.swap(true, core::sync::atomic::Ordering::Acquire) {
            return;
        }
        let answers = self.answers.swap(0, Relaxed);
        let nanos = self.nanos.swap(0, Relaxed);
        let was_full = self.was_full.swap(false, Relaxed);
        if let Some(mean) = nanos.checked_div(u64::from(answers)) {
            let window = Window { latency: Duration::from_nanos(mean), was_full, in_flight };
            let bounds = self.bounds();
            self.store(&self.load().after(now, window, bounds), bounds);
        }
        self.moving.store(false, core::sync::atomic::Ordering::Release);
    }

    fn bounds(&self) -> Bounds {
        Bounds { floor: self.floor.load(Relaxed), ceiling: self.ceiling.load(Relaxed) }
    }

    fn load(&self) -> Gradient {
        Gradient {
            limit: f64::from_bits(self.limit.load(Relaxed)),
            baseline: self.baseline(),
            probing: self.probing.load(Relaxed),
            begins: Instant::from_nanos(self.begins.load(Relaxed)),
            probe_at: Instant::from_nanos(self.probe_at.load(Relaxed)),
            probe_gap: Duration::from_nanos(self.probe_gap.load(Relaxed)),
        }
    }

    fn store(&self, gradient: &Gradient, bounds: Bounds) {
        self.limit.store(gradient.limit.to_bits(), Relaxed);
        self.baseline.store(gradient.baseline.as_nanos(), Relaxed);
        self.probing.store(gradient.probing, Relaxed);
        self.begins.store(gradient.begins.as_nanos(), Relaxed);
        self.probe_at.store(gradient.probe_at.as_nanos(), Relaxed);
        self.probe_gap.store(gradient.probe_gap.as_nanos(), Relaxed);
        self.allowed.store(gradient.allowed(bounds), Relaxed);
    }
}

/// How much slower than without load is still no sign of a queue; Envoy's default buffer.
const TOLERANCE: f64 = 1.25;

/// No single window more than halves the limit.
const GRADIENT_MIN: f64 = 0.5;

/// A fall goes half of the way, so that one slow window among many costs little.
const FALL_BLEND: f64 = 0.5;

/// The part of the limit that a probe lets in: with four cores or more all of it is below the
/// number of cores, with fewer the floor is near.
const PROBE_PART: f64 = 3.0;

/// The weight of a new probe: workloads change, and sixteen answers are few.
const PROBE_BLEND: f64 = 0.5;

/// No mean of sixteen answers is off by that factor for long.
const OTHER_WORKLOAD: f64 = 2.0;

/// The weight of a window under load that was faster than the baseline.
const FASTER_BLEND: f64 = 0.25;

/// Answers of a probe: the mean of exponential times is then within a quarter of the truth.
const PROBE_SAMPLES: u32 = 16;

/// Answers of a window.
const WINDOW_SAMPLES: u32 = 20;

/// The shortest window: the jitter of a scheduler is short against it.
const WINDOW_MIN: Duration = Duration::from_millis(50);

/// The limit before anything is known, for each server.
const PLACES_AT_FIRST: u32 = 2;

/// The first probe after the start comes soon, since a full start may have spoilt the first one.
const PROBE_GAP_MIN: Duration = Duration::from_secs(1);
const PROBE_GAP_MAX: Duration = Duration::from_secs(10);

/// The ceiling where the file gives none.
pub(crate) const CEILING: u32 = 10_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { floor: 2, ceiling: 1_000 };
    const MS: Duration = Duration::from_millis(1);

    /// A search that has probed a service time of 20 ms.
    fn probed() -> Gradient {
        let first = Gradient::new(Instant::ZERO, BOUNDS);
        let window = Window { latency: MS * 20, was_full: false, in_flight: 1 };
        first.after(Instant::ZERO + MS * 100, window, BOUNDS)
    }

    /// Windows of 100 ms against servers with so many cores of 20 ms that are offered all they
    /// are allowed; the limit after each.
    fn steered(cores: f64, windows: u64) -> (Gradient, alloc::vec::Vec<u32>) {
        let mut search = probed();
        let mut limits = alloc::vec::Vec::new();
        for window in 1..=windows {
            let in_flight = search.allowed(BOUNDS);
            let latency = (f64::from(in_flight) / cores).max(1.0) * 20e6;
            let latency = Duration::from_nanos(latency as u64);
            let seen = Window { latency, was_full: true, in_flight };
            search = search.after(Instant::ZERO + MS * (100 + window * 100), seen, BOUNDS);
            limits.push((search.limit + 0.5) as u32);
        }
        (search, limits)
    }

    #[test]
    fn it_comes_to_rest_a_little_above_the_cores_within_half_a_second() {
        let (_, limits) = steered(8.0, 1_200);
        assert!((11..=14).contains(&limits[5]), "{:?}", &limits[..10]);
        assert!(limits[10..].iter().all(|limit| (12..=15).contains(limit)), "{limits:?}");
    }

    #[test]
    fn few_cores_do_not_let_it_drift_up() {
        for cores in [1.0, 2.0, 3.0, 100.0] {
            let (search, limits) = steered(cores, 5_000);
            let most = TOLERANCE * cores + 3.0 * libm::sqrt(cores) + 6.0;
            let last = limits[limits.len() - 1];
            assert!(f64::from(last) <= most, "{cores} cores: {last}");
            assert!(search.baseline <= MS * 60, "{cores} cores: {:?}", search.baseline);
        }
    }

    #[test]
    fn a_baseline_that_was_measured_too_high_is_corrected_by_the_next_probe() {
        let spoilt = Gradient { baseline: MS * 200, ..probed() };
        let mut search = spoilt;
        for window in 1..200u64 {
            let in_flight = search.allowed(BOUNDS);
            let latency = MS * 20 * u64::from(in_flight).max(8) / 8;
            let seen = Window { latency, was_full: true, in_flight };
            search = search.after(Instant::ZERO + MS * (100 + window * 100), seen, BOUNDS);
        }
        assert!(search.baseline < MS * 30, "{search:?}");
        assert!(search.limit < 20.0, "{search:?}");
    }

    #[test]
    fn it_does_not_grow_while_nobody_is_turned_away() {
        let quiet = Window { latency: MS * 20, was_full: false, in_flight: 3 };
        let after = (1..100).fold(probed(), |search, window| {
            search.after(Instant::ZERO + MS * (100 + window * 100), quiet, BOUNDS)
        });
        assert_eq!(after.allowed(BOUNDS), probed().allowed(BOUNDS));
        assert!(!after.probing, "nobody needs a probe");
    }

    #[test]
    fn answers_to_requests_of_an_earlier_window_do_not_count() {
        let auto = AutoLimit::default();
        let now = Instant::ZERO + MS * 1_000;
        auto.bound(now, BOUNDS);
        for _ in 0..100 {
            auto.record(now + MS, Instant::ZERO, 1);
        }
        assert_eq!(auto.baseline(), Duration::ZERO);
        for _ in 0..PROBE_SAMPLES {
            auto.record(now + MS * 7, now + MS * 2, 1);
        }
        assert_eq!(auto.baseline(), MS * 5);
    }

    proptest! {
        #[test]
        fn whatever_is_measured_the_limit_stays_within_its_bounds(
            windows in prop::collection::vec(
                (0u64..10_000_000_000, any::<bool>(), 0u32..5_000),
                1..200,
            ),
            floor in 1u32..50,
            span in 0u32..2_000,
        ) {
            let bounds = Bounds { floor, ceiling: floor + span };
            let mut search = Gradient::new(Instant::ZERO, bounds);
            let mut now = Instant::ZERO;
            for (nanos, was_full, in_flight) in windows {
                now = now + MS * 60;
                let latency = Duration::from_nanos(nanos);
                search = search.after(now, Window { latency, was_full, in_flight }, bounds);
                let allowed = search.allowed(bounds);
                prop_assert!((bounds.floor..=bounds.ceiling).contains(&allowed));
            }
        }
    }
}
