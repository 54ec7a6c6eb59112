//! Sends a body in slices: each is taken from memory, read from disk or fetched when the client
//! comes to it, and the next one is begun meanwhile.
//!
//! All are of the content whose strong tag the first one has. Where a server sends a slice of
//! other content, the response breaks off, and what is stored for the URL is forgotten.

use std::{future::poll_fn, ops::RangeInclusive, pin::pin, sync::Arc, task::Poll};

use bytes::Bytes;
use loadline_core::{
    cache::{
        ContentRange, Fields, Metadata, RequestDirectives, Slices, Vary, pause_before, strong_tag,
    },
    decide::{ending::Fault, reason::Reason},
    time::Duration,
};
use loadline_http1::Method;
use tokio::time::sleep;

use super::{
    Exchange, Record,
    cached::{ROUNDS, fetch_key},
    stored::{Broken, Source},
};
use crate::{
    cache::{
        BROKEN, Begun, Body, CHANGED, Disk, Failed, Fetch, Join, Kept, Load, Object, Reader,
        Response, SliceRange, Wanted, What, request_fields,
    },
    runtime::{worker::Worker, yield_once::yield_once},
};

/// A body in slices.
pub(super) struct Sliced {
    /// What the client asks for.
    wanted: Wanted,
    slices: Slices,
    tag: Box<[u8]>,
    vary: Vary,
    current: Option<Opened>,
    next: Option<Opened>,
    /// What the client has come to so far, in runs of slices.
    seen: Vec<RangeInclusive<u64>>,
}

/// A slice that is at hand, or on its way.
struct Opened {
    index: u64,
    slice: Slice,
    /// It is fetched for this client.
    is_first: bool,
}

/// Where the bytes of a slice come from.
pub(super) enum Slice {
    Object(Arc<Object>),
    Arrival(Reader),
}

/// Where a slice is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    Everywhere,
    /// In memory and among fetches: the record on disk does not fit.
    NotOnDisk,
    /// By a fetch of its own: the one under way does not fit.
    Alone,
}

impl Sliced {
    /// The body of this response; none where it is not in slices.
    pub(super) fn of(wanted: &Wanted, response: &Response) -> Option<Self> {
        let slices = response.length.slices()?;
        let tag = strong_tag(Fields(&response.fields()))?.into();
        let (wanted, vary) = (wanted.clone(), response.selectors.vary.clone());
        let (current, next, seen) = (None, None, Vec::new());
        Some(Self { wanted, slices, tag, vary, current, next, seen })
    }

    /// The same, of which this is the first slice.
    pub(super) fn beginning_with(mut self, slice: Slice, is_first: bool) -> Self {
        self.current = Some(Opened { index: 0, slice, is_first });
        self
    }

    /// Counts that the slice at hand is sent, if it is stored.
    pub(super) fn count_hit(&mut self) {
        if let Some(current) = self.current.take() {
            self.count(&current);
            self.current = Some(current);
        }
    }

    /// The same of a slice, once, however often the ranges of the request come back to it.
    fn count(&mut self, Opened { index, slice, .. }: &Opened) {
        if self.seen.iter().any(|run| run.contains(index)) {
            return;
        }
        match self.seen.last_mut() {
            Some(run) if run.end() + 1 == *index => *run = *run.start()..=*index,
            _ => self.seen.push(*index..=*index),
        }
        if let Slice::Object(object) = slice {
            object.count_hit();
        }
    }

    /// The request for a slice; the first is requested as the whole.
    fn wanted_of(&self, index: u64) -> Option<Wanted> {
        let (range, vary) = (self.slices.range(index)?, self.vary.clone());
        Some(if index == 0 {
            self.wanted.clone()
        } else {
            self.wanted.slice(SliceRange { range, complete: self.slices.complete, vary })
        })
    }

    /// Whether a slice belongs to it.
    fn has(&self, slice: &Response) -> bool {
        let fields = slice.fields();
        let part = ContentRange::of(Fields(&fields));
        let complete = part.map_or_else(|| slice.length.complete(), |part| part.complete);
        let is_named = strong_tag(Fields(&fields)).is_some_and(|tag| *tag == *self.tag);
        is_named && complete.is_none_or(|complete| complete == self.slices.complete)
    }
}

impl Record {
    /// Counts bytes of a slice, if this is one, that are not from where the others are.
    pub(super) fn count_slice(&mut self, source: &Source, bytes: u64) {
        let Source::Sliced(sliced) = source else { return };
        let is_fetched = sliced.current.as_ref().is_some_and(|current| current.is_first);
        if self.cache.is_some_and(|result| result.is_of_server() != is_fetched) {
            self.elsewhere += bytes;
        }
    }
}

