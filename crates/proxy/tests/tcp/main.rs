//! Anything over TCP, between real sockets: bytes both ways, names, and whose connections they are.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

#[path = "../tls/authority.rs"]
mod authority;
mod introductions;
mod names;
mod placement;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod streams;
mod support;
