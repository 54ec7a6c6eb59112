//! A response as the cache has it: a head that is ready to be sent but for what differs from one
//! client to the next, and a body in pieces.

use std::{
    slice,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use loadline_core::{
    cache::{self, Field, Fields, Incomplete, Metadata, Slices},
    time::UnixTime,
};
use loadline_http1::ResponseHead;
use loadline_linux::arena::Arena;
use once_cell::race::OnceBox;
use smallvec::SmallVec;

use super::{answer::COPIED, coded::CodedForms, pinned::pages_of, selectors::StoredSelectors};

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and fields, each with its CR LF: neither those of the connection, nor the
    /// framing, nor the age.
    pub(crate) text: Box<[u8]>,
    pub(crate) length: Length,
    /// What tells it apart from others for the same URL, beyond what it names in `Vary`.
    pub(crate) variant: Arc<[u8]>,
    pub(crate) selectors: StoredSelectors,
}

impl Response {
    /// Its fields.
    pub(crate) fn fields(&self) -> Lines<'_> {
        fields(&self.text)
    }

    /// Whether a server gave it this tag.
    pub(crate) fn has_tag(&self, tag: &[u8]) -> bool {
        self.selectors.tags.iter().any(|own| **own == *tag)
    }

    /// Which bytes it has, if it is a part that a client's own range brought and that was received
    /// at `received`.
    pub(crate) fn part(&self, received: UnixTime) -> Option<Incomplete> {
        let Length::Part(_) = self.length else { return None };
        let own = self.fields();
        let head = cache::Response { status: self.status, fields: Fields(&own) };
        Incomplete::of(&head, received)
    }

    /// Whether it answers this request, among all responses for its URL.
    pub(crate) fn answers(&self, variant: &[u8], request: Fields<'_>) -> bool {
        *self.variant == *variant && self.selectors.are_of(request)
    }
}

/// How long the body of a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// The server does not tell the length.
    Unknown,
    Whole(u64),
    /// The first slice of a longer body.
    Sliced {
        complete: u64,
        size: u32,
    },
    /// So many bytes of a longer body: those that a client's own range brought.
    Part(u64),
}

impl Length {
    /// The length of what clients are to get, where it is told.
    pub(crate) const fn complete(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Whole(length) | Self::Part(length) => Some(length),
            Self::Sliced { complete, .. } => Some(complete),
        }
    }

    /// The slices that it is the first of.
    pub(crate) fn slices(self) -> Option<Slices> {
        match self {
            Self::Sliced { complete, size } => Some(Slices { complete, size }),
            Self::Unknown | Self::Whole(_) | Self::Part(_) => None,
        }
    }
}

/// A response that is stored, with all of its body or with its first slice.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) response: Arc<Response>,
    pub(crate) metadata: Metadata,
    pieces: Pieces,
    /// Purges that had come when it was asked for.
    pub(crate) epoch: u64,
    /// It was read from disk, as it is.
    pub(crate) is_on_disk: bool,
    /// Pages of it that the table counts.
    pub(super) counted: AtomicU32,
    /// What was made of the body, if anybody asked for it.
    coded: OnceBox<Arc<CodedForms>>,
    /// Requests that were answered with it.
    pub(super) hits: AtomicU64,
}

impl Object {
    /// A response with all of its body.
    pub(crate) fn new(
        response: Arc<Response>,
        metadata: Metadata,
        pieces: impl Into<Box<[Bytes]>>,
        epoch: u64,
    ) -> Self {
        let pieces = Pieces::of(pieces.into());
        let (coded, is_on_disk) = (OnceBox::new(), false);
        let (counted, hits) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { response, metadata, pieces, epoch, is_on_disk, counted, coded, hits }
    }

    /// The same body with a newer head.
    pub(crate) fn freshened(
        &self,
        response: Arc<Response>,
        metadata: Metadata,
        epoch: u64,
    ) -> Arc<Self> {
        let (pieces, is_on_disk, counted) = (self.pieces.clone(), false, AtomicU32::new(0));
        let (coded, hits) = (self.coded.clone(), AtomicU64::new(self.hits.load(Relaxed)));
        Arc::new(Self { response, metadata, pieces, epoch, is_on_disk, counted, coded, hits })
    }

    /// Counts a request that is answered with it.
    pub(crate) fn count_hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// The same with other metadata.
    pub(crate) fn with(&self, metadata: Metadata) -> Arc<Self> {
        self.freshened(self.response.clone(), metadata, self.epoch)
    }

    /// What was made of the body, or is to be.
    pub(crate) fn coded(&self) -> &Arc<CodedForms> {
        self.coded.get_or_init(Box::default)
    }

    /// Which bytes it has, if it is a part that a client's own range brought.
    pub(crate) fn part(&self) -> Option<Incomplete> {
        self.response.part(self.metadata.received)
    }

    /// How long the body is.
    pub(crate) fn length(&self) -> u64 {
        self.pieces.all().iter().map(|piece| piece.len() as u64).sum()
    }

