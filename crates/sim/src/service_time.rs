//! How long a server works on a request.

use std::sync::Arc;

use libm::{exp, expm1, log, pow, sqrt};
use loadline_core::time::Duration;

use crate::random::Random;

/// The distribution of the time that a request needs on a core that does nothing else.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceTime {
    /// The same for each request.
    Constant(Duration),
    /// Exponential.
    Exponential {
        /// Mean service time.
        mean: Duration,
    },
    /// Lognormal.
    Lognormal {
        /// Mean service time.
        mean: Duration,
        /// Its standard deviation over its mean, above 0.
        variation: f64,
    },
    /// Pareto (type I), cut at a thousand times its mean, or later where the shape is below 1.5: at
    /// 1,560 times with 1.1.
    Pareto {
        /// Mean service time.
        mean: Duration,
        /// Its shape, above 1: the smaller, the longer the tail.
        shape: f64,
    },
    /// Short requests and long ones, each exponential.
    TwoKinds {
        /// The mean of the short ones.
        short: Duration,
        /// The mean of the long ones.
        long: Duration,
        /// Which share of them is long, 0 to 1.
        long_share: f64,
    },
    /// As measured: each of these equally likely; at least one.
    Empirical(Arc<[Duration]>),
}

impl ServiceTime {
    /// The time of one request. The same random numbers give the same place in every distribution
    /// as far as it has one: a request that is long here is long there.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> Duration {
        match self {
            Self::Constant(time) => *time,
            Self::Exponential { mean } => mean.scale(random.exponential()),
            Self::Lognormal { mean, variation } => {
                let variance = log(1.0 + variation * variation);
                mean.scale(exp(sqrt(variance) * random.normal() - variance / 2.0))
            }
            Self::Pareto { mean, shape } => {
                let least = (shape - 1.0) / shape;
                let drawn = (least / pow(random.uniform(), 1.0 / shape)).min(LONGEST);
                mean.scale(drawn / cut_mean(*shape))
            }
            Self::TwoKinds { short, long, long_share } => {
                let is_long = random.uniform() < *long_share;
                let mean = if is_long { long } else { short };
                mean.scale(random.exponential())
            }
            Self::Empirical(times) => {
                let at = (u128::from(random.draw()) * times.len() as u128) >> 64;
                times[at as usize]
            }
        }
    }

    /// Its mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Self::Constant(mean)
            | Self::Exponential { mean }
            | Self::Lognormal { mean, .. }
            | Self::Pareto { mean, .. } => *mean,
            Self::TwoKinds { short, long, long_share } => {
                short.scale(1.0 - long_share) + long.scale(*long_share)
            }
            Self::Empirical(times) => {
                let sum: u128 = times.iter().map(|time| u128::from(time.as_nanos())).sum();
                Duration::from_nanos((sum / times.len().max(1) as u128) as u64)
            }
        }
    }
}

/// What is left of the mean of a Pareto distribution of mean 1 where longer times than [`LONGEST`]
/// are cut to that: `1 - (least / LONGEST)^(shape - 1) / shape`, in a form that does not cancel
/// where the shape is near 1.
fn cut_mean(shape: f64) -> f64 {
    let least = (shape - 1.0) / shape;
    (shape - 1.0 - expm1((shape - 1.0) * log(least / LONGEST))) / shape
}

/// The longest draw of a Pareto distribution of mean 1 before it is given its mean.
const LONGEST: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_has_the_mean_it_was_given() {
        let mean = Duration::from_millis(20);
        let measured = [10, 20, 30].map(Duration::from_millis);
        let distributions = [
            ServiceTime::Constant(mean),
            ServiceTime::Exponential { mean },
            ServiceTime::Lognormal { mean, variation: 1.5 },
            ServiceTime::Pareto { mean, shape: 2.5 },
            ServiceTime::TwoKinds {
                short: Duration::from_millis(10),
                long: Duration::from_millis(110),
                long_share: 0.1,
            },
            ServiceTime::Empirical(measured.into()),
        ];
        for distribution in distributions {
            let mut random = Random::stream(7, 0);
            let draws = 400_000;
            let sum: f64 = (0..draws).map(|_| distribution.draw(&mut random).as_secs_f64()).sum();
            let ratio = sum / draws as f64 / distribution.mean().as_secs_f64();
            assert!((ratio - 1.0).abs() < 0.01, "{distribution:?}: {ratio} of its mean");
        }
    }

    /// By the quantiles at even distances, for draws of such a tail say little.
    #[test]
    fn a_pareto_distribution_of_a_small_shape_has_its_mean_though_its_longest_times_are_cut() {
        for shape in [1.05, 1.1, 1.2, 1.5, 2.0] {
            let least = (shape - 1.0) / shape;
            let points = 20_000_000;
            let at = |n: u32| pow((f64::from(n) + 0.5) / f64::from(points), -1.0 / shape);
            let sum: f64 = (0..points).map(|n| (least * at(n)).min(LONGEST)).sum();
            let mean = sum / f64::from(points) / cut_mean(shape);
            assert!((mean - 1.0).abs() < 0.001, "shape {shape}: {mean} of its mean");
        }
        let time = ServiceTime::Pareto { mean: Duration::from_millis(20), shape: 1.2 };
        let mut random = Random::stream(7, 0);
        let sum: f64 = (0..4_000_000).map(|_| time.draw(&mut random).as_secs_f64()).sum();
        let mean = sum / 4e6 / time.mean().as_secs_f64();
        assert!((mean - 1.0).abs() < 0.04, "{mean} of its mean");
    }
}
