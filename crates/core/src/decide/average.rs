//! Decaying averages: of latency, of its peaks, of the rate of arrivals.
//!
//! Updates are relaxed and may lose one against another under contention; an average does not
//! mind, and a lock would cost more than it is worth.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::atomic::AtomicU64,
    time::{Duration, Instant},
};

/// An exponentially weighted moving average over samples: `a = a + (x - a) / 8`.
#[derive(Clone, Debug, Default)]
pub struct LatencyAverage {
    nanos: AtomicU64,
}

impl LatencyAverage {
    /// Takes a sample in; the first one is the average.
    pub fn record(&self, sample: Duration) {
        let (old, new) = (self.nanos.load(Relaxed), sample.as_nanos().max(1));
        let next = match old {
            0 => new,
            _ => old - old / SAMPLES + new / SAMPLES,
        };
        self.nanos.store(next, Relaxed);
    }

    /// The average; zero before the first sample.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Relaxed))
    }
}

/// A latency that follows peaks at once and forgets them soon.
///
/// It is the lesser of the last two samples where that is above the value: one slow response
/// happens to every server, two in a row say something. A peak of `x` is forgotten after `10 x`.
#[derive(Clone, Debug, Default)]
pub struct PeakLatency {
    nanos: AtomicU64,
    at: AtomicU64,
    last: AtomicU64,
}

impl PeakLatency {
    /// Takes a sample in.
    pub fn record(&self, now: Instant, sample: Duration) {
        let left = self.at(now).as_nanos();
        let sample = sample.as_nanos().max(1);
        let of_two = match self.last.swap(sample, Relaxed) {
            0 => sample,
            last => sample.min(last),
        };
        self.nanos.store(left.max(of_two), Relaxed);
        self.at.store(now.as_nanos(), Relaxed);
    }

    /// What is left of the peak at `now`; zero before the first sample, never afterwards.
    #[must_use]
    pub fn at(&self, now: Instant) -> Duration {
        let at = Instant::from_nanos(self.at.load(Relaxed));
        Duration::from_nanos(self.nanos.load(Relaxed)).forgiven(now.since(at) / PEAK_MEMORY)
    }
}

impl Duration {
    /// What is left of a latency of which so much is forgiven; zero only where nothing is known.
    pub(crate) fn forgiven(self, part: Self) -> Self {
        self.saturating_sub(part).max(self.min(Self::from_nanos(1)))
    }
}

/// The rate of arrivals, exponentially forgotten: each arrival does
/// `r = r * exp(-dt / tau) + 1 / tau`, with `tau` 500 ms.
#[derive(Clone, Debug, Default)]
pub struct ArrivalRate {
    /// Arrivals per second, as the bits of an `f64`.
    per_sec: AtomicU64,
    at: AtomicU64,
}

impl ArrivalRate {
    /// Counts an arrival and gives the rate that includes it, per second.
    pub fn arrive(&self, now: Instant) -> f64 {
        let before = self.at.swap(now.as_nanos(), Relaxed);
        let idle = now.since(Instant::from_nanos(before)).as_secs_f64();
        let old = f64::from_bits(self.per_sec.load(Relaxed));
        let next = old * libm::exp(-idle / ARRIVAL_MEMORY) + 1.0 / ARRIVAL_MEMORY;
        self.per_sec.store(next.to_bits(), Relaxed);
        next
    }

    /// The rate as it was at the last arrival, per second.
    #[must_use]
    pub fn per_sec(&self) -> f64 {
        f64::from_bits(self.per_sec.load(Relaxed))
    }
}

/// Weight of the past in samples: eight follow a change within a dozen requests and still smooth
/// the spread of service times.
const SAMPLES: u64 = 8;

/// A pause of half a second is remembered for five, a hiccup of five milliseconds for fifty.
/// Equal servers have such hiccups too: the longer they are remembered, the less equal are shares.
const PEAK_MEMORY: u64 = 10;

/// Seconds. In a simulation of two regions (six slots of 38 ms near, 30 ms to the far ones) 0.5 s
/// keeps the share sent far at half load under 0.2 % and the mean at 1.27 times the near capacity
/// under 51 ms; 0.25 s doubles the first, 2 s adds 5 ms to the second.
const ARRIVAL_MEMORY: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn an_average_starts_at_the_first_sample_and_follows_a_change() {
        let average = LatencyAverage::default();
        average.record(MS(40));
        assert_eq!(average.get(), MS(40));
        (0..40).for_each(|_| average.record(MS(80)));
        assert!(average.get() > MS(79) && average.get() <= MS(80), "{}", average.get());
    }

    #[test]
    fn a_peak_is_taken_for_one_when_two_answers_say_so_and_forgotten_in_ten_times_its_length() {
        let peak = PeakLatency::default();
        let at = |ms| Instant::ZERO + MS(ms);
        peak.record(at(1), MS(10));
        peak.record(at(2), MS(500));
        assert!(peak.at(at(2)) <= MS(10), "one slow answer is no peak");
        peak.record(at(3), MS(400));
        assert_eq!(peak.at(at(3)), MS(400));
        peak.record(at(1_003), MS(10));
        assert_eq!(peak.at(at(1_003)), MS(300));
        peak.record(at(4_003), MS(10));
        assert_eq!(peak.at(at(4_003)), MS(10));
    }

    #[test]
    fn a_peak_that_is_never_followed_by_a_sample_is_forgiven_but_not_unknown() {
        let peak = PeakLatency::default();
        assert_eq!(peak.at(Instant::ZERO), Duration::ZERO);
        peak.record(Instant::ZERO, Duration::from_secs(5));
        assert!(peak.at(Instant::ZERO + Duration::from_secs(45)) < MS(600));
        assert!(peak.at(Instant::from_nanos(u64::MAX)) > Duration::ZERO);
    }

    #[test]
    fn the_rate_of_even_arrivals_is_found_within_two_seconds_and_forgotten_when_idle() {
        let rate = ArrivalRate::default();
        let mut now = Instant::ZERO;
        for _ in 0..400 {
            now = now + MS(5);
            rate.arrive(now);
        }
        assert!((rate.per_sec() - 200.0).abs() < 10.0, "{}", rate.per_sec());
        assert!(rate.arrive(now + Duration::from_secs(10)) < 3.0);
    }
}
