//! A histogram of request durations: one worker writes it, any thread reads it.
//!
//! The bins are fixed, so that every worker, service and process has the same and they can be
//! added up: six to a decade, from a tenth of a millisecond, which is less than any exchange over
//! a network takes, to 30 seconds, after which nobody waits. A quantile read from them is within
//! half of its value.

use loadline_core::state::Histogram;

use crate::telemetry::tally::Count;

/// Bins of one worker and one service.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    sum_nanos: Count,
    bins: [Count; BINS],
}

/// Sums of bins over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The sum of all times, in nanoseconds.
    pub sum_nanos: u64,
    /// How many took at most as long as the bound of the bin, and longer than that of the last.
    bins: [u64; BINS],
}

impl Latency {
    /// Counts a request that took so many nanoseconds. Only the owning worker may.
    pub(crate) fn add(&self, nanos: u64) {
        self.sum_nanos.add(nanos);
        self.bins[bin(nanos)].add(1);
    }

    pub(crate) fn add_to(&self, sums: &mut Latencies) {
        sums.sum_nanos += self.sum_nanos.get();
        for (sum, count) in sums.bins.iter_mut().zip(&self.bins) {
            *sum += count.get();
        }
    }
}

impl Latencies {
    /// The same with its bounds.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        Histogram {
            bounds_s: BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6).collect(),
            counts: self.bins.to_vec(),
            sum_s: self.sum_nanos as f64 / 1e9,
        }
    }
}

/// The bin of a time: five comparisons.
fn bin(nanos: u64) -> usize {
    BOUNDS_MICROS.partition_point(|micros| micros * 1_000 < nanos)
}

/// The longest time of each bin but the last, in microseconds.
const BOUNDS_MICROS: [u64; 31] = [
    100, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 20_000,
    30_000, 50_000, 70_000, 100_000, 150_000, 200_000, 300_000, 500_000, 700_000, 1_000_000,
    1_500_000, 2_000_000, 3_000_000, 5_000_000, 7_000_000, 10_000_000, 30_000_000,
];

const BINS: usize = BOUNDS_MICROS.len() + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bin_and_what_is_longer_to_the_next() {
        let latency = Latency::default();
        [100_000, 100_001, 40_000_000_000].into_iter().for_each(|nanos| latency.add(nanos));
        let mut sums = Latencies::default();
        latency.add_to(&mut sums);
        let histogram = sums.histogram();
        assert_eq!((histogram.counts[0], histogram.counts[1]), (1, 1));
        assert_eq!(histogram.counts.last(), Some(&1));
        assert_eq!(histogram.counts.len(), histogram.bounds_s.len() + 1);
        assert!((histogram.sum_s - 40.0002).abs() < 1e-3);
    }

    #[test]
    fn bounds_ascend() {
        assert!(BOUNDS_MICROS.is_sorted_by(|a, b| a < b));
    }
}
