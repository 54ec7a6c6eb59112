//! Series of single requests or pings.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// Series of single requests or pings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeRecord {
    /// What it is about.
    pub target: String,
}
