//! Versions of HTTP, and limits of HTTP/2 connections.

use crate::units::{Bytes, Rate};

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// One request after another on a connection.
    Http11,
    /// Many at a time: over TLS by ALPN, in clear by prior knowledge.
    Http2,
}

/// What a client may do on one connection of HTTP/2. How large heads may be is said for both
/// versions together ([`super::HeadLimits`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Limits {
    /// Streams at a time, at least 1; further ones are refused.
    pub streams: u32,
    /// What a client may send on a stream before its server has taken it, up to 2^31 - 1 bytes.
    pub window: Bytes,
    /// The same for all streams of a connection, at least 65,536 bytes: with what of its responses
    /// waits for the client, what a connection can hold of our memory.
    pub connection_window: Bytes,
    /// Streams that may end without a response, in the long run; ten seconds' worth at once. More
    /// end the connection, if they are more than half of all it ever had.
    pub resets: Rate,
}

impl Default for Http2Limits {
    /// 100 streams are what RFC 9113 (6.5.2) calls enough, and browsers expect; 256 KiB are
    /// 100 Mbit/s at 20 ms. A browser that leaves a page takes back what is open, rarely more than
    /// 20 times a second.
    fn default() -> Self {
        Self {
            streams: 100,
            window: Bytes::new(256 << 10),
            connection_window: Bytes::new(1 << 20),
            resets: Rate::per_sec(20),
        }
    }
}
