//! What many measured values say: [`Times`] gathers them, [`sample`] has the figures of a few, and
//! the rest are confidence intervals for means, shares, quantiles, and their quotients.
//!
//! Responses that follow each other are alike: what waited behind the same queue was slow together.
//! Formulas for independent draws then promise far too much, so everything here starts from
//! [`Batches`], the method of batch means (Schmeiser 1982): cut the run into consecutive pieces,
//! and let the spread between the pieces say how sure the whole is. Of it follows how many
//! independent draws the run is worth ([`Batches::worth`]), and with that number the classic
//! intervals hold:
//!
//! | figure | interval |
//! |---|---|
//! | mean, rate | Student's t over the batches |
//! | share | Wilson 1927 |
//! | quantile | binomial order statistics: ranks l and u with `P(l <= Bin(n, p) < u)` as wanted |
//! | quotient, difference | MOVER: distances to the limits, squared and summed (Donner, Zou 2012) |

mod distribution;
pub mod sample;
mod times;

use serde::{Deserialize, Serialize};

use crate::record::number;
use distribution::{binomial_at_most, normal_quantile};

pub use distribution::student_quantile;
pub use times::{Times, bars};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound; null if there is none, as for a quotient whose divisor may be zero.
    #[serde(with = "number::bound")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
}

/// A figure and where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimated value.
    pub value: f64,
    /// Where it lies.
    pub interval: Interval,
}

/// A run cut into consecutive batches of (sum, weight), of which the quotient of all sums to all
/// weights is wanted: times and answers for a mean, answers and seconds for a rate, failures and
/// requests for a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Batches(Vec<(f64, f64)>);

impl Batches {
    /// Joins consecutive pieces into [`BATCHES`] batches at most. None where fewer than
    /// [`FEWEST`] have any weight: the spread between so few says nothing.
    #[must_use]
    pub fn of(pieces: &[(f64, f64)]) -> Option<Self> {
        let pieces: Vec<_> = pieces.iter().copied().filter(|piece| piece.1 > 0.0).collect();
        if pieces.len() < FEWEST {
            return None;
        }
        let count = pieces.len().min(BATCHES);
        let bound = |index: usize| index * pieces.len() / count;
        let batch = |index: usize| {
            let batch = &pieces[bound(index)..bound(index + 1)];
            batch.iter().fold((0.0, 0.0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1))
        };
        Some(Self((0..count).map(batch).collect()))
    }

    /// The quotient of all sums to all weights.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let (sums, weights) =
            self.0.iter().fold((0.0, 0.0), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1));
        sums / weights
    }

    /// The variance of [`Self::mean`], as of a ratio estimator.
    #[must_use]
    pub fn variance(&self) -> f64 {
        let (mean, count) = (self.mean(), self.0.len() as f64);
        let weights: f64 = self.0.iter().map(|batch| batch.1).sum();
        let square = |batch: &(f64, f64)| libm::pow(batch.0 - mean * batch.1, 2.0);
        let squares: f64 = self.0.iter().map(square).sum();
        count / (count - 1.0) * squares / (weights * weights)
    }

    /// Where the mean lies.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Interval {
        let upper = f64::midpoint(1.0, confidence);
        let reach =
            student_quantile(upper, self.0.len() as f64 - 1.0) * libm::sqrt(self.variance());
        Interval { low: self.mean() - reach, high: self.mean() + reach }
    }

    /// How many independent draws of this variance the run is worth: `count` at most, 1 at least.
    #[must_use]
    pub fn worth(&self, variance: f64, count: f64) -> f64 {
        let (seen, alone) = (self.variance(), variance / count);
        if seen > alone { (count * alone / seen).max(1.0) } else { count }
    }
}

