//! What is wrong with a configuration, and where.

use serde::{Deserialize, Serialize};

/// Errors and warnings of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckRecord {
    /// Path of the file.
    pub file: String,
    /// Errors and warnings, in the order of the file; empty if there are none.
    pub problems: Vec<Problem>,
}

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Severity.
    pub severity: Severity,
    /// Path of the file that it is in: of several, those of `include` or of a folder, the one whose
    /// line this is. Empty in records of older versions.
    #[serde(default)]
    pub file: String,
    /// Line, from 1; 0 if the problem concerns the file as a whole.
    pub line: u64,
    /// Column, from 1; 0 if the problem concerns the file as a whole.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// How to correct it.
    pub help: String,
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is accepted, but probably does not say what was meant.
    Warning,
}
