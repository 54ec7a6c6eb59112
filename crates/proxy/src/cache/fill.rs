//! What becomes of the response to a fetch: whether it is stored, and the bytes it brings.

use std::sync::Arc;

use bytes::Bytes;
use loadline_core::{
    cache::{
        self, ByteRange, Decision, Exchange, Field, Fields, Found, Metadata, Refusal, Situation,
        Slices, Vary, Wishes, brings, decide, format_date, freshen, freshened_fields, is_about,
        is_for_the_cache, may_store, stored_fields, tags, withheld,
    },
    decide::{ending::Ending, reason::Reason},
    time::{Duration, UnixTime},
};
use loadline_http1::{Framing, ResponseHead, ResponseOptions, write_response};

use super::{
    answer::write,
    arrival::{Abandoned, Begun, Failed, Known, WINDOW},
    fetch::{Fetch, Via},
    incomplete::Joining,
    object::{Length, Object, Response, fields, fields_of},
    selectors::Selectors,
    wanted::{Extent, Wanted, request_fields},
};

/// A head of a response to a fetch, when it came, and what was asked.
pub(crate) struct Came<'a> {
    pub(crate) head: &'a ResponseHead,
    pub(crate) bytes: &'a [u8],
    /// The head of the request.
    pub(crate) asked: &'a [u8],
    pub(crate) requested: UnixTime,
    pub(crate) received: UnixTime,
    pub(crate) via: Via,
}

/// The body of a response that is coming in.
#[derive(Debug)]
pub(crate) struct Filling {
    response: Arc<Response>,
    /// As long as it is kept whole.
    metadata: Option<Metadata>,
    /// Bytes of the body still to be kept.
    left: u64,
    joining: Joining,
    /// A part that is stored, in whose place the whole is stored.
    part: Option<Arc<Object>>,
}

impl Filling {
    /// All of a body that is stored.
    pub(super) fn of(response: Arc<Response>, metadata: Metadata) -> Self {
        let (left, joining) = (u64::MAX, Joining::Alone);
        Self { response, metadata: Some(metadata), left, joining, part: None }
    }

    /// Whether what is still to come is not wanted: it is in other slices.
    pub(crate) const fn has_all(&self) -> bool {
        self.left == 0
    }
}

impl Came<'_> {
    /// The fields of the response.
    pub(super) fn fields(&self) -> Vec<Field<'_>> {
        fields_of(self.head, self.bytes)
    }

    /// The request and its response with these fields, as the rules of the cache see them.
    pub(super) fn exchange<'a>(
        &self,
        wanted: &'a Wanted,
        asked: &'a [Field<'a>],
        received: &'a [Field<'a>],
    ) -> Exchange<'a> {
        Exchange {
            request: wanted.request(asked),
            response: cache::Response { status: self.head.status(), fields: Fields(received) },
            requested: self.requested,
            received: self.received,
        }
    }
}

impl Fetch {
    /// Takes the head of an interim response, for those who wait.
    pub(crate) fn interim(&self, head: &[u8]) {
        self.arrival.interim(Bytes::copy_from_slice(head));
    }

