//! Certificates by ACME from a real authority, pebble, with its faults on: it refuses nonces, and
//! takes proofs of before at random; and one certificate of several edges, with a real etcd.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod cluster;
mod edge;
#[expect(dead_code, reason = "it is that of the tests of clusters")]
#[path = "../cluster/etcd.rs"]
mod etcd;
mod many;
mod one;
mod pebble;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
