//! Tables of the kernel as memory: rings of 65,537 entries, written without a system call, and what
//! programs write at the same time, queues of free ports and the generation.
#![expect(unsafe_code, reason = "no safe wrapper maps a table of the kernel")]

use std::{
    os::fd::AsFd,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU32, Ordering},
};

use aya::{Ebpf, maps::Map};
use rustix::{
    io,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

use crate::{
    error::LoadError,
    ports::Port,
    ring::{Entry, RING_SIZE},
};

/// `LINE_WORDS` of the program: words in one value of a table.
const LINE_WORDS: usize = 16;

/// Values that a ring takes.
const RING_LINES: usize = RING_SIZE.div_ceil(LINE_WORDS);

/// What processors remember is of a generation. Programs count it up as well.
#[derive(Debug)]
pub(crate) struct Generation(TableWords);

impl Generation {
    /// Maps its table.
    pub(crate) fn map(loaded: &Ebpf) -> Result<Self, LoadError> {
        Ok(Self(TableWords::map(loaded, "generation", 1)?))
    }

    /// Ends it: what is remembered of it is valid no more.
    pub(crate) fn end(&self) {
        self.0.all()[0].fetch_add(1, Ordering::SeqCst);
    }
}

/// Two rings for each service, of which one is in force.
#[derive(Debug)]
pub(crate) struct Rings(TableWords);

impl Rings {
    /// Values of the table for so many services.
    pub(crate) fn lines(services: u32) -> u32 {
        services.saturating_mul(2 * RING_LINES as u32)
    }

    /// Maps the table of `lines(services)` values.
    pub(crate) fn map(loaded: &Ebpf, services: u32) -> Result<Self, LoadError> {
        Ok(Self(TableWords::map(loaded, "ring", Self::lines(services) as usize * LINE_WORDS)?))
    }

    /// Writes one of the two rings of a service; false where the table has no such ring.
    pub(crate) fn write(&self, service: u32, half: u8, entries: &[Entry]) -> bool {
        let first = Self::first(service, half);
        let Some(ring) = self.0.all().get(first..first + entries.len()) else { return false };
        for (word, entry) in ring.iter().zip(entries) {
            word.store(entry.to_bits(), Ordering::Relaxed);
        }
        true
    }

    /// One of the two rings of a service; empty where the table has no such ring.
    pub(crate) fn read(&self, service: u32, half: u8) -> Vec<Entry> {
        let first = Self::first(service, half);
        let ring = self.0.all().get(first..first + RING_SIZE).unwrap_or(&[]);
        ring.iter().map(|word| Entry::from_bits(word.load(Ordering::Relaxed))).collect()
    }

    /// The first word of a ring.
    const fn first(service: u32, half: u8) -> usize {
        (service as usize * 2 + half as usize) * RING_LINES * LINE_WORDS
    }
}

/// A queue of free ports for each server of NAT. Programs take from its head; we alone add to its
/// tail.
#[derive(Debug)]
pub(crate) struct Queues {
    /// `struct pool` by number of the server.
    pools: TableWords,
    places: TableWords,
    /// Places of one queue, a power of two and whole lines.
    room: usize,
}

impl Queues {
    /// Places that a queue of so many ports takes.
    pub(crate) fn room(ports: usize) -> usize {
        ports.next_power_of_two().max(LINE_WORDS)
    }

    /// Values of the table of places.
    pub(crate) fn lines(servers: u16, room: usize) -> u32 {
        let lines = usize::from(servers.max(1)) * room / LINE_WORDS;
        u32::try_from(lines).unwrap_or(u32::MAX)
    }

    /// Maps the queues of the servers with numbers from 1 to `servers`, each with `room` places.
    pub(crate) fn map(loaded: &Ebpf, servers: u16, room: usize) -> Result<Self, LoadError> {
        let pools = TableWords::map(loaded, "pools", (usize::from(servers) + 1) * POOL_WORDS)?;
        let places = TableWords::map(loaded, "free_ports", usize::from(servers.max(1)) * room)?;
        for server in 1..=usize::from(servers) {
            let pool = &pools.all()[server * POOL_WORDS..];
            pool[FIRST].store(((server - 1) * room / LINE_WORDS) as u32, Ordering::Relaxed);
            pool[MASK].store(room as u32 - 1, Ordering::Relaxed);
        }
        Ok(Self { pools, places, room })
    }

    /// Gives a port back; nothing where the server has no queue. There must be room: each port is
    /// in the queue once at most.
    pub(crate) fn add(&self, server: u16, port: Port) {
        let Some((pool, places)) = self.queue(server) else { return };
        let tail = pool[TAIL].load(Ordering::Relaxed);
        places[tail as usize % self.room].store(port.to_bits(), Ordering::Relaxed);
        pool[TAIL].store(tail.wrapping_add(1), Ordering::Release);
    }

    /// Leaves no port in the queue of a server, also while programs take from it; false where it
    /// has none.
    pub(crate) fn empty(&self, server: u16) -> bool {
        let Some((pool, _)) = self.queue(server) else { return false };
        pool[HEAD].store(pool[TAIL].load(Ordering::Relaxed), Ordering::Release);
        true
    }

    /// The free ports of a server as [`Port::to_bits`], the next one first.
    pub(crate) fn free(&self, server: u16) -> Vec<u32> {
        let Some((pool, places)) = self.queue(server) else { return Vec::new() };
        let (head, tail) = (pool[HEAD].load(Ordering::Acquire), pool[TAIL].load(Ordering::Relaxed));
        let count = tail.wrapping_sub(head) as usize;
        let at = |n: usize| &places[(head as usize).wrapping_add(n) % self.room];
        (0..count).map(|n| at(n).load(Ordering::Relaxed)).collect()
    }

    /// How many ports of a server are free.
    pub(crate) fn count(&self, server: u16) -> usize {
        let words = |pool: &[AtomicU32]| {
            let head = pool[HEAD].load(Ordering::Acquire);
            pool[TAIL].load(Ordering::Relaxed).wrapping_sub(head) as usize
        };
        self.queue(server).map_or(0, |(pool, _)| words(pool))
    }

    /// Whether ports of this server have been taken in vain since this was asked.
    pub(crate) fn has_lost(&self, server: u16) -> bool {
        self.queue(server).is_some_and(|(pool, _)| pool[LOST].swap(0, Ordering::AcqRel) > 0)
    }

    fn queue(&self, server: u16) -> Option<(&[AtomicU32], &[AtomicU32])> {
        let server = usize::from(server);
        let pool = self.pools.all().get(server * POOL_WORDS..)?.get(..POOL_WORDS)?;
        let places = self.places.all().get(server.checked_sub(1)? * self.room..)?;
        Some((pool, places.get(..self.room)?))
    }
}

// Words of `struct pool`.
const HEAD: usize = 0;
const TAIL: usize = 1;
const LOST: usize = 2;
const FIRST: usize = 3;
const MASK: usize = 4;
const POOL_WORDS: usize = 6;

/// A table as words, in the order of its values.
#[derive(Debug)]
struct TableWords {
    at: NonNull<AtomicU32>,
    count: usize,
}

impl TableWords {
    fn map(loaded: &Ebpf, table: &str, count: usize) -> Result<Self, LoadError> {
        let Some(Map::Array(table)) = loaded.map(table) else { return Err(LoadError::Foreign) };
        let (flags, protection) = (MapFlags::SHARED, ProtFlags::READ | ProtFlags::WRITE);
        let file = table.fd().as_fd();
        // SAFETY: the kernel chooses the place, and it becomes ours alone.
        let at = unsafe { mmap(ptr::null_mut(), count * 4, protection, flags, file, 0) };
        let at = NonNull::new(at.map_err(LoadError::Map)?.cast());
        Ok(Self { at: at.ok_or(LoadError::Map(io::Errno::NOMEM))?, count })
    }

    fn all(&self) -> &[AtomicU32] {
        // SAFETY: the map has so many words, page-aligned, for as long as this lives; the kernel
        // reads and writes them as single words, and nobody does so otherwise.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.count) }
    }
}

impl Drop for TableWords {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, unmapped once. It fails only for a wrong address.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.count * 4) };
    }
}

// SAFETY: it owns its memory, whose words are atomic.
unsafe impl Send for TableWords {}
// SAFETY: as above.
unsafe impl Sync for TableWords {}
