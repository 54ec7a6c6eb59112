//! A formula of the source documents with its inputs and results.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// A formula of the source documents with its inputs and results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormulaRecord {
    /// What it is about.
    pub target: String,
}
