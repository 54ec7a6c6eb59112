//! Keys of JSON Web Tokens that are fetched, as plain data.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// Keys of JSON Web Tokens at a URL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JwtKeys {
    /// URL of the keys, as in the file.
    pub url: String,
    /// Number of keys that verify tokens.
    pub keys: u64,
    /// Seconds since the URL last gave its keys; null before the first time.
    pub age_s: Option<f64>,
    /// Number of failed fetches since the start of the process.
    pub failures: u64,
    /// Why the last fetch failed; null if it did not.
    pub fault: Option<String>,
}
