//! What the client connections of a listener do, as plain data.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
};

use serde::{Deserialize, Serialize};

use crate::fleet::{self, Protocol};

/// What comes in at a listener, counted since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listener {
    /// Its address, as the file has it.
    pub address: String,
    /// What is spoken there: `http`, `https`, `tcp`, `tls` or `tls-passthrough`.
    pub protocol: String,
    /// The most connections at a time.
    pub max_connections: u32,
    /// The most connections of one client at a time; no number if there is no limit.
    #[serde(default)]
    pub max_connections_per_client: Option<u32>,
    /// Connections that are open.
    pub open: u64,
    /// Connections that were taken in.
    pub accepted: u64,
    /// Connections that were not, by the reason: `accept-failed` (mostly for want of file
    /// descriptors), `proxy-header` (bad, cut or late), `client-limit` (its client had as many as
    /// it may), `max-connections` (of HTTP/3, when there were as many as there may be).
    pub refused: BTreeMap<String, u64>,
    /// Times accepting stopped because there were as many connections as there may be. Those that
    /// came then waited in the kernel.
    pub held: u64,
    /// TLS handshakes that were completed.
    pub handshakes: u64,
    /// TLS handshakes that failed: refused by either side, cut, or too slow.
    pub handshakes_failed: u64,
    /// Bytes that clients sent, TLS and frames included.
    pub received_bytes: u64,
    /// Bytes that were sent to clients, TLS and frames included.
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
