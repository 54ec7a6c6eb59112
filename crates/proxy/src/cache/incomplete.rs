//! What becomes of a part of a response that is too long to be stored, or whose rest is fetched:
//! it is joined with the part that is stored, or completes it.

use std::sync::Arc;

use bytes::Bytes;
use loadline_core::{
    cache::{
        self, Exchange, Field, Fields, Incomplete, Kept, Metadata, continues, freshen,
        is_shortened, may_store, stored_fields, strong_validator, withheld,
    },
    decide::reason::Reason,
};
use loadline_http1::Framing;

use super::{
    arrival::Begun,
    fetch::{Fetch, Via},
    fill::{Came, Filling, head, keep_tags, lines, response},
    object::{Length, Object, Response},
    pieces::PIECE,
    store::{Key, What},
    wanted::Extent,
};

/// What is stored of a body that is coming in.
#[derive(Debug, Default)]
pub(super) enum Joining {
    /// The body, with its own head.
    #[default]
    Alone,
    /// Nothing: what is stored is worth more, or fields are missing that others would need.
    Nothing,
    /// The body, with what is stored of it already.
    With(Box<Joined>),
}

/// A part that is coming in, as it is stored.
#[derive(Debug)]
pub(super) struct Joined {
    response: Arc<Response>,
    metadata: Metadata,
    /// What is stored, and how many of the new bytes go before that and behind it.
    stored: Option<(Arc<Object>, (u64, u64))>,
}

impl Fetch {
    /// The bytes of a response to the client's own range.
    pub(super) fn own_part(&self, exchange: &Exchange<'_>, framing: Framing) -> Option<Incomplete> {
        let Extent::Own(_) = self.wanted.extent else { return None };
        part_of(exchange, framing)
    }

    /// What is stored of such a response.
    pub(super) fn joining(&self, newer: &Incomplete, exchange: &Exchange<'_>) -> Joining {
        let stored = self.stored_part(exchange);
        let known = stored.as_ref().and_then(|stored| Some((stored, stored.part()?)));
        let (kept, stored) = match known {
            None => (Kept::Newer, None),
            Some((stored, old)) => {
                let is_same = is_continued(stored, exchange);
                let kept = match old.kept(newer, is_same, self.store.longest()) {
                    Kept::Stored if !is_usable(&stored.metadata, exchange) => Kept::Newer,
                    kept => kept,
                };
                (kept, Some((stored.clone(), old.added_by(newer))))
            }
        };
        let is_short = is_shortened(exchange);
        let joined = match kept {
            Kept::Stored => return Joining::Nothing,
            Kept::Both(all) => self.joined(stored, &all, exchange),
            Kept::Newer if newer.is_all() && !is_short => self.joined(None, newer, exchange),
            Kept::Newer => None,
        };
        match joined {
            Some(joined) => Joining::With(Box::new(joined)),
            None if is_short => Joining::Nothing,
            None => Joining::Alone,
        }
    }

    /// The head of what is stored of these bytes.
    fn joined(
        &self,
        stored: Option<(Arc<Object>, (u64, u64))>,
        all: &Incomplete,
        exchange: &Exchange<'_>,
    ) -> Option<Joined> {
        let old = stored.as_ref().map(|(stored, _)| &**stored);
        let (response, metadata) = self.made_of(old, all, exchange)?;
        Some(Joined { response: Arc::new(response), metadata, stored })
    }

