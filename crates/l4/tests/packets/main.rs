//! Packets through the program, one at a time, without a network: what becomes of each is asked of
//! the kernel (`BPF_PROG_TEST_RUN`).
//!
//! That takes the rights of root; without them each test is counted as skipped.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod changes;
mod counts;
mod frame;
mod fuzz;
mod nat;
mod ports;
mod quic;
mod reference;
mod services;
#[path = "../../../core/tests/skipped/mod.rs"]
mod skipped;
mod standby;
mod told;
mod vectors;
mod world;
