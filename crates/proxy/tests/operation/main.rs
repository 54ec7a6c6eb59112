//! Listeners that come, go and change while traffic flows, and a process that follows another.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod clients;
mod drains;
mod listeners;
mod stops;
mod succession;
mod support;