    /// Takes the head of the response. Its body is to follow; none where what is stored is good.
    ///
    /// # Errors
    /// Why nobody is to read it.
    pub(crate) fn answered(&self, came: &Came<'_>) -> Result<Option<Filling>, Reason> {
        let (asked, received) = (request_fields(came.asked), came.fields());
        let exchange = came.exchange(&self.wanted, &asked, &received);
        if let Some(part) = &self.wanted.part {
            let complete = brings(&exchange.response, part.range);
            if complete != Some(part.complete) {
                return Err(self.without_part(came, complete.is_some()));
            }
        }
        if let (304, Some(stored)) = (came.head.status(), self.validated().cloned()) {
            self.not_modified(&stored, &exchange, came.via);
            return Ok(None);
        }
        if let Some(rest) = self.rest(came, &exchange) {
            return rest.map(Some);
        }
        let part = self.forget_other_part(&exchange);
        let own = self.own_part(&exchange, came.head.framing());
        let allowed = may_store(&exchange, self.settings()).ok();
        let allowed = allowed.filter(|_| own.is_some() || !self.is_own_range());
        let allowed = allowed.filter(|_| !self.keeps_stored(&exchange));
        let slices = allowed.and_then(|_| self.slices(&exchange.response, came.head.framing()));
        let metadata = allowed.filter(|_| slices.is_some() || self.fits(came.head.framing()));
        if metadata.is_none() {
            self.note_unstored(came, allowed.is_some());
            if self.is_in_vain(came.head, Fields(&asked)) {
                self.arrival.begin(Begun::Again, came.via);
                return Err(Reason::ClientGone);
            }
        }
        let own = own.filter(|_| metadata.is_some());
        let joining = own.map(|part| self.joining(&part, &exchange)).unwrap_or_default();
        let text = match metadata {
            Some(_) => {
                let line = status_line(came);
                let fields = stored_fields(Fields(&received)).filter(|field| !field.is("age"));
                head(&line, fields, &exchange)
            }
            None => passed(came, &exchange),
        };
        let length = match (slices, came.head.framing()) {
            (Some(Slices { complete, size }), _) => Length::Sliced { complete, size },
            (None, Framing::Length(length)) if own.is_some() => Length::Part(length),
            (None, Framing::Length(length)) => Length::Whole(length),
            (None, Framing::None) => Length::Whole(0),
            (None, Framing::Chunked | Framing::UntilClose) => Length::Unknown,
        };
        let left = slices.map_or(u64::MAX, |slices| u64::from(slices.size));
        let withheld = metadata.and_then(|_| lines(withheld(Fields(&received))));
        let response = Arc::new(response(&self.wanted, &exchange, text, length));
        let is_stored = !matches!(joining, Joining::Nothing);
        let known = metadata.map(|metadata| (metadata, is_stored));
        self.announce(&response, (known, withheld), came);
        Ok(Some(Filling { response, metadata, left, joining, part }))
    }

    /// Whether the client's own range alone is asked for.
    fn is_own_range(&self) -> bool {
        matches!(self.wanted.extent, Extent::Own(_))
    }

    /// The slice that alone is wanted.
    fn part(&self) -> Option<ByteRange> {
        self.wanted.part.as_ref().map(|part| part.range)
    }

    /// How a response is stored in slices, if it is. There is memory for the first then.
    fn slices(&self, response: &cache::Response<'_>, framing: Framing) -> Option<Slices> {
        let longest = self.store.limits().longest_slice().get();
        let size = u64::from(self.wanted.caching().slice).min(longest);
        let Framing::Length(length) = framing else { return None };
        let slices = Slices::of(response, length, u32::try_from(size).ok()?)?;
        (self.wanted.part.is_none() && self.reserve(size)).then_some(slices)
    }

    /// Whether a server has failed, and what is stored is used instead: an error that may be stored
    /// does not take its place.
    fn keeps_stored(&self, exchange: &Exchange<'_>) -> bool {
        let failed = cache::is_server_error(exchange.response.status);
        let Some((stored, _)) = self.stored.as_ref().filter(|_| failed) else { return false };
        let found = Found::Response(&stored.metadata);
        let wishes = Wishes::of(exchange.request.fields, self.settings());
        let now = exchange.received;
        let decision = decide(found, &wishes, Situation::Failed, now, self.settings());
        matches!(decision, Decision::Fresh | Decision::Stale { .. })
    }

    /// What came is not the slice that was asked for, or one of content of another length: why, as
    /// far as that is the server's fault.
    fn without_part(&self, came: &Came<'_>, is_of_other: bool) -> Reason {
        let (failed, reason) = match came.head.status() {
            206 if is_of_other => (CHANGED, Reason::ClientGone),
            200 | 206 => (WRONG_RANGE, Reason::WrongRange),
            500.. => (SLICE_ERROR, Reason::SliceError),
            404 | 410 | 416 => (CHANGED, Reason::ClientGone),
            429 => (SLICE_THROTTLED, Reason::ClientGone),
            _ => (SLICE_REFUSED, Reason::ClientGone),
        };
        self.close();
        self.arrival.begin(Begun::Failed(failed), came.via);
        reason
    }

