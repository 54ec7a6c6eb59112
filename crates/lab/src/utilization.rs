//! How busy the cores are, as a server reports it: a mean that forgets.
//!
//! Between two samples the cores were busy for a known time, so the share between them is exact
//! however rarely samples are taken; older shares count for less by `e` every [`MEMORY`]:
//!
//! ```text
//! mean += (1 - exp(-dt / MEMORY)) * (busy time in dt / (dt * cores) - mean)
//! ```

use std::num::NonZeroU32;

use loadline_core::time::{Duration, Instant};

/// The recent share of core time spent working.
#[derive(Debug)]
pub(crate) struct Utilization {
    cores: NonZeroU32,
    at: Instant,
    busy: Duration,
    mean: f64,
}

impl Utilization {
    /// Idle until `now`.
    pub(crate) fn new(cores: NonZeroU32, now: Instant) -> Self {
        Self { cores, at: now, busy: Duration::ZERO, mean: 0.0 }
    }

    /// The share `now`, 0.0 to 1.0, where the cores have been busy for `busy` since the beginning.
    pub(crate) fn sample(&mut self, now: Instant, busy: Duration) -> f64 {
        let elapsed = now.since(self.at);
        if elapsed == Duration::ZERO {
            return self.mean;
        }
        let possible = elapsed.as_secs_f64() * f64::from(self.cores.get());
        let share = (busy.saturating_sub(self.busy).as_secs_f64() / possible).min(1.0);
        let weight = 1.0 - (-elapsed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.mean += weight * (share - self.mean);
        self.at = now;
        self.busy = busy;
        self.mean
    }
}

/// Long enough to be steady at a few requests a second, short enough to follow a step of load
/// within the time a balancer takes to act on it.
const MEMORY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn half_busy_cores_come_to_a_half_and_idle_ones_back_to_nothing() {
        let mut utilization = Utilization::new(NonZeroU32::new(4).unwrap(), at(0));
        let mut busy = Duration::ZERO;
        for second in 1..=10 {
            busy = busy + Duration::from_secs(2);
            utilization.sample(at(second * 1_000), busy);
        }
        let half = utilization.sample(at(10_000), busy);
        assert!((half - 0.5).abs() < 0.001, "{half}");
        let idle = utilization.sample(at(20_000), busy);
        assert!(idle < 0.001, "{idle}");
    }

    #[test]
    fn how_often_samples_are_taken_does_not_matter() {
        let sampled_every = |step: u64| {
            let mut utilization = Utilization::new(NonZeroU32::MIN, at(0));
            let samples = (1..=2_000 / step).map(|i| i * step);
            samples.map(|t| utilization.sample(at(t), Duration::from_millis(t))).last().unwrap()
        };
        assert!((sampled_every(1) - sampled_every(500)).abs() < 1e-9);
        assert!(sampled_every(1) > 0.8);
    }
}
