//! An objective (SLO) beside what was measured.

use serde::{Deserialize, Serialize};

/// An objective (SLO) and whether a run met it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectiveRecord {
    /// The objective as given, for example `p99<300ms, errors<0.1%`.
    pub text: String,
    /// Criteria in the given order.
    pub criteria: Vec<Criterion>,
}

/// One criterion of an objective.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Criterion {
    /// The criterion as given, for example `p99<300ms`.
    pub text: String,
    /// Measured value with its unit. Times count all requests: `never (20 of 1000 failed)` if a
    /// percentile falls among failed requests.
    pub measured: String,
    /// Whether the criterion was met.
    pub met: bool,
    /// Bound of the measured value with 95 % confidence. It begins with `not sure` if the verdict
    /// could as well be the opposite; absent if there is no bound.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub confidence: String,
}

impl ObjectiveRecord {
    /// Whether every criterion was met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.criteria.iter().all(|criterion| criterion.met)
    }
}