    pub(super) fn announce(
        &self,
        response: &Arc<Response>,
        (metadata, withheld): (Option<Known>, Option<Arc<[u8]>>),
        came: &Came<'_>,
    ) {
        if metadata.is_some() && !self.is_own_range() {
            // Who wants another range joins no fetch for one.
            self.share(response);
        }
        self.arrival.begin(Begun::Response(response.clone(), metadata, withheld), came.via);
    }

    /// A response is not stored, only since it `is_too_long` or for what it says.
    fn note_unstored(&self, came: &Came<'_>, is_too_long: bool) {
        if came.head.status() == TOO_EARLY {
            // It says nothing of further requests.
            self.close();
        } else {
            self.pass(cache::is_server_error(came.head.status()), is_too_long, came.asked);
        }
    }

    /// Lets nobody wait in vain for what cannot be stored. What is stored stays for as long as
    /// servers fail, and where the response was refused to others since its client is known.
    fn pass(&self, fails: bool, is_too_long: bool, asked: &[u8]) {
        if !fails {
            // What is older and still coming is not to be stored either.
            self.ended();
        }
        let Some(key) = self.key().filter(|_| self.close().is_some()) else { return };
        let until = self.clock.now() + if fails { FAILED } else { UNSTORABLE };
        if self.is_own_range() && (fails || is_too_long) {
            // Other ranges may be stored.
            return self.store.pass(&self.wanted, &key, until);
        }
        if fails && self.stored.as_ref().is_some_and(|(it, _)| it.part().is_none()) {
            return;
        }
        let asked = request_fields(asked);
        if self.settings().is_authorized(Fields(&asked)) {
            return self.store.pass_authorized(&self.wanted, until);
        }
        let key = self.key_of_part(Fields(&asked)).unwrap_or(key);
        self.store.pass(&self.wanted, &key, until);
        if !fails {
            self.store.give_up_on_disk(&self.wanted, Fields(&asked));
        }
    }

    /// What is stored has been validated.
    fn not_modified(&self, stored: &Arc<Object>, exchange: &Exchange<'_>, via: Via) {
        let old = stored.response.fields();
        if !is_about(exchange.response.fields, Fields(&old)) {
            self.store.forget(&self.wanted.url, stored);
            self.close();
            return self.arrival.begin(Begun::Again, via);
        }
        let begun = match freshened(&self.wanted, stored, exchange, self.epoch) {
            Ok(object) => {
                if let Some(closed) = self.ended() {
                    self.store.store(&self.wanted.url, &object, closed);
                }
                self.close();
                Begun::Stored(object, lines(withheld(exchange.response.fields)))
            }
            Err(_) => {
                self.store.give_up_on_disk(&self.wanted, exchange.request.fields);
                self.store.forget(&self.wanted.url, stored);
                self.close();
                Begun::Refused(refused(&self.wanted, stored, exchange))
            }
        };
        self.arrival.begin(begun, via);
    }

    /// Whether the client wants a part far behind the beginning of a response that is not stored:
    /// then it is better fetched by itself, or sent whole where its server knows no ranges.
    fn is_in_vain(&self, head: &ResponseHead, asked: Fields<'_>) -> bool {
        let (200, Framing::Length(length)) = (head.status(), head.framing()) else { return false };
        // To `If-Range` all of it may be the answer.
        let Some(range) = self.range.as_ref().filter(|_| !asked.has("if-range")) else {
            return false;
        };
        let asked = [Field::new(b"Range", range)];
        cache::Wanted::of(Fields(&asked), length).comes_after(WINDOW, length)
    }

    /// Whether a body that is framed like this may be stored, as far as is known.
    fn fits(&self, framing: Framing) -> bool {
        match framing {
            Framing::Length(length) => {
                let longest = match self.is_own_range() {
                    true => self.store.longest(),
                    false => self.store.longest_arriving(),
                };
                length <= longest && self.reserve(length)
            }
            Framing::None | Framing::Chunked | Framing::UntilClose => true,
        }
    }

