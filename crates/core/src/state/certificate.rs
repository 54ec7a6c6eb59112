//! Certificates in use, as plain data.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// A certificate that is shown to clients or to servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Certificate {
    /// The file it was read from.
    pub file: String,
    /// The DNS names it is for.
    pub names: Vec<String>,
    /// When it begins to be valid, in seconds since 1970.
    pub not_before_s: i64,
    /// When it ends, in seconds since 1970: the earliest end in its chain.
    pub not_after_s: i64,
    /// Days until it ends; negative once it has.
    pub days_left: f64,
}
