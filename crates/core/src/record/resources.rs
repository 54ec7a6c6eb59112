//! What the machine's resources did on the time axis of a run.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// What the machine's resources did on the time axis of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceRecord {
    /// What it is about.
    pub target: String,
}
