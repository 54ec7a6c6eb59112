//! Figures of a few values that are all kept, so they are exact.
//!
//! The p-quantile of n values is the one of rank ceil(p n), a value that was measured (nearest
//! rank, Hyndman and Fan's definition 1); the median alone lies between the two in the middle. The
//! standard deviation is that of the whole, sqrt(E(x^2) - E(x)^2), which ping prints as mdev.

use loadline_core::time::Duration;

use crate::record::Latency;

/// The arithmetic mean; zero of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    sum(values.iter().copied()) / values.len().max(1) as f64
}

/// The sum; zero of nothing, where that of the standard library is `-0`.
pub(crate) fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// The sum of the squared distances from the mean.
#[must_use]
pub fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| libm::pow(value - mean, 2.0)).sum()
}

/// The standard deviation of the whole; zero of nothing.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    libm::sqrt(squares(values) / values.len().max(1) as f64)
}

/// The one in the middle of values in rising order, or midway between the two; none of nothing.
#[must_use]
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The value, of values in rising order, that this share of them (0 to 1) does not exceed; none
/// of nothing.
#[must_use]
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = libm::ceil(share * sorted.len() as f64) as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The times in short; all zero where there are none.
#[must_use]
pub fn latency(mut times: Vec<Duration>) -> Latency {
    times.sort_unstable();
    let (Some(min), Some(max)) = (times.first().copied(), times.last().copied()) else {
        return Latency::default();
    };
    let nanos: Vec<f64> = times.iter().map(|time| time.as_nanos() as f64).collect();
    let rounded = |nanos: f64| Duration::from_nanos(libm::round(nanos) as u64);
    let quantile = |share| quantile(&times, share).unwrap_or(max);
    Latency {
        count: times.len() as u64,
        min,
        mean: rounded(mean(&nanos)),
        stddev: rounded(deviation(&nanos)),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_pings_give_the_published_figures() {
        // "rtt min/avg/max/mdev = 1.163/1.195/1.229/0.039 ms", to the hundredth as printed there.
        let times = [1_220, 1_200, 1_160, 1_170, 1_200].map(Duration::from_micros);
        let figures = latency(times.to_vec());
        assert_eq!(figures.min, Duration::from_micros(1_160));
        assert_eq!(figures.mean, Duration::from_micros(1_190));
        assert_eq!(figures.p50, Duration::from_micros(1_200));
        assert_eq!(figures.max, Duration::from_micros(1_220));
        assert_eq!(figures.stddev, Duration::from_nanos(21_909));
    }

    #[test]
    fn the_mean_of_nothing_is_printed_as_zero() {
        assert_eq!(mean(&[]).to_string(), "0");
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let figures = latency((1..=500).map(Duration::from_millis).collect());
        assert_eq!(figures.p50, Duration::from_millis(250));
        assert_eq!(figures.p95, Duration::from_millis(475));
        assert_eq!(figures.p999, Duration::from_millis(500));
    }

    #[test]
    fn the_median_lies_between_the_two_in_the_middle_and_nothing_has_none() {
        assert_eq!(median(&[1.0, 2.0, 4.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
        assert_eq!((median(&[]), quantile::<u8>(&[], 0.5), mean(&[])), (None, None, 0.0));
    }

    #[test]
    fn a_quantile_is_of_the_nearest_rank() {
        let found = [0.0, 0.2, 0.21, 0.5, 1.0].map(|share| quantile(&[1, 2, 3, 4, 5], share));
        assert_eq!(found, [1, 1, 2, 3, 5].map(Some));
    }
}
