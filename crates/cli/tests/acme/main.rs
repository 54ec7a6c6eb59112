//! Certificates by ACME from a real authority, pebble, with its faults on: it refuses nonces, and
//! takes proofs of before at random.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod edge;
mod many;
mod one;
mod pebble;
