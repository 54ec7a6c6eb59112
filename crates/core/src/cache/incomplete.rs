//! A 206 that a request for a range brought, kept as an incomplete response: what it answers, and
//! which others are joined with it. RFC 9111 sections 3.3 and 3.4, RFC 9110 section 15.3.7.
//!
//! Of each response one contiguous range is kept. A newer 206 of the same content that overlaps it
//! or touches it is joined with it; of two that do not, or that are too long together, the longer
//! one stays. A 206 of other content takes the place of what is there.

use super::{
    date::parse_date,
    field::Fields,
    freshness::date,
    message::{Exchange, Response},
    range::{ByteRange, ContentRange, Wanted, range_counts},
    slices::strong_tag,
    vary::Vary,
};
use crate::time::{Duration, UnixTime};

/// The bytes of an incomplete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// Which bytes it has.
    pub range: ByteRange,
    /// How many there are altogether.
    pub complete: u64,
}

/// What is kept of an incomplete response that is stored and a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// What is stored.
    Stored,
    /// The newer one, in place of what is stored.
    Newer,
    /// The bytes of both.
    Both(Incomplete),
}

impl Incomplete {
    /// The bytes of a response that was received at `received`; none unless it is a 206 of one
    /// range of content whose length and strong validator it tells.
    #[must_use]
    pub fn of(response: &Response<'_>, received: UnixTime) -> Option<Self> {
        let fields = response.fields;
        let part = ContentRange::of(fields).filter(|_| response.status == 206)?;
        let is_multipart = fields.all("content-type").any(|value| {
            let begin = value.get(..MULTIPART.len()).unwrap_or_default();
            begin.eq_ignore_ascii_case(MULTIPART)
        });
        let is_named = strong_validator(fields, received).is_some() && !is_multipart;
        Some(Self { range: part.range, complete: part.complete.filter(|_| is_named)? })
    }

    /// Whether it has all of the content.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.range.length() == self.complete
    }

    /// The parts that a request wants, if all of them are here, `Range` counts and names any.
    /// `stored` and `received` are of this response.
    #[must_use]
    pub fn answer(
        &self,
        request: Fields<'_>,
        stored: Fields<'_>,
        received: UnixTime,
    ) -> Option<Wanted> {
        let wanted = Wanted::of(request, self.complete);
        let is_here = match &wanted {
            Wanted::Part(part) => self.has(*part),
            Wanted::Parts(parts) => parts.iter().all(|part| self.has(*part)),
            Wanted::Whole | Wanted::Nothing => false,
        };
        (is_here && range_counts(request, stored, received)).then_some(wanted)
    }

    /// What is missing behind its bytes, if these begin with the first one of the content.
    #[must_use]
    pub fn rest(&self) -> Option<ByteRange> {
        let Self { range, complete } = *self;
        let rest = ByteRange { first: range.last.checked_add(1)?, last: complete.checked_sub(1)? };
        (range.first == 0 && rest.first <= rest.last).then_some(rest)
    }

    /// What is kept of this, which is stored, and a newer one: of the same content, or of other.
    /// No more than `longest` bytes are joined.
    #[must_use]
    pub fn kept(&self, newer: &Self, is_same: bool, longest: u64) -> Kept {
        if !is_same || self.complete != newer.complete {
            return Kept::Newer;
        }
        let (one, other) = (self.range, newer.range);
        let touches =
            one.first <= other.last.saturating_add(1) && other.first <= one.last.saturating_add(1);
        let range = ByteRange { first: one.first.min(other.first), last: one.last.max(other.last) };
        if touches && range.length() <= longest {
            Kept::Both(Self { range, ..*self })
        } else if other.length() > one.length() {
            Kept::Newer
        } else {
            Kept::Stored
        }
    }

    /// How many of the bytes of a newer one that touches this are before its own, and how many are
    /// behind them.
    #[must_use]
    pub const fn added_by(&self, newer: &Self) -> (u64, u64) {
        let (one, other) = (self.range, newer.range);
        (one.first.saturating_sub(other.first), other.last.saturating_sub(one.last))
    }

    fn has(&self, part: ByteRange) -> bool {
        self.range.first <= part.first && part.last <= self.range.last
    }
}