impl Exchange<'_> {
    /// Whether servers have to be asked for slices of what is sent of a body. The first one is at
    /// hand; of very many, those that come first are looked for.
    pub(super) async fn lacks_slices(&self, source: &Source, body: &Body) -> bool {
        let Source::Sliced(sliced) = source else { return false };
        if self.request.method == Method::Head {
            return false;
        }
        let slices = sliced.slices;
        let parts = match body {
            Body::None => Vec::new(),
            Body::Whole => vec![(0, slices.complete)],
            Body::Parts(parts, _) => parts.iter().map(|part| (part.from, part.length)).collect(),
        };
        let indexes = parts.iter().filter(|(_, length)| *length > 0).flat_map(|(from, length)| {
            slices.index(*from).max(1)..=slices.index(from + length - 1)
        });
        let fields = request_fields(&self.request.text).into_vec();
        for (count, index) in indexes.take(LOOKED_FOR).enumerate() {
            if !self.has_slice(sliced, index, Fields(&fields)) {
                return true;
            }
            if count % PER_TURN == PER_TURN - 1 {
                yield_once().await;
            }
        }
        false
    }

    /// Whether a slice behind the first one is stored for a request with these fields, as far as is
    /// known without reading.
    fn has_slice(&self, sliced: &Sliced, index: u64, fields: Fields<'_>) -> bool {
        let Some(range) = sliced.slices.range(index) else { return true };
        let (url, variant) = (&sliced.wanted.url, sliced.wanted.slice_variant(range));
        let store = &self.worker.shared.store;
        if let Some(object) = store.peek(url, &variant, fields) {
            return sliced.has(&object.response);
        }
        let secondary = sliced.vary.secondary_key(fields).unwrap_or_default();
        let is_there = |disk: &Arc<Disk>| disk.has(url, &variant, &secondary);
        store.disk().as_ref().is_some_and(is_there)
    }

    /// Whether the client wants nothing that is not stored.
    pub(super) fn wants_nothing_else(&self) -> bool {
        let fields = request_fields(&self.request.text);
        RequestDirectives::of(Fields(&fields)).only_if_cached
    }
}

impl Exchange<'_> {
    /// The bytes from a place to the end of their piece, for a client that reads to another place;
    /// empty at the end of the body. While they are waited for, what goes before is sent.
    pub(super) async fn of_slices(
        &mut self,
        sliced: &mut Sliced,
        (from, until): (u64, u64),
        text: &mut Vec<u8>,
    ) -> Result<Bytes, Broken> {
        let Some(range) = sliced.slices.around(from) else { return Ok(Bytes::new()) };
        let index = sliced.slices.index(from);
        let current = match sliced.current.take().filter(|current| current.index == index) {
            Some(current) => current,
            None => {
                let opened = Box::pin(self.turn_to(sliced, index, text)).await?;
                sliced.count(&opened);
                opened
            }
        };
        if sliced.next.is_none() && until > range.last + 1 {
            sliced.next = self.open_slice(sliced, index + 1, Search::Everywhere);
        }
        let (current, place) = (sliced.current.insert(current), from - range.first);
        let mut piece = match &mut current.slice {
            Slice::Object(object) => object.piece_after(place),
            Slice::Arrival(reader) => {
                reader.seek(place);
                self.arriving(reader, text).await?
            }
        };
        piece.truncate(usize::try_from(range.length() - place).unwrap_or(usize::MAX));
        if piece.is_empty() { Err(Broken::Source(BROKEN)) } else { Ok(piece) }
    }

    /// The slice with this index, once it begins to come.
    async fn turn_to(
        &mut self,
        sliced: &mut Sliced,
        index: u64,
        text: &mut Vec<u8>,
    ) -> Result<Opened, Broken> {
        let next = sliced.next.take().filter(|next| next.index == index);
        let mut opened = next.or_else(|| self.open_slice(sliced, index, Search::Everywhere));
        for attempt in 0..ROUNDS {
            let Some(mut slice) = opened else { break };
            let Slice::Arrival(reader) = &mut slice.slice else {
                return Ok(slice);
            };
            self.write_all(text, b"").await.map_err(Broken::Client)?;
            text.clear();
            let again = match self.slice_begun(reader).await? {
                // What one client may not have another may.
                Begun::Failed(Failed { reason: Some(Reason::SliceRefused), .. })
                    if !slice.is_first =>
                {
                    Search::Alone
                }
                Begun::Failed(failed) => {
                    self.pause_after(failed, attempt, sliced).await?;
                    Search::Everywhere
                }
                Begun::Disk(response, ..) if sliced.has(&response) => return Ok(slice),
                Begun::Response(response, ..) if !sliced.has(&response) => {
                    return Err(self.without_slice(sliced, CHANGED));
                }
                Begun::Response(_, Some((metadata, _)), _) if self.may_have(&metadata, sliced) => {
                    return Ok(slice);
                }
                Begun::Response(..) if slice.is_first => return Ok(slice),
                Begun::Response(..) => Search::Alone,
                Begun::Disk(..)
                | Begun::Stored(..)
                | Begun::Refused(_)
                | Begun::Again
                | Begun::Interim(_) => Search::NotOnDisk,
            };
            opened = self.open_slice(sliced, index, again);
        }
        Err(Broken::Source(BROKEN))
    }
}

