//! The few statistics a benchmark of rounds needs: a median and the spread around it.

/// A middle and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The least.
    pub(crate) min: f64,
    /// The middle; of an even number of values, the mean of the two in the middle.
    pub(crate) median: f64,
    /// The greatest.
    pub(crate) max: f64,
}

impl Summary {
    /// Of no values, and of values one of which is none, not a number: no comparison with a target
    /// holds then, and no round that failed drops out.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(values);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self { min: f64::NAN, median: f64::NAN, max: f64::NAN };
        };
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Self { min, median, max }
    }
}

/// The figure below which this share of them lies; not a number where [`Summary::of`] is none.
pub(crate) fn quantile(figures: impl Iterator<Item = f64>, share: f64) -> f64 {
    let sorted = sorted(figures);
    let index = (sorted.len().saturating_sub(1) as f64 * share) as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// In order; nothing if one of them is not a number.
fn sorted(figures: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    if sorted.iter().any(|figure| figure.is_nan()) {
        return Vec::new();
    }
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_the_spread_holds_everything() {
        let odd = Summary::of([3.0, 1.0, 2.0]);
        assert_eq!(odd, Summary { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(Summary::of([4.0, 1.0]).median, 2.5);
    }

    #[test]
    fn nothing_measured_reaches_no_target() {
        let nothing = Summary::of([]);
        assert!(nothing.median.is_nan());
        assert_ne!(nothing.median.partial_cmp(&1.0), Some(std::cmp::Ordering::Less));
        assert!(quantile(std::iter::empty(), 0.99).is_nan());
    }

    #[test]
    fn a_round_that_failed_does_not_drop_out() {
        assert!(Summary::of([0.5, f64::NAN, 0.6]).median.is_nan());
        assert!(quantile([f64::NAN, 0.6].into_iter(), 0.0).is_nan());
    }
}
