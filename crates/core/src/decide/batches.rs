//! Measures how many requests arrive together, and the burst that such batches need.
//!
//! A request belongs to the batch of the one before it when it comes within an eighth of the time
//! in which its budget earns a request. Where arrivals vary `I` times as much as single random
//! ones, and come `u > 1` times as fast as a budget earns, a burst of `N` leaves unused
//!
//! `(u - 1) / (exp(2 N (u - 1) / (u I)) - 1)`
//!
//! of it (a random walk between two bounds): 2 % at `u` 1.1 takes a burst of about `10 I`. Batches
//! of `m` requests on average, of geometric sizes, have `I = 2 m - 1`.
//!
//! Only a batch that is over counts, so that none makes room for itself. One without an end is a
//! load above the budget and no batch.

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
    /// In parts of [`ONE`].
    mean_less_one: u64,
}

impl Sizes {
    /// The batch in the upper half, the mean in the lower.
    fn pack(self) -> u64 {
        self.batch << 32 | self.mean_less_one
    }

    fn unpack(packed: u64) -> Self {
        Self { batch: packed >> 32, mean_less_one: packed & u64::from(u32::MAX) }
    }
}

impl Batches {
    /// Counts a request, for a budget that earns one in `interval`.
    pub(crate) fn count(&self, now: Instant, interval: Duration) {
        let last = Instant::from_nanos(self.last.load(Relaxed));
        self.last.store(now.as_nanos(), Relaxed);
        let Sizes { batch, mean_less_one } = Sizes::unpack(self.sizes.load(Relaxed));
        let sizes = if now.since(last) < interval / TOGETHER {
            Sizes { batch: (batch + 1).min(SIZE_MAX), mean_less_one }
        } else {
            let sample = batch.saturating_sub(1) * ONE;
            let mean_less_one = mean_less_one - mean_less_one / MEMORY + sample / MEMORY;
            Sizes { batch: 1, mean_less_one }
        };
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

/// Requests come together within this part of an interval: what is four times a budget, and even,
/// still comes singly.
const TOGETHER: u64 = 8;

/// Batches that are remembered.
const MEMORY: u64 = 32;

/// Sizes beyond this count as this, so that one huge batch does not stand for all.
const SIZE_MAX: u64 = 32;

/// Single requests that come at random look like batches of up to 1.25.
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
        assert_eq!(burst(100_000, 1, Duration::from_millis(10)), 0);
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
