//! What has left the small queue lately: fingerprints of 16 bits in a table of short FIFOs.
//!
//! A key belongs to one FIFO of eight by its hash, so of `n` FIFOs the last `8 n` keys that left
//! are remembered on average, and never more. A key may be taken for any of the eight in its FIFO:
//! of 8,000 keys that were not here, one is taken for one that was.

use alloc::vec::Vec;
use core::mem::{size_of, take};

/// Fingerprints: for four objects in the cache three, give or take a fifth.
#[derive(Debug)]
pub(super) struct Ghost {
    /// The newest in the lowest bits; zero is none.
    fifos: Vec<u128>,
}

impl Ghost {
    pub(super) fn new() -> Self {
        Self { fifos: Vec::new() }
    }

    pub(super) fn memory(&self) -> usize {
        self.fifos.capacity() * size_of::<u128>()
    }

    /// Remembers the upper half of a hash, with so many objects in the cache.
    pub(super) fn remember(&mut self, hash: u32, objects: usize) {
        let wanted = (objects * 3 / 4).div_ceil(KEYS).max(1);
        if self.fifos.len().abs_diff(wanted) > wanted / 5 {
            self.resize(wanted);
        }
        let index = self.index(hash);
        let fifo = &mut self.fifos[index];
        *fifo = *fifo << BITS | fingerprint(hash);
    }

    /// Whether the key with this hash is remembered; it is forgotten with that.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let hash = (hash >> 32) as u32;
        let index = self.index(hash);
        let Some(fifo) = self.fifos.get_mut(index) else { return false };
        let sought = fingerprint(hash);
        let found = (0..KEYS as u32).find(|key| *fifo >> (key * BITS) & KEY == sought);
        let Some(found) = found else { return false };
        let newer = *fifo & !(u128::MAX << (found * BITS));
        let older = (*fifo >> (found * BITS) >> BITS) << (found * BITS);
        *fifo = older | newer;
        true
    }

    fn index(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.fifos.len() as u64) >> 32) as usize
    }

    /// Another number of FIFOs. Each gets the newest of those that its keys may be in.
    fn resize(&mut self, count: usize) {
        let old = take(&mut self.fifos);
        let fifo = |index: usize| {
            let first = index * old.len() / count;
            let end = ((index + 1) * old.len()).div_ceil(count);
            merged(&old[first..end])
        };
        self.fifos = (0..count).map(fifo).collect();
    }
}

/// The newest of several FIFOs, in turns.
fn merged(fifos: &[u128]) -> u128 {
    let by_age = (0..KEYS as u32).rev().flat_map(|key| {
        fifos.iter().map(move |fifo| fifo >> (key * BITS) & KEY).filter(|key| *key != 0)
    });
    by_age.fold(0, |fifo, key| fifo << BITS | key)
}

/// Of the lower bits; the FIFO is chosen by the upper ones.
fn fingerprint(hash: u32) -> u128 {
    u128::from(hash & 0xffff).max(1)
}

/// Fingerprints in a FIFO.
const KEYS: usize = 8;

/// Bits of a fingerprint.
const BITS: u32 = 16;
const KEY: u128 = (1 << BITS) - 1;
