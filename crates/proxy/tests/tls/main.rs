//! TLS towards clients and towards servers, over loopback, with rustls as the other side.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod authority;
#[path = "../../../core/tests/becomes/mod.rs"]
mod becomes;
mod clients;
mod closing;
mod handed_on;
mod hsts;
mod http3;
mod issued;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod servers;
mod stops;
mod support;
