//! Listeners that come, go and change while traffic flows, and a process that follows another.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

#[path = "../../../core/tests/becomes/mod.rs"]
mod becomes;
mod clients;
mod drains;
mod listeners;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod stops;
mod succession;
mod support;
