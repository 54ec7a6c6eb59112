//! Linux: clocks, timers without slack, threads, files in memory, connections, `/proc`, netlink.
// unsafe: a file in memory is mapped and a connection is asked, for which no library has a safe
// function (`arena`, `socket`), and a processor is given an address (`prefetch`).
#![deny(unsafe_code)]

pub mod alarm;
pub mod arena;
pub mod clock;
pub mod netlink;
pub mod prefetch;
pub mod proc;
pub mod socket;
pub mod thread;
pub mod timer;