    /// More of the body has come, of the response to the request with the head `asked`.
    pub(crate) fn append(&self, filling: &mut Filling, asked: &[u8], mut bytes: Bytes) {
        bytes.truncate(usize::try_from(filling.left).unwrap_or(usize::MAX));
        filling.left -= bytes.len() as u64;
        let length = self.arrival.len() + bytes.len() as u64;
        let is_kept = filling.metadata.is_some();
        let missing = length.saturating_sub(self.arrival.reserved());
        if is_kept
            && (length > self.store.longest_arriving() || missing > 0 && !self.reserve(missing))
        {
            self.let_go(filling, asked);
        }
        self.arrival.append(bytes);
    }

    /// Keeps the body whole no longer: it cannot be stored. What readers have not taken of it still
    /// counts.
    fn let_go(&self, filling: &mut Filling, asked: &[u8]) {
        filling.metadata = None;
        self.pass(false, true, asked);
        self.arrival.shrink();
    }

    /// Waits until more is to be read; an error if nobody wants it.
    pub(crate) async fn room(&self) -> Result<(), Abandoned> {
        self.arrival.room().await
    }

    /// All of the body has come: whether it is stored.
    pub(crate) fn finish(&self, filling: Filling) -> bool {
        if self.part().is_some_and(|range| range.length() != self.arrival.len()) {
            // A body in chunks may have any length.
            self.arrival.fail(WRONG_RANGE, Via::default());
            return false;
        }
        let pieces = self.store.kept(self.arrival.finish());
        self.arrival.replace(&pieces);
        let ended = filling.metadata.and_then(|metadata| Some((metadata, self.ended()?)));
        let is_stored = ended.is_some_and(|(metadata, closed)| {
            let completed = self.completes(&filling.joining).cloned().or(filling.part);
            let object = match filling.joining {
                Joining::Alone => Object::new(filling.response, metadata, pieces, self.epoch),
                Joining::Nothing => return false,
                Joining::With(joined) => self.object_of(*joined, &pieces),
            };
            let is_stored = self.store.store(&self.wanted.url, &Arc::new(object), closed);
            if let Some(part) = completed.filter(|_| is_stored) {
                self.store.forget(&self.wanted.url, &part);
            }
            is_stored
        });
        self.close();
        is_stored
    }
}

/// The head of a response that goes to its client alone.
fn passed(came: &Came<'_>, exchange: &Exchange<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let written = write_response(&mut text, came.bytes, came.head, ResponseOptions::default());
    if written == loadline_http1::Forwarded::Unchanged {
        text.extend_from_slice(&came.bytes[..came.head.head_len()]);
    }
    let all = fields(&text);
    head(first_line(&text), all.into_iter(), exchange)
}

/// A head of these fields, without those that frame a body or announce its trailers, which are not
/// kept, and with a date. A `Content-Range` of a 200 means nothing (RFC 9110 section 14.4), and
/// would be beside that of a part.
pub(super) fn head<'a>(
    status_line: &[u8],
    fields: impl Iterator<Item = Field<'a>>,
    exchange: &Exchange<'_>,
) -> Vec<u8> {
    let mut text = status_line.to_vec();
    let mut is_dated = false;
    for field in fields {
        is_dated |= field.is("date");
        let is_framing =
            ["content-length", "transfer-encoding", "trailer"].iter().any(|name| field.is(name));
        let means_nothing = exchange.response.status == 200 && field.is("content-range");
        if !is_framing && !means_nothing && !is_for_the_cache(field.name) {
            write(&mut text, field.name, field.value);
        }
    }
    if !is_dated {
        write(&mut text, b"Date", &format_date(exchange.received));
    }
    text
}

/// The lines of these fields; none where there are none.
pub(super) fn lines<'a>(fields: impl Iterator<Item = Field<'a>>) -> Option<Arc<[u8]>> {
    let mut text = Vec::new();
    fields.for_each(|field| write(&mut text, field.name, field.value));
    (!text.is_empty()).then(|| text.into())
}

