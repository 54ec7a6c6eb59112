//! Two runs beside each other.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// Two runs beside each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonRecord {
    /// What it is about.
    pub target: String,
}
