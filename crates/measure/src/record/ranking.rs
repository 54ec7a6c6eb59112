//! How policies do with the same requests.

use serde::{Deserialize, Serialize};

use super::RunCount;
use crate::statistics::Interval;

/// Load-balancing policies ranked on the same requests with the same seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankingRecord {
    /// The objective. With one, policies are ranked by the number of runs that meet it, then by
    /// p99; null if none was given.
    pub objective: Option<String>,
    /// Number of seeds.
    pub seeds: u32,
    /// Policies of the configuration.
    pub configured: Vec<String>,
    /// Ranked policies, the best first.
    pub policies: Vec<RankedPolicy>,
    /// Number of policies that these runs cannot tell from the first, the first included.
    pub alike: u32,
    /// Why the first policy is the best, in words.
    pub reason: String,
}

/// Results of a policy: means over the seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankedPolicy {
    /// Name of the policy.
    pub policy: String,
    /// Number of runs that met the objective; null without one.
    pub met: Option<RunCount>,
    /// Median response time in milliseconds, failed requests counted as infinitely late; null if
    /// half of the requests failed.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the response time in milliseconds, as `p50_ms`.
    pub p99_ms: Option<f64>,
    /// 95 % confidence interval of `p99_ms`; null if `p99_ms` is.
    pub p99_interval: Option<Interval>,
    /// 95 % confidence interval of the mean quotient of its p99 and that of the first policy, seed
    /// by seed; null for the first, and if one of the two has no p99.
    pub times_the_first: Option<Interval>,
    /// Share of requests that failed, 0 to 1.
    pub failed: f64,
    /// Share of requests that found every core of their server busy.
    pub found_busy: f64,
    /// Share of requests sent to a server while it was at least 1.5 times as slow as the fastest of
    /// its group at its best.
    pub to_slow: f64,
    /// Imbalance of the worst group: requests of its busiest server divided by the mean of all its
    /// servers.
    pub imbalance: f64,
}
