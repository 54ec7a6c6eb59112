//! The second tier of the cache: responses on disk, which survive a restart and a torn write.
//!
//! ```text
//!  memory evicts --> queue --> writer: appends to the newest segment, fdatasync, then indexes
//!  purge ----------> queue --> writer: appends to the record of purges, fdatasync, then tells
//!  find ----> index --> readers: pread, check --> head and blocks of 256 KiB
//! ```
//! | | |
//! |---|---|
//! | `record`, `segment`, `purge_log` | the format of the files |
//! | `purges` | what is purged, and whom that concerns |
//! | `index` | where the record of each response is |
//! | `open` | who has the directory, and which records it has |
//! | `writer` | the thread that opens, writes and reclaims |
//! | `reader` | the threads that read, and a body that is read a block at a time |
//!
//! *Acknowledged* is a response once the `fdatasync` of its batch is through, and only then it is
//! found here. A purge is once that of its own record is. Threads that serve requests do no I/O:
//! what waits for the threads of the disk is bounded, and what finds no room is refused and
//! counted. No lock is held while anything is read or written.
//!
//! What leaves, what is written and what a purge concerns is decided by
//! [`loadline_core::cache::disk`].

mod index;
mod open;
mod purge_log;
mod purges;
mod reader;
mod record;
mod segment;
mod tail;
mod writer;

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use loadline_core::{
    cache::{
        Fields, Vary,
        disk::{Admission, PurgeRecord, Purges, Shape, admit},
    },
    fleet::DiskCache,
    state,
    units::Bytes,
};

use super::{
    fetch::unix_now,
    object::{Length, Object},
    pinned::{Elsewhere, Pinned},
};
use crate::runtime::clock::Clock;
use index::{Entry, Ident, Index, hash, tag_for};
use purges::Numbered;
use reader::Reads;
use segment::Segment;

pub(crate) use purges::{Purged, Recording};
pub(crate) use reader::{Body, Opened};

/// The disk tier. Dropping it lets its threads end by themselves.
#[derive(Debug)]
pub(crate) struct Disk {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A response that the disk has, or is about to have.
#[derive(Debug)]
pub(crate) enum Kept {
    /// It waits to be written, and is still in memory.
    Waiting(Arc<Object>),
    There(Place),
}

/// Where a response is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    ident: Ident,
    entry: Entry,
    url: Box<[u8]>,
    variant: Arc<[u8]>,
    secondary: Vec<u8>,
}

impl Place {
    /// Bytes of the record.
    pub(crate) const fn bytes(&self) -> u64 {
        self.entry.bytes as u64
    }
}

/// What threads share.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    size: AtomicU64,
    state: Mutex<State>,
    /// There is something to write, or no more will come.
    to_write: Condvar,
    reads: Reads,
    purges: RwLock<Numbered>,
    /// Whether anything is taken to be written: not while the disk fails.
    accepts: AtomicBool,
    /// Nothing is read until then, in nanoseconds of the clock: it took too long.
    hangs_until: AtomicU64,
    /// Bodies that are being read.
    bodies: AtomicUsize,
    is_closing: AtomicBool,
    /// Whether the directory is open and the last attempt to write was no failure.
    works: AtomicBool,
    counters: Counters,
    clock: Clock,
    /// Counts no bodies that wait to be written.
    pinned: Pinned,
}

/// Everything that changes, under one lock that is never held over I/O.
#[derive(Debug, Default)]
struct State {
    index: Index,
    /// The oldest first; the last one is written to.
    segments: VecDeque<Segment>,
    waiting: VecDeque<Put>,
    queued: u64,
    /// What is queued or being written, with the number of its latest version: what was put or
    /// forgotten since is not indexed.
    pending: BTreeMap<Ident, (u64, Arc<Object>)>,
    puts: u64,
    to_record: Vec<ToRecord>,
    /// What the file of purges takes.
    purge_bytes: u64,
    closing: Option<Closing>,
    is_resized: bool,
}

/// A response to be written.
#[derive(Debug)]
struct Put {
    ident: Ident,
    number: u64,
    url: Box<[u8]>,
    object: Arc<Object>,
    bytes: u64,
    /// Of one that was in memory.
    _counted: Option<Elsewhere>,
}

/// A purge to be recorded, and who waits for that.
#[derive(Debug)]
struct ToRecord {
    purge: PurgeRecord,
    tells: Option<mpsc::Sender<Result<(), String>>>,
}