impl Interval {
    /// Whether it holds the value.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Where the mean of `count` independent draws with this standard deviation lies.
#[must_use]
pub fn mean(mean: f64, stddev: f64, count: f64, confidence: f64) -> Interval {
    let upper = f64::midpoint(1.0, confidence);
    let reach = student_quantile(upper, (count - 1.0).max(1.0)) * stddev / libm::sqrt(count);
    Interval { low: mean - reach, high: mean + reach }
}

/// Where the share lies of which `share` was seen in `count` independent draws (Wilson 1927).
#[must_use]
pub fn share(share: f64, count: f64, confidence: f64) -> Interval {
    if count <= 0.0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let z = normal_quantile(f64::midpoint(1.0, confidence));
    let square = z * z / count;
    let middle = (share + square / 2.0) / (1.0 + square);
    let spread = share * (1.0 - share) / count + square / (4.0 * count);
    let reach = z / (1.0 + square) * libm::sqrt(spread);
    Interval { low: (middle - reach).max(0.0), high: (middle + reach).min(1.0) }
}

/// Which ranks (from 1) of `count` independent draws in rising order hold the quantile of `share`
/// between them; no bound where so few draws give none.
///
/// A quantile of 99 % has an upper bound with 95 % confidence from 368 draws on (each side errs
/// by 2.5 %): `0.99^n <= 0.025`.
#[must_use]
pub fn quantile_ranks(count: u64, share: f64, confidence: f64) -> (Option<u64>, Option<u64>) {
    let tail = (1.0 - confidence) / 2.0;
    let below = |k: u64| binomial_at_most(k, count, share);
    let few = first(count, |k| below(k) > tail);
    // The draw of rank l errs when fewer than l lie below the quantile.
    let low = (few > 0).then_some(few);
    let high = first(count, |k| below(k) >= 1.0 - tail) + 1;
    (low, (high <= count).then_some(high))
}

/// Where `b / a` lies; both positive, each with its own interval. MOVER on logarithms. Without an
/// upper bound where `a` may be zero.
#[must_use]
pub fn quotient(a: Estimate, b: Estimate) -> Interval {
    let log = |estimate: Estimate| {
        let ln = |value: f64| libm::log(value.max(f64::MIN_POSITIVE));
        let low = estimate.interval.low;
        let low = if low > 0.0 { ln(low) } else { f64::NEG_INFINITY };
        let interval = Interval { low, high: ln(estimate.interval.high) };
        Estimate { value: ln(estimate.value), interval }
    };
    let Interval { low, high } = difference(log(a), log(b));
    Interval { low: libm::exp(low), high: libm::exp(high) }
}

/// Where `b - a` lies, each with its own interval. MOVER; of two shares Newcombe's method 10.
#[must_use]
pub fn difference(a: Estimate, b: Estimate) -> Interval {
    let middle = b.value - a.value;
    let low = libm::hypot(b.value - b.interval.low, a.interval.high - a.value);
    let high = libm::hypot(b.interval.high - b.value, a.value - a.interval.low);
    Interval { low: middle - low, high: middle + high }
}

/// The first number from 0 to `end` of which it is true; it stays true beyond. `end` if none.
fn first(end: u64, is_true: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_true(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Batches at most: beyond 30 the interval hardly narrows, while shorter batches are less
/// independent of their neighbours (Schmeiser 1982 advises 10 to 30).
pub const BATCHES: usize = 20;
/// Batches at least.
pub const FEWEST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_interval_of_wilson() {
        // R: prop.test(15, 148, correct = FALSE), as in Newcombe 1998, table I.
        let interval = share(15.0 / 148.0, 148.0, 0.95);
        assert!((interval.low - 0.0624).abs() < 5e-5, "{interval:?}");
        assert!((interval.high - 0.1605).abs() < 5e-5, "{interval:?}");
        let none = share(0.0, 20.0, 0.95);
        assert!(none.low == 0.0 && (none.high - 0.1611).abs() < 5e-5, "{none:?}");
        assert_eq!(share(0.0, 0.0, 0.95), Interval { low: 0.0, high: 1.0 });
    }

    #[test]
    fn a_difference_of_shares_has_the_interval_of_newcombe() {
        // Newcombe 1998, example (a) of method 10: 56/70 and 48/80 differ by 0.0524 to 0.3339.
        let estimate = |hits: f64, of: f64| Estimate {
            value: hits / of,
            interval: share(hits / of, of, 0.95),
        };
        let interval = difference(estimate(48.0, 80.0), estimate(56.0, 70.0));
        assert!((interval.low - 0.0524).abs() < 5e-5, "{interval:?}");
        assert!((interval.high - 0.3339).abs() < 5e-5, "{interval:?}");
    }

    #[test]
    fn a_quotient_by_what_may_be_zero_has_no_upper_bound_and_is_read_as_it_was_written() {
        let estimate = |value, low, high| Estimate { value, interval: Interval { low, high } };
        let few = estimate(3.0, -1.0, 7.0);
        let many = estimate(400.0, 390.0, 410.0);
        let interval = quotient(few, many);
        assert!((57.0..57.2).contains(&interval.low), "{interval:?}");
        assert_eq!(interval.high, f64::INFINITY);
        let text = serde_json::to_string(&interval).unwrap();
        assert!(text.ends_with("\"high\":null}"), "{text}");
        assert_eq!(serde_json::from_str::<Interval>(&text).unwrap(), interval);
        let inverse = quotient(many, few);
        assert!(inverse.low == 0.0 && (inverse.high - 7.0 / 400.0).abs() < 0.001, "{inverse:?}");
    }

    #[test]
    fn ranks_of_quantiles_are_those_of_the_tables() {
        // Hahn, Meeker, Statistical Intervals: the median of 100 lies between ranks 40 and 61.
        assert_eq!(quantile_ranks(100, 0.5, 0.95), (Some(40), Some(61)));
        assert_eq!(quantile_ranks(5, 0.5, 0.95), (None, None));
        assert_eq!(quantile_ranks(6, 0.5, 0.95), (Some(1), Some(6)));
        assert_eq!(quantile_ranks(367, 0.99, 0.95).1, None);
        assert_eq!(quantile_ranks(368, 0.99, 0.95).1, Some(368));
        assert_eq!(quantile_ranks(0, 0.99, 0.95), (None, None));
    }

    #[test]
    fn few_pieces_make_no_batches_and_empty_ones_do_not_count() {
        assert_eq!(Batches::of(&[(1.0, 1.0); FEWEST - 1]), None);
        let mut pieces = [(1.0, 1.0); FEWEST].to_vec();
        pieces.push((0.0, 0.0));
        let batches = Batches::of(&pieces).unwrap();
        assert_eq!((batches.mean(), batches.variance()), (1.0, 0.0));
        assert_eq!(batches.worth(0.0, 100.0), 100.0);
    }

    /// Numbers from 0 to 1, the same every time.
    struct Draws(u64);

    impl Draws {
        fn next(&mut self) -> f64 {
            // SplitMix64 (Steele, Lea, Flood 2014).
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }

        fn exponential(&mut self) -> f64 {
            -libm::log(1.0 - self.next())
        }
    }

    /// In how many of 1,000 seeded runs the interval holds what it should.
    fn coverage(holds: impl Fn(&mut Draws) -> bool) -> usize {
        (0..1_000).filter(|seed| holds(&mut Draws(*seed << 32))).count()
    }

    #[test]
    fn order_statistics_hold_the_quantile_as_often_as_promised() {
        for (share, count) in [(0.5, 200), (0.9, 400), (0.99, 2_000)] {
            let (low, high) = quantile_ranks(count, share, 0.95);
            let (low, high) = (low.unwrap() as usize - 1, high.unwrap() as usize - 1);
            let truth = -libm::log(1.0 - share);
            let held = coverage(|draws| {
                let mut all: Vec<_> = (0..count).map(|_| draws.exponential()).collect();
                all.sort_by(f64::total_cmp);
                all[low] <= truth && truth <= all[high]
            });
            assert!((940..=985).contains(&held), "{share} of {count}: held {held}");
        }
    }

    /// Times of a server with one core at 70 % of its capacity, Poisson arrivals (M/M/1): each
    /// waits for what is left of the one before it (Lindley 1952). The mean is 1 / 0.3.
    fn queue(draws: &mut Draws, count: usize) -> Vec<f64> {
        let mut time = 0.0;
        let next = |_| {
            time = f64::max(time - draws.exponential() / 0.7, 0.0) + draws.exponential();
            time
        };
        (0..count).map(next).skip(1_000).collect()
    }

    #[test]
    fn batches_hold_the_mean_of_a_queue_where_the_formula_for_independent_draws_does_not() {
        let intervals = |times: &[f64]| {
            let pieces: Vec<_> =
                times.chunks(250).map(|piece| (piece.iter().sum(), piece.len() as f64)).collect();
            let batches = Batches::of(&pieces).unwrap();
            let (middle, count) = (batches.mean(), times.len() as f64);
            let squares: f64 = times.iter().map(|time| (time - middle) * (time - middle)).sum();
            let alone = mean(middle, libm::sqrt(squares / count), count, 0.95);
            (batches.interval(0.95), alone)
        };
        let held = coverage(|draws| intervals(&queue(draws, 11_000)).0.holds(1.0 / 0.3));
        assert!((910..=975).contains(&held), "batches held {held}");
        let held = coverage(|draws| intervals(&queue(draws, 11_000)).1.holds(1.0 / 0.3));
        assert!(held < 500, "the formula for independent draws held {held}");
    }

    #[test]
    fn ranks_by_the_worth_of_a_run_hold_the_quantile_of_a_queue() {
        // Response times of M/M/1 are exponential, so the 90th percentile is ln(10) / 0.3.
        let truth = libm::log(10.0) / 0.3;
        let held = coverage(|draws| {
            let mut times = queue(draws, 11_000);
            let pieces: Vec<_> =
                times.chunks(250).map(|piece| (piece.iter().sum(), piece.len() as f64)).collect();
            let worth = Batches::of(&pieces).unwrap().worth(1.0 / 0.09, times.len() as f64);
            let (low, high) = quantile_ranks(worth as u64, 0.9, 0.95);
            times.sort_by(f64::total_cmp);
            let at = |rank: u64| times[((rank as f64 / worth) * times.len() as f64) as usize - 1];
            at(low.unwrap()) <= truth && high.is_none_or(|high| truth <= at(high))
        });
        assert!((900..=990).contains(&held), "held {held}");
    }

    #[test]
    fn a_quotient_holds_the_true_one_as_often_as_promised() {
        let estimate = |draws: &mut Draws, scale: f64| {
            let all: Vec<_> = (0..200).map(|_| scale * draws.exponential()).collect();
            let value = all.iter().sum::<f64>() / 200.0;
            let squares: f64 = all.iter().map(|one| (one - value) * (one - value)).sum();
            let interval = mean(value, libm::sqrt(squares / 199.0), 200.0, 0.95);
            Estimate { value, interval }
        };
        let held = coverage(|draws| {
            let (a, b) = (estimate(draws, 2.0), estimate(draws, 3.0));
            quotient(a, b).holds(1.5)
        });
        assert!((930..=975).contains(&held), "held {held}");
    }
}
