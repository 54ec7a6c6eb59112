//! Hosts on this machine, with real namespaces: what they are, what runs on them, and that nothing
//! of them stays.
//!
//! Root is not needed; where the tests are run by root, one of them runs the others' main points
//! as a user without rights.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod ethernet;
mod left_behind;
mod machines;
mod network;
mod programs;
#[path = "../../../core/tests/skipped/mod.rs"]
mod skipped;
mod support;
mod unprivileged;
