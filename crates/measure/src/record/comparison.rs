//! Two runs beside each other: every figure with its interval, and what can be said of the change.

use serde::{Deserialize, Serialize};

use super::number;
use crate::statistics::Interval;

/// Two load runs compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonRecord {
    /// The run to compare with (baseline).
    pub a: ComparedRun,
    /// The run that is judged.
    pub b: ComparedRun,
    /// Confidence level of the intervals: 0.95.
    pub confidence: f64,
    /// Threshold of a regression: share by which a time or a rate may be worse.
    pub threshold: f64,
    /// Threshold of a regression: difference by which the share of errors may be higher.
    pub error_threshold: f64,
    /// Compared figures.
    pub figures: Vec<ComparedFigure>,
    /// Warnings on the comparison; empty if there are none.
    pub warnings: Vec<String>,
    /// Whether any figure is a regression: see [`Finding::Worse`].
    pub regressed: bool,
}

/// One of the two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRun {
    /// Name of the run: the one given, or that of the file without its extension.
    pub name: String,
    /// URL or URLs that were loaded.
    pub target: String,
    /// Start of the run, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Whether the run is valid: the load generator was not the bottleneck.
    pub valid: bool,
}

/// A figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigure {
    /// Name: `rate`, `errors`, `mean`, `p50`, `p90`, `p99` or `max`. Times are response times;
    /// `mean` is that of successful requests, the others count all requests, and a failed one as
    /// infinitely late.
    pub name: String,
    /// Unit: `per_s`, `share` or `ms`.
    pub unit: String,
    /// Value in run `a`.
    pub a: Measured,
    /// Value in run `b`.
    pub b: Measured,
    /// Change: `b / a`, for shares `b - a`. Absent if one of the values is missing or infinite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Measured>,
    /// Verdict on the change.
    pub finding: Finding,
}

/// A figure with its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Measured value; absent if there was nothing to measure, null if it is the time of a failed
    /// request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::value_or_never")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub value: Option<f64>,
    /// Confidence interval; absent if the run is too short, and for a maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// Verdict on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Better: the whole interval is better by more than the threshold.
    Better,
    /// Regression: the whole interval is worse by more than the threshold.
    Worse,
    /// The same: the whole interval is within the threshold.
    Same,
    /// Unclear: the interval has changes within the threshold and beyond it.
    NotShown,
    /// Not judged: there is no interval.
    NotJudged,
}
