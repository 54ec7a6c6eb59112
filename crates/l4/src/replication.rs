//! What a standby must know so that no connection is lost when it takes over, and how it learns
//! it.
//!
//! An active balancer keeps [`Facts`] of what cannot be recomputed: the entries of its rings,
//! exactly (`ring`), the flows that are written down, the NAT connections with their ports, and
//! what its numbers of servers, return addresses and service addresses stand for. Flows of a
//! settled entry are no facts, however many there are.
//!
//! ```text
//!  active: Facts --changed--> Sender ==Data==> Receiver --changes--> Facts of the standby
//!                               ^  <==Ack===      |
//!                               '---- Join <------'
//! ```
//!
//! A [`Sender`] remembers for one standby which facts it may not know as they are now. Each
//! datagram takes some of them, with the values of that moment, and has the next number. A
//! [`Receiver`] takes a datagram only if it is newer than all before, so nothing old overwrites
//! anything new, and says which it has missed; their facts are sent again, as they are then. So
//! losses, duplicates and changes of order are harmless, a slow standby costs no more memory than
//! there are facts, and nothing waits for what was lost.
//!
//! Who joins is told everything, a few datagrams at a time, while changes go on. What it knew
//! before and has not heard again is forgotten when that is complete. Times are not sent: clocks
//! differ, and a standby takes all it has been told as heard of at the moment it takes over.
//!
//! Datagrams are sealed one level up (HMAC). Against replays each side brings a number that it
//! uses only once: a stream is known by the sender's token and the receiver's nonce.
//!
//! Source: IBM, "Performance study for Load Balancer", which tells each connection when it begins
//! and when it ends, 43 bytes each and 26 a packet. Here an IPv4 connection begins in 20 bytes at
//! most and ends in 6, and with `mac` and `ipip` nothing is told while servers stay.

mod codec;
mod datagram;
mod receiver;
mod sender;

pub use codec::{Malformed, Reader, Record, read, write};
pub use datagram::{Datagram, PAYLOAD, Stream};
pub use receiver::{Change, Received, Receiver};
pub use sender::{Sender, Sent};

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use loadline_core::time::Duration;

use crate::{
    ports::Port,
    ring::{Entry, RING_SIZE},
};

/// Everything that is replicated.
pub type Facts = BTreeMap<Key, Fact>;

/// The subject of a fact. Keys that others refer to are smaller, and sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A server's number.
    Server(u16),
    /// A return address: whether it is IPv6, and its number.
    Return(bool, u8),
    /// A number for where clients reach a service.
    ServiceAddress(u16),
    /// A part of the ring of a service, [`PART`] entries from `part * PART` on.
    Entries {
        /// Number of the service.
        service: u16,
        /// Which part, below [`PARTS`].
        part: u16,
    },
    /// A flow that is written down.
    Flow {
        /// Number of the service address.
        service_address: u16,
        /// Where it comes from.
        client: SocketAddr,
    },
    /// A NAT connection, by what it was lent.
    Nat {
        /// Number of the server.
        server: u16,
        /// The port towards it.
        port: Port,
    },
}

/// What is known about a [`Key`] of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The server of a number.
    Server(Server),
    /// A return address.
    Return(IpAddr),
    /// Where clients reach a service.
    ServiceAddress(ServiceAddress),
    /// Entries of a ring.
    Entries(Box<[Entry]>),
    /// Where a flow is.
    Flow(Flow),
    /// Client and service of a NAT connection.
    Nat(Nat),
}

/// A server that has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address and port.
    pub at: SocketAddr,
    /// The link address of the next hop towards it.
    pub link: [u8; 6],
    /// Whether the server is up.
    pub is_up: bool,
    /// The service whose server it is; none where several services share it.
    pub service: Option<u16>,
}

/// An address of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAddress {
    /// Number of the service.
    pub service: u16,
    /// Address and port.
    pub at: SocketAddr,
    /// As in the IP header.
    pub protocol: u8,
}

/// A flow that is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The server it is on.
    pub server: u16,
    /// Its position in the ring of the service.
    pub position: u32,
}

/// A NAT connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// Number of the service address.
    pub service_address: u16,
    /// Where it comes from.
    pub client: SocketAddr,
    /// The link address of the next hop towards the client.
    pub link: [u8; 6],
    /// Both sides have said FIN, or one RST.
    pub is_closed: bool,
}

/// How much of a fact has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// A NAT connection has closed, and nothing else.
    Closing,
    /// Anything else, or the fact is gone.
    Whole,
}

/// Entries in one fact: as many as fit a datagram at their longest.
pub const PART: usize = 128;

/// Parts of a ring.
pub const PARTS: u16 = RING_SIZE.div_ceil(PART) as u16;

/// After so long without a word the other side is taken for gone.
pub const SILENCE: Duration = Duration::from_secs(3);

/// The number of entries in a part of a ring.
#[must_use]
pub const fn entries_of(part: u16) -> usize {
    let first = part as usize * PART;
    if first + PART <= RING_SIZE { PART } else { RING_SIZE.saturating_sub(first) }
}

#[cfg(test)]
mod tests;
