//! Which servers of a group have changed, so that a choice need not look at all of them.
//!
//! Servers are in blocks, each with a count of its changes. Whoever remembers something of a block
//! remembers the count too, and looks again where it is another.

use core::{
    array,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use crate::decide::{
    atomic::{AtomicBool, AtomicU32},
    ledger::ServerId,
};

/// How often the servers of each block have taken a request or given one back.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    watched: AtomicBool,
    counts: [AtomicU32; COUNTS],
}

impl Default for Changes {
    fn default() -> Self {
        Self { watched: AtomicBool::new(false), counts: array::from_fn(|_| AtomicU32::new(0)) }
    }
}

impl Changes {
    /// Counts from now on.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Relaxed);
    }

    /// This server has changed.
    pub(crate) fn count(&self, server: ServerId) {
        if self.watched.load(Relaxed) {
            // Who sees the new count sees what has changed.
            self.counts[block(server)].fetch_add(1, Release);
        }
    }

    /// How often servers of the block have changed.
    pub(crate) fn of(&self, block: usize) -> u32 {
        self.counts[block % COUNTS].load(Acquire)
    }
}

/// The block of a server: those that came one after the other are in one. In groups of more than
/// 256 servers some have a count in common.
pub(crate) const fn block(server: ServerId) -> usize {
    server.index() / BLOCK % COUNTS
}

/// Servers of a block.
const BLOCK: usize = 4;

const COUNTS: usize = 64;
