//! Whether the responses of a window took longer than is usual.
//!
//! What is compared is the mean logarithm of latency, since it moves by as much whether all
//! answers become twice as slow or the slow ones do, and one response that took a thousand times as
//! long does not decide it. How far windows are off by themselves is learnt too, so that a service
//! whose requests differ by a hundred times is judged by its own measure (a control chart,
//! Shewhart 1931).

use crate::time::{Duration, Instant};

/// How the latency of a window compares with the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shift {
    /// As usual.
    None,
    /// Slower than nineteen of twenty windows, and by a quarter at least.
    Likely,
    /// Slower than nearly all windows, and by half at least.
    Clear,
}

/// What is usual: mean and variance over windows of the mean base-2 logarithm of latency.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    mean: f64,
    variance: f64,
    windows: f64,
    /// When the first window began, and what its latency was.
    first: Option<(Instant, Duration)>,
}

impl Usual {
    /// Whether too little is known: traffic has just begun, and the first responses are the fastest
    /// of the requests under way.
    pub(super) fn is_young(&self, now: Instant, answered: u64, awaiting: u32) -> bool {
        let Some((begin, latency)) = self.first else { return true };
        let age = now.since(begin);
        age < YOUNG_MIN || age < latency * YOUNG_LATENCIES && answered < 2 * u64::from(awaiting)
    }

    /// Takes in a window of a group of which too little is known.
    pub(super) fn begin(&mut self, begins: Instant, log: f64) {
        if self.first.is_none() {
            let latency = Duration::from_nanos(libm::exp2(log) as u64);
            *self = Self { mean: log, variance: VARIANCE_AT_FIRST, windows: 0.0, first: None };
            self.first = Some((begins, latency));
        }
        self.mean += (log - self.mean) * YOUNG_WEIGHT;
    }

    /// How a window compares.
    pub(super) fn shift(&self, log: f64) -> Shift {
        let (gap, spread) = (log - self.mean, libm::sqrt(self.variance));
        if gap >= (3.0 * spread).max(HALF_AS_MUCH_AGAIN) {
            Shift::Clear
        } else if gap >= (2.0 * spread).max(A_QUARTER_MORE) {
            Shift::Likely
        } else {
            Shift::None
        }
    }

    /// Takes in a window that was as usual. The first few count as much as all before them.
    pub(super) fn learn(&mut self, log: f64, seconds: f64) {
        self.windows += 1.0;
        let weight = super::weight(seconds, MEMORY).min(0.2);
        let gap = log - self.mean;
        let surprise = (gap * gap).min(4.0 * self.variance);
        self.variance += (surprise - self.variance) * weight.max(1.0 / (self.windows + 4.0));
        let early = if self.windows < 4.0 { 1.0 / (self.windows + 1.0) } else { 0.0 };
        self.mean += gap * weight.max(early);
    }

    /// Takes in a slower window, slowly: if it stays so, it becomes the usual latency.
    pub(super) fn concede(&mut self, log: f64, seconds: f64) {
        self.mean += (log - self.mean) * super::weight(seconds, LONG_MEMORY).min(0.05);
    }

    /// Takes what was measured while few were let in as what is usual.
    pub(super) fn replace(&mut self, log: f64) {
        self.mean = log;
    }

    /// The same, where what was usual until now was learnt of a group that was full.
    pub(super) fn begin_again(&mut self, log: f64) {
        *self = Self { mean: log, variance: VARIANCE_AT_FIRST, ..*self };
    }
}

/// A quarter more, as a base-2 logarithm.
const A_QUARTER_MORE: f64 = 0.322;

/// Half as much again.
const HALF_AS_MUCH_AGAIN: f64 = 0.585;

/// A standard deviation of a quarter of an octave until more is known.
const VARIANCE_AT_FIRST: f64 = 0.06;

/// Seconds after which two thirds of what was usual is forgotten.
const MEMORY: f64 = 5.0;

/// The same while it is slower than usual.
const LONG_MEMORY: f64 = 30.0;

/// Too little is known for so long at least.
const YOUNG_MIN: Duration = Duration::from_millis(200);

/// Most latencies during which too little is known.
const YOUNG_LATENCIES: u64 = 10;

/// The weight of a window while too little is known.
const YOUNG_WEIGHT: f64 = 0.3;
