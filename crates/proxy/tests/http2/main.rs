//! HTTP/2 towards clients, over loopback: what is said in it, what flows in it, what abuses it.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod abuse;
mod clients;
mod frames;
mod life;
mod messages;
mod refusals;
mod support;
mod windows;
