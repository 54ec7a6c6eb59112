//! The planned instants of an open loop: when each request is due, whatever the responses do.
//!
//! Each request has a position, the number of requests that the rate has called for by then; the
//! [`Curve`] of the rate says when that is. The distances between positions, whose mean is one:
//!
//! - constant: 1, beginning at 0;
//! - Poisson: `-ln(1 - u)` with `u` uniform in `[0, 1)`, each independent of the others;
//! - uniform: `2u`, as httperf's `--period=u` from zero to twice the mean.
//!
//! The draws come from a generator whose numbers are the same on every machine for a seed. The
//! plan ends after a number of requests or at a point in time, which is itself not in it.

use std::sync::Arc;

use loadline_core::time::Duration;
use loadline_measure::record::Arrivals;
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

use crate::{
    curve::{Curve, ONE, Position},
    plan::Until,
};

/// An iterator over the offsets of the planned instants from the start, never decreasing. Made by
/// [`Timetable::instants`](crate::Timetable::instants).
#[derive(Clone, Debug)]
pub struct Schedule {
    instants: Instants,
    until: Until,
    issued: u64,
    last: Duration,
}

#[derive(Clone, Debug)]
enum Instants {
    /// By the rate; `position` is that of the next request, before its distance.
    Curve { curve: Curve, position: Position, distances: Distances },
    /// As listed.
    Listed(Arc<[Duration]>),
}

#[derive(Clone, Debug)]
enum Distances {
    Even,
    Exponential(Box<Xoshiro256PlusPlus>),
    Uniform(Box<Xoshiro256PlusPlus>),
}

impl Schedule {
    /// Along `curve`, ending at `until`.
    pub(crate) fn along(curve: Curve, arrivals: Arrivals, seed: u64, until: Until) -> Self {
        let draws = || Box::new(Xoshiro256PlusPlus::seed_from_u64(seed));
        let distances = match arrivals {
            Arrivals::Constant | Arrivals::Listed => Distances::Even,
            Arrivals::Poisson => Distances::Exponential(draws()),
            Arrivals::Uniform => Distances::Uniform(draws()),
        };
        Self::new(Instants::Curve { curve, position: 0, distances }, until)
    }

    /// At these instants, ending at `until`.
    pub(crate) fn listed(instants: Arc<[Duration]>, until: Until) -> Self {
        Self::new(Instants::Listed(instants), until)
    }

    fn new(instants: Instants, until: Until) -> Self {
        Self { instants, until, issued: 0, last: Duration::ZERO }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if matches!(self.until, Until::Requests(all) if self.issued >= all) {
            return None;
        }
        // Rounding in the inverse of a ramp must not make a plan run backwards.
        let offset = self.instants.next(self.issued)?.max(self.last);
        if matches!(self.until, Until::Elapsed(span) if offset >= span) {
            return None;
        }
        self.issued += 1;
        self.last = offset;
        Some(offset)
    }
}

impl Instants {
    /// The offset of the request after `issued` others; none where the plan has no more.
    fn next(&mut self, issued: u64) -> Option<Duration> {
        match self {
            Self::Listed(instants) => instants.get(usize::try_from(issued).ok()?).copied(),
            Self::Curve { curve, position, distances } => {
                if issued > 0 || !matches!(distances, Distances::Even) {
                    *position = position.saturating_add(distances.next());
                }
                curve.due(*position)
            }
        }
    }
}

