//! The threads that read, and what is asked of them: heads, and a block of a body at a time.
//!
//! What a thread reads it also checks. A record that is not what was written, or not the one that
//! was looked for, is not looked at again.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::{Condvar, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use loadline_core::{
    cache::{
        Metadata,
        disk::{Verdict, is_usable},
    },
    time::{Duration as CoreDuration, UnixTime},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    Arc, Entry, Ident, Mutex, Ordering, Place, Relaxed, Shared,
    record::{BLOCK, CHECK, Head, Opening, block},
    unix_now,
};
use crate::cache::object::Response;

/// A response on disk, of which the head was read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) response: Arc<Response>,
    pub(crate) metadata: Metadata,
    /// Purges that had come to this process when it was read.
    pub(crate) epoch: u64,
    pub(crate) body: Body,
}

/// A body on disk, which is read a block at a time. It stays there while this is.
#[derive(Debug)]
pub(crate) struct Body {
    shared: Arc<Shared>,
    ident: Ident,
    entry: Entry,
    file: Option<Arc<File>>,
    /// Offset of the body in the file.
    at: u64,
    pub(crate) length: u64,
    /// Of the head.
    check: u32,
    current: Current,
}

/// The block that was read last, and its index.
type Current = Option<(u64, Bytes)>;

/// Something on disk is not what was written, or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// What threads are asked, in order.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: Mutex<VecDeque<Read>>,
    to_read: Condvar,
}

#[derive(Debug)]
enum Read {
    Head(Box<Place>, oneshot::Sender<Option<Opened>>),
    Block(Block, oneshot::Sender<io::Result<Bytes>>),
    /// Closing a file that was deleted may take long.
    Close(Arc<File>),
}

#[derive(Debug)]
struct Block {
    file: Arc<File>,
    at: u64,
    length: usize,
    check: u32,
    index: u64,
}

impl Reads {
    /// Adds a read; false if there is no room.
    fn push(&self, read: Read) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Of what has begun each client asks for one block at a time.
        let has_room = waiting.len() < READS_MAX || !matches!(read, Read::Head(..));
        if has_room {
            waiting.push_back(read);
        }
        drop(waiting);
        self.to_read.notify_one();
        has_room
    }

    pub(super) fn wake_all(&self) {
        // Whoever has looked and not yet waits would not hear it.
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.to_read.notify_all();
    }

    /// Waits for the next; none where it is over and nothing waits.
    fn next(&self, is_over: impl Fn() -> bool) -> Option<Read> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(read) = waiting.pop_front() {
                return Some(read);
            }
            if is_over() {
                return None;
            }
            waiting = self.to_read.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads until the disk is closed and nobody reads from it any more.
pub(super) fn run(shared: &Arc<Shared>) {
    let is_over =
        || shared.is_closing.load(Ordering::Acquire) && shared.bodies.load(Ordering::Acquire) == 0;
    while let Some(read) = shared.reads.next(is_over) {
        match read {
            Read::Head(place, answer) if !answer.is_closed() => {
                let _ = answer.send(head(shared, &place));
            }
            Read::Block(block, answer) if !answer.is_closed() => {
                let _ = answer.send(block.read());
            }
            Read::Close(file) => drop(file),
            // Whoever asked has gone.
            Read::Head(..) | Read::Block(..) => {}
        }
    }
}

/// See [`super::Disk::open`].
pub(super) async fn open(shared: &Arc<Shared>, place: &Place) -> Option<Opened> {
    let (answer, hears) = oneshot::channel();
    if !shared.reads.push(Read::Head(Box::new(place.clone()), answer)) {
        shared.counters.read_refused.fetch_add(1, Relaxed);
        return None;
    }
    match timeout(OPEN_PATIENCE, hears).await {
        Ok(opened) => opened.ok().flatten(),
        Err(_) => {
            shared.counters.read_refused.fetch_add(1, Relaxed);
            shared.hangs_until.store((shared.clock.now() + HANGS).as_nanos(), Relaxed);
            None
        }
    }
}

fn head(shared: &Arc<Shared>, place: &Place) -> Option<Opened> {
    // Its segment may have left.
    let file = shared.state().file(place.entry.segment);
    let Some(file) = file else {
        shared.kill(place.ident, &place.entry);
        return None;
    };
    let Ok((opening, head, current)) = read_head(&file, &place.entry) else {
        shared.counters.damaged.fetch_add(1, Relaxed);
        shared.kill(place.ident, &place.entry);
        return None;
    };
    let (verdict, epoch) = shared.verdict_of(&head, opening.epoch);
    let now = unix_now();
    let response = head.response.clone();
    let is_it = *head.url == *place.url
        && response.variant == place.variant
        && response.selectors.secondary.as_deref() == Some(&place.secondary);
    let metadata = is_it.then(|| told(head.metadata, verdict, now)).flatten();
    let Some(metadata) = metadata else {
        shared.kill(place.ident, &place.entry);
        return None;
    };
    shared.state().index.hit(place.ident);
    shared.counters.read.fetch_add(1, Relaxed);
    shared.counters.read_bytes.fetch_add(u64::from(place.entry.bytes), Relaxed);
    shared.bodies.fetch_add(1, Ordering::AcqRel);
    let body = Body {
        shared: shared.clone(),
        ident: place.ident,
        entry: place.entry,
        file: Some(file),
        at: u64::from(place.entry.offset) + opening.body_at(),
        length: opening.body,
        check: opening.check,
        current,
    };
    Some(Opened { response, metadata, epoch, body })
}

