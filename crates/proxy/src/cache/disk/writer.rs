//! The thread that opens the directory, writes, and reclaims the oldest segments.

use std::{fs::File, io, mem, time::Duration};

use loadline_core::{
    cache::disk::{Retry, Verdict},
    time::Duration as CoreDuration,
};

use super::{
    Arc, Closing, Entry, Ident, Object, Ordering, PoisonError, Put, QUEUE_BYTES, Relaxed,
    SEGMENT_SPARE, Segment, Shared, ToRecord, open,
    purge_log::PurgeLog,
    reader::{Whole, read_whole},
    record::{Head, write_body},
    segment::sync_folder,
    tail::Tail,
};

/// What only this thread has.
struct Writer<'s> {
    shared: &'s Arc<Shared>,
    /// None where it has to be written anew.
    log: Option<PurgeLog>,
    /// The number of the last purge that is recorded. What is written has this epoch, not that of a
    /// later one: at the next start a purge is missing where something is newer than all.
    recorded: u64,
    tail: Option<Tail>,
    retry: Retry,
    /// Segments leave, and what is kept of them is written: no others have to leave for that.
    is_reclaiming: bool,
}

/// What there is to do.
struct Work {
    purges: Vec<ToRecord>,
    puts: Vec<Put>,
    closing: Option<Closing>,
}

/// A record that was written.
struct Written {
    ident: Ident,
    number: u64,
    entry: Entry,
}

/// Opens the directory, and writes until it is closed.
pub(super) fn run(shared: &Arc<Shared>) {
    let mut retry = Retry::default();
    let mut is_told = false;
    let opened = loop {
        if shared.is_closing.load(Ordering::Acquire) {
            return;
        }
        match open::open(shared) {
            Ok(Some(opened)) => break opened,
            Ok(None) => {
                if !mem::replace(&mut is_told, true) {
                    let path = open::place(shared);
                    tracing::info!("another process has the cache in `{path}`: waiting for it");
                }
                shared.wait(LOCK_INTERVAL, |_| false);
            }
            // It was closed while it was read.
            Err(_) if shared.is_closing.load(Ordering::Acquire) => return,
            Err(error) => {
                let was_first = retry.failed(shared.clock.now());
                shared.failed("open", &error, was_first);
                tell(mem::take(&mut shared.state().to_record), Err(&error));
                shared.wait(retry.wait(shared.clock.now()).to_std(), |_| false);
            }
        }
    };
    let open::Opened { log, recorded, lock } = opened;
    shared.accepts.store(true, Relaxed);
    shared.works.store(true, Relaxed);
    let retry = Retry::default();
    let mut writer =
        Writer { shared, log: None, recorded, tail: None, retry, is_reclaiming: false };
    match log {
        Ok(log) => writer.log = Some(log),
        Err(error) => writer.failed("write to", &error),
    }
    writer.note_log();
    writer.run();
    // Only now another process may have it.
    drop(lock);
}