impl Distances {
    fn next(&mut self) -> Position {
        let share: f64 = match self {
            Self::Even => return ONE,
            Self::Exponential(draws) => -(-draws.random::<f64>()).ln_1p(),
            Self::Uniform(draws) => 2.0 * draws.random::<f64>(),
        };
        (ONE as f64 * share) as Position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timetable::Timetable;
    use loadline_core::units::Rate;
    use loadline_measure::{record::Stage, statistics::sample};
    use proptest::prelude::*;

    fn constant(rate: Rate, until: Until) -> Schedule {
        Timetable::steady(rate, Arrivals::Constant, 0).instants(until)
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

    /// The mean of the distances at 100 per second, and their standard deviation over the mean.
    fn mean_and_variation(arrivals: Arrivals) -> (f64, f64) {
        let plan = Timetable::steady(Rate::per_sec(100), arrivals, 7);
        let offsets: Vec<f64> =
            plan.instants(Until::Requests(100_000)).map(Duration::as_secs_f64).collect();
        let distances: Vec<f64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = sample::mean(&distances);
        (mean, sample::deviation(&distances) / mean)
    }

    #[test]
    fn random_distances_have_the_mean_and_the_spread_of_their_kind() {
        let uniform = 1.0 / 3f64.sqrt();
        for (arrivals, right) in [(Arrivals::Poisson, 1.0), (Arrivals::Uniform, uniform)] {
            let (mean, variation) = mean_and_variation(arrivals);
            assert!((mean - 0.01).abs() < 0.0001, "{arrivals:?}: mean {mean}");
            assert!((variation / right - 1.0).abs() < 0.02, "{arrivals:?}: variation {variation}");
        }
    }

    #[test]
    fn uniform_distances_reach_to_twice_the_mean_and_no_further() {
        let plan = Timetable::steady(Rate::per_sec(100), Arrivals::Uniform, 3);
        let offsets: Vec<_> = plan.instants(Until::Requests(10_000)).collect();
        let longest = offsets.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max();
        let longest = longest.unwrap().as_millis_f64();
        assert!((19.9..=20.001).contains(&longest), "{longest}");
    }

    #[test]
    fn a_seed_gives_the_same_plan_again_and_another_seed_another() {
        let plan = |seed| {
            let plan = Timetable::steady(Rate::per_sec(5), Arrivals::Poisson, seed);
            plan.instants(Until::Requests(10)).collect::<Vec<_>>()
        };
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn poisson_arrivals_follow_a_ramp() {
        let [low, high] = [0, 2_000].map(Rate::per_sec);
        let ramp = Stage { from: low, to: high, lasts: Duration::from_secs(100) };
        let plan = Timetable::stages(vec![ramp], Arrivals::Poisson, 5);
        let whole = Until::Elapsed(Duration::from_secs(100));
        let early = plan.instants(whole).filter(|at| *at < Duration::from_secs(50)).count();
        let all = plan.instants(whole).count();
        // The means are 25,000 and 100,000; four standard deviations of a Poisson count.
        assert!(early.abs_diff(25_000) < 4 * 159, "{early}");
        assert!(all.abs_diff(100_000) < 4 * 317, "{all}");
    }

    fn any_stages() -> impl Strategy<Value = Vec<Stage>> {
        let rate = || (0u64..200_000).prop_map(Rate::milli_per_sec);
        let stage = (rate(), rate(), 1u64..5_000).prop_map(|(from, to, ms)| Stage {
            from,
            to,
            lasts: Duration::from_millis(ms),
        });
        prop::collection::vec(stage, 1..5)
    }

    proptest! {
        #[test]
        fn a_plan_never_runs_backwards_and_ends_where_it_should(
            milli in 1u64..10_000_000,
            arrivals in prop::sample::select(
                vec![Arrivals::Constant, Arrivals::Poisson, Arrivals::Uniform]
            ),
            seed: u64,
            requests in 0u64..2_000,
            span in 0u64..2_000_000_000,
        ) {
            let plan = Timetable::steady(Rate::milli_per_sec(milli), arrivals, seed);
            let counted: Vec<_> = plan.instants(Until::Requests(requests)).collect();
            prop_assert_eq!(counted.len() as u64, requests);
            prop_assert!(counted.is_sorted());
            let span = Duration::from_nanos(span);
            let timed: Vec<_> = plan.instants(Until::Elapsed(span)).collect();
            prop_assert!(timed.iter().all(|offset| *offset < span));
            let shared = timed.len().min(counted.len());
            prop_assert_eq!(&timed[..shared], &counted[..shared]);
        }

        /// By the end of every stage as many requests are due as the rates called for until then:
        /// the whole number at or above the integral, since the first is due at its beginning.
        #[test]
        fn every_stage_holds_the_requests_its_rates_call_for(stages in any_stages()) {
            let plan = Timetable::stages(stages.clone(), Arrivals::Constant, 0);
            let instants: Vec<_> = plan.instants(Until::Requests(u64::MAX)).collect();
            prop_assert!(instants.is_sorted());
            let (mut integral, mut end) = (0, Duration::ZERO);
            for stage in &stages {
                let rates = stage.from.as_milli_per_sec() + stage.to.as_milli_per_sec();
                integral += u128::from(rates) * u128::from(stage.lasts.as_nanos());
                end = end + stage.lasts;
                let due = instants.iter().filter(|at| **at < end).count() as u128;
                prop_assert_eq!(due, integral.div_ceil(ONE));
            }
            prop_assert!(instants.iter().all(|at| *at < end));
        }

        #[test]
        fn random_arrivals_in_stages_never_run_backwards(
            stages in any_stages(), seed: u64, uniform: bool,
        ) {
            let arrivals = if uniform { Arrivals::Uniform } else { Arrivals::Poisson };
            let plan = Timetable::stages(stages.clone(), arrivals, seed);
            let end = stages.iter().map(|stage| stage.lasts).sum();
            let instants: Vec<_> = plan.instants(Until::Requests(u64::MAX)).collect();
            prop_assert!(instants.is_sorted());
            prop_assert!(instants.iter().all(|at| *at < end));
        }
    }
}
