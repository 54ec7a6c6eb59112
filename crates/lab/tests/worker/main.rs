//! A worker seen from outside, over loopback.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod client;
mod faults;
mod http;
mod timing;
mod unit;
