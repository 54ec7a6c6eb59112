//! HTTP/2 over loopback, towards clients and towards servers: what is said in it, what flows in it,
//! what abuses it.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod abuse;
mod clients;
mod frames;
mod life;
mod messages;
mod refusals;
mod scripted;
mod servers;
mod support;
mod windows;
