//! Certificates by ACME, as plain data.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// A certificate that an authority issues to this edge, there or not yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcmeCertificate {
    /// The DNS name it is for.
    pub name: String,
    /// Its file, as in the metrics of certificates.
    pub file: String,
    /// Certificates that were issued since the start of the process.
    pub issued: u64,
    /// Attempts that failed since the start of the process.
    pub failures: u64,
    /// Why the last attempt failed; none where it did not.
    pub fault: Option<String>,
    /// When its authority is asked next, in seconds since 1970.
    pub next_attempt_s: u64,
    /// When the certificate was issued, in seconds since 1970, as far as this process knows; 0
    /// where there is none.
    pub issued_s: u64,
    /// The edge of the cluster that asked for it.
    pub issued_by: Option<String>,
    /// The edge of the cluster that is asking the authority now.
    pub asking: Option<Asking>,
}

/// Which edge of a cluster asks an authority for a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asking {
    /// Its name.
    pub edge: String,
    /// Since when, in seconds since 1970 by its clock.
    pub since_s: u64,
}
