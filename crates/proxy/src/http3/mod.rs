//! HTTP/3 (RFC 9114): a third syntax for the same exchange, over QUIC.
//!
//! QUIC is quinn's, frames and header compression are h3's. As in [`crate::http2`] each stream is
//! shown to the proxy as a [`Socket`](crate::io::socket::Socket) that speaks HTTP/1, and a session
//! of one request responds: no rule about requests is written again. Packets of a listener come
//! in through one socket and are served by the worker that has it.
//!
//! | | |
//! |---|---|
//! | `endpoint` | the socket of a listener; which connections are taken in |
//! | `config` | what a connection is made with: certificates, windows, limits |
//! | `connection` | one client connection: streams in, idle time, abuse, GOAWAY |
//! | `stream` | one stream of it as a socket |
//! | `receive`, `send` | its two directions |
//! | `quic` | quinn as h3 wants it |
//! | `lengths` | frames that would take too much memory |

mod config;
mod connection;
mod endpoint;
mod lengths;
mod quic;
mod receive;
mod send;
mod stream;

pub(crate) use endpoint::listen;
pub(crate) use stream::Stream;