/// What is known of a response after purges; none where it must not be used.
fn told(mut metadata: Metadata, verdict: Verdict, now: UnixTime) -> Option<Metadata> {
    match verdict {
        Verdict::Gone => return None,
        Verdict::Stale(since) => metadata.mark_stale(since),
        Verdict::Keep => {}
    }
    is_usable(&metadata, now).then_some(metadata)
}

/// The head of a record, and its first block where that was read with it.
pub(super) fn read_head(file: &File, entry: &Entry) -> Result<(Opening, Head, Current), Damaged> {
    let (at, length) = (u64::from(entry.offset), u64::from(entry.bytes));
    let mut bytes = vec![0; length.min(FIRST_READ) as usize];
    file.read_exact_at(&mut bytes, at).map_err(|_| Damaged)?;
    let opening = Opening::read(&bytes).filter(|opening| opening.record_bytes() == length);
    let opening = opening.ok_or(Damaged)?;
    let (end, read) = (opening.body_at() as usize, bytes.len());
    if end > read {
        bytes.resize(end, 0);
        file.read_exact_at(&mut bytes[read..], at + read as u64).map_err(|_| Damaged)?;
    }
    let head = opening.head(&bytes[Opening::BYTES..end]).ok_or(Damaged)?;
    let first = opening.body.min(BLOCK) as usize + CHECK;
    let current = match opening.body > 0 && end + first <= bytes.len() {
        true => {
            // Without the head, which would take memory as long as the body does.
            let read = Bytes::copy_from_slice(&bytes[end..end + first]);
            Some((0, block(opening.check, 0, read).ok_or(Damaged)?))
        }
        false => None,
    };
    Ok((opening, head, current))
}

/// A record with all of its body.
pub(super) type Whole = (Opening, Head, Vec<Bytes>);

/// Reads all of a record.
pub(super) fn read_whole(file: &Arc<File>, entry: &Entry) -> Result<Whole, Damaged> {
    let (opening, head, first) = read_head(file, entry)?;
    let at = u64::from(entry.offset) + opening.body_at();
    let mut pieces: Vec<Bytes> = first.into_iter().map(|(_, bytes)| bytes).collect();
    for index in pieces.len() as u64..opening.body.div_ceil(BLOCK) {
        let block = Block::of(file.clone(), (at, opening.body), opening.check, index);
        pieces.push(block.read().map_err(|_| Damaged)?);
    }
    Ok((opening, head, pieces))
}

impl Block {
    /// The block `index` of a body that begins at `at` and is `body` bytes long.
    fn of(file: Arc<File>, (at, body): (u64, u64), check: u32, index: u64) -> Self {
        let length = (body - index * BLOCK).min(BLOCK) as usize + CHECK;
        Self { file, at: at + index * (BLOCK + CHECK as u64), length, check, index }
    }

    fn read(self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.length];
        self.file.read_exact_at(&mut bytes, self.at)?;
        block(self.check, self.index, bytes.into()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Body {
    /// The bytes from this place to the end of their block; empty at the end.
    ///
    /// # Errors
    /// [`Damaged`]; then the record is not looked at again.
    pub(crate) async fn after(&mut self, from: u64) -> Result<Bytes, Damaged> {
        if from >= self.length {
            return Ok(Bytes::new());
        }
        let index = from / BLOCK;
        let block = match &self.current {
            Some((current, bytes)) if *current == index => bytes.clone(),
            _ => self.block(index).await?,
        };
        self.current = Some((index, block.clone()));
        Ok(block.slice((from % BLOCK) as usize..))
    }

    /// Whether the bytes from this place on need not be read first.
    pub(crate) fn has(&self, from: u64) -> bool {
        self.current.as_ref().is_some_and(|(index, _)| *index == from / BLOCK)
    }

    async fn block(&mut self, index: u64) -> Result<Bytes, Damaged> {
        let file = self.file.clone().ok_or(Damaged)?;
        let block = Block::of(file, (self.at, self.length), self.check, index);
        let (answer, hears) = oneshot::channel();
        self.shared.reads.push(Read::Block(block, answer));
        if let Ok(Ok(Ok(bytes))) = timeout(BLOCK_PATIENCE, hears).await {
            return Ok(bytes);
        }
        self.shared.counters.damaged.fetch_add(1, Relaxed);
        self.shared.kill(self.ident, &self.entry);
        Err(Damaged)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.shared.bodies.fetch_sub(1, Ordering::AcqRel);
        if let Some(file) = self.file.take() {
            self.shared.reads.push(Read::Close(file));
        }
        if self.shared.is_closing.load(Ordering::Acquire) {
            self.shared.reads.wake_all();
        }
    }
}

/// What may wait to be read: of each the head or a block at most, 80 MiB together.
const READS_MAX: usize = 256;

/// Holds a small object as a whole: its head and its first block.
const FIRST_READ: u64 = BLOCK + (16 << 10);

/// How long nothing is looked for on a disk that took longer.
const HANGS: CoreDuration = CoreDuration::from_secs(10);

/// What takes longer is fetched instead.
const OPEN_PATIENCE: Duration = Duration::from_secs(2);

/// What takes longer will not come: as long as a server may pause.
const BLOCK_PATIENCE: Duration = Duration::from_secs(30);
