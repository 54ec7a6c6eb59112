//! How many requests come together: the mean size of batches, and the burst that they need.
//!
//! A request belongs to the batch of the one before it when it comes within an eighth of the time
//! in which its budget earns a request, and of the mean time between requests where that is less:
//! under any load single random ones look like batches of 1.13. Where arrivals vary `I` times as
//! much as those, and come `u > 1` times as fast as a budget earns, a burst of `N` leaves unused
//!
//! `(u - 1) / (exp(2 N (u - 1) / (u I)) - 1)`
//!
//! of it (a random walk between two bounds): 2 % at `u` 1.1 takes a burst of about `10 I`. Batches
//! of `m` requests on average, of geometric sizes, have `I = 2 m - 1`.
//!
//! Only a batch that is over counts, so that none makes room for itself. What comes within an
//! eighth of the budget's time, but not of the mean, is a load above the budget and no batch: it
//! counts as single requests.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::atomic::AtomicU64,
    time::{Duration, Instant},
};

/// The mean size of the last batches. Updates may lose one against another; an average does not
/// mind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    /// When the last request came, in nanoseconds.
    last: AtomicU64,
    /// [`Sizes`], packed.
    sizes: AtomicU64,
}

/// What is known of sizes.
#[derive(Clone, Copy)]
struct Sizes {
    /// Of the batch under way.
    batch: u64,
    /// The mean time between requests, in parts of [`INTERVAL`] and no longer than that.
    gap: u64,
    /// In parts of [`ONE`].
    mean_less_one: u64,
}

impl Sizes {
    /// From the top: 8 bits of the batch, 32 of the gap, 24 of the mean.
    fn pack(self) -> u64 {
        self.batch << 56 | self.gap << 24 | self.mean_less_one
    }

    fn unpack(packed: u64) -> Self {
        Self {
            batch: packed >> 56,
            gap: packed >> 24 & u64::from(u32::MAX),
            mean_less_one: packed & ((1 << 24) - 1),
        }
    }

    /// With a request that comes so long after the one before it.
    fn with(self, gap: u64) -> Self {
        let Self { batch, gap: usual, mean_less_one } = self;
        let next = (usual - usual / MEMORY + gap / MEMORY).min(INTERVAL);
        if gap * TOGETHER <= usual {
            return Self { batch: (batch + 1).min(SIZE_MAX), gap: next, mean_less_one };
        }
        let is_over = gap * TOGETHER >= INTERVAL;
        let sample = if is_over { batch.saturating_sub(1) * ONE } else { 0 };
        let mean_less_one = mean_less_one - mean_less_one / MEMORY + sample / MEMORY;
        Self { batch: 1, gap: next, mean_less_one }
    }
}

impl Batches {
    /// Counts a request, for a budget that earns one in `interval`.
    pub(crate) fn count(&self, now: Instant, interval: Duration) {
        let last = Instant::from_nanos(self.last.load(Relaxed));
        self.last.store(now.as_nanos(), Relaxed);
        let intervals = now.since(last).as_nanos() as f64 / interval.as_nanos() as f64;
        let gap = (intervals.min(GAP_MAX) * INTERVAL as f64) as u64;
        let sizes = Sizes::unpack(self.sizes.load(Relaxed)).with(gap);
        self.sizes.store(sizes.pack(), Relaxed);
    }

    /// The time in which a budget earns what batches need beyond the burst of single requests.
    pub(crate) fn time(&self, interval: Duration) -> Duration {
        let Sizes { mean_less_one, .. } = Sizes::unpack(self.sizes.load(Relaxed));
        let requests = u128::from(mean_less_one.saturating_sub(BY_CHANCE) * BURST_PER_REQUEST);
        let nanos = u128::from(interval.as_nanos()) * requests / u128::from(ONE);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

const ONE: u64 = 1 << 16;

/// The time in which a budget earns a request.
const INTERVAL: u64 = 1 << 31;

/// Requests come together within this part of an interval, or of their mean distance.
const TOGETHER: u64 = 8;

/// Batches that are remembered, and requests of whose distances the mean is taken.
const MEMORY: u64 = 32;

/// Longer pauses count as this, in intervals: one is enough to forget any load.
const GAP_MAX: f64 = MEMORY as f64;

/// Sizes beyond this count as this, so that one huge batch does not stand for all.
const SIZE_MAX: u64 = 32;

/// Single requests that come at random look like batches of 1.13, and of up to 1.25 by chance.
const BY_CHANCE: u64 = ONE / 4;

/// A little more than the 20 of the formula, since the mean is only an estimate.
const BURST_PER_REQUEST: u64 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The burst, in requests, after `count` batches of `size` at these distances.
    fn burst(count: u64, size: u64, distance: Duration) -> u64 {
        let batches = Batches::default();
        for batch in 1..=count {
            let now = Instant::ZERO + distance * batch;
            (0..size).for_each(|_| batches.count(now, SECOND));
        }
        batches.time(SECOND).as_nanos() / SECOND.as_nanos()
    }

    #[test]
    fn batches_need_a_burst_and_single_requests_none() {
        assert_eq!(burst(1_000, 1, SECOND), 0);
        assert_eq!(burst(1_000, 1, Duration::from_millis(126)), 0, "eight times the budget");
        assert!((85..=90).contains(&burst(1_000, 5, SECOND)), "{}", burst(1_000, 5, SECOND));
    }

    #[test]
    fn one_batch_makes_no_room_for_itself_and_little_for_the_next() {
        assert_eq!(burst(1, 1_000, SECOND), 0);
        assert!(burst(2, 1_000, SECOND) <= 20, "{}", burst(2, 1_000, SECOND));
    }

    #[test]
    fn a_load_above_the_budget_is_no_batch() {
        for millis in [10, 33, 66, 125, 250] {
            assert_eq!(burst(100_000, 1, Duration::from_millis(millis)), 0, "every {millis} ms");
        }
        let batches = Batches::default();
        let mut now = Instant::ZERO + SECOND * 3_600;
        batches.count(now, SECOND);
        for _ in 0..1_000 {
            now = now + Duration::from_millis(33);
            batches.count(now, SECOND);
            assert_eq!(batches.time(SECOND), Duration::ZERO, "after an hour of none");
        }
    }

    #[test]
    fn batches_of_many_are_seen_at_a_low_rate() {
        for (size, least) in [(8, 150), (20, 400), (50, 650)] {
            let apart = Duration::from_secs(10 * size);
            assert!(burst(1_000, size, apart) >= least, "{size}: {}", burst(1_000, size, apart));
        }
    }

    #[test]
    fn batches_are_forgotten() {
        let batches = Batches::default();
        let mut now = Instant::ZERO;
        for size in [5; 100].into_iter().chain([1; 200]) {
            now = now + SECOND;
            (0..size).for_each(|_| batches.count(now, SECOND));
        }
        assert_eq!(batches.time(SECOND), Duration::ZERO);
    }
}