impl Exchange<'_> {
    /// The source of a slice: a stored response, or else a fetch; none behind the end.
    fn open_slice(&self, sliced: &Sliced, index: u64, search: Search) -> Option<Opened> {
        let wanted = sliced.wanted_of(index)?;
        let opened = |slice, is_first| Some(Opened { index, slice, is_first });
        let store = &self.worker.shared.store;
        let fields = request_fields(&self.request.text);
        let fields = Fields(&fields);
        let find = || store.find(&wanted.url, &wanted.variant, fields);
        let found = find();
        let mut alone = search == Search::Alone;
        let mut disk = store.disk().clone().filter(|_| search == Search::Everywhere);
        match found.what {
            Some(What::Object(object)) if sliced.has(&object.response) => {
                return opened(Slice::Object(object), false);
            }
            // What is on disk is older.
            Some(What::Object(_)) => disk = None,
            Some(What::Unstorable(until)) => alone |= self.worker.shared.clock.now() < until,
            Some(What::Branch(_)) | None => {}
        }
        let kept = disk.as_ref().and_then(|it| it.find(&wanted.url, &wanted.variant, fields));
        let place = match kept {
            Some(Kept::Waiting(object)) if sliced.has(&object.response) => {
                return opened(Slice::Object(object), false);
            }
            Some(Kept::There(place)) => disk.map(|disk| (disk, place)),
            Some(Kept::Waiting(_)) | None => None,
        };
        let key = fetch_key(found.key, fields);
        let joined = match alone {
            true => Join::Begin(Reader::alone()),
            false => store.join(
                &key,
                || matches!(find().what, Some(What::Object(it)) if sliced.has(&it.response)),
            ),
        };
        let reader = match joined {
            Join::Again => return self.open_slice(sliced, index, search),
            Join::Other(reader) => return opened(Slice::Arrival(reader), false),
            Join::Begin(reader) => reader,
        };
        let (under, url) = ((key, reader.arrival().clone()), wanted.url.clone());
        let is_first = place.is_none();
        match place {
            Some((disk, place)) => Load::new((store, disk), (url, place), under).begin(),
            None => {
                let at = (store, self.worker.shared.clock);
                Fetch::new(at, under, &wanted, None).begin(self.start(false), &self.request);
            }
        }
        opened(Slice::Arrival(reader), is_first)
    }

    /// Waits for the head of the response that brings a slice, or for there being none.
    async fn slice_begun(&mut self, reader: &mut Reader) -> Result<Begun, Broken> {
        // How long a server may take is for its fetch to say.
        self.timer.arm(Duration::ZERO);
        loop {
            let begun = poll_fn(|cx| match reader.poll_begun(cx) {
                Poll::Ready((begun, _)) => Poll::Ready(Ok(begun)),
                Poll::Pending => {
                    let reset = self.client.socket.poll_reset(cx);
                    reset.map(|()| Err(Broken::Client(Reason::ClientGone)))
                }
            });
            match begun.await? {
                Begun::Interim(_) => {}
                begun => return Ok(begun),
            }
        }
    }

    /// Waits before a slice is asked for again for which no server had room.
    async fn pause_after(
        &mut self,
        failed: Failed,
        attempt: u32,
        sliced: &Sliced,
    ) -> Result<(), Broken> {
        let is_full = failed.ending.fault() == Fault::Capacity;
        let Some(pause) = pause_before(attempt).filter(|_| is_full) else {
            return Err(self.without_slice(sliced, failed));
        };
        let mut slept = pin!(sleep(pause.to_std()));
        poll_fn(|cx| match slept.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => {
                let reset = self.client.socket.poll_reset(cx);
                reset.map(|()| Err(Broken::Client(Reason::ClientGone)))
            }
        })
        .await
    }

    /// A slice is not to be had: lets nobody begin with what is stored where that is the reason.
    fn without_slice(&self, sliced: &Sliced, failed: Failed) -> Broken {
        let Sliced { wanted, .. } = sliced;
        let store = &self.worker.shared.store;
        if matches!(failed.reason, Some(Reason::ContentChanged | Reason::WrongRange)) {
            store.invalidate(&wanted.url);
        }
        if failed.reason == Some(Reason::ContentChanged) {
            let (Worker { shared, failures, .. }, route) = (&**self.worker, &self.driver.route);
            let cells = &route.service_context().cells;
            failures.note(shared, cells, route.scene(None), Reason::ContentChanged);
        }
        if failed.reason == Some(Reason::WrongRange) {
            let fields = request_fields(&self.request.text);
            let found = store.find(&wanted.url, &wanted.variant, Fields(&fields));
            store.pass(wanted, &found.key, self.worker.shared.clock.now() + WITHOUT_RANGES);
        }
        Broken::Source(failed)
    }

    /// Whether a response that was begun for another is for this request as well.
    fn may_have(&self, metadata: &Metadata, sliced: &Sliced) -> bool {
        let fields = request_fields(&self.request.text);
        let settings = &sliced.wanted.caching().settings;
        metadata.for_authorized || !settings.is_authorized(Fields(&fields))
    }
}

/// So many slices are looked for before a response begins; more are gigabytes.
const LOOKED_FOR: usize = 1_024;

/// What is looked for before other connections get their turn.
const PER_TURN: usize = 64;

/// How long what has no ranges, although its server says so, passes the cache.
const WITHOUT_RANGES: Duration = Duration::from_secs(600);
