//! Certificates by ACME, as plain data.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// A certificate by ACME, issued or not yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcmeCertificate {
    /// DNS name of the certificate.
    pub name: String,
    /// Path of the certificate file, as in the metrics of certificates.
    pub file: String,
    /// Number of certificates issued since the start of the process.
    pub issued: u64,
    /// Number of failed attempts since the start of the process.
    pub failures: u64,
    /// Why the last attempt failed; null if it did not.
    pub fault: Option<String>,
    /// Time of the next attempt, in seconds since 1970.
    pub next_attempt_s: u64,
    /// Time at which the certificate was issued, in seconds since 1970, as far as this process
    /// knows; 0 if there is none.
    pub issued_s: u64,
    /// The edge of the cluster that got the certificate; null if it is not known.
    pub issued_by: Option<String>,
    /// The edge of the cluster that is getting a certificate now; null if none is.
    pub asking: Option<Asking>,
}

/// An edge of the cluster that is getting a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asking {
    /// Name of the edge.
    pub edge: String,
    /// Start of the attempt, in seconds since 1970 by the clock of that edge.
    pub since_s: u64,
}
