//! Keeps idle processors from sleeping while a router runs.
//!
//! A processor that sleeps takes some 50 us to wake, on a virtual machine more, and longer the
//! longer it slept: a ping a second would find every one asleep, and be late at each of its four
//! wakes by what no calibration under load foresees. The kernel lets root ask for less
//! (`/dev/cpu_dma_latency`, documented in its `pm_qos_interface`): as long as the file is open,
//! idle processors poll.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
};

/// Idle processors stay awake until this is dropped.
#[derive(Debug)]
pub(super) struct Awake(#[expect(dead_code, reason = "the kernel minds that it is open")] File);

impl Awake {
    /// Asks for it; none where the kernel does not let this user.
    pub(super) fn ask() -> Option<Self> {
        let mut file = OpenOptions::new().write(true).open(LATENCY).ok()?;
        file.write_all(&NO_MICROSECONDS.to_ne_bytes()).ok()?;
        Some(Self(file))
    }
}

const LATENCY: &str = "/dev/cpu_dma_latency";

/// The longest that a wake may take.
const NO_MICROSECONDS: i32 = 0;
