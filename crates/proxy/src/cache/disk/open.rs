//! Opening: who has the directory, and which records it has.
//!
//! The directory belongs to one process, by a lock on a file in it. Where another has it, as the
//! process before does until it drains, it is tried again until it is free.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::Path,
    time::Instant,
};

use loadline_core::cache::disk::Purges;

use super::{
    Arc, Entry, Index, Ordering, PoisonError, Relaxed, Segment, Shared, VecDeque,
    purge_log::{PurgeLog, Read},
    segment::Contents,
};

/// State of the process that writes.
#[derive(Debug)]
pub(super) struct Opened {
    /// None where it has to be written anew.
    pub(super) log: io::Result<PurgeLog>,
    /// The number of the last purge that is recorded.
    pub(super) recorded: u64,
    /// Nobody else writes while this is locked.
    pub(super) lock: File,
}

/// What is found in a directory.
#[derive(Debug, Default)]
struct Found {
    segments: VecDeque<Segment>,
    index: Index,
    torn: u64,
}

/// Opens the directory, and lets its records be found; none where another process has it.
///
/// # Errors
/// What the operating system refuses.
pub(super) fn open(shared: &Arc<Shared>) -> io::Result<Option<Opened>> {
    let begun = Instant::now();
    let path = &shared.path;
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let Some(lock) = lock(path)? else { return Ok(None) };
    let recorded = PurgeLog::read(path)?;
    let is_empty = Segment::list(path)?.is_empty();
    let mut recorded = match recorded {
        Read::Purges(purges) => Some(purges),
        Read::Missing if is_empty => Some(Purges::default()),
        Read::Missing | Read::Damaged => None,
    };
    let mut found = Found::default();
    if let Some(purges) = &recorded {
        found = recover(shared, path)?;
        if found.segments.iter().any(|it| it.epoch > purges.epoch()) {
            // One that had come before a segment was begun is missing.
            recorded = None;
        }
    }
    if recorded.is_none() || has_lost_purges(shared) {
        tracing::warn!(
            "the record of purges in `{}` is damaged or incomplete: all that is cached there is \
             given up",
            path.display()
        );
        found = Found::default();
        Segment::list(path)?.into_iter().try_for_each(|number| Segment::delete(path, number))?;
        shared.counters.damaged.fetch_add(1, Relaxed);
    }
    let (objects, segments, torn) = (found.index.live(), found.segments.len(), found.torn);
    let recorded = recorded.unwrap_or_default();
    let before = recorded.epoch();
    let purges = publish(shared, found, recorded);
    let log = PurgeLog::create(path, &purges);
    let recorded = if log.is_ok() { purges.epoch() } else { before };
    tracing::info!(
        objects,
        segments,
        torn,
        ms = begun.elapsed().as_millis() as u64,
        "opened the cache in `{}`",
        path.display()
    );
    Ok(Some(Opened { log, recorded, lock }))
}

/// Whether more purges came while it was not open than are kept.
fn has_lost_purges(shared: &Shared) -> bool {
    shared.purges.read().unwrap_or_else(PoisonError::into_inner).has_lost
}

/// Makes this the only process that uses a directory.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(path.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Reads which records there are. Later ones replace earlier ones.
fn recover(shared: &Shared, path: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for number in Segment::list(path)? {
        if shared.is_closing.load(Ordering::Acquire) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match segment(path, number) {
            Ok(Some((segment, contents))) => found.add(segment, &contents),
            // It is of another version, has nothing, or cannot be read.
            Ok(None) => Segment::delete(path, number)?,
            Err(error) => {
                tracing::warn!("segment {number} of the cache cannot be read: {error}");
                shared.counters.damaged.fetch_add(1, Relaxed);
                Segment::delete(path, number)?;
            }
        }
    }
    Ok(found)
}

/// A segment and its contents. Cuts off a torn end, and writes the list if it is missing.
fn segment(path: &Path, number: u32) -> io::Result<Option<(Segment, Contents)>> {
    let Some(mut segment) = Segment::open(path, number)? else { return Ok(None) };
    let contents = segment.contents()?;
    if contents.listed.is_empty() {
        return Ok(None);
    }
    if !contents.is_sealed {
        segment.file.set_len(contents.end)?;
        let list = contents.write(contents.end);
        segment.bytes = contents.end;
        // Without a list it is read by its heads once more.
        if segment.file.write_all_at(&list, contents.end).is_ok() {
            segment.bytes += list.len() as u64;
        }
    }
    Ok(Some((segment, contents)))
}

impl Found {
    fn add(&mut self, mut segment: Segment, contents: &Contents) {
        let varies: Vec<_> = contents.varies.iter().map(|vary| self.index.vary(vary)).collect();
        for listed in &contents.listed {
            let vary = varies.get(usize::from(listed.vary)).copied().flatten();
            let entry = listed.entry(segment.number);
            // There are too many to know what it varies by, where that is not known.
            let entry = Entry { vary: vary.unwrap_or(0), is_dead: vary.is_none(), ..entry };
            self.index.insert(listed.ident.url, entry);
        }
        segment.urls = contents.listed.iter().map(|it| it.ident.url).collect();
        self.torn += u64::from(contents.is_torn);
        self.segments.push_back(segment);
    }
}

/// Makes the records that were found visible to all threads, and gives the purges in force: first
/// the recorded ones, then those that came to this process meanwhile.
fn publish(shared: &Shared, found: Found, recorded: Purges) -> Purges {
    let newest = found.segments.iter().map(|it| it.epoch).max().unwrap_or(0);
    let mut numbered = shared.purges.write().unwrap_or_else(PoisonError::into_inner);
    let shift = recorded.epoch().max(newest);
    numbered.purges = numbered.purges.behind(recorded);
    numbered.shift = Some(shift);
    // Nobody may find anything before it is known what was purged, nor purge what is not found.
    let mut state = shared.state();
    (state.index, state.segments) = (found.index, found.segments);
    state.to_record.iter_mut().for_each(|it| it.purge.number += shift);
    drop(state);
    numbered.purges.clone()
}

/// The directory, as somebody is told who waits for it.
pub(super) fn place(shared: &Shared) -> String {
    fs::canonicalize(&shared.path).unwrap_or_else(|_| shared.path.clone()).display().to_string()
}
