//! Edges that share a real etcd: who is there, what is published to all, and what goes wrong with
//! the store. Requests are answered throughout.
//!
//! Every process listens on a port of the loopback, keeps its files in a temporary directory, and
//! is ended by its handle.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod certificates;
mod command;
mod edge;
mod etcd;
mod faults;
mod health;
mod membership;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod publishing;
#[path = "../served/mod.rs"]
mod served;
mod sharing;
mod traffic;