/// What names the same bytes wherever it is equal, as `If-Range` has it: the strong tag, or without
/// a tag the date of the last change, if the response was made a second later at least (RFC 9110
/// section 8.8.2.2).
#[must_use]
pub fn strong_validator(fields: Fields<'_>, received: UnixTime) -> Option<&[u8]> {
    if fields.has("etag") {
        return strong_tag(fields);
    }
    let modified = fields.single("last-modified")?;
    let at = parse_date(modified, received)?;
    (date(fields, received).since(at) >= Duration::from_secs(1)).then_some(modified)
}

/// Whether the 206 of an exchange is of the same content as an incomplete response that was
/// received at `received`: the same strong validator, the same length, and nothing that describes
/// the content, or selects it, has changed. One that [`is_shortened`] may leave out the former.
#[must_use]
pub fn continues(exchange: &Exchange<'_>, stored: &Response<'_>, received: UnixTime) -> bool {
    let (newer, at) = (&exchange.response, exchange.received);
    let (Some(one), Some(other)) = (Incomplete::of(stored, received), Incomplete::of(newer, at))
    else {
        return false;
    };
    let (old, new) = (stored.fields, newer.fields);
    let may_omit = is_shortened(exchange);
    let is_kept = |name: &str| {
        let is_same = new.single(name) == old.single(name) && !new.contradicts(name);
        is_same || may_omit && !new.has(name)
    };
    one.complete == other.complete
        && strong_validator(old, received) == strong_validator(new, at)
        && OF_CONTENT.iter().all(|name| is_kept(name))
        && Vary::of(new) == Vary::of(old)
}

/// Whether the 206 of an exchange may lack fields that the whole would have, since the client has
/// them already: it is one to `If-Range` (RFC 9110 section 15.3.7). Nobody else can use it alone.
#[must_use]
pub fn is_shortened(exchange: &Exchange<'_>) -> bool {
    exchange.request.fields.has("if-range") && !exchange.response.fields.has("content-type")
}

const MULTIPART: &[u8] = b"multipart/byteranges";

/// Fields of which a change is one of the content.
const OF_CONTENT: [&str; 2] = ["content-type", "content-encoding"];

#[cfg(test)]
mod tests {
    use alloc::{format, vec::Vec};

    use proptest::prelude::*;

    use super::*;
    use crate::cache::{
        field::{Field, tests::lines},
        message::tests::{NOW, exchange, get},
    };

    const TAG: &str = "ETag: \"a\"";
    const MODIFIED: &str = "Last-Modified: Tue, 24 Nov 2026 11:00:00 GMT";

    fn part(first: u64, last: u64) -> Incomplete {
        Incomplete { range: ByteRange { first, last }, complete: 100 }
    }

    fn of(status: u16, fields: &[&str]) -> Option<Incomplete> {
        let fields = lines(fields);
        Incomplete::of(&Response { status, fields: Fields(&fields) }, NOW)
    }

    #[test]
    fn a_206_of_one_range_with_a_length_and_a_strong_validator_is_incomplete() {
        let range = "Content-Range: bytes 10-19/100";
        assert_eq!(of(206, &[range, TAG]), Some(part(10, 19)));
        assert_eq!(of(206, &[range, MODIFIED]), Some(part(10, 19)));
        assert_eq!(of(200, &[range, TAG]), None);
        assert_eq!(of(206, &[TAG]), None);
        assert_eq!(of(206, &["Content-Range: bytes 10-19/*", TAG]), None);
        assert_eq!(of(206, &[range]), None, "nothing names the content");
        assert_eq!(of(206, &[range, "ETag: W/\"a\"", MODIFIED]), None);
        let now = "Last-Modified: Tue, 24 Nov 2026 12:00:00 GMT";
        assert_eq!(of(206, &[range, now]), None, "it may change once more in this second");
        let parts = "Content-Type: Multipart/Byteranges; boundary=x";
        assert_eq!(of(206, &[range, TAG, parts]), None);
    }

