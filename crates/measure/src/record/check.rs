//! What is wrong with a configuration, and where.

use serde::{Deserialize, Serialize};

/// A configuration that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckRecord {
    /// The file.
    pub file: String,
    /// What was found, in the order of the file; nothing in one that is right.
    pub problems: Vec<Problem>,
}

/// Something that is wrong, or probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The line it stands on, from 1; 0 where it is about the file as a whole.
    pub line: u64,
    /// The column it begins at, from 1; 0 where it is about the file as a whole.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is taken, and probably does not say what was meant.
    Warning,
}
