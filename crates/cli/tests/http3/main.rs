//! HTTP/3 of the binary: our own load generator, and clients by others, which `scripts/setup test`
//! installs; what is not installed is skipped.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod clients;
mod edge;
mod flood;
mod installed;
mod load;
mod misbehaviour;
mod origin;
#[path = "../../../core/tests/skipped/mod.rs"]
mod skipped;
