//! How policies do with the same requests.

use serde::{Deserialize, Serialize};

use super::RunCount;
use crate::statistics::Interval;

/// Policies in the order of how they did, on the same requests with the same seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankingRecord {
    /// The objective; where there is one, policies are ranked by how many runs meet it, then by
    /// p99.
    pub objective: Option<String>,
    /// How many seeds there were.
    pub seeds: u32,
    /// The policies that the configuration has.
    pub configured: Vec<String>,
    /// Best first.
    pub policies: Vec<RankedPolicy>,
    /// Which are no worse than the first as far as these runs can tell, itself included.
    pub alike: u32,
    /// Why the first is first, in words.
    pub reason: String,
}

/// How one policy did: means over the seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankedPolicy {
    /// Its name.
    pub policy: String,
    /// In how many runs the objective was met; none without one.
    pub met: Option<RunCount>,
    /// The median, in milliseconds, where a request that failed is late for ever; none where half
    /// of them failed.
    pub p50_ms: Option<f64>,
    /// As the median, of 99 %.
    pub p99_ms: Option<f64>,
    /// Where that lies with 95 % confidence; none where it is none.
    pub p99_interval: Option<Interval>,
    /// Its p99 over that of the first, with the same seed: where the mean lies with 95 %
    /// confidence; none for the first, and where one of them has none.
    pub times_the_first: Option<Interval>,
    /// The share of requests that failed.
    pub failed: f64,
    /// The share of requests that found every core of their server busy.
    pub found_busy: f64,
    /// The share of requests that came to a server while it took half as long again, or more, as
    /// the fastest of its group at its best.
    pub to_slow: f64,
    /// Requests of the server that was given most, over the mean of its group; the worst group.
    pub imbalance: f64,
}
