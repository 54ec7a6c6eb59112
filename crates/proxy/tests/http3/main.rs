//! HTTP/3 over loopback, with quinn and h3 as the client: what is said in it, who serves it, and
//! what a reload and a handover do to it.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod authentication;
#[path = "../tls/authority.rs"]
mod authority;
mod bodies;
mod drains;
mod early;
mod handover;
#[path = "../http2/handshake.rs"]
mod handshake;
mod handshakes;
#[path = "../routes/issuer.rs"]
mod issuer;
mod limits;
mod loss;
mod raw;
mod requests;
mod support;
mod websockets;
mod workers;
