//! Linux: clocks, timers without slack, threads, signals, files in memory, connections, `/proc`,
//! netlink.
// unsafe: a file in memory is mapped, a connection is asked and signals are held back, for which no
// library here has a safe function (`arena`, `socket`, `signals`), and a processor is given an
// address (`prefetch`).
#![deny(unsafe_code)]

pub mod alarm;
pub mod arena;
pub mod clock;
pub mod netlink;
pub mod prefetch;
pub mod proc;
pub mod signals;
pub mod socket;
pub mod thread;
pub mod timer;
