//! An objective (SLO) beside what was measured.

use serde::{Deserialize, Serialize};

/// Whether a run met what was asked of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectiveRecord {
    /// As it was given, for example `p99<300ms, errors<0.1%`.
    pub text: String,
    /// Its criteria, in the order they were given.
    pub criteria: Vec<Criterion>,
}

/// One criterion of an objective.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Criterion {
    /// As it was given, for example `p99<300ms`.
    pub text: String,
    /// What was measured, with its unit. Times are of all requests: `never (20 of 1000 failed)`
    /// where a percentile falls among those that failed.
    pub measured: String,
    /// Whether it was met.
    pub met: bool,
    /// How far the verdict can be trusted, as a bound that holds with 95 % confidence, beginning
    /// with `not sure` where it could as well be the other; empty where nothing can be said.
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