/// What is still written before the directory is left to others.
#[derive(Debug, Default)]
struct Closing {
    last: Vec<(Box<[u8]>, Arc<Object>)>,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    written_bytes: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    read: AtomicU64,
    read_bytes: AtomicU64,
    read_refused: AtomicU64,
    damaged: AtomicU64,
    reclaimed: AtomicU64,
}

impl Disk {
    /// Begins to open a directory; until that is done nothing is found there. `purges` have come
    /// before.
    ///
    /// # Errors
    /// Where a thread cannot be started.
    pub(crate) fn start(
        options: &DiskCache,
        purges: u64,
        (clock, pinned): (Clock, Pinned),
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            path: options.path.clone().into(),
            size: AtomicU64::new(options.size.get()),
            state: Mutex::default(),
            to_write: Condvar::new(),
            reads: Reads::default(),
            purges: RwLock::new(Numbered {
                purges: Purges::between(purges, purges),
                shift: None,
                first: purges,
                has_lost: false,
            }),
            hangs_until: AtomicU64::new(0),
            bodies: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
            accepts: AtomicBool::new(false),
            works: AtomicBool::new(false),
            counters: Counters::default(),
            clock,
            pinned,
        });
        let disk = Self { shared, threads: Mutex::default() };
        disk.spawn("disk-write", writer::run)?;
        (0..READERS).try_for_each(|_| disk.spawn("disk-read", reader::run))?;
        Ok(disk)
    }

    fn spawn(&self, name: &str, run: fn(&Arc<Shared>)) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Whether it is in this directory.
    pub(crate) fn is_at(&self, options: &DiskCache) -> bool {
        self.shared.path == *options.path
    }

    /// Holds to another size from now on.
    pub(crate) fn resize(&self, size: Bytes) {
        if self.shared.size.swap(size.get(), Relaxed) == size.get() {
            return;
        }
        self.shared.state().is_resized = true;
        self.shared.to_write.notify_all();
    }

    /// Has a response written that memory evicts, unless it is on disk already, of no use, or the
    /// queue is full.
    pub(crate) fn offer(&self, url: &[u8], object: &Arc<Object>) {
        self.keep(url, object);
    }

    /// The same; true if it will be written.
    pub(crate) fn keep(&self, url: &[u8], object: &Arc<Object>) -> bool {
        let counted = self.shared.pinned.lend(object.pages());
        self.shared.offer(url, object, Some(counted))
    }

    /// The longest body that fits, about.
    pub(crate) fn longest(&self) -> u64 {
        self.shared.most() - SEGMENT_SPARE
    }

    /// Forgets the record of a response, since there is something newer.
    pub(crate) fn forget(&self, url: &[u8], object: &Object) {
        let response = &object.response;
        let secondary = response.selectors.secondary.as_deref().unwrap_or_default();
        self.shared.state().forget(Ident::of(url, &response.variant, secondary));
    }

    /// Hides what there is of a URL, where it has what this request would get, or had before it was
    /// replaced: nothing newer will be written in its place, by which a restart would know.
    /// `next` gives the number of that.
    pub(crate) fn give_up(
        &self,
        next: impl FnOnce() -> u64,
        (url, variant): (&[u8], &Arc<[u8]>),
        request: Fields<'_>,
    ) {
        let of_url = hash(url);
        let is_it = |vary: &Vary, tag| tag_for(vary, variant, request) == Some(tag);
        let is_known = {
            let state = self.shared.state();
            let mut waiting = state.pending_of(of_url);
            waiting.any(|(ident, it)| is_it(&it.response.selectors.vary, ident.tag))
                || state.index.has(of_url, is_it)
        };
        if is_known {
            self.shared.add_purge(next, Purged::Url(url), None);
        }
    }

    /// Whether it has the response with this variant and these selecting values, as far as is known
    /// without reading.
    pub(crate) fn has(&self, url: &[u8], variant: &[u8], secondary: &[u8]) -> bool {
        let ident = Ident::of(url, variant, secondary);
        let hangs = self.hangs();
        let state = self.shared.state();
        let entry = state.index.get(ident).filter(|entry| !entry.is_dead && !hangs);
        entry.is_some() || state.pending.contains_key(&ident)
    }

    /// Whether it has kept a read waiting for so long that none is tried for a while.
    fn hangs(&self) -> bool {
        self.shared.hangs_until.load(Relaxed) > self.shared.clock.now().as_nanos()
    }

    /// The response that this request asks for, as far as is known without reading.
    pub(crate) fn find(
        &self,
        url: &[u8],
        variant: &Arc<[u8]>,
        request: Fields<'_>,
    ) -> Option<Kept> {
        let of_url = hash(url);
        let (waiting, there) = {
            let state = self.shared.state();
            let waiting: Vec<_> = state.waiting_of(of_url).cloned().collect();
            (waiting, state.index.of_url(of_url))
        };
        let waits = |it: &Arc<Object>| it.response.answers(variant, request);
        if let Some(object) = waiting.into_iter().find(waits) {
            return self.shared.current(url, object).map(Kept::Waiting);
        }
        if self.hangs() {
            return None;
        }
        there.into_iter().find_map(|(entry, vary)| {
            let is_it = tag_for(&vary, variant, request) == Some(entry.tag);
            is_it.then(|| {
                Kept::There(Place {
                    ident: Ident { url: of_url, tag: entry.tag },
                    entry,
                    url: url.into(),
                    variant: variant.clone(),
                    secondary: vary.secondary_key(request).unwrap_or_default(),
                })
            })
        })
    }

    /// Reads what is there up to the end of its first block; none where there is nothing that may
    /// be used, or too many wait for the disk.
    pub(crate) async fn open(&self, place: &Place) -> Option<Opened> {
        reader::open(&self.shared, place).await
    }

    /// Adds a purge, whose number `next` gives: what it names is hidden at once. It is recorded
    /// meanwhile.
    pub(crate) fn purge(&self, next: impl FnOnce() -> u64, of: Purged<'_>) -> Recording {
        let (tells, hears) = mpsc::channel();
        let is_added = self.shared.add_purge(next, of, Some(tells));
        Recording(is_added.then_some(hears))
    }

    /// Hides the records of a URL, if there are any, by a purge with the number that `next` gives.
    pub(crate) fn invalidate(&self, next: impl FnOnce() -> u64, url: &[u8]) {
        let of_url = hash(url);
        let is_known = {
            let state = self.shared.state();
            state.index.has_url(of_url) || state.waiting_of(of_url).next().is_some()
        };
        // Before it is open nobody knows.
        if is_known || !self.shared.is_open() {
            self.shared.add_purge(next, Purged::Url(url), None);
        }
    }

    /// Begins to close the disk, without waiting: these responses are written as far as a few
    /// seconds allow, then the directory is left to others.
    pub(crate) fn close(&self, last: Vec<(Box<[u8]>, Arc<Object>)>) {
        if self.shared.is_closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.shared.state().closing = Some(Closing { last });
        self.shared.to_write.notify_all();
        self.shared.reads.wake_all();
    }

    /// Waits, at most so long, until it has ended.
    pub(crate) fn join(&self, most: Duration) {
        let begun = std::time::Instant::now();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            while !thread.is_finished() {
                if begun.elapsed() > most {
                    tracing::warn!("the disk of the cache hangs: its last writes are given up");
                    return;
                }
                thread::sleep(POLL);
            }
            if thread.join().is_err() {
                tracing::error!("a thread of the cache on disk has panicked");
            }
        }
    }

    /// What it holds, and what it has done.
    pub(crate) fn state(&self) -> state::DiskCache {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let shared = &self.shared;
        let purges = shared.purges.read().unwrap_or_else(PoisonError::into_inner).purges.len();
        let counters = &shared.counters;
        let state = shared.state();
        let urls: usize = state.segments.iter().map(|it| it.urls.capacity()).sum();
        state::DiskCache {
            up: shared.works.load(Relaxed),
            objects: state.index.live(),
            bytes: state.bytes(),
            size_bytes: shared.shape().size,
            index_bytes: state.index.memory() + (urls * size_of::<u64>()) as u64,
            queued_bytes: state.queued,
            purges: purges as u64,
            hits: count(&counters.read),
            read_bytes: count(&counters.read_bytes),
            reads_refused: count(&counters.read_refused),
            written: count(&counters.written),
            written_bytes: count(&counters.written_bytes),
            writes_refused: count(&counters.refused),
            writes_failed: count(&counters.failed),
            damaged: count(&counters.damaged),
            reclaimed: count(&counters.reclaimed),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close(Vec::new());
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shape(&self) -> Shape {
        Shape::of(Bytes::new(self.size.load(Relaxed)))
    }

    /// What a record may take.
    fn most(&self) -> u64 {
        self.shape().segment - SEGMENT_SPARE
    }

    /// See [`Disk::offer`].
    fn offer(&self, url: &[u8], object: &Arc<Object>, counted: Option<Elsewhere>) -> bool {
        let Some(mut put) = self.put(url.into(), object.clone()) else { return false };
        put._counted = counted;
        let ident = put.ident;
        let mut state = self.state();
        let is_queued = self.accepts.load(Relaxed) && state.queue(put);
        if !is_queued {
            // What is there is older than this.
            state.forget(ident);
        }
        drop(state);
        match is_queued {
            true => self.to_write.notify_one(),
            false => drop(self.counters.refused.fetch_add(1, Relaxed)),
        }
        is_queued
    }

    /// The record to write for a response; none if it is not worth it.
    fn put(&self, url: Box<[u8]>, object: Arc<Object>) -> Option<Put> {
        let response = &object.response;
        if matches!(response.length, Length::Part(_)) {
            // It is looked for in memory alone.
            return None;
        }
        // Without them no request can select it.
        let secondary = response.selectors.secondary.as_deref()?;
        let ident = Ident::of(&url, &response.variant, secondary);
        let bytes =
            record::on_disk(object.length()) + response.text.len() as u64 + url.len() as u64;
        let is_there =
            object.is_on_disk && self.state().index.get(ident).is_some_and(|entry| !entry.is_dead);
        match admit(&object.metadata, (bytes, self.most()), is_there, unix_now()) {
            Admission::Write => Some(Put { ident, number: 0, url, object, bytes, _counted: None }),
            Admission::There | Admission::Useless => None,
            Admission::TooLarge => {
                self.counters.refused.fetch_add(1, Relaxed);
                self.state().forget(ident);
                None
            }
        }
    }

    fn is_open(&self) -> bool {
        self.purges.read().unwrap_or_else(PoisonError::into_inner).shift.is_some()
    }

    /// Lets nobody use a record any more.
    fn kill(&self, ident: Ident, entry: &Entry) {
        self.state().index.kill(ident, |other| other.is_at(entry));
    }

    /// Says what has failed, once, until it works again.
    fn failed(&self, what: &str, error: &io::Error, was_first: bool) {
        self.accepts.store(false, Relaxed);
        self.works.store(false, Relaxed);
        if was_first {
            let path = self.path.display();
            tracing::error!(
                "cannot {what} the cache in `{path}`: {error}; it is left alone and tried again"
            );
        }
    }
}

impl State {
    /// Queues a response; false where there is no room.
    fn queue(&mut self, mut put: Put) -> bool {
        if self.queued > 0 && self.queued + put.bytes > QUEUE_BYTES {
            return false;
        }
        self.number(&mut put);
        self.queued += put.bytes;
        self.waiting.push_back(put);
        true
    }

    /// Makes it the latest version. What is there is older, and must not be used meanwhile.
    fn number(&mut self, put: &mut Put) {
        self.puts += 1;
        put.number = self.puts;
        self.pending.insert(put.ident, (put.number, put.object.clone()));
        self.index.kill(put.ident, |_| true);
    }

    /// What of a URL is not yet written.
    fn waiting_of(&self, url: u64) -> impl Iterator<Item = &Arc<Object>> {
        self.pending_of(url).map(|(_, object)| object)
    }

    fn pending_of(&self, url: u64) -> impl Iterator<Item = (&Ident, &Arc<Object>)> {
        let all = Ident { url, tag: 0 }..=Ident { url, tag: u32::MAX };
        self.pending.range(all).map(|(ident, (_, object))| (ident, object))
    }

    fn forget(&mut self, ident: Ident) {
        self.index.kill(ident, |_| true);
        self.pending.remove(&ident);
    }

    /// What all files take.
    fn bytes(&self) -> u64 {
        self.purge_bytes + self.segments.iter().map(|it| it.bytes).sum::<u64>()
    }

    fn file(&self, number: u32) -> Option<Arc<File>> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        Some(self.segments[at].file.clone())
    }
}

/// Threads that read: what a solid-state disk needs to be busy with small objects, and few enough
/// to cost nothing.
const READERS: usize = 4;

/// What may wait to be written.
const QUEUE_BYTES: u64 = 64 << 20;

/// Bytes of a segment for its head, its list, and the rest of a record.
const SEGMENT_SPARE: u64 = 8 << 10;

/// How often it is looked whether threads have ended.
const POLL: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests;
