//! TLS settings towards clients and servers.
//!
//! Paths stand for PEM files; the proxy reads them, and refuses a file that it cannot use as a
//! whole.

use alloc::{string::String, vec::Vec};
use core::fmt;

use super::acme::Acme;
use crate::time::Duration;

/// TLS towards clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    /// At least one, or some by [`ListenerTls::acme`]; which is shown is decided by the name the
    /// client asks for. The first is for those that ask for none, or for one that no certificate
    /// has.
    pub certificates: Vec<Certificate>,
    /// Certificates that an authority issues; they go before the others.
    pub acme: Option<Acme>,
    /// Whether clients show certificates; none are asked for if omitted.
    pub clients: Option<ClientCheck>,
    /// Whether clients that come back may resume their session.
    pub resumption: bool,
    /// Whether those of HTTP/3 may send requests before the handshake is over (0-RTT).
    pub early_data: bool,
    /// What answers say of coming in clear; nothing if omitted.
    pub hsts: Option<Hsts>,
    /// TLS versions and cipher suites that are allowed.
    pub terms: TlsTerms,
}

impl ListenerTls {
    /// TLS with these certificates and the documented defaults.
    #[must_use]
    pub fn of(certificates: Vec<Certificate>) -> Self {
        Self {
            certificates,
            acme: None,
            clients: None,
            resumption: true,
            early_data: false,
            hsts: None,
            terms: TlsTerms::default(),
        }
    }
}

/// HTTP Strict Transport Security (RFC 6797): who has had a response comes in clear no more. Shown,
/// it is the value of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hsts {
    /// For how long, counted from each response, in whole seconds; zero takes it back.
    pub max_age: Duration,
    /// Whether it holds for every name below the host as well.
    pub include_subdomains: bool,
    /// Whether browsers may come to know of it before their first visit.
    pub preload: bool,
}

impl fmt::Display for Hsts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max-age={}", self.max_age.as_nanos() / 1_000_000_000)?;
        f.write_str(if self.include_subdomains { "; includeSubDomains" } else { "" })?;
        f.write_str(if self.preload { "; preload" } else { "" })
    }
}

/// TLS towards servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// File of authorities trusted instead of the system's.
    pub authorities: Option<String>,
    /// Whether a server's certificate is verified at all.
    pub verify: bool,
    /// The name asked for and verified; if omitted each server's own as it was written, a host
    /// name or an address.
    pub name: Option<String>,
    /// What is shown to servers that ask.
    pub certificate: Option<Certificate>,
    /// TLS versions and cipher suites that are allowed.
    pub terms: TlsTerms,
}

impl Default for ServerTls {
    /// Servers prove their names to the authorities of the system.
    fn default() -> Self {
        let terms = TlsTerms::default();
        Self { authorities: None, verify: true, name: None, certificate: None, terms }
    }
}

/// A certificate and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Certificate {
    /// File of the certificate, then the intermediate ones.
    pub chain: String,
    /// File of its private key.
    pub key: String,
    /// File of an OCSP response (DER) that is stapled to it.
    pub staple: Option<String>,
}

/// How clients' certificates are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCheck {
    /// File of the authorities that sign them.
    pub authorities: String,
    /// Whether a client without one is turned away.
    pub required: bool,
    /// The header that tells servers its subject; none if omitted.
    pub subject_header: Option<String>,
}

/// TLS versions and cipher suites that are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTerms {
    /// The oldest version.
    pub min_version: TlsVersion,
    /// Cipher suites by their names, in the order of preference; all safe ones where empty.
    pub suites: Vec<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    V12,
    /// TLS 1.3 (RFC 8446).
    V13,
}
