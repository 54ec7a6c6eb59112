//! The second tier of the cache: a log of segments on disk, which survives a restart and a torn
//! write.
//!
//! ```text
//!  put ----> queue --> writer: appends to the newest segment, then tells, then indexes
//!  remove -> queue --> writer: appends that the key is gone
//!  read ---> index --> readers: pread, checked --> its value, or nothing
//!
//!  oldest                                            newest
//!  [segment 7][segment 8][segment 9] ... [segment 37][segment 38 ...
//!      '-- its space is needed: what was read since goes to the newest, the rest is gone
//! ```
//! Keys and values are bytes. A record has checksums of its head and of its value; a segment is
//! only ever appended to, and none that an earlier process began. So whatever a crash leaves is
//! read up to the first record that is not whole, and a value that is not what was written is never
//! given out. At the start heads alone are read, not values, so it takes time by the number of
//! records.
//!
//! `put` is acknowledged when the kernel has the record: it survives the end of the process in any
//! way. It may be lost with the machine, since nothing is synced: what is left is still never torn,
//! but an older value may be back, or one that was removed.
//!
//! Threads that serve requests do no I/O here: one thread writes, and [`READERS`] read. What is
//! waiting for them is bounded; what finds no room is refused and counted.
//! The index takes about 50 bytes of memory for each record.

mod index;
mod open;
mod queue;
mod reader;
mod record;
mod segment;
mod writer;

use std::{
    fs::File,
    hash::{BuildHasher, RandomState},
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use bytes::Bytes;
use tokio::sync::oneshot;

use index::State;
use queue::{Job, Read};
use reader::Requests;

/// The disk tier. Dropping it writes what is queued.
#[derive(Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Locked as long as this process uses the directory.
    _lock: File,
}

/// Where it is, and how large it may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// A directory of its own; it is made if it is not there.
    pub path: PathBuf,
    /// What all files together may take, in bytes; at least [`SIZE_MIN`].
    pub size: u64,
}

/// What was found at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Keys that have a value.
    pub values: u64,
    /// Files.
    pub segments: u64,
    /// Files that end in something that is no whole record.
    pub torn: u64,
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refuses something.
    #[error("cannot {what} `{path}`")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// Another process has it.
    #[error("`{path}` is in use by another process")]
    InUse {
        /// The directory.
        path: String,
    },
    /// It may take so little that nothing could be kept.
    #[error("a cache on disk needs at least {SIZE_MIN} bytes, found {size}")]
    TooSmall {
        /// What was asked for.
        size: u64,
    },
}

/// Why a value is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// More is waiting to be written than may.
    #[error("the disk does not keep up: {QUEUE_BYTES} bytes are waiting to be written")]
    Busy,
    /// It does not fit in a segment.
    #[error("a record of {bytes} bytes is larger than the {max} of a segment")]
    TooLarge {
        /// The value, its key and its head.
        bytes: u64,
        /// What a segment takes.
        max: u64,
    },
}

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Values that were written.
    pub written: u64,
    /// Values that were refused, by [`Refused`].
    pub refused: u64,
    /// Values that could not be written, because of the disk.
    pub failed: u64,
    /// Values that were read and whole.
    pub read: u64,
    /// Reads that found no room among those waiting.
    pub read_refused: u64,
    /// Records that were not what was written, or could not be read.
    pub corrupt: u64,
}

/// What threads share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write, or no more will come.
    to_write: Condvar,
    reads: Requests,
    counters: Counters,
    hasher: RandomState,
    segment_max: u64,
    options: Options,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    read: AtomicU64,
    read_refused: AtomicU64,
    corrupt: AtomicU64,
}

impl Disk {
    /// Opens a directory, reads which records it has, and starts the threads.
    ///
    /// # Errors
    /// [`OpenError`], by name and place.
    pub fn open(options: Options) -> Result<(Self, Recovered), OpenError> {
        open::open(options)
    }

    /// Writes a value, which is made of these parts, in place of what the key had. The receiver
    /// hears when it is written, and an error if it will not be.
    ///
    /// # Errors
    /// [`Refused`]; then the key has no value, since what it had is no longer true.
    pub fn put(&self, key: &[u8], value: Vec<Bytes>) -> Result<oneshot::Receiver<()>, Refused> {
        let refused = |refused| {
            self.shared.counters.refused.fetch_add(1, Relaxed);
            self.remove(key);
            refused
        };
        let bytes = record::bytes(key, &value);
        let max = self.shared.segment_max;
        if bytes > max {
            return Err(refused(Refused::TooLarge { bytes, max }));
        }
        let (written, hears) = oneshot::channel();
        let hash = self.shared.hash(key);
        let job = Job::Put { hash, key: key.into(), value, written, bytes };
        let is_queued = self.shared.state().queue.push(job);
        if !is_queued {
            return Err(refused(Refused::Busy));
        }
        self.shared.to_write.notify_one();
        Ok(hears)
    }

    /// Whether a key may have a value; for certain not if false. Does no I/O.
    #[must_use]
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.shared.state().index.contains_key(&self.shared.hash(key))
    }

    /// The value of a key; none if it has none, if its record is not whole, or if too many are
    /// waiting for the disk.
    pub async fn read(&self, key: &[u8]) -> Option<Bytes> {
        let place = self.shared.state().find(self.shared.hash(key))?;
        let (answer, hears) = oneshot::channel();
        let read = Read { key: key.into(), hash: self.shared.hash(key), place, answer };
        if !self.shared.reads.push(read) {
            self.shared.counters.read_refused.fetch_add(1, Relaxed);
            return None;
        }
        hears.await.ok()?
    }

    /// Takes the value of a key away, at once and over a restart.
    pub fn remove(&self, key: &[u8]) {
        let hash = self.shared.hash(key);
        let is_known = self.shared.state().remove(hash, key);
        if is_known {
            self.shared.to_write.notify_one();
        }
    }

    /// Keys that have a value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.state().index.len()
    }

    /// Whether no key has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What all files take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.state().bytes()
    }

    /// What has happened since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Counters { written, refused, failed, read, read_refused, corrupt } =
            &self.shared.counters;
        Counts {
            written: written.load(Relaxed),
            refused: refused.load(Relaxed),
            failed: failed.load(Relaxed),
            read: read.load(Relaxed),
            read_refused: read_refused.load(Relaxed),
            corrupt: corrupt.load(Relaxed),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.shared.state().queue.close();
        self.shared.to_write.notify_all();
        self.shared.reads.close();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the cache on disk has panicked");
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another one in each process, so that nobody can choose keys whose hashes are equal.
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }
}

/// The least that a disk tier may have: 1 MiB, in segments of 32 KiB.
pub const SIZE_MIN: u64 = 1 << 20;

/// Threads that read: as many as a solid-state disk needs to be busy with small values.
pub const READERS: usize = 2;

/// What may be waiting to be written.
const QUEUE_BYTES: u64 = 64 << 20;
