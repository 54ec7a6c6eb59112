//! Two runs beside each other: every figure with its interval, and what can be said of the change.

use serde::{Deserialize, Serialize};

use crate::statistics::Interval;

/// Two runs beside each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonRecord {
    /// What is compared with.
    pub a: ComparedRun,
    /// What is judged.
    pub b: ComparedRun,
    /// How sure the intervals are: 0.95.
    pub confidence: f64,
    /// By what share a time or a rate may be worse.
    pub threshold: f64,
    /// By what the share of errors may be higher, as a share of all requests.
    pub error_threshold: f64,
    /// The figures.
    pub figures: Vec<ComparedFigure>,
    /// Why the comparison is to be read with care; empty where nothing speaks against it.
    pub warnings: Vec<String>,
    /// Whether any figure is worse: see [`Finding::Worse`].
    pub regressed: bool,
}

/// One of the two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRun {
    /// Its name: the file without its ending, or as it was given.
    pub name: String,
    /// What was asked.
    pub target: String,
    /// When it began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Whether the generator stood in its way.
    pub valid: bool,
}

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedFigure {
    /// Which: `rate`, `errors`, `mean`, `p50`, `p90`, `p99`, `max`; times are response times, the
    /// mean that of successful requests, the others of all, one that failed as infinitely late.
    pub name: String,
    /// The unit of both: `per_s`, `share`, `ms`.
    pub unit: String,
    /// In the first run.
    pub a: Measured,
    /// In the second run.
    pub b: Measured,
    /// How the second differs: `b / a`, of shares `b - a`. None where one of them is missing or
    /// infinite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Measured>,
    /// What can be said of the change.
    pub finding: Finding,
}

/// A figure, and where it lies as far as the run can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// What was measured; absent where there was nothing to measure, null where it is the time of a
    /// request that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Where the figure lies; none where the run is too short for one, and of a maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// What can be said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The whole interval is for the better, by more than the threshold.
    Better,
    /// The whole interval is for the worse, by more than the threshold: a regression.
    Worse,
    /// The whole interval is within the threshold, to either side.
    Same,
    /// The interval holds changes within the threshold and beyond it.
    NotShown,
    /// There is no interval to judge by.
    NotJudged,
}
