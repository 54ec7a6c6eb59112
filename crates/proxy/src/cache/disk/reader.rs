//! The threads that read.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

use super::{Shared, queue::Read, segment::record_at};

/// Reads that are waiting for a thread.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Mutex<Waiting>,
    to_read: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    reads: VecDeque<Read>,
    is_closed: bool,
}

impl Requests {
    /// Adds a read; false if there is no room.
    pub(super) fn push(&self, read: Read) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_closed || waiting.reads.len() >= READS_MAX {
            return false;
        }
        waiting.reads.push_back(read);
        drop(waiting);
        self.to_read.notify_one();
        true
    }

    pub(super) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.to_read.notify_all();
    }

    /// Waits for the next; none where no more will come.
    fn next(&self) -> Option<Read> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(read) = waiting.reads.pop_front() {
                return Some(read);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.to_read.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads until no more will come.
pub(super) fn run(shared: &Arc<Shared>) {
    while let Some(Read { key, hash, place, answer }) = shared.reads.next() {
        let record = record_at(&place.file, place.entry.range());
        match &record {
            Some(_) => shared.counters.read.fetch_add(1, Relaxed),
            None => {
                shared.state().forget(hash, place.entry);
                shared.counters.corrupt.fetch_add(1, Relaxed)
            }
        };
        // Another key may have the same hash.
        let value = record.filter(|(found, _)| **found == *key).map(|(_, value)| value);
        // Whoever asked may be gone.
        let _ = answer.send(value);
    }
}

/// Reads that may wait: beyond that a server is faster than the disk.
const READS_MAX: usize = 1_024;
