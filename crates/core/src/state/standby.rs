//! Replication between active and standby balancer, as plain data.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// State of standby: this balancer among several, of which one is active.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Standby {
    /// Role of this balancer.
    pub role: Role,
    /// Seconds since the balancer took this role.
    pub role_s: f64,
    /// Flows and connections of the active balancer that could not be stored here: their address or
    /// return address is not in this file, or the table is full.
    pub unplaced: u64,
    /// Refused datagrams: from unknown addresses, or not authenticated with the key.
    pub refused: u64,
    /// Other balancers, in the order of the file.
    pub peers: Vec<StandbyPeer>,
}

/// Role of a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It has the service addresses and gets the packets.
    Active,
    /// It is ready to become active.
    Standby,
}

/// Another balancer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StandbyPeer {
    /// Address and port.
    pub address: String,
    /// State of replication with this balancer.
    pub link: PeerLink,
    /// Replication lag in seconds. On the active balancer: age of the oldest unacknowledged
    /// datagram. On a standby: time since the last datagram from the active one. Null if they do
    /// not communicate.
    pub lag_s: Option<f64>,
    /// On the active balancer: number of entries that the peer may not have in their current state.
    /// On a standby: null.
    pub behind: Option<u64>,
    /// Replication counters since the start of the process.
    pub counts: PeerCounts,
}

/// State of replication between two balancers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PeerLink {
    /// No replication between the two.
    Silent,
    /// Full synchronization in progress.
    Joining,
    /// Synchronized; only changes are sent.
    Whole,
}

/// Replication counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerCounts {
    /// Entries sent to the peer.
    pub records_sent: u64,
    /// Entries received from the peer.
    pub records_received: u64,
    /// Datagrams with entries sent to the peer.
    pub datagrams_sent: u64,
    /// Datagrams with entries received from the peer.
    pub datagrams_received: u64,
    /// Datagrams with entries, in either direction, that were lost or late; their entries are sent
    /// again.
    pub datagrams_lost: u64,
    /// Number of full synchronizations.
    pub resynchronizations: u64,
    /// Bytes sent to the peer, all headers from Ethernet on included.
    pub bytes_sent: u64,
    /// Bytes received from the peer, all headers from Ethernet on included.
    pub bytes_received: u64,
}

impl Role {
    /// The name in states and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
        }
    }
}

impl PeerLink {
    /// The name in states and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Joining => "joining",
            Self::Whole => "whole",
        }
    }
}
