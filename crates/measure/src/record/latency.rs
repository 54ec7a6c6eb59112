//! Distributions of times: in short, whole, and along a curve.

use serde::{Deserialize, Serialize};

use super::number;
use loadline_core::{time::Duration, units::Rate};

/// Summary of a distribution of times; all zero if nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Number of times.
    pub count: u64,
    /// Minimum.
    #[serde(rename = "min_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub min: Duration,
    /// Arithmetic mean.
    #[serde(rename = "mean_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub mean: Duration,
    /// Standard deviation.
    #[serde(rename = "stddev_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub stddev: Duration,
    /// Median (50th percentile).
    #[serde(rename = "p50_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p50: Duration,
    /// 90th percentile.
    #[serde(rename = "p90_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p90: Duration,
    /// 95th percentile.
    #[serde(rename = "p95_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p95: Duration,
    /// 99th percentile.
    #[serde(rename = "p99_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99: Duration,
    /// 99.9th percentile.
    #[serde(rename = "p999_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p999: Duration,
    /// Maximum.
    #[serde(rename = "max_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max: Duration,
}

/// A distribution of times as a histogram: bins in ascending order, none of them empty.
///
/// The bounds are those of an HdrHistogram with three significant digits: a time read from it is at
/// most 0.1 % too long, and the histograms of two runs can be added bin by bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Spread(pub Vec<Bin>);

/// A bin: times above the previous bin's `up_to_ms`, up to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bin {
    /// Upper bound of the bin, in milliseconds.
    #[serde(rename = "up_to_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub up_to: Duration,
    /// Number of times.
    pub count: u64,
}

impl Spread {
    /// How many times there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        sum(self.0.iter())
    }

    /// The time that this share of them (0 to 1) does not exceed; none where there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        Some(self.quantile_with_failed(share, 0)).filter(|_| !self.0.is_empty())
    }

    /// The same of these times and `failed` requests more, each of them infinitely late:
    /// [`Duration::MAX`] where the share reaches into them.
    #[must_use]
    pub fn quantile_with_failed(&self, share: f64, failed: u64) -> Duration {
        let all = self.count().saturating_add(failed);
        self.at_rank(libm::ceil(share.clamp(0.0, 1.0) * all as f64) as u64)
    }

    /// How many took this time or longer.
    #[must_use]
    pub fn count_from(&self, time: Duration) -> u64 {
        sum(self.0.iter().filter(|bin| bin.up_to >= time))
    }

    /// The time of this rank, counted from 1; [`Duration::MAX`] beyond the last.
    pub(crate) fn at_rank(&self, rank: u64) -> Duration {
        let mut below = 0_u64;
        let found = self.0.iter().find_map(|bin| {
            below = below.saturating_add(bin.count);
            (below >= rank.max(1)).then_some(bin.up_to)
        });
        found.unwrap_or(Duration::MAX)
    }
}

/// The counts of these bins together; a record that was written by hand may have any.
fn sum<'b>(bins: impl Iterator<Item = &'b Bin>) -> u64 {
    bins.fold(0, |sum, bin| sum.saturating_add(bin.count))
}

/// Percentiles over all requests, by which objectives are judged; a failed request counts as
/// infinitely late. Null if the percentile falls among failed requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Median (50th percentile).
    #[serde(rename = "p50_ms", with = "number::ms_or_never")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p50: Duration,
    /// 90th percentile.
    #[serde(rename = "p90_ms", with = "number::ms_or_never")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p90: Duration,
    /// 95th percentile.
    #[serde(rename = "p95_ms", with = "number::ms_or_never")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p95: Duration,
    /// 99th percentile.
    #[serde(rename = "p99_ms", with = "number::ms_or_never")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p99: Duration,
    /// 99.9th percentile.
    #[serde(rename = "p999_ms", with = "number::ms_or_never")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p999: Duration,
    /// Maximum; null if any request failed.
    #[serde(rename = "max_ms", with = "number::ms_or_never")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub max: Duration,
}

impl Percentiles {
    /// Of the times of successful requests and so many that failed.
    #[must_use]
    pub fn of_all(latency: &Latency, spread: &Spread, failed: u64) -> Self {
        let Latency { p50, p90, p95, p99, p999, max, .. } = *latency;
        if failed == 0 {
            return Self { p50, p90, p95, p99, p999, max };
        }
        let of = |share| spread.quantile_with_failed(share, failed);
        Self {
            p50: of(0.5),
            p90: of(0.9),
            p95: of(0.95),
            p99: of(0.99),
            p999: of(0.999),
            max: Duration::MAX,
        }
    }
}

/// A curve of response time by rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Title of the curve.
    pub name: String,
    /// Points: rate, and response times at that rate.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<(String, Latency)>"))]
    pub points: Vec<(Rate, Latency)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Outcomes;

    #[test]
    fn a_quantile_is_the_bin_that_holds_it() {
        let bin = |ms, count| Bin { up_to: Duration::from_millis(ms), count };
        let spread = Spread(vec![bin(1, 50), bin(2, 49), bin(900, 1)]);
        assert_eq!(spread.count(), 100);
        for (share, ms) in [(0.0, 1), (0.5, 1), (0.51, 2), (0.99, 2), (0.991, 900), (1.0, 900)] {
            assert_eq!(spread.quantile(share), Some(Duration::from_millis(ms)), "{share}");
        }
        assert_eq!(Spread::default().quantile(0.5), None);
    }

    #[test]
    fn counts_too_large_to_be_added_are_the_largest() {
        let bin = |ms| Bin { up_to: Duration::from_millis(ms), count: u64::MAX };
        let spread = Spread(vec![bin(1), bin(2)]);
        assert_eq!(spread.count(), u64::MAX);
        assert_eq!(spread.quantile_with_failed(1.0, 1), Duration::from_millis(1));
        let outcomes = Outcomes { ok: u64::MAX, timeout: 1, ..Outcomes::default() };
        assert_eq!((outcomes.total(), outcomes.failed()), (u64::MAX, 0));
    }

    #[test]
    fn what_failed_is_later_than_every_answer() {
        let bin = |ms, count| Bin { up_to: Duration::from_millis(ms), count };
        let spread = Spread(vec![bin(1, 50), bin(2, 40)]);
        for (share, failed, time) in [
            (0.9, 0, Duration::from_millis(2)),
            (0.9, 10, Duration::from_millis(2)),
            (0.91, 10, Duration::MAX),
            (0.5, 90, Duration::from_millis(2)),
            (0.51, 90, Duration::MAX),
            (0.1, 910, Duration::MAX),
        ] {
            assert_eq!(spread.quantile_with_failed(share, failed), time, "{share} of {failed}");
        }
        let all = Percentiles::of_all(&Latency::default(), &spread, 10);
        assert_eq!(serde_json::to_value(&all).unwrap()["p99_ms"], serde_json::Value::Null);
        assert_eq!(serde_json::to_value(&all).unwrap()["p90_ms"], 2.0);
        let read = serde_json::from_value::<Percentiles>(serde_json::to_value(&all).unwrap());
        assert_eq!(read.unwrap(), all);
    }
}
