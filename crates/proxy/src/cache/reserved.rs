//! Memory that bodies take while they come in.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// How much it is, of all bodies together.
#[derive(Debug, Default)]
pub(super) struct Arriving(Arc<AtomicU64>);

/// What one body takes of it, until this is dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Arriving {
    /// How many bytes it is.
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// So many bytes more, if that leaves it at no more than `most`.
    pub(super) fn reserve(&self, bytes: u64, most: u64) -> Option<Reserved> {
        let before = self.0.fetch_add(bytes, Relaxed);
        let reserved = Reserved { all: self.0.clone(), bytes };
        (before + bytes <= most).then_some(reserved)
    }
}

impl Reserved {
    /// How many bytes it is.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes over another part for the same body.
    pub(super) fn add(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives back what is beyond so many bytes.
    pub(super) fn shrink(&mut self, most: u64) {
        let beyond = self.bytes.saturating_sub(most);
        self.bytes -= beyond;
        self.all.fetch_sub(beyond, Relaxed);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.shrink(0);
    }
}
