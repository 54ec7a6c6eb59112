//! How far a figure measured of a sample goes: one-sided bounds that hold with 95 % confidence.
//!
//! - A percentile, by order statistics (no assumption about the distribution): of `n` times the
//!   one of rank `u` is at least the true percentile `p` with 95 % confidence where
//!   `P(Bin(n, p) <= u - 1) >= 0.95`, and the one of rank `l` at most where
//!   `P(Bin(n, p) >= l) >= 0.95`. There is no upper bound where `p^n > 0.05`: a p99 needs 299
//!   times.
//! - A share, by Wilson's score interval (1927), which holds for shares near zero too.
//!
//! Both take the requests as independent. Those of one run wait in the same queues and are not
//! quite, so the true bounds are somewhat wider.

use crate::{
    record::Spread,
    statistics::{self, Interval, quantile_ranks},
};
use loadline_core::time::Duration;

/// The times of a run, and how many requests more failed: those are later than any time.
#[derive(Clone, Copy)]
pub(super) struct Times<'r> {
    pub(super) spread: &'r Spread,
    pub(super) failed: u64,
}

impl Times<'_> {
    /// How many requests there are.
    pub(super) fn count(&self) -> u64 {
        self.spread.count() + self.failed
    }

    /// The time that the true percentile `share` is at most; none where there are too few times,
    /// [`Duration::MAX`] where it may be that of a request that failed.
    pub(super) fn percentile_at_most(&self, share: f64) -> Option<Duration> {
        let (_, high) = quantile_ranks(self.count(), share, BOTH_SIDES);
        Some(self.spread.at_rank(high?))
    }

    /// The time that the true percentile `share` is at least; none where there are too few times.
    pub(super) fn percentile_at_least(&self, share: f64) -> Option<Duration> {
        let (low, _) = quantile_ranks(self.count(), share, BOTH_SIDES);
        Some(self.spread.at_rank(low?))
    }
}

/// How many times it takes for [`Times::percentile_at_most`] to have a bound.
pub(super) fn times_needed(share: f64) -> u64 {
    libm::ceil(libm::log(1.0 - CONFIDENCE) / libm::log(share)) as u64
}

/// The share that the true one is at most, where `part` of `whole` were seen.
pub(super) fn share_at_most(part: u64, whole: u64) -> f64 {
    wilson(part, whole).high
}

/// The share that the true one is at least, where `part` of `whole` were seen.
pub(super) fn share_at_least(part: u64, whole: u64) -> f64 {
    wilson(part, whole).low
}

/// A bound on one side errs by what an interval of both sides errs by on each.
fn wilson(part: u64, whole: u64) -> Interval {
    let count = whole.max(1) as f64;
    statistics::share(part as f64 / count, count, BOTH_SIDES)
}

const CONFIDENCE: f64 = 0.95;

/// The confidence of an interval of which each side alone holds with [`CONFIDENCE`].
const BOTH_SIDES: f64 = 2.0 * CONFIDENCE - 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Bin;
    use proptest::prelude::*;

    /// The times 1, 2 ... `count` ms.
    fn ramp(count: u64) -> Spread {
        let bin = |ms| Bin { up_to: Duration::from_millis(ms), count: 1 };
        Spread((1..=count).map(bin).collect())
    }

    fn at_most(spread: &Spread, share: f64) -> Option<Duration> {
        Times { spread, failed: 0 }.percentile_at_most(share)
    }

    fn at_least(spread: &Spread, share: f64) -> Option<Duration> {
        Times { spread, failed: 0 }.percentile_at_least(share)
    }

    #[test]
    fn a_p99_needs_299_times_for_its_longest_to_be_a_bound() {
        assert_eq!(times_needed(0.99), 299);
        assert_eq!(at_most(&ramp(298), 0.99), None);
        assert_eq!(at_most(&ramp(299), 0.99), Some(Duration::from_millis(299)));
        assert_eq!(at_most(&Spread::default(), 0.99), None);
        assert_eq!(at_least(&Spread::default(), 0.99), None);
    }

    #[test]
    fn a_percentile_that_may_be_of_a_request_that_failed_has_no_upper_bound() {
        let spread = ramp(297);
        assert_eq!(Times { spread: &spread, failed: 1 }.percentile_at_most(0.99), None);
        let two = Times { spread: &spread, failed: 2 };
        assert_eq!(two.percentile_at_most(0.99), Some(Duration::MAX));
        assert_eq!(two.percentile_at_most(0.5), Some(Duration::from_millis(165)));
    }

    /// Binomial tables: P(Bin(20, 0.5) <= 5) = 0.0207, <= 6 = 0.0577.
    #[test]
    fn the_median_of_twenty_lies_where_the_tables_say() {
        assert_eq!(at_least(&ramp(20), 0.5), Some(Duration::from_millis(6)));
        assert_eq!(at_most(&ramp(20), 0.5), Some(Duration::from_millis(15)));
    }

    #[test]
    fn no_error_in_five_hundred_leaves_half_a_percent_open() {
        let most = share_at_most(0, 500);
        assert!((most - 0.00538).abs() < 1e-5, "{most}");
        assert!(share_at_least(0, 500) < 1e-12);
        assert!((share_at_least(500, 500) - (1.0 - most)).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_bounds_enclose_the_percentile_and_summing_agrees_with_the_normal(
            count in 1u64..30_000,
            share in prop::sample::select(std::vec![0.5, 0.9, 0.95, 0.99, 0.999]),
        ) {
            let spread = ramp(count);
            let measured = spread.quantile(share).unwrap();
            let (low, high) = (at_least(&spread, share), at_most(&spread, share));
            prop_assert!(low.is_none_or(|low| low <= measured));
            prop_assert!(high.is_none_or(|high| high >= measured));
            prop_assert_eq!(high.is_some(), count >= times_needed(share));
            let deviation = libm::sqrt(count as f64 * share * (1.0 - share));
            if let (Some(high), true) = (high, deviation > 10.0) {
                let normal = count as f64 * share + 1.644_854 * deviation;
                prop_assert!((high.as_millis_f64() - normal).abs() < 3.0, "{high} {normal}");
            }
        }
    }
}