    /// A response with these bytes: of one that is stored and freshened by a newer, or of that
    /// alone.
    fn made_of(
        &self,
        stored: Option<&Object>,
        all: &Incomplete,
        exchange: &Exchange<'_>,
    ) -> Option<(Response, Metadata)> {
        let status = if all.is_all() { 200 } else { 206 };
        let old = stored.map(|stored| stored.response.fields());
        let (fields, metadata) = match &old {
            Some(old) => {
                let fresh = freshen(Fields(old), status, exchange, self.settings()).ok()?;
                (fresh.fields, fresh.metadata)
            }
            None => {
                let fields: Vec<Field<'_>> = stored_fields(exchange.response.fields).collect();
                let response = cache::Response { status, fields: Fields(&fields) };
                let metadata = may_store(&Exchange { response, ..*exchange }, self.settings());
                let metadata = metadata.ok()?;
                (fields, metadata)
            }
        };
        let range = all.range.content_range(all.complete);
        let range = (!all.is_all()).then(|| Field::new(b"Content-Range", &range));
        let kept = fields.into_iter().filter(|it| !it.is("age") && !it.is("content-range"));
        let line: &[u8] = if all.is_all() { OK } else { PARTIAL };
        let text = head(line, kept.chain(range), exchange);
        let bytes = all.range.length();
        let length = if all.is_all() { Length::Whole(bytes) } else { Length::Part(bytes) };
        let mut response = response(&self.wanted, exchange, text, length);
        response.status = status;
        if all.is_all() {
            response.variant = self.wanted.whole_variant().clone();
        }
        if let Some(stored) = stored {
            keep_tags(&mut response, stored);
        }
        Some((response, metadata))
    }

    /// Takes the head of a response to a request for the rest of what is stored: what clients get
    /// of both. None if it answers for the whole.
    ///
    /// # Errors
    /// What is stored is forgotten, and the whole is asked for.
    pub(super) fn rest(
        &self,
        came: &Came<'_>,
        exchange: &Exchange<'_>,
    ) -> Option<Result<Filling, Reason>> {
        let stored = self.wanted.beginning()?;
        if let Some(filling) = self.completed(stored, came, exchange) {
            return Some(Ok(filling));
        }
        if !matches!(came.head.status(), 206 | 304 | 416) {
            return None;
        }
        self.store.forget(&self.wanted.url, stored);
        self.close();
        self.arrival.begin(Begun::Again, came.via);
        Some(Err(Reason::ClientGone))
    }

    /// The same of a response that brings just that; none if it does not.
    fn completed(
        &self,
        stored: &Arc<Object>,
        came: &Came<'_>,
        exchange: &Exchange<'_>,
    ) -> Option<Filling> {
        let part = stored.part()?;
        let newer = part_of(exchange, came.head.framing())?;
        if !is_continued(stored, exchange) || Some(newer.range) != part.rest() {
            return None;
        }
        may_store(exchange, self.settings()).ok()?;
        let range = cache::ByteRange { first: 0, last: newer.range.last };
        let all = Incomplete { range, ..newer };
        let (response, metadata) = self.made_of(Some(stored), &all, exchange)?;
        if all.complete > self.store.longest_arriving() || !self.reserve(all.complete) {
            return None;
        }
        let (response, withheld) = (Arc::new(response), lines(withheld(exchange.response.fields)));
        let via = Via { stored: stored.length(), ..came.via };
        self.announce(&response, (Some((metadata, true)), withheld), &Came { via, ..*came });
        stored.pieces().for_each(|piece| self.arrival.append(piece));
        Some(Filling::of(response, metadata))
    }

    /// Forgets the part that is stored where its server has other content by now. Gives it where
    /// the whole of the same content comes.
    pub(super) fn forget_other_part(&self, exchange: &Exchange<'_>) -> Option<Arc<Object>> {
        if self.wanted.part.is_some() || self.wanted.caching().slice > 0 {
            return None;
        }
        let stored = self.stored_part(exchange)?;
        let is_other = || {
            let old = stored.response.fields();
            let old = strong_validator(Fields(&old), stored.metadata.received);
            old != strong_validator(exchange.response.fields, exchange.received)
        };
        let is_gone = match exchange.response.status {
            200 | 206 => is_other(),
            404 | 410 | 416 => true,
            _ => false,
        };
        if is_gone {
            self.store.forget(&self.wanted.url, &stored);
        }
        (!is_gone && exchange.response.status == 200).then_some(stored)
    }

