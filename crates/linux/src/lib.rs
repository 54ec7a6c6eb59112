//! What Linux tells and does, for all who ask it: clocks, timers without slack, `/proc`, netlink.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod clock;
pub mod netlink;
pub mod proc;
pub mod timer;