    #[test]
    fn what_lies_within_is_answered_and_nothing_else() {
        let stored = lines(&[TAG]);
        let answer = |value: &str, condition: &str| {
            let asked = [Field::new(b"Range", value.as_bytes()), lines(&[condition])[0]];
            part(10, 19).answer(Fields(&asked), Fields(&stored), NOW)
        };
        let plain = |value| answer(value, "X: 1");
        let one = |first, last| Some(Wanted::Part(ByteRange { first, last }));
        assert_eq!(plain("bytes=10-19"), one(10, 19));
        assert_eq!(plain("bytes=12-12"), one(12, 12));
        let both = [ByteRange { first: 18, last: 19 }, ByteRange { first: 10, last: 11 }];
        assert_eq!(plain("bytes=18-19,10-11"), Some(Wanted::Parts(Vec::from(both))));
        for value in [
            "bytes=9-12", "bytes=15-20", "bytes=15-", "bytes=-5", "bytes=0-", "bytes=10-11,30-31",
            "bytes=100-", "lines=10-11", "bytes=12",
        ] {
            assert_eq!(plain(value), None, "{value}");
        }
        assert_eq!(answer("bytes=10-11", "If-Range: \"a\""), one(10, 11));
        assert_eq!(answer("bytes=10-11", "If-Range: \"b\""), None);
        assert_eq!(part(10, 19).answer(Fields(&[]), Fields(&stored), NOW), None);
        let at_the_end = |value: &str| {
            let asked = [Field::new(b"Range", value.as_bytes())];
            part(90, 99).answer(Fields(&asked), Fields(&stored), NOW)
        };
        assert_eq!(at_the_end("bytes=-5"), one(95, 99));
        assert_eq!(at_the_end("bytes=92-"), one(92, 99));
        assert_eq!(at_the_end("bytes=92-200"), one(92, 99));
    }

    #[test]
    fn parts_that_touch_are_joined_and_of_others_the_longer_one_stays() {
        let kept = |newer: Incomplete| part(10, 19).kept(&newer, true, 40);
        for (first, last, all) in [(20, 29, (10, 29)), (0, 9, (0, 19)), (5, 30, (5, 30))] {
            assert_eq!(kept(part(first, last)), Kept::Both(part(all.0, all.1)));
        }
        assert_eq!(kept(part(12, 14)), Kept::Both(part(10, 19)));
        assert_eq!(kept(part(21, 30)), Kept::Stored, "as long, and there is a gap");
        assert_eq!(kept(part(21, 31)), Kept::Newer);
        assert_eq!(kept(part(20, 70)), Kept::Newer, "too long together");
        assert_eq!(part(10, 40).kept(&part(41, 55), true, 40), Kept::Stored);
        assert_eq!(part(10, 19).kept(&part(20, 20), false, 40), Kept::Newer);
        let longer = Incomplete { complete: 101, ..part(20, 20) };
        assert_eq!(part(10, 19).kept(&longer, true, 40), Kept::Newer);
    }

    #[test]
    fn the_rest_is_what_follows_a_beginning() {
        assert_eq!(part(0, 9).rest(), Some(ByteRange { first: 10, last: 99 }));
        assert_eq!(part(1, 9).rest(), None);
        assert_eq!(part(0, 99).rest(), None);
        assert!(part(0, 99).is_all() && !part(0, 98).is_all());
    }

    fn continued(stored: &[&str], newer: &[&str], asked: &[&str]) -> bool {
        let old = lines(&[&["Content-Range: bytes 0-9/100"], stored].concat());
        let new = lines(&[&["Content-Range: bytes 10-19/100"], newer].concat());
        let asked = lines(asked);
        let exchange = Exchange { request: get(&asked), ..exchange(206, &new) };
        continues(&exchange, &Response { status: 206, fields: Fields(&old) }, NOW)
    }

