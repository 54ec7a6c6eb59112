//! What a balancer and those that stand by for it tell each other.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// A balancer of several, of which one is active.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Standby {
    /// What this balancer is.
    pub role: Role,
    /// Since how many seconds.
    pub role_s: f64,
    /// Flows and connections of the active that have no place here: of an address or a return
    /// address that the file does not have, or with a full table.
    pub unplaced: u64,
    /// Datagrams of strangers, or without the seal of the key.
    pub refused: u64,
    /// The other balancers, in the order of the file.
    pub peers: Vec<StandbyPeer>,
}

/// What a balancer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It has the addresses of the services, and packets come to it.
    Active,
    /// It waits to become active.
    Standby,
}

/// Another balancer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StandbyPeer {
    /// Address and port.
    pub address: String,
    /// How far it and this balancer know the same.
    pub link: PeerLink,
    /// Of the active: how long the oldest datagram has been without an answer. Of a standby: how
    /// long nothing was heard of the active. None where they do not speak.
    pub lag_s: Option<f64>,
    /// Of the active: facts that the peer may not know as they are now. Of a standby: none.
    pub behind: Option<u64>,
    /// What they have told each other since the start of the process.
    pub counts: PeerCounts,
}

/// How far two balancers know the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PeerLink {
    /// Neither follows the other.
    Silent,
    /// One is told everything.
    Joining,
    /// One knows everything, and is told what changes.
    Whole,
}

/// What was told, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerCounts {
    /// Facts told to it.
    pub records_sent: u64,
    /// Facts heard of it.
    pub records_received: u64,
    /// Datagrams with facts told to it.
    pub datagrams_sent: u64,
    /// Datagrams with facts heard of it.
    pub datagrams_received: u64,
    /// Datagrams with facts, of either, that were lost or came late; what they said is said again.
    pub datagrams_lost: u64,
    /// How often one was told everything.
    pub resynchronizations: u64,
    /// Bytes to it, with all headers from Ethernet on.
    pub bytes_sent: u64,
    /// Bytes from it, with all headers from Ethernet on.
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
