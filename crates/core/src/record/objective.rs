//! An objective (SLO) beside what was measured.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// Whether a run met what was asked of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectiveRecord {
    /// As it was given, for example `p99<300ms, errors<0.1%`.
    pub text: String,
    /// Its criteria, in the order they were given.
    pub criteria: Vec<Criterion>,
}

/// One criterion of an objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Criterion {
    /// As it was given, for example `p99<300ms`.
    pub text: String,
    /// What was measured, with its unit.
    pub measured: String,
    /// Whether it was met.
    pub met: bool,
}

impl ObjectiveRecord {
    /// Whether every criterion was met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.criteria.iter().all(|criterion| criterion.met)
    }
}
