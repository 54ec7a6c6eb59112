//! Standby balancers of packet forwarding.

use alloc::{string::String, vec::Vec};
use core::net::SocketAddr;

use crate::time::Duration;

/// What balancers of one virtual router have in common, and what sets this one apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// Our end of the line between them.
    pub bind: SocketAddr,
    /// Addresses of the other balancers.
    pub peers: Vec<SocketAddr>,
    /// The path of a file with the key that all have, in its first line.
    pub key_file: String,
    /// The number of the virtual router, one for all of them.
    pub router_id: u8,
    /// Who becomes active first: the highest.
    pub priority: u8,
    /// How often the active says that it lives.
    pub interval: Duration,
}

impl Standby {
    /// Between these ends, with the documented defaults.
    #[must_use]
    pub const fn between(bind: SocketAddr, peers: Vec<SocketAddr>, key_file: String) -> Self {
        let interval = Duration::from_secs(1);
        Self { bind, peers, key_file, router_id: 51, priority: 100, interval }
    }
}
