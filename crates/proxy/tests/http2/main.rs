//! HTTP/2 over loopback, towards clients and towards servers: what is said in it, what flows in it,
//! what abuses it.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod abuse;
#[expect(dead_code, reason = "a part is for rustls as the client")]
#[path = "../tls/authority.rs"]
mod authority;
mod clients;
mod conformance;
mod early;
mod ends;
mod frames;
mod grpc;
mod handshake;
mod life;
mod messages;
mod mirror;
mod refusals;
mod scripted;
mod servers;
mod support;
mod trailers;
mod websockets;
mod windows;