/// The stored response, freshened by a newer response.
pub(super) fn freshened(
    wanted: &Wanted,
    stored: &Object,
    exchange: &Exchange<'_>,
    epoch: u64,
) -> Result<Arc<Object>, Refusal> {
    let (status, old) = (stored.response.status, stored.response.fields());
    let fresh = freshen(Fields(&old), status, exchange, &wanted.caching().settings)?;
    let fields = fresh.fields.into_iter().filter(|field| !field.is("age"));
    let text = head(first_line(&stored.response.text), fields, exchange);
    let mut response = response(wanted, exchange, text, stored.told_length());
    response.status = status;
    keep_tags(&mut response, stored);
    Ok(stored.freshened(Arc::new(response), fresh.metadata, epoch))
}

/// Gives a response the tags of what is stored, if it has none.
pub(super) fn keep_tags(response: &mut Response, stored: &Object) {
    if response.selectors.tags.is_empty() {
        let tags = stored.response.selectors.tags.clone();
        response.selectors = Selectors { tags, ..(*response.selectors).clone() }.into();
    }
}

/// What was stored, with what a newer response says of it that forbids to store it.
fn refused(wanted: &Wanted, stored: &Object, exchange: &Exchange<'_>) -> Arc<Object> {
    let (old, newer) = (stored.response.fields(), exchange.response.fields);
    let fields = freshened_fields(Fields(&old), newer).into_iter().chain(withheld(newer));
    let fields = fields.filter(|field| !field.is("age"));
    let text = head(first_line(&stored.response.text), fields, exchange);
    let mut response = response(wanted, exchange, text, stored.told_length());
    response.status = stored.response.status;
    stored.freshened(Arc::new(response), stored.metadata, stored.epoch)
}

pub(super) fn response(
    wanted: &Wanted,
    exchange: &Exchange<'_>,
    text: Vec<u8>,
    length: Length,
) -> Response {
    let vary = match &wanted.part {
        Some(part) => part.vary.clone(),
        None => Vary::of(Fields(&fields(&text))),
    };
    let tags = tags(exchange.response.fields).map(Into::into).collect();
    let secondary = vary.secondary_key(exchange.request.fields).map(Into::into);
    Response {
        status: exchange.response.status,
        text: text.into(),
        length,
        variant: wanted.variant.clone(),
        selectors: Selectors { secondary, vary, tags }.into(),
    }
}

/// The status line of a response, as one of HTTP/1.1.
fn status_line(came: &Came<'_>) -> Vec<u8> {
    let mut line = format!("HTTP/1.1 {} ", came.head.status()).into_bytes();
    line.extend_from_slice(came.head.reason(came.bytes));
    line.extend_from_slice(b"\r\n");
    line
}

/// The first line, with its CR LF.
fn first_line(head: &[u8]) -> &[u8] {
    let end = head.iter().position(|byte| *byte == b'\n').map_or(head.len(), |at| at + 1);
    &head[..end]
}

/// How those fail who wait for a slice where its server sent other bytes, an error, a status that
/// asks for fewer requests, one that may be for a single client, or one that says that there is no
/// such slice.
const WRONG_RANGE: Failed = Failed { ending: Ending::ServerBad, reason: Some(Reason::WrongRange) };
const SLICE_ERROR: Failed = Failed { ending: Ending::ServerBad, reason: Some(Reason::SliceError) };
const SLICE_THROTTLED: Failed =
    Failed { ending: Ending::Throttled, reason: Some(Reason::SliceThrottled) };
const SLICE_REFUSED: Failed =
    Failed { ending: Ending::ServerCut, reason: Some(Reason::SliceRefused) };
pub(crate) const CHANGED: Failed =
    Failed { ending: Ending::ServerCut, reason: Some(Reason::ContentChanged) };

/// A server does not take this one request before its client has proved not to repeat another's
/// (RFC 8470, 5.2).
const TOO_EARLY: u16 = 425;

/// How long a key counts as one with responses that cannot be stored.
const UNSTORABLE: Duration = Duration::from_secs(10);

/// The same where a server failed: those who wait already do not wait for one another.
const FAILED: Duration = Duration::from_secs(1);
