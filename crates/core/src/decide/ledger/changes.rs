//! Which servers of a group have changed, so that a choice need not look at all of them.
//!
//! Each server has a slot in which its changes are counted. Whoever remembers something of a server
//! remembers the count too, and looks again where it is another. A count has eight bits, eight
//! counts are a word: of two hundred servers 25 words are compared. A count that runs over adds one
//! to the next: a server that has not changed is looked at for nothing. After 256 changes, and no
//! choice, a count is what it was: what is remembered is old until the next change.

use core::{
    array,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use crate::decide::{
    atomic::{AtomicBool, AtomicU64},
    ledger::ServerId,
};

/// How often each server has taken a request or given one back.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    watched: AtomicBool,
    counts: [AtomicU64; WORDS],
}

impl Default for Changes {
    fn default() -> Self {
        Self { watched: AtomicBool::new(false), counts: array::from_fn(|_| AtomicU64::new(0)) }
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
            let slot = slot(server);
            // Who sees the new count sees what has changed.
            self.counts[slot / PER_WORD].fetch_add(1 << (slot % PER_WORD * BITS), Release);
        }
    }

    /// The counts of a word.
    pub(crate) fn of(&self, word: usize) -> u64 {
        self.counts[word].load(Acquire)
    }
}

/// The slot of a server. In groups of more than [`SLOTS`] some have one in common.
pub(crate) const fn slot(server: ServerId) -> usize {
    server.index() % SLOTS
}

/// The slots of a word whose counts differ.
pub(crate) fn differing(word: usize, one: u64, other: u64) -> impl Iterator<Item = usize> {
    let mut differ = one ^ other;
    core::iter::from_fn(move || {
        let at = (differ != 0).then(|| differ.trailing_zeros() as usize / BITS)?;
        differ &= !(MASK << (at * BITS));
        Some(word * PER_WORD + at)
    })
}

pub(crate) const SLOTS: usize = WORDS * PER_WORD;
const WORDS: usize = 32;
pub(crate) const PER_WORD: usize = u64::BITS as usize / BITS;

/// Of a count.
const BITS: usize = 8;
const MASK: u64 = (1 << BITS) - 1;
