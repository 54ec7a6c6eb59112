//! The thread that writes: appends records, begins segments, and gives up the oldest.

use std::{
    io,
    os::unix::fs::FileExt as _,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    Shared,
    index::Entry,
    queue::Job,
    record::{self, Kind},
    segment::{Segment, record_at},
};

/// Writes until no more will come.
pub(super) fn run(shared: &Arc<Shared>) {
    while let Some(job) = next(shared) {
        match job {
            Job::Put { hash, key, value, written, .. } => {
                put(shared, (hash, &key), &value, written);
            }
            Job::Remove { key } => {
                if let Err(error) = append(shared, Kind::Removed, &key, &[]) {
                    failed(shared, &error);
                }
            }
        }
    }
}

/// Waits for the next job.
fn next(shared: &Shared) -> Option<Job> {
    let mut state = shared.state();
    loop {
        if let Some(job) = state.queue.pop() {
            if let Job::Put { hash, .. } = &job {
                state.begin(*hash);
            }
            return Some(job);
        }
        if state.queue.is_over() {
            return None;
        }
        state = shared.to_write.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn put(shared: &Shared, (hash, key): (u64, &[u8]), value: &[Bytes], written: oneshot::Sender<()>) {
    let entry = append(shared, Kind::Value, key, value);
    let mut state = shared.state();
    state.end(entry.as_ref().ok().copied());
    if entry.is_err() {
        // What it had is no longer true.
        state.remove(hash, key);
    }
    drop(state);
    match entry {
        Ok(_) => {
            shared.counters.written.fetch_add(1, Relaxed);
            // Nobody need wait for it.
            let _ = written.send(());
        }
        Err(error) => failed(shared, &error),
    }
}

fn failed(shared: &Shared, error: &io::Error) {
    let path = shared.options.path.display();
    if shared.counters.failed.fetch_add(1, Relaxed) == 0 {
        tracing::warn!(%error, "cannot write to the cache in `{path}`");
    }
}

/// Appends a record, and says where it is.
fn append(shared: &Shared, kind: Kind, key: &[u8], value: &[Bytes]) -> io::Result<Entry> {
    let bytes = record::bytes(key, value);
    let is_full = |segment: &Segment| segment.bytes + bytes > shared.segment_max;
    if shared.state().segments.back().is_none_or(is_full) {
        begin_segment(shared)?;
    }
    write(shared, &record::head(kind, key, value), value)
}

/// Writes a record at the end of the newest segment.
fn write(shared: &Shared, head: &[u8], value: &[Bytes]) -> io::Result<Entry> {
    let (file, number, begin) = {
        let state = shared.state();
        let newest = state.segments.back().ok_or(io::ErrorKind::NotFound)?;
        (newest.file.clone(), newest.number, newest.bytes)
    };
    let mut end = begin;
    let mut parts = std::iter::once(head).chain(value.iter().map(|part| &**part));
    let written = parts.try_for_each(|part| {
        file.write_all_at(part, end)?;
        end += part.len() as u64;
        Ok(())
    });
    if let Some(newest) = shared.state().segments.back_mut() {
        // Nothing may come behind what is not whole: the segment is full.
        newest.bytes = if written.is_ok() { end } else { shared.segment_max };
    }
    let (offset, bytes) = (begin as u32, (end - begin) as u32);
    written.map(|()| Entry { segment: number, offset, bytes, was_read: false })
}

/// Begins a segment, with the oldest given up until there is room for it.
pub(super) fn begin_segment(shared: &Shared) -> io::Result<()> {
    let number = shared.state().segments.back().map_or(0, |newest| newest.number + 1);
    let segment = Segment::create(&shared.options.path, number)?;
    shared.state().segments.push_back(segment);
    while let Some(oldest) = oldest_beyond(shared) {
        give_up(shared, &oldest)?;
    }
    Ok(())
}

/// Takes out the oldest segment where the newest and one that is read from could be too much.
fn oldest_beyond(shared: &Shared) -> Option<Segment> {
    let mut state = shared.state();
    let room = shared.options.size.saturating_sub(2 * shared.segment_max);
    let fits = state.bytes() <= room && state.segments.len() <= SEGMENTS_OPEN;
    if state.segments.len() < 2 || fits {
        return None;
    }
    state.segments.pop_front()
}

/// Deletes a segment. What was read of it goes to the newest one, up to a quarter of that.
fn give_up(shared: &Shared, oldest: &Segment) -> io::Result<()> {
    Segment::delete(&shared.options.path, oldest.number)?;
    let mut room = shared.segment_max / 4;
    for hash in &oldest.hashes {
        let mut state = shared.state();
        let Some(entry) = state.index.get(hash).copied() else { continue };
        if entry.segment != oldest.number {
            continue;
        }
        state.index.remove(hash);
        let left = room.checked_sub(u64::from(entry.bytes)).filter(|_| entry.was_read);
        let Some(left) = left else { continue };
        room = left;
        state.begin(*hash);
        drop(state);
        let kept = record_at(&oldest.file, entry.range())
            .and_then(|(key, value)| keep(shared, &key, value).ok());
        shared.state().end(kept);
    }
    Ok(())
}

/// Writes a value once more, to the newest segment.
fn keep(shared: &Shared, key: &[u8], value: Bytes) -> io::Result<Entry> {
    let value = [value];
    write(shared, &record::head(Kind::Value, key, &value), &value)
}

/// Files that may be open. There are more than the size has segments where a process is started
/// often, and begins one each time.
const SEGMENTS_OPEN: usize = 128;