impl Shared {
    /// Waits so long, at most until it is closed, or `is_due`.
    fn wait(&self, most: Duration, is_due: impl Fn(&super::State) -> bool) {
        let state = self.state();
        let waits = |state: &mut super::State| state.closing.is_none() && !is_due(state);
        let waited = self.to_write.wait_timeout_while(state, most, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Writer<'_> {
    fn run(&mut self) {
        loop {
            let Work { purges, puts, closing } = self.next();
            self.record(purges);
            if let Err(error) = self.fit() {
                self.failed("reclaim room in", &error);
            }
            if !puts.is_empty() {
                self.write(&puts);
            }
            if let Some(closing) = closing {
                return self.finish(closing);
            }
        }
    }

    /// Waits for something to do; while the disk fails, until it is tried again.
    fn next(&mut self) -> Work {
        let wait = self.retry.wait(self.shared.clock.now()).to_std();
        match self.retry.works() {
            true => self.shared.wait(LONG, super::State::has_work),
            false => self.shared.wait(wait.min(LOOK_INTERVAL), super::State::is_waited_for),
        }
        let may_try = self.may_try();
        if may_try {
            self.shared.accepts.store(true, Relaxed);
        }
        let mut state = self.shared.state();
        state.is_resized = false;
        let (purges, closing) = (mem::take(&mut state.to_record), state.closing.take());
        let (mut puts, mut bytes) = (Vec::new(), 0);
        while (may_try || closing.is_some())
            && bytes < BATCH
            && let Some(put) = state.waiting.pop_front()
        {
            bytes += put.bytes;
            puts.push(put);
        }
        state.queued -= bytes;
        if let Some(closing) = closing {
            // What is queued goes before that.
            if !state.waiting.is_empty() {
                state.closing = Some(closing);
                return Work { purges, puts, closing: None };
            }
            return Work { purges, puts, closing: Some(closing) };
        }
        Work { purges, puts, closing: None }
    }

    /// Whether the disk is not left alone.
    fn may_try(&self) -> bool {
        self.retry.wait(self.shared.clock.now()) == CoreDuration::ZERO
    }

    /// Records purges, and tells whoever waits for that.
    fn record(&mut self, purges: Vec<ToRecord>) {
        let is_due = match self.log {
            Some(_) => !purges.is_empty(),
            // All that count are written then.
            None => self.may_try() || purges.iter().any(|it| it.tells.is_some()),
        };
        if !is_due {
            return;
        }
        let records: Vec<_> = purges.iter().map(|it| it.purge.clone()).collect();
        let last = records.iter().map(|it| it.number).max().unwrap_or(0);
        let outcome = match self.log.as_mut() {
            Some(log) => log.append(&records).map(|()| self.recorded = self.recorded.max(last)),
            None => self.rewrite_log(),
        };
        match outcome {
            Ok(()) => {
                tell(purges, Ok(()));
                self.note_log();
                self.worked();
            }
            Err(error) => {
                // What is at its end now is not known.
                self.log = None;
                tell(purges, Err(&error));
                self.failed("record a purge in", &error);
            }
        }
    }

    /// Writes all purges that count to a new file.
    fn rewrite_log(&mut self) -> io::Result<()> {
        let purges = {
            let numbered = self.shared.purges.read().unwrap_or_else(PoisonError::into_inner);
            numbered.purges.clone()
        };
        self.log = Some(PurgeLog::create(&self.shared.path, &purges)?);
        self.recorded = purges.epoch();
        Ok(())
    }

    fn note_log(&self) {
        self.shared.state().purge_bytes = self.log.as_ref().map_or(0, PurgeLog::bytes);
    }

    /// Lets segments leave, and purges be forgotten, until what there is fits.
    fn fit(&mut self) -> io::Result<()> {
        let shape = self.shared.shape();
        let is_only = self.shared.state().segments.len() == 1;
        if is_only && self.purge_bytes() > shape.purges {
            self.seal()?;
        }
        let (sizes, epochs): (Vec<u64>, Vec<u64>) =
            self.shared.state().segments.iter().map(|it| (it.bytes, it.epoch)).unzip();
        let bytes = self.purge_bytes();
        let (floor, leaving) = shape.forgotten(&epochs, bytes);
        let leaving = leaving.max(shape.leaving(&sizes));
        self.give_up(leaving)?;
        if bytes > shape.purges / 2 {
            let mut numbered = self.shared.purges.write().unwrap_or_else(PoisonError::into_inner);
            let floor = floor.min(numbered.purges.epoch());
            numbered.purges.forget(floor);
        }
        let most = 2 * self.purge_bytes() + shape.purges / 4;
        if self.log.as_ref().is_some_and(|log| log.bytes() > most) {
            self.log = None;
            self.rewrite_log()?;
            self.note_log();
        }
        Ok(())
    }

    /// What a record of the purges that count takes.
    fn purge_bytes(&self) -> u64 {
        self.shared.purges.read().unwrap_or_else(PoisonError::into_inner).purges.bytes()
    }

    /// Writes responses, and lets them be found.
    fn write(&mut self, puts: &[Put]) {
        let mut written = Vec::new();
        let outcome = puts.iter().try_for_each(|put| {
            written.extend(self.append(put)?);
            Ok(())
        });
        match outcome.and_then(|()| self.sync()) {
            Ok(()) => {
                self.publish(&written);
                self.worked();
            }
            Err(error) => {
                self.shared.counters.failed.fetch_add(puts.len() as u64, Relaxed);
                self.abandon();
                let mut state = self.shared.state();
                for put in puts {
                    state.withdraw(put.ident, put.number);
                }
                drop(state);
                self.failed("write to", &error);
            }
        }
    }

    /// Appends a record; none where that is not needed any more.
    fn append(&mut self, put: &Put) -> io::Result<Option<Written>> {
        let Put { ident, number, url, object, .. } = put;
        let verdict = self.shared.verdict(url, object);
        let mut metadata = object.metadata;
        match verdict {
            Verdict::Gone => {
                self.shared.state().withdraw(*ident, *number);
                return Ok(None);
            }
            Verdict::Stale(since) => metadata.mark_stale(since),
            Verdict::Keep => {}
        }
        let vary = {
            let mut state = self.shared.state();
            let is_latest = state.is_latest(*ident, *number);
            is_latest.then(|| state.index.vary(&object.response.selectors.vary)).flatten()
        };
        let head = Head { url: url.clone(), response: object.response.clone(), metadata };
        let record = head.write(object.length(), self.recorded);
        let (Some(vary), Some((opening, head))) = (vary, record) else {
            self.shared.state().withdraw(*ident, *number);
            return Ok(None);
        };
        let (bytes, recorded) = (opening.record_bytes(), self.recorded);
        self.tail(bytes)?;
        if self.recorded > recorded {
            // Purges were recorded meanwhile. No record has a smaller epoch than its segment.
            return self.append(put);
        }
        let tail = self.tail(bytes)?;
        let offset = tail.end();
        tail.write(&head)?;
        write_body(opening.check, object.pieces(), &mut |bytes| tail.write(bytes))?;
        let entry = Entry {
            segment: tail.number,
            offset: offset as u32,
            bytes: bytes as u32,
            tag: ident.tag,
            vary,
            is_dead: false,
            was_read: false,
        };
        tail.list(*ident, &entry, &object.response.selectors.vary);
        Ok(Some(Written { ident: *ident, number: *number, entry }))
    }

    /// The segment to write so many bytes to.
    fn tail(&mut self, bytes: u64) -> io::Result<&mut Tail> {
        let most = self.shared.shape().segment;
        let is_full = |tail: &Tail| tail.end() + bytes + tail.list_bytes() + SEGMENT_SPARE > most;
        // What is kept of those that leave may fill the next one.
        while self.tail.as_ref().is_some_and(is_full) {
            self.seal()?;
            if !self.is_reclaiming {
                self.fit()?;
            }
        }
        match &mut self.tail {
            Some(_) => {}
            none => *none = Some(Tail::begin(self.shared, self.recorded)?),
        }
        self.tail.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Closes the segment with its list.
    fn seal(&mut self) -> io::Result<()> {
        let Some(mut tail) = self.tail.take() else { return Ok(()) };
        let list = tail.contents.write(tail.end());
        let sealed = tail.write(&list).and_then(|()| tail.sync());
        tail.settle(self.shared);
        sealed
    }

    /// Makes sure that what was written stays.
    fn sync(&mut self) -> io::Result<()> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        tail.sync()?;
        let (number, end) = (tail.number, tail.end());
        let mut state = self.shared.state();
        state.segments.back_mut().filter(|it| it.number == number).into_iter().for_each(|it| {
            it.bytes = end;
        });
        Ok(())
    }

    /// Writes no more to a segment of which nobody knows what is at its end.
    fn abandon(&mut self) {
        let Some(mut tail) = self.tail.take() else { return };
        tail.buffer.clear();
        let end = self.shared.state().segments.back().map_or(0, |it| it.bytes);
        if tail.file.set_len(end).is_err() {
            // What is there all the same must not be found at the next start where it is purged.
            let beyond = tail.contents.listed.iter().filter(|it| u64::from(it.offset) >= end);
            let mut state = self.shared.state();
            beyond.for_each(|it| state.bury(it.ident, it.entry(tail.number)));
        }
        tail.flushed = end;
        tail.settle(self.shared);
    }

    /// Lets what was written be found.
    fn publish(&self, written: &[Written]) {
        let mut state = self.shared.state();
        let mut bytes = 0;
        for Written { ident, number, entry } in written {
            let is_latest = state.withdraw(*ident, *number);
            if is_latest {
                state.index.insert(ident.url, *entry);
            } else {
                state.bury(*ident, *entry);
            }
            bytes += u64::from(entry.bytes);
        }
        drop(state);
        self.shared.counters.written.fetch_add(written.len() as u64, Relaxed);
        self.shared.counters.written_bytes.fetch_add(bytes, Relaxed);
    }

    /// Deletes the oldest `count` segments. Records read since they were written are written once
    /// more, up to a part of a segment for all of them together.
    fn give_up(&mut self, count: usize) -> io::Result<()> {
        self.is_reclaiming = true;
        let mut room = self.shared.shape().segment / KEPT_PART;
        let given_up = (0..count).try_for_each(|_| self.give_up_oldest(&mut room));
        self.is_reclaiming = false;
        given_up?;
        // Purges are forgotten with what they concern, which must not come back.
        if count > 0 { sync_folder(&self.shared.path) } else { Ok(()) }
    }

    /// Deletes the oldest segment, unless it is the one that is written to.
    fn give_up_oldest(&mut self, room: &mut u64) -> io::Result<()> {
        let newest = self.tail.as_ref().map(|tail| tail.number);
        let (number, file, urls) = {
            let mut state = self.shared.state();
            let oldest = state.segments.front_mut();
            let Some(oldest) = oldest.filter(|it| Some(it.number) != newest) else { return Ok(()) };
            (oldest.number, oldest.file.clone(), mem::take(&mut oldest.urls))
        };
        self.keep_read(number, (&file, &urls), room);
        if let Err(error) = Segment::delete(&self.shared.path, number) {
            let mut state = self.shared.state();
            state.segments.front_mut().into_iter().for_each(|it| it.urls.clone_from(&urls));
            return Err(error);
        }
        let gone = self.shared.state().segments.pop_front();
        for some in urls.chunks(AT_A_TIME) {
            let mut state = self.shared.state();
            for url in some {
                state.index.remove(*url, |entry| entry.segment == number);
            }
        }
        drop((gone, file));
        self.shared.counters.reclaimed.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Writes once more what was read of a segment since it was written, a batch at a time, unless
    /// the disk fails. Who purges waits for one batch, as does who closes: the rest is not kept.
    fn keep_read(&mut self, number: u32, (file, urls): (&Arc<File>, &[u64]), room: &mut u64) {
        if !self.retry.works() {
            return;
        }
        let mut entries = self.read_since(number, urls, room).into_iter().peekable();
        while self.retry.works() && entries.peek().is_some() {
            let (mut puts, mut bytes) = (Vec::new(), 0);
            while bytes < BATCH
                && let Some(entry) = entries.next()
            {
                bytes += u64::from(entry.bytes);
                puts.extend(self.read_again(file, &entry));
            }
            self.write(&puts);
            let purges = mem::take(&mut self.shared.state().to_record);
            self.record(purges);
            if self.shared.is_closing.load(Ordering::Acquire) {
                break;
            }
        }
    }

    /// What was read of a segment since it was written, as far as there is room. What would take
    /// too much memory is not among it.
    fn read_since(&self, number: u32, urls: &[u64], room: &mut u64) -> Vec<Entry> {
        let mut kept = Vec::new();
        for some in urls.chunks(AT_A_TIME) {
            let state = self.shared.state();
            let of_urls = some.iter().flat_map(|url| state.index.of_url(*url));
            let all = of_urls.map(|(entry, _)| entry);
            for entry in all.filter(|entry| entry.segment == number && entry.was_read) {
                let bytes = u64::from(entry.bytes);
                let left = room.checked_sub(bytes).filter(|_| bytes <= QUEUE_BYTES);
                let Some(left) = left else { continue };
                *room = left;
                kept.push(entry);
            }
        }
        kept
    }

    /// A record that is to be written once more; none where it is damaged or purged, or there is
    /// something newer.
    fn read_again(&self, file: &Arc<File>, entry: &Entry) -> Option<Put> {
        let (url, object) = self.shared.object(read_whole(file, entry).ok()?)?;
        let mut put = self.shared.put(url, object)?;
        let mut state = self.shared.state();
        state.index.get(put.ident).filter(|it| !it.is_dead && it.is_at(entry))?;
        state.number(&mut put);
        Some(put)
    }

    /// Writes what memory holds, for as long as that may take.
    fn finish(&mut self, Closing { last }: Closing) {
        let begun = std::time::Instant::now();
        let mut last = last.into_iter();
        while self.retry.works() && begun.elapsed() < LAST_WRITES {
            let (mut puts, mut bytes) = (Vec::new(), 0);
            for (url, object) in last.by_ref() {
                let Some(mut put) = self.shared.put(url, object) else { continue };
                self.shared.state().number(&mut put);
                bytes += put.bytes;
                puts.push(put);
                if bytes >= BATCH {
                    break;
                }
            }
            if puts.is_empty() {
                break;
            }
            self.write(&puts);
        }
        if let Err(error) = self.seal() {
            self.failed("write to", &error);
        }
    }

    fn failed(&mut self, what: &str, error: &io::Error) {
        let was_first = self.retry.failed(self.shared.clock.now());
        self.shared.failed(what, error, was_first);
        let is_full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        if is_full && !self.is_reclaiming {
            // So that the next attempts find room; if that fails as well, it is said already.
            let count = self.shared.state().segments.len().div_ceil(ROOM_PART);
            let _ = self.give_up(count);
        }
    }

    fn worked(&mut self) {
        self.shared.works.store(true, Relaxed);
        self.shared.accepts.store(true, Relaxed);
        if self.retry.worked() {
            let path = open::place(self.shared);
            tracing::info!("the cache in `{path}` can be written to again");
        }
    }
}

impl Shared {
    /// The record as an object in memory; none if it was purged.
    fn object(&self, (opening, head, pieces): Whole) -> Option<(Box<[u8]>, Arc<Object>)> {
        let (verdict, epoch) = self.verdict_of(&head, opening.epoch);
        let Head { url, response, mut metadata } = head;
        match verdict {
            Verdict::Gone => return None,
            Verdict::Stale(since) => metadata.mark_stale(since),
            Verdict::Keep => {}
        }
        Some((url, Arc::new(Object::new(response, metadata, pieces, epoch))))
    }
}

impl super::State {
    fn has_work(&self) -> bool {
        !self.to_record.is_empty() || !self.waiting.is_empty() || self.is_resized
    }

    /// Notes that a record is on disk that must not be used.
    fn bury(&mut self, ident: Ident, entry: Entry) {
        if self.index.get(ident).is_none() {
            self.index.insert(ident.url, Entry { is_dead: true, ..entry });
        }
    }

    fn is_waited_for(&self) -> bool {
        self.to_record.iter().any(|it| it.tells.is_some())
    }

    fn is_latest(&self, ident: Ident, number: u64) -> bool {
        self.pending.get(&ident).is_some_and(|(latest, _)| *latest == number)
    }

    /// Takes back that something is about to be written: whether nothing has come since.
    fn withdraw(&mut self, ident: Ident, number: u64) -> bool {
        let is_latest = self.is_latest(ident, number);
        if is_latest {
            self.pending.remove(&ident);
        }
        is_latest
    }
}

/// Tells whoever waits for purges what became of them.
fn tell(purges: Vec<ToRecord>, outcome: Result<(), &io::Error>) {
    for tells in purges.into_iter().filter_map(|it| it.tells) {
        // It may have waited long enough.
        let _ = tells.send(outcome.map_err(ToString::to_string));
    }
}

/// What is written before it is made sure that it stays.
const BATCH: u64 = 8 << 20;

/// Records kept of segments that are deleted at a time may take this fraction of another one.
const KEPT_PART: u64 = 4;

/// Of a disk without room such a part of the segments is deleted: one alone would soon be full
/// again, and each time nothing is written for a second.
const ROOM_PART: usize = 16;

/// URLs that are taken out of the index while others wait.
const AT_A_TIME: usize = 256;

/// How long what memory holds is written at the end.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// How often it is looked whether another process has left the directory.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// How often purges are taken in while the disk fails.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Nothing has to be done without being asked for.
const LONG: Duration = Duration::from_secs(3_600);
