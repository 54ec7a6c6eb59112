//! The entries of an [`Eviction`](super::Eviction): one table, and two queues through it.

use alloc::vec::Vec;
use core::{mem::size_of, sync::atomic::Ordering::Relaxed};

use crate::decide::atomic::AtomicU8;

/// The place of an object. It may be another's once this one has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u32);

#[cfg(test)]
impl Slot {
    pub(super) fn nth(place: u32) -> Self {
        Self(place)
    }
}

/// In which queue an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Small,
    Main,
}

/// What has left.
#[derive(Debug)]
pub(super) struct Removed<I> {
    pub(super) id: I,
    pub(super) hash: u32,
}

/// All entries; places that are free are in a list of their own.
#[derive(Debug)]
pub(super) struct Entries<I> {
    entries: Vec<Entry<I>>,
    free: u32,
    len: usize,
    queues: [Ends; 2],
}

#[derive(Debug)]
struct Entry<I> {
    /// None in a free place.
    id: Option<I>,
    bytes: u64,
    /// The upper half of the hash of the key.
    hash: u32,
    /// The next older and the next newer one of the queue; of a free place, the next free one.
    older: u32,
    newer: u32,
    queue: Queue,
    /// Hits since it entered or went around, up to [`HITS_MAX`].
    hits: AtomicU8,
}

/// A queue: its ends and what is in it.
#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
    bytes: u64,
}

impl<I> Entries<I> {
    pub(super) const ENTRY_BYTES: usize = size_of::<Entry<I>>();

    pub(super) fn new() -> Self {
        let empty = Ends { oldest: NONE, newest: NONE, bytes: 0 };
        Self { entries: Vec::new(), free: NONE, len: 0, queues: [empty; 2] }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes_of(Queue::Small) + self.bytes_of(Queue::Main)
    }

    pub(super) fn bytes_of(&self, queue: Queue) -> u64 {
        self.queues[queue as usize].bytes
    }

    pub(super) fn memory(&self) -> usize {
        self.entries.capacity() * Self::ENTRY_BYTES
    }

    pub(super) fn oldest(&self, queue: Queue) -> Option<Slot> {
        let oldest = self.queues[queue as usize].oldest;
        (oldest != NONE).then_some(Slot(oldest))
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&I> {
        self.entries.get(slot.0 as usize)?.id.as_ref()
    }

    pub(super) fn hits(&self, slot: Slot) -> u8 {
        self.entries[slot.0 as usize].hits.load(Relaxed)
    }

    /// Counts a hit. Of two at the same moment one may be lost; an object with the most that is
    /// counted is only read, so that its cache line stays with every core.
    pub(super) fn hit(&self, slot: Slot) {
        let Some(entry) = self.entries.get(slot.0 as usize) else { return };
        let hits = entry.hits.load(Relaxed);
        if hits < HITS_MAX {
            entry.hits.store(hits + 1, Relaxed);
        }
    }

    /// Puts an object at the new end of a queue, without hits.
    pub(super) fn push(&mut self, queue: Queue, id: I, hash: u64, bytes: u64) -> Slot {
        let entry = Entry {
            id: Some(id),
            bytes,
            hash: (hash >> 32) as u32,
            older: NONE,
            newer: NONE,
            queue,
            hits: AtomicU8::new(0),
        };
        let index = self.place(entry);
        self.link(index, queue);
        self.len += 1;
        Slot(index)
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<Removed<I>> {
        let entry = self.entries.get_mut(slot.0 as usize)?;
        let id = entry.id.take()?;
        let hash = entry.hash;
        self.unlink(slot.0);
        self.entries[slot.0 as usize].newer = self.free;
        self.free = slot.0;
        self.len -= 1;
        Some(Removed { id, hash })
    }

    /// Puts an object at the new end of the main queue, with so many hits.
    pub(super) fn requeue(&mut self, slot: Slot, hits: u8) {
        self.unlink(slot.0);
        self.entries[slot.0 as usize].hits.store(hits, Relaxed);
        self.link(slot.0, Queue::Main);
    }

    pub(super) fn set_bytes(&mut self, slot: Slot, bytes: u64) {
        let Some(entry) = self.entries.get_mut(slot.0 as usize) else { return };
        if entry.id.is_none() {
            return;
        }
        let queue = &mut self.queues[entry.queue as usize];
        queue.bytes = queue.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
    }

    fn place(&mut self, entry: Entry<I>) -> u32 {
        if self.free == NONE {
            self.entries.push(entry);
            return (self.entries.len() - 1) as u32;
        }
        let index = self.free;
        let place = &mut self.entries[index as usize];
        self.free = place.newer;
        *place = entry;
        index
    }

    fn link(&mut self, index: u32, queue: Queue) {
        let ends = &mut self.queues[queue as usize];
        let entry = &mut self.entries[index as usize];
        (entry.older, entry.newer, entry.queue) = (ends.newest, NONE, queue);
        ends.bytes += entry.bytes;
        let before = ends.newest;
        ends.newest = index;
        match before {
            NONE => ends.oldest = index,
            before => self.entries[before as usize].newer = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let entry = &self.entries[index as usize];
        let (older, newer) = (entry.older, entry.newer);
        let ends = &mut self.queues[entry.queue as usize];
        ends.bytes -= entry.bytes;
        match newer {
            NONE => ends.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => ends.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }
}

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Hits that count: two bits, as in the paper.
const HITS_MAX: u8 = 3;
