//! Certificates in use, as plain data.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// A certificate used towards clients or servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Certificate {
    /// Path of the file.
    pub file: String,
    /// DNS names of the certificate.
    pub names: Vec<String>,
    /// Begin of validity, in seconds since 1970.
    pub not_before_s: i64,
    /// End of validity, in seconds since 1970: the earliest in the chain.
    pub not_after_s: i64,
    /// Days until the end of validity; negative after it.
    pub days_left: f64,
}
