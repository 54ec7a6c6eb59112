//! What the last purges named, for what was fetched before one of them and is stored after it.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::purge::url_of;

/// The purges that closed fetches, the last of them with what they named.
#[derive(Debug)]
pub(super) struct Sweeps {
    count: AtomicU64,
    /// Hashes of URLs, in a ring; none where a purge named more than one.
    last: Mutex<[Option<u64>; REMEMBERED]>,
    hasher: RandomState,
}

/// The end of a fetch, or the beginning of a `HEAD`: its response may be stored, or freshen what
/// is, unless that was purged since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    sweeps: u64,
}

impl Sweeps {
    pub(super) fn new() -> Self {
        let (count, last) = (AtomicU64::new(0), Mutex::new([None; REMEMBERED]));
        Self { count, last, hasher: RandomState::new() }
    }

    /// Marks the end of a fetch, or the beginning of a `HEAD`, now.
    pub(super) fn closed(&self) -> Closed {
        Closed { sweeps: self.count.load(Relaxed) }
    }

    /// Notes a purge of one URL, or of none that is known yet.
    pub(super) fn note(&self, url: Option<&[u8]>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Relaxed);
        last[place(count)] = url.map(|url| self.hasher.hash_one(url));
        self.count.store(count + 1, Relaxed);
    }

    /// Whether no purge has named this key since `closed`. Purges that are no longer remembered
    /// count as if they had.
    pub(super) fn spared(&self, key: &[u8], closed: Closed) -> bool {
        if closed.sweeps == self.count.load(Relaxed) {
            return true;
        }
        let hash = self.hasher.hash_one(url_of(key));
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Relaxed);
        count - closed.sweeps <= REMEMBERED as u64
            && (closed.sweeps..count).all(|sweep| last[place(sweep)].is_some_and(|it| it != hash))
    }
}

fn place(sweep: u64) -> usize {
    usize::try_from(sweep % REMEMBERED as u64).unwrap_or_default()
}

/// So many purges are told apart while what was fetched is on its way to the table: microseconds,
/// or milliseconds where a thread has to wait for a processor. A `HEAD` that takes longer than as
/// many purges freshens nothing.
const REMEMBERED: usize = 128;
