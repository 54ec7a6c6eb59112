//! How requests travel: which protocol, over TLS or not, from which addresses.

use std::{net::IpAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

/// How requests travel. The default is HTTP/1.1, certificates verified, from whatever address the
/// system chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// What is spoken.
    pub protocol: Protocol,
    /// What matters where the URL says `https`.
    pub tls: Tls,
    /// Connections go out from these in turn; each widens the port range. Empty: the system's.
    pub sources: Vec<IpAddr>,
    /// Connections to each address at most; none for as many as are needed. Over HTTP/1.1
    /// requests wait for a free one, first come, first served, and the wait is part of their
    /// response time alone. Over HTTP/2 there are as many as this, and none for one per hundred
    /// requests under way, or per as many as the server takes on one; over HTTP/3 likewise, but
    /// always one per hundred.
    pub connections: Option<u32>,
}

/// What is spoken over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1; over TLS what the server chooses of HTTP/2 and HTTP/1.1. It is asked by one
    /// connection before the run, so that the whole run speaks the same; where several servers do
    /// not all choose HTTP/2, HTTP/1.1 is spoken to each.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: over TLS by ALPN, without TLS by prior knowledge.
    Http2,
    /// HTTP/3, to the UDP port of the URL's number; every URL has to be `https`.
    Http3,
}

/// The usual switches of a TLS client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Accept any certificate.
    pub insecure: bool,
    /// PEM file of authorities trusted instead of the system's.
    pub authorities: Option<PathBuf>,
    /// PEM file of the client's certificate chain.
    pub certificate: Option<PathBuf>,
    /// PEM file of the client's key; the certificate's file if omitted.
    pub key: Option<PathBuf>,
    /// The name to ask for and to verify instead of the URL's host.
    pub server_name: Option<String>,
    /// Only this version; QUIC is TLS 1.3.
    pub version: Option<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}
