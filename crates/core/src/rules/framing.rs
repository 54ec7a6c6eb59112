//! Headers of framing and of the connection, which only the proxy writes.

/// Whether a header says where a message ends, or is about its connection (RFC 9110, 7.6.1): no
/// route changes it, and no response of an authentication service gives it to servers.
#[must_use]
pub fn is_framing(name: &str) -> bool {
    FRAMING.iter().any(|other| name.eq_ignore_ascii_case(other))
}

const FRAMING: [&str; 9] = [
    "connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
];
