//! HTTP/3 (RFC 9114): a third syntax for the same exchange, over QUIC.
//!
//! QUIC is quinn's, frames and header compression are h3's. As in [`crate::http2`] each stream is
//! shown to the proxy as a [`Socket`](crate::io::socket::Socket) that speaks HTTP/1, and a session
//! of one request responds: no rule about requests is written again. Each worker has a socket of
//! its own on each address, and the kernel gives it the packets of its connections.
//!
//! | | |
//! |---|---|
//! | `sockets` | the sockets of a listener, over reloads and handovers |
//! | `steering` | which of them a packet comes to |
//! | `endpoint` | one of them; which connections are taken in |
//! | `first_packets`, `socket_filter` | how many packets of unknown clients are read |
//! | `offload` | how many packets are sent at a time |
//! | `config` | what a connection is made with: certificates, windows, limits |
//! | `handshake` | how it is agreed on, and what is told of one that fails |
//! | `connection` | one client connection: streams in, idle time, abuse, GOAWAY |
//! | `arrivals` | the streams that come in |
//! | `no_request` | those that end without one |
//! | `stream` | one stream of it as a socket |
//! | `extended` | what of a head h3 does not take: the protocol of an extended CONNECT |
//! | `priority` | whose response goes first |
//! | `receive`, `send` | its two directions |
//! | `send_room` | who goes first where the client has to acknowledge something before |
//! | `quic` | quinn as h3 wants it |
//! | `frames`, `field_lines` | what h3 does not look at: frames too long, pseudo-headers twice |

mod arrivals;
mod config;
mod connection;
mod endpoint;
mod extended;
mod field_lines;
mod first_packets;
mod frames;
mod handshake;
mod no_request;
mod offload;
mod priority;
mod quic;
mod receive;
mod send;
mod send_room;
mod socket_filter;
mod sockets;
mod steering;
mod stream;

pub(crate) use config::{SEND_BYTES, has_suite};
pub(crate) use endpoint::{Slot, listen};
pub(crate) use sockets::QuicSockets;
pub use sockets::{Generation, HandoverQuic};
pub(crate) use stream::Stream;
