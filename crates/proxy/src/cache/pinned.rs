//! Memory that bodies take beyond what is stored: what has been evicted, purged or replaced stays
//! for as long as a client is sent it.
//!
//! A large body counts here from the moment that it is kept until the last of its bytes is dropped,
//! but for as long as the table or the queue of the disk has it and counts it itself. Small ones do
//! not: they fit into what a connection takes anyway.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use bytes::Bytes;
use loadline_linux::arena::Arena;

use super::object::SENT_IN_PLACE;

/// How much it is. A body may count under two keys for a moment, so it may be less than nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pinned(Arc<AtomicI64>);

/// Bytes that are counted until they are dropped.
#[derive(Debug)]
struct Counted {
    bytes: Bytes,
    pinned: Pinned,
}

/// Memory that is counted elsewhere until this is dropped.
#[derive(Debug)]
pub(super) struct Elsewhere {
    pages: u32,
    pinned: Pinned,
}

impl Pinned {
    /// The memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.0.load(Relaxed)).unwrap_or(0) * Arena::memory_of(1)
    }

    /// The same bytes, which are counted from now on.
    pub(super) fn count(&self, bytes: Bytes) -> Bytes {
        let pages = pages_of(&bytes);
        if pages == 0 {
            return bytes;
        }
        self.add(pages);
        Bytes::from_owner(Counted { bytes, pinned: self.clone() })
    }

    /// Nobody else counts so many pages any more.
    pub(super) fn add(&self, pages: u32) {
        self.0.fetch_add(pages.into(), Relaxed);
    }

    /// Notes that so many pages are counted elsewhere.
    pub(super) fn take(&self, pages: u32) {
        self.0.fetch_sub(pages.into(), Relaxed);
    }

    /// The same until what is given is dropped.
    pub(super) fn lend(&self, pages: u32) -> Elsewhere {
        self.take(pages);
        Elsewhere { pages, pinned: self.clone() }
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.pinned.take(pages_of(&self.bytes));
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.pinned.add(self.pages);
    }
}

/// The pages of bytes that are counted; none of small ones.
pub(super) fn pages_of(bytes: &Bytes) -> u32 {
    if bytes.len() < SENT_IN_PLACE {
        return 0;
    }
    let pages = (bytes.len() as u64).div_ceil(Arena::memory_of(1));
    u32::try_from(pages).unwrap_or(u32::MAX)
}
