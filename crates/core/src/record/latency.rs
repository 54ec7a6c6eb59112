//! Distributions of times: in short, whole, and along a curve.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::number;
use crate::{time::Duration, units::Rate};

/// A distribution of times in short; all zero where nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// The shortest.
    #[serde(rename = "min_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub min: Duration,
    /// The arithmetic mean.
    #[serde(rename = "mean_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub mean: Duration,
    /// The standard deviation.
    #[serde(rename = "stddev_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub stddev: Duration,
    /// Half are at most this.
    #[serde(rename = "p50_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p50: Duration,
    /// 90 % are at most this.
    #[serde(rename = "p90_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p90: Duration,
    /// 95 % are at most this.
    #[serde(rename = "p95_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p95: Duration,
    /// 99 % are at most this.
    #[serde(rename = "p99_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99: Duration,
    /// 99.9 % are at most this.
    #[serde(rename = "p999_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p999: Duration,
    /// The longest.
    #[serde(rename = "max_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max: Duration,
}

/// A whole distribution: bins in rising order, none of them empty.
///
/// The bounds are those of an HdrHistogram of three significant digits, so that a time read from
/// it is at most 0.1 % too long, and the spreads of two runs can be added bin by bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Spread(pub Vec<Bin>);

/// A range of times, from the bin before it, and how many fell into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bin {
    /// Every time in the bin is at most this.
    #[serde(rename = "up_to_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub up_to: Duration,
    /// How many.
    pub count: u64,
}

impl Spread {
    /// How many times there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|bin| bin.count).sum()
    }

    /// The time that this share of them (0 to 1) does not exceed; none where there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = libm::ceil(share.clamp(0.0, 1.0) * self.count() as f64) as u64;
        let mut below = 0;
        self.0.iter().find_map(|bin| {
            below += bin.count;
            (below >= rank.max(1)).then_some(bin.up_to)
        })
    }
}

/// Points of a curve: response time against rate, as the tutorials draw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// What the curve shows.
    pub name: String,
    /// Rate and the response time measured at it.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<(String, Latency)>"))]
    pub points: Vec<(Rate, Latency)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bin_that_holds_it() {
        let bin = |ms, count| Bin { up_to: Duration::from_millis(ms), count };
        let spread = Spread(alloc::vec![bin(1, 50), bin(2, 49), bin(900, 1)]);
        assert_eq!(spread.count(), 100);
        for (share, ms) in [(0.0, 1), (0.5, 1), (0.51, 2), (0.99, 2), (0.991, 900), (1.0, 900)] {
            assert_eq!(spread.quantile(share), Some(Duration::from_millis(ms)), "{share}");
        }
        assert_eq!(Spread::default().quantile(0.5), None);
    }
}
