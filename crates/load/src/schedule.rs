//! The planned instants of an open loop: when each request is due, whatever the answers do.
//!
//! - constant: request `i` is due at `i / rate`, computed from `i` so that no error adds up;
//! - Poisson: distances are `-ln(1 - u) / rate` with `u` uniform in `[0, 1)`, each independent of
//!   the others, from a generator whose numbers are the same on every machine for a seed.
//!
//! The plan ends after a number of requests or at a point in time, which is itself not in it.

use loadline_core::{record::Arrivals, time::Duration, units::Rate};
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

use crate::plan::Until;

/// An iterator over the offsets of the planned instants from the start, never decreasing.
#[derive(Clone, Debug)]
pub struct Schedule {
    distances: Distances,
    until: Until,
    issued: u64,
}

#[derive(Clone, Debug)]
enum Distances {
    /// Even ones, at this rate.
    Even(Rate),
    /// Exponential ones, with this mean in nanoseconds; `at` is the instant reached.
    Exponential { mean: f64, at: f64, draws: Box<Xoshiro256PlusPlus> },
}

impl Schedule {
    /// The plan for `rate`, ending at `until`; `seed` matters to Poisson arrivals only. A rate of
    /// zero plans nothing.
    #[must_use]
    pub fn new(rate: Rate, arrivals: Arrivals, seed: u64, until: Until) -> Self {
        let distances = match arrivals {
            Arrivals::Constant | Arrivals::Uniform | Arrivals::Listed => Distances::Even(rate),
            Arrivals::Poisson => Distances::Exponential {
                mean: 1e9 / rate.as_per_sec_f64(),
                at: 0.0,
                draws: Box::new(Xoshiro256PlusPlus::seed_from_u64(seed)),
            },
        };
        let until = if rate == Rate::default() { Until::Requests(0) } else { until };
        Self { distances, until, issued: 0 }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if matches!(self.until, Until::Requests(all) if self.issued >= all) {
            return None;
        }
        let offset = self.distances.next(self.issued)?;
        if matches!(self.until, Until::Elapsed(span) if offset >= span) {
            return None;
        }
        self.issued += 1;
        Some(offset)
    }
}

impl Distances {
    /// The offset of request number `index`; none beyond the range of a duration.
    fn next(&mut self, index: u64) -> Option<Duration> {
        match self {
            Self::Even(rate) => {
                let nanos = u128::from(index) * MILLI_NANOS / u128::from(rate.as_milli_per_sec());
                u64::try_from(nanos).ok().map(Duration::from_nanos)
            }
            Self::Exponential { mean, at, draws } => {
                let uniform: f64 = draws.random();
                *at -= *mean * (-uniform).ln_1p();
                Some(Duration::from_nanos(*at as u64))
            }
        }
    }
}

/// Nanoseconds in a thousand seconds: one request at a thousandth per second.
const MILLI_NANOS: u128 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn constant(rate: Rate, until: Until) -> Schedule {
        Schedule::new(rate, Arrivals::Constant, 0, until)
    }

    #[test]
    fn constant_arrivals_keep_their_distance_without_drift() {
        let thirds: Vec<_> = constant(Rate::per_sec(3), Until::Requests(7)).collect();
        assert_eq!(thirds[0], Duration::ZERO);
        assert_eq!(thirds[1].as_nanos(), 333_333_333);
        assert_eq!(thirds[3], Duration::from_secs(1));
        assert_eq!(thirds[6], Duration::from_secs(2));
    }

    #[test]
    fn a_duration_holds_the_requests_before_its_end() {
        let minute = Until::Elapsed(Duration::from_secs(60));
        assert_eq!(constant(Rate::per_sec(10), minute).count(), 600);
        assert_eq!(constant(Rate::milli_per_sec(1), minute).count(), 1);
    }

    #[test]
    fn a_rate_of_zero_plans_nothing() {
        let second = Until::Elapsed(Duration::from_secs(1));
        assert_eq!(constant(Rate::default(), second).count(), 0);
    }

    #[test]
    fn poisson_distances_have_the_mean_and_the_spread_of_an_exponential() {
        let plan =
            Schedule::new(Rate::per_sec(100), Arrivals::Poisson, 7, Until::Requests(100_000));
        let offsets: Vec<f64> = plan.map(Duration::as_secs_f64).collect();
        let distances: Vec<f64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = distances.len() as f64;
        let mean = distances.iter().sum::<f64>() / count;
        let variance = distances.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / count;
        assert!((mean - 0.01).abs() < 0.0001, "mean {mean}");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "variation {}",
            variance.sqrt() / mean
        );
    }

    #[test]
    fn a_seed_gives_the_same_plan_again_and_another_seed_another() {
        let plan = |seed| {
            let ten = Until::Requests(10);
            Schedule::new(Rate::per_sec(5), Arrivals::Poisson, seed, ten).collect::<Vec<_>>()
        };
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    proptest! {
        #[test]
        fn a_plan_never_runs_backwards_and_ends_where_it_should(
            milli in 1u64..10_000_000,
            poisson: bool,
            seed: u64,
            requests in 0u64..2_000,
            span in 0u64..2_000_000_000,
        ) {
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            let rate = Rate::milli_per_sec(milli);
            let counted: Vec<_> =
                Schedule::new(rate, arrivals, seed, Until::Requests(requests)).collect();
            prop_assert_eq!(counted.len() as u64, requests);
            prop_assert!(counted.is_sorted());
            let span = Duration::from_nanos(span);
            let timed: Vec<_> =
                Schedule::new(rate, arrivals, seed, Until::Elapsed(span)).collect();
            prop_assert!(timed.iter().all(|offset| *offset < span));
            let shared = timed.len().min(counted.len());
            prop_assert_eq!(&timed[..shared], &counted[..shared]);
        }
    }
}
