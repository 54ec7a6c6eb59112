//! Decisions of loadline: no clock, no I/O, no threads, no randomness of its own.
//!
//! Time, random draws and observations are arguments, so everything here is tested without
//! waiting and runs the same in the proxy and in a simulation.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ending;
pub mod fleet;
pub mod record;
pub mod time;
pub mod units;