    /// Where a response to the client's own range would be stored; none where one is.
    pub(super) fn key_of_part(&self, request: Fields<'_>) -> Option<Key> {
        let Extent::Own(_) = self.wanted.extent else { return None };
        let found = self.store.look(&self.wanted.url, &self.wanted.variant, request);
        (!matches!(found.what, Some(What::Object(_)))).then_some(found.key)
    }

    /// The part that is stored for this request.
    fn stored_part(&self, exchange: &Exchange<'_>) -> Option<Arc<Object>> {
        let own = match self.wanted.extent {
            Extent::Own(_) => None,
            Extent::Whole | Extent::Rest(_) => Some(self.wanted.own_range()),
        };
        let wanted = own.as_ref().unwrap_or(&self.wanted);
        self.store.peek(&wanted.url, &wanted.variant, exchange.request.fields)
    }

    /// The part that is stored and is not needed any more once all of what came is stored.
    pub(super) fn completes<'a>(&'a self, joining: &'a Joining) -> Option<&'a Arc<Object>> {
        match joining {
            Joining::With(joined) if joined.metadata.status == 200 => {
                joined.stored.as_ref().map(|(stored, _)| stored)
            }
            _ => self.wanted.beginning(),
        }
    }

    /// What is stored of these pieces of a body.
    pub(super) fn object_of(&self, joined: Joined, pieces: &[Bytes]) -> Object {
        let Joined { response, metadata, stored } = joined;
        let all = match &stored {
            None => pieces.to_vec(),
            Some((stored, (before, behind))) => {
                let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
                let mut all = self.cut(pieces, (0, *before));
                all.extend(stored.pieces());
                all.extend(self.cut(pieces, (length.saturating_sub(*behind), length)));
                all
            }
        };
        // Those of many short joins become longer ones.
        let is_short = |one: &Bytes, other: &Bytes| one.len().max(other.len()) < PIECE;
        let merged = all.chunk_by(is_short).flat_map(|run| match run {
            [_] => run.to_vec(),
            run => self.kept(run.concat()),
        });
        Object::new(response, metadata, merged.collect::<Vec<_>>(), self.epoch)
    }

    /// The bytes from one place of a body to another: its pieces, or a copy that keeps no others.
    fn cut(&self, pieces: &[Bytes], (from, until): (u64, u64)) -> Vec<Bytes> {
        let all: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if from == 0 && until == all {
            return pieces.to_vec();
        }
        let length = usize::try_from(until.saturating_sub(from)).unwrap_or_default();
        let mut copy = Vec::with_capacity(length);
        let mut start = 0;
        for piece in pieces {
            let within = |place: u64| {
                let place = place.saturating_sub(start).min(piece.len() as u64);
                usize::try_from(place).unwrap_or(usize::MAX)
            };
            copy.extend_from_slice(piece.get(within(from)..within(until)).unwrap_or_default());
            start += piece.len() as u64;
        }
        self.kept(copy)
    }

    fn kept(&self, bytes: Vec<u8>) -> Vec<Bytes> {
        if bytes.is_empty() {
            return Vec::new();
        }
        self.store.kept(Box::new([Bytes::from(bytes)])).into_vec()
    }
}

/// The bytes of a response, if its framing says how many come.
fn part_of(exchange: &Exchange<'_>, framing: Framing) -> Option<Incomplete> {
    let Framing::Length(length) = framing else { return None };
    let part = Incomplete::of(&exchange.response, exchange.received)?;
    (length == part.range.length()).then_some(part)
}

/// Whether what is stored can still be used without a word of its server.
fn is_usable(stored: &Metadata, exchange: &Exchange<'_>) -> bool {
    stored.is_fresh(exchange.received) && !stored.needs_validation
}

/// Whether the response of an exchange is of the same content as a part that is stored.
fn is_continued(stored: &Object, exchange: &Exchange<'_>) -> bool {
    let fields = stored.response.fields();
    let head = cache::Response { status: stored.response.status, fields: Fields(&fields) };
    continues(exchange, &head, stored.metadata.received)
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
const PARTIAL: &[u8] = b"HTTP/1.1 206 Partial Content\r\n";