    #[test]
    fn only_what_is_of_the_same_content_is_joined() {
        let (text, zip) = ("Content-Type: text/plain", "Content-Encoding: gzip");
        assert!(continued(&[TAG, text], &[TAG, text], &[]));
        assert!(continued(&[MODIFIED], &[MODIFIED], &[]));
        assert!(!continued(&[TAG], &["ETag: \"b\""], &[]));
        assert!(!continued(&["ETag: W/\"a\""], &["ETag: W/\"a\""], &[]));
        assert!(!continued(&[TAG, MODIFIED], &[MODIFIED], &[]));
        assert!(!continued(&[TAG, text], &[TAG, "Content-Type: text/html"], &[]));
        assert!(!continued(&[TAG, text], &[TAG, text, "Content-Type: text/html"], &[]));
        assert!(!continued(&[TAG], &[TAG, zip], &[]));
        assert!(!continued(&[TAG, zip], &[TAG], &[]));
        assert!(!continued(&[TAG], &[TAG, "Vary: Accept"], &[]));
        assert!(!continued(&[TAG, "Vary: Accept"], &[TAG], &[]));
        let if_range = ["If-Range: \"a\""];
        assert!(continued(&[TAG, text, zip], &[TAG], &if_range));
        assert!(!continued(&[TAG, text, zip], &[TAG, text], &if_range), "it left nothing out");
        assert!(!continued(&[TAG], &[TAG, zip], &if_range));
        assert!(!continued(&[TAG, text, "Vary: Accept"], &[TAG], &if_range));
        let longer = lines(&["Content-Range: bytes 10-19/101", TAG]);
        let old = lines(&["Content-Range: bytes 0-9/100", TAG]);
        let stored = Response { status: 206, fields: Fields(&old) };
        assert!(!continues(&exchange(206, &longer), &stored, NOW));
    }

    /// The bytes at the places of a part, of content where each names its place.
    fn bytes(part: Incomplete) -> Vec<u64> {
        (part.range.first..=part.range.last).collect()
    }

    proptest! {
        /// Whatever ranges come in whatever order, what is kept has the bytes of its places.
        #[test]
        fn joined_parts_have_the_bytes_of_the_content(
            ranges in prop::collection::vec((0u64..100, 1u64..40), 1..12), longest in 40u64..120,
        ) {
            let parts = ranges.iter().map(|(first, length)| {
                part(*first, (first + length - 1).min(99))
            });
            let mut stored: Option<(Incomplete, Vec<u64>)> = None;
            for newer in parts {
                let Some((old, own)) = stored.take() else {
                    stored = Some((newer, bytes(newer)));
                    continue;
                };
                stored = Some(match old.kept(&newer, true, longest) {
                    Kept::Stored => (old, own),
                    Kept::Newer => (newer, bytes(newer)),
                    Kept::Both(all) => {
                        let new = bytes(newer);
                        let (before, behind) = old.added_by(&newer);
                        let behind = new.len() - behind as usize;
                        (all, [&new[..before as usize], &own[..], &new[behind..]].concat())
                    }
                });
                let (kept, all) = stored.as_ref().unwrap();
                prop_assert_eq!(all, &bytes(*kept));
                prop_assert!(kept.range.length() <= longest && kept.range.last < kept.complete);
                prop_assert!(kept.range.length() >= newer.range.length());
            }
        }

        #[test]
        fn an_answer_lies_within_what_is_stored(
            value in "bytes=[0-9,\\-]{0,16}", first in 0u64..100, length in 1u64..100,
        ) {
            let stored = part(first, (first + length - 1).min(99));
            let asked = [Field::new(b"Range", value.as_bytes())];
            let parts = match stored.answer(Fields(&asked), Fields(&[]), NOW) {
                Some(Wanted::Part(part)) => Vec::from([part]),
                Some(Wanted::Parts(parts)) => parts,
                other => {
                    prop_assert_eq!(other, None);
                    Vec::new()
                }
            };
            let inside = |part: &ByteRange| {
                stored.range.first <= part.first && part.last <= stored.range.last
            };
            prop_assert!(parts.iter().all(inside), "{}", format!("{parts:?}"));
        }
    }
}
