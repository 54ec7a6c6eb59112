//! Client connections of a listener, as plain data.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
};

use serde::{Deserialize, Serialize};

use crate::fleet::{self, Protocol};

/// State of a listener, with counters since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listener {
    /// Address of the listener, as in the file.
    pub address: String,
    /// Protocol: `http`, `https`, `tcp`, `tls` or `tls-passthrough`.
    pub protocol: String,
    /// Maximum number of connections.
    pub max_connections: u32,
    /// Maximum number of connections of one client; null without a limit.
    #[serde(default)]
    pub max_connections_per_client: Option<u32>,
    /// Open connections.
    pub open: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Refused connections by reason: `accept-failed` (mostly no file descriptor left),
    /// `proxy-header` (PROXY header bad, cut or late), `client-limit` (`max_connections_per_client`
    /// reached), `max-connections` (`max_connections` reached, HTTP/3 only).
    pub refused: BTreeMap<String, u64>,
    /// Number of times that accepting stopped because `max_connections` was reached. New
    /// connections then waited in the kernel's backlog.
    pub held: u64,
    /// Completed TLS handshakes.
    pub handshakes: u64,
    /// Failed TLS handshakes: refused by either side, cut or too slow.
    pub handshakes_failed: u64,
    /// Bytes received from clients, TLS and framing included.
    pub received_bytes: u64,
    /// Bytes sent to clients, TLS and framing included.
    pub sent_bytes: u64,
}

impl Listener {
    /// A listener of which nothing has been counted.
    #[must_use]
    pub(super) fn of(listener: &fleet::Listener) -> Self {
        Self {
            address: listener.bind.to_string(),
            protocol: listener.protocol.name().to_string(),
            max_connections: listener.max_connections,
            max_connections_per_client: listener.max_connections_per_client,
            ..Self::default()
        }
    }
}

impl Protocol {
    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::TlsPassthrough => "tls-passthrough",
        }
    }
}
