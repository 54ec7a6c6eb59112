//! Where the value of each key is, which files there are, and what is to be written.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    sync::Arc,
};

use super::{
    queue::{Job, Queue},
    segment::Segment,
};

/// Everything that changes, under one lock that is never held over I/O.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By the hash of the key. Of two keys with the same one the later has it; records tell.
    pub(super) index: HashMap<u64, Entry>,
    /// The oldest first; the last one is written to.
    pub(super) segments: VecDeque<Segment>,
    pub(super) queue: Queue,
    /// The keys whose values are being written, and whether each has been removed meanwhile.
    writing: Vec<(u64, bool)>,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) bytes: u32,
    /// Whether it was read since it was written.
    pub(super) was_read: bool,
}

/// Where a record is, with the file to read it from.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) file: Arc<File>,
    pub(super) entry: Entry,
}

impl State {
    /// Where the value of a key is, which is asked for.
    pub(super) fn find(&mut self, hash: u64) -> Option<Place> {
        let entry = self.index.get_mut(&hash)?;
        entry.was_read = true;
        let entry = *entry;
        let file = self.file(entry.segment)?;
        Some(Place { file, entry })
    }

    pub(super) fn file(&self, number: u32) -> Option<Arc<File>> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        Some(self.segments[at].file.clone())
    }

    /// Takes the value of a key away; false where nothing was known of it.
    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> bool {
        let was_there = self.index.remove(&hash).is_some();
        let was_queued = self.queue.cancel(hash);
        let mut is_written = false;
        for (_, removed) in self.writing.iter_mut().filter(|(writing, _)| *writing == hash) {
            (*removed, is_written) = (true, true);
        }
        let is_known = was_there || was_queued || is_written;
        // What was only queued is not on the disk; an earlier value of the key may be.
        is_known && self.queue.push(Job::Remove { key: key.into() })
    }

    /// The value of a key is going to be written.
    pub(super) fn begin(&mut self, hash: u64) {
        self.writing.push((hash, false));
    }

    /// The value that was begun last is written, here, or is not.
    pub(super) fn end(&mut self, entry: Option<Entry>) {
        let Some((hash, removed)) = self.writing.pop() else { return };
        let Some(entry) = entry.filter(|_| !removed) else { return };
        self.index.insert(hash, entry);
        if let Some(newest) = self.segments.back_mut() {
            newest.hashes.push(hash);
        }
    }

    /// Forgets a record that is not what was written, unless another has taken its place.
    pub(super) fn forget(&mut self, hash: u64, entry: Entry) {
        if self.index.get(&hash).is_some_and(|other| other.is_at(entry)) {
            self.index.remove(&hash);
        }
    }

    /// What all files take.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

impl Entry {
    /// Where it begins in its file, and how long it is.
    pub(super) fn range(&self) -> (u64, u64) {
        (u64::from(self.offset), u64::from(self.bytes))
    }

    pub(super) fn is_at(&self, other: Self) -> bool {
        (self.segment, self.offset) == (other.segment, other.offset)
    }
}