    /// How long it is for clients.
    pub(crate) fn told_length(&self) -> Length {
        match self.response.length {
            told @ (Length::Sliced { .. } | Length::Part(_)) => told,
            Length::Unknown | Length::Whole(_) => Length::Whole(self.length()),
        }
    }

    /// Its body, a piece after the other.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Bytes> {
        self.pieces.all().iter().cloned()
    }

    /// The bytes from this place to the end of their piece; empty at the end.
    pub(crate) fn after(&self, place: u64) -> &[u8] {
        let mut start = 0;
        for piece in self.pieces.all() {
            let end = start + piece.len() as u64;
            if place < end {
                let skipped = usize::try_from(place - start).unwrap_or(usize::MAX);
                return piece.get(skipped..).unwrap_or_default();
            }
            start = end;
        }
        &[]
    }

    /// The same, to be kept beside the object.
    pub(crate) fn piece_after(&self, place: u64) -> Bytes {
        let found = self.after(place);
        let has = |piece: &&Bytes| piece.as_ptr_range().contains(&found.as_ptr());
        let piece = self.pieces.all().iter().find(has).filter(|_| !found.is_empty());
        piece.map_or_else(Bytes::new, |piece| piece.slice_ref(found))
    }

    /// The pages of its body, and of the compressed forms of that, as far as these are large.
    pub(super) fn pages(&self) -> u32 {
        let body: u32 = self.pieces.all().iter().map(pages_of).sum();
        body + self.coded.get().map_or(0, |coded| coded.pages())
    }

    /// The memory that it takes, with its compressed forms and without its key.
    pub(crate) fn bytes(&self) -> u64 {
        let Response { text, selectors, .. } = &*self.response;
        let pieces = self.pieces.all().len() * (size_of::<Bytes>() + ALLOCATION);
        let head = text.len() + selectors.bytes(ALLOCATION);
        let body: u64 = self.pieces.all().iter().map(memory_of).sum();
        let own = size_of::<Self>() + size_of::<Response>() + ALLOCATIONS * ALLOCATION;
        let coded = self.coded.get().map_or(0, |coded| coded.bytes());
        body + coded + (pieces + head + own) as u64
    }
}

/// A body: nearly always in one piece.
#[derive(Clone, Debug)]
enum Pieces {
    One(Bytes),
    Several(Arc<[Bytes]>),
}

impl Pieces {
    fn of(pieces: Box<[Bytes]>) -> Self {
        let mut pieces = pieces.into_vec();
        match pieces.pop() {
            // Bytes that others share, who read them while they came, have a count beside them.
            Some(piece) if pieces.is_empty() && piece.len() <= COPIED => {
                Self::One(Bytes::copy_from_slice(&piece))
            }
            Some(piece) if pieces.is_empty() => Self::One(piece),
            last => Self::Several(pieces.into_iter().chain(last).collect()),
        }
    }

    fn all(&self) -> &[Bytes] {
        match self {
            Self::One(piece) => slice::from_ref(piece),
            Self::Several(pieces) => pieces,
        }
    }
}

/// What bytes of a body take: whole pages where they are kept to be sent in place.
fn memory_of(piece: &Bytes) -> u64 {
    let length = piece.len() as u64;
    if piece.len() < SENT_IN_PLACE { length } else { Arena::memory_of(length) }
}

/// The fields of a head, without an allocation where they are not many.
pub(crate) type Lines<'a> = SmallVec<[Field<'a>; 16]>;

/// The fields in the lines of a head that begins with a status line.
pub(super) fn fields(text: &[u8]) -> Lines<'_> {
    let mut fields = Lines::new();
    let mut rest = text;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let (line, after) = rest.split_at(end + 1);
        // The first line has no name before its colon, if any: it is no field.
        if rest.len() < text.len() {
            fields.extend(field(line));
        }
        rest = after;
    }
    fields
}

/// The fields of a response, as the rules of the cache see them.
pub(crate) fn fields_of<'b>(head: &ResponseHead, bytes: &'b [u8]) -> Vec<Field<'b>> {
    head.fields().iter(bytes).map(|(name, value)| Field::new(name, value)).collect()
}

fn field(line: &[u8]) -> Option<Field<'_>> {
    let colon = memchr::memchr(b':', line)?;
    Some(Field::new(&line[..colon], line[colon + 1..].trim_ascii()))
}

/// So many bytes are cheaper to send from a file in memory than to copy.
pub(super) const SENT_IN_PLACE: usize = 16 << 10;

/// What an allocation takes beside its bytes, with the counts of an `Arc`.
pub(super) const ALLOCATION: usize = 24;

/// Allocations of an object: itself, its head, and the text of the head.
const ALLOCATIONS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// There may be millions of them. The allocator gives out 64, 80, 96, 112, 128, 160 bytes.
    #[test]
    fn an_object_and_its_head_take_no_more_than_two_hundred_bytes() {
        const COUNTS: usize = 2 * size_of::<usize>();
        let sizes = (COUNTS + size_of::<Object>(), COUNTS + size_of::<Response>());
        assert_eq!(sizes, (128, 80));
    }
}
