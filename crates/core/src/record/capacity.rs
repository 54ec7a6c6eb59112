//! A capacity search: the load line and how it was found.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// A capacity search: the load line and how it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityRecord {
    /// What it is about.
    pub target: String,
}
