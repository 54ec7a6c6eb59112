//! Parts of content: which a request wants, how they are sent, and which a response has. RFC 9110
//! section 14.

use alloc::{format, vec::Vec};

use super::{
    date::parse_date,
    entity_tag::EntityTag,
    field::{Fields, members},
    freshness::date,
};
use crate::time::{Duration, UnixTime};

/// Bytes of a representation, first and last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte, not before the first.
    pub last: u64,
}

impl ByteRange {
    /// How many bytes these are.
    #[must_use]
    pub fn length(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// The value of `Content-Range` for these bytes of `complete`.
    #[must_use]
    pub fn content_range(&self, complete: u64) -> Vec<u8> {
        format!("bytes {}-{}/{complete}", self.first, self.last).into_bytes()
    }
}

/// The value of `Content-Range` in a 416.
#[must_use]
pub fn unsatisfied_content_range(complete: u64) -> Vec<u8> {
    format!("bytes */{complete}").into_bytes()
}

/// What a request wants of a representation whose length is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it: 200. There is no `Range`, or none that can be obeyed.
    Whole,
    /// One part: 206 with `Content-Range`.
    Part(ByteRange),
    /// Several: 206 with `multipart/byteranges`.
    Parts(Vec<ByteRange>),
    /// Parts that do not exist: 416.
    Nothing,
}

impl Wanted {
    /// Reads `Range` of a `GET` for a representation of `complete` bytes. Parts that overlap or
    /// touch are joined, which brings all of them in the order of their positions; more than
    /// [`PARTS_MAX`], or together more than the whole, are answered with the whole (RFC 9110
    /// section 14.2). Whether `If-Range` lets `Range` count is [`range_counts`].
    #[must_use]
    pub fn of(request: Fields<'_>, complete: u64) -> Self {
        let Some(specs) = request.single("range").and_then(parse_range) else { return Self::Whole };
        let parts: Vec<_> = specs.iter().filter_map(|spec| spec.within(complete)).collect();
        let parts = joined(parts);
        match parts[..] {
            // All that there is, as web servers have it.
            [] if complete == 0 && specs.iter().any(|spec| spec.begins_at_start()) => Self::Whole,
            [] => Self::Nothing,
            [part] => Self::Part(part),
            _ if parts.len() > PARTS_MAX => Self::Whole,
            _ => Self::Parts(parts),
        }
    }

    /// Whether, of a whole of `complete` bytes that is not stored, it is better asked for by
    /// itself: more than `near` bytes would be read for nothing before it, or, where there are
    /// several parts, all of them.
    #[must_use]
    pub const fn comes_after(&self, near: u64, complete: u64) -> bool {
        match self {
            Self::Part(range) => range.first > near,
            Self::Parts(_) => complete > near,
            Self::Whole | Self::Nothing => false,
        }
    }
}

/// A part that a request wants, before the length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// From a position, to another or to the end.
    From(u64, Option<u64>),
    /// The last bytes, this many.
    Suffix(u64),
}

impl RangeSpec {
    /// Whether the first byte of something empty would be among these, if it had one.
    const fn begins_at_start(self) -> bool {
        matches!(self, Self::From(0, _) | Self::Suffix(1..))
    }

    /// These bytes of `complete`; `None` if none of them exist.
    #[must_use]
    pub fn within(self, complete: u64) -> Option<ByteRange> {
        let end = complete.checked_sub(1)?;
        match self {
            Self::From(first, last) if first <= end => {
                Some(ByteRange { first, last: last.map_or(end, |last| last.min(end)) })
            }
            Self::Suffix(length) if length > 0 => {
                Some(ByteRange { first: complete.saturating_sub(length), last: end })
            }
            _ => None,
        }
    }
}

/// Reads the value of `Range`; `None` if it is invalid, in another unit, or names more than
/// [`SPECS_MAX`] parts: then it is as if it were not there.
#[must_use]
pub fn parse_range(value: &[u8]) -> Option<Vec<RangeSpec>> {
    let at = value.iter().position(|&byte| byte == b'=')?;
    if !value[..at].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut specs = Vec::new();
    for member in members(&value[at + 1..]) {
        if specs.len() == SPECS_MAX {
            return None;
        }
        specs.push(spec(member)?);
    }
    (!specs.is_empty()).then_some(specs)
}

/// Whether `Range` counts: there is no `If-Range`, or it names the representation that is stored,
/// which was received at `received`, by its strong tag or by its exact date (RFC 9110 section
/// 13.1.5). A date is no strong validator where the response was made within a second of it: what
/// it is of may have changed once more in that second (section 8.8.2.2).
#[must_use]
pub fn range_counts(request: Fields<'_>, stored: Fields<'_>, received: UnixTime) -> bool {
    if !request.has("if-range") {
        return true;
    }
    let Some(wanted) = request.single("if-range") else { return false };
    if wanted.contains(&b'"') {
        let tag = stored.single("etag").map(EntityTag::parse);
        return tag.is_some_and(|tag| tag.equals_strongly(&EntityTag::parse(wanted)));
    }
    let modified = stored.single("last-modified").filter(|modified| *modified == wanted);
    let modified = modified.and_then(|text| parse_date(text, received));
    modified.is_some_and(|at| date(stored, received).since(at) >= Duration::from_secs(1))
}

/// What `Content-Range` of a 206 says: RFC 9110 section 14.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes that the response has.
    pub range: ByteRange,
    /// How many there are altogether, if its server knows.
    pub complete: Option<u64>,
}

impl ContentRange {
    /// Reads it; `None` if it is not there, invalid, or says that the range does not exist.
    #[must_use]
    pub fn of(fields: Fields<'_>) -> Option<Self> {
        let value = fields.single("content-range")?;
        let (unit, rest) = value.split_at_checked(6)?;
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let (range, complete) = split_once(rest, b'/')?;
        let (first, last) = split_once(range, b'-')?;
        let (first, last) = (number(first)?, number(last)?);
        let complete = if complete == b"*" { None } else { Some(number(complete)?) };
        let right = first <= last && last < u64::MAX && complete.is_none_or(|length| last < length);
        right.then_some(Self { range: ByteRange { first, last }, complete })
    }

    /// Whether `Content-Length` says another length than the range has.
    #[must_use]
    pub fn contradicts_length(fields: Fields<'_>) -> bool {
        let length = fields.single("content-length").map(number);
        let range = Self::of(fields).map(|part| part.range.length());
        length.is_some_and(|length| length.is_none() || range.is_some() && length != range)
    }
}

/// The frame of a `multipart/byteranges` response: RFC 9110 section 14.6.
#[derive(Clone, Debug)]
pub struct Multipart<'a> {
    /// What separates the parts; random, so that no content has it.
    pub boundary: &'a str,
    /// `Content-Type` of the representation.
    pub content_type: Option<&'a [u8]>,
    /// Length of the whole representation in bytes.
    pub complete: u64,
}

impl Multipart<'_> {
    /// The value of `Content-Type` of the response.
    #[must_use]
    pub fn content_type(&self) -> Vec<u8> {
        format!("multipart/byteranges; boundary={}", self.boundary).into_bytes()
    }

    /// What is sent before the bytes of a part.
    #[must_use]
    pub fn head(&self, part: ByteRange) -> Vec<u8> {
        let mut head = format!("\r\n--{}\r\n", self.boundary).into_bytes();
        if let Some(content_type) = self.content_type {
            head.extend_from_slice(b"Content-Type: ");
            head.extend_from_slice(content_type);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"Content-Range: ");
        head.extend_from_slice(&part.content_range(self.complete));
        head.extend_from_slice(b"\r\n\r\n");
        head
    }

    /// What is sent after the last part.
    #[must_use]
    pub fn end(&self) -> Vec<u8> {
        format!("\r\n--{}--\r\n", self.boundary).into_bytes()
    }

    /// The length of the whole response with these parts.
    #[must_use]
    pub fn length(&self, parts: &[ByteRange]) -> u64 {
        let of = |part: &ByteRange| part.length() + self.head(*part).len() as u64;
        parts.iter().map(of).sum::<u64>() + self.end().len() as u64
    }
}

/// So many parts are sent in one response at most; more are answered with the whole.
pub const PARTS_MAX: usize = 16;

/// So many parts are read at most; a request that names more is after something else (RFC 9110
/// section 17.15).
pub const SPECS_MAX: usize = 64;

/// Joins parts that overlap or touch; parts that do neither stay in the order asked for.
fn joined(parts: Vec<ByteRange>) -> Vec<ByteRange> {
    let mut sorted = parts.clone();
    sorted.sort_unstable();
    let merged = merged(&sorted);
    if merged.len() == parts.len() { parts } else { merged }
}

/// Joins ranges that overlap or touch, of a list in order.
fn merged(sorted: &[ByteRange]) -> Vec<ByteRange> {
    let mut merged: Vec<ByteRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(before) if range.first <= before.last.saturating_add(1) => {
                before.last = before.last.max(range.last);
            }
            _ => merged.push(*range),
        }
    }
    merged
}

fn spec(member: &[u8]) -> Option<RangeSpec> {
    let (first, last) = split_once(member, b'-')?;
    match (first, last) {
        (b"", last) => Some(RangeSpec::Suffix(number(last)?)),
        (first, b"") => Some(RangeSpec::From(number(first)?, None)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeSpec::From(first, Some(last)))
        }
    }
}

fn split_once(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&other| other == byte)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Digits; what does not fit is [`u64::MAX`].
fn number(text: &[u8]) -> Option<u64> {
    let right = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let add = |n: u64, digit: &u8| n.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    right.then(|| text.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::cache::{
        field::{Field, tests::lines},
        message::tests::NOW,
    };

    fn range(first: u64, last: u64) -> ByteRange {
        ByteRange { first, last }
    }

    fn wanted(value: &str, complete: u64) -> Wanted {
        Wanted::of(Fields(&[Field::new(b"Range", value.as_bytes())]), complete)
    }

    #[test]
    fn a_part_behind_much_else_is_better_asked_for_by_itself() {
        for (value, expected) in [
            ("bytes=0-", false),
            ("bytes=100-", false),
            ("bytes=101-", true),
            ("bytes=-1", true),
            ("bytes=0-1,500-501", true),
            ("bytes=2000-", false),
            ("pages=1", false),
        ] {
            assert_eq!(wanted(value, 1_000).comes_after(100, 1_000), expected, "{value}");
        }
    }

    #[test]
    fn the_examples_of_the_rfc_for_10000_bytes() {
        // RFC 9110 section 14.1.2.
        for (value, first, last) in [
            ("bytes=0-499", 0, 499),
            ("bytes=500-999", 500, 999),
            ("bytes=-500", 9_500, 9_999),
            ("bytes=9500-", 9_500, 9_999),
            ("BYTES= 9500-20000", 9_500, 9_999),
            ("bytes=-20000", 0, 9_999),
        ] {
            assert_eq!(wanted(value, 10_000), Wanted::Part(range(first, last)), "{value}");
        }
        let both = Wanted::Parts(Vec::from([range(0, 0), range(9_999, 9_999)]));
        assert_eq!(wanted("bytes= 0-0, -1", 10_000), both);
        let three = [range(0, 999), range(4_500, 5_499), range(9_000, 9_999)];
        let asked = "bytes= 0-999, 4500-5499, -1000";
        assert_eq!(wanted(asked, 10_000), Wanted::Parts(Vec::from(three)));
        assert_eq!(wanted("bytes=500-600,601-999", 10_000), Wanted::Part(range(500, 999)));
        assert_eq!(wanted("bytes=500-700,601-999", 10_000), Wanted::Part(range(500, 999)));
    }

    #[test]
    fn an_invalid_range_is_none() {
        for value in [
            "", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "bytes=1", "lines=1-2",
            "bytes=0-1,x", "bytes=0 - 1", "bytes=--1", "bytes=0-1-2", "bytes:0-1",
        ] {
            assert_eq!(wanted(value, 10), Wanted::Whole, "{value}");
        }
        let twice = lines(&["Range: bytes=0-1", "Range: bytes=2-3"]);
        assert_eq!(Wanted::of(Fields(&twice), 10), Wanted::Whole);
    }

    #[test]
    fn parts_that_do_not_exist_are_left_out_until_none_is_left() {
        for value in ["bytes=10-", "bytes=10-20,30-", "bytes=-0", "bytes=99999999999999999999-"] {
            assert_eq!(wanted(value, 10), Wanted::Nothing, "{value}");
        }
        assert_eq!(wanted("bytes=20-,3-4", 10), Wanted::Part(range(3, 4)));
        for value in ["bytes=1-", "bytes=1-2", "bytes=-0"] {
            assert_eq!(wanted(value, 0), Wanted::Nothing, "{value}");
        }
        assert_eq!(unsatisfied_content_range(10), b"bytes */10");
    }

    #[test]
    fn what_is_empty_is_given_to_whoever_asks_for_it_from_its_start() {
        for value in ["bytes=0-", "bytes=0-99", "bytes=-5", "bytes=7-,0-"] {
            assert_eq!(wanted(value, 0), Wanted::Whole, "{value}");
        }
    }

    #[test]
    fn parts_come_as_asked_for_unless_they_overlap_and_many_are_the_whole() {
        let asked = Wanted::Parts(Vec::from([range(8, 9), range(0, 1)]));
        assert_eq!(wanted("bytes=8-9,0-1", 10), asked);
        let joined = Wanted::Parts(Vec::from([range(0, 4), range(8, 9)]));
        assert_eq!(wanted("bytes=8-9,2-4,0-1", 10), joined);
        let parts = |n: usize| {
            let all: Vec<_> = (0..n).map(|i| format!("{}-{}", i * 3, i * 3)).collect();
            wanted(&format!("bytes={}", all.join(",")), 1_000)
        };
        assert!(matches!(parts(PARTS_MAX), Wanted::Parts(all) if all.len() == PARTS_MAX));
        assert_eq!(parts(PARTS_MAX + 1), Wanted::Whole);
        assert_eq!(parts(SPECS_MAX + 1), Wanted::Whole);
    }

    #[test]
    fn if_range_wants_the_same_bytes() {
        let modified = "Tue, 24 Nov 2026 11:00:00 GMT";
        let stored = lines(&["ETag: \"a\"", "Last-Modified: Tue, 24 Nov 2026 11:00:00 GMT"]);
        let counts = |value: &str| {
            let field = Field::new(b"If-Range", value.as_bytes());
            range_counts(Fields(&[field]), Fields(&stored), NOW)
        };
        assert!(counts("\"a\"") && counts(modified));
        assert!(!counts("W/\"a\"") && !counts("\"b\"") && !counts("*"));
        assert!(!counts("Tue, 24 Nov 2026 11:00:01 GMT"));
        assert!(range_counts(Fields(&[]), Fields(&stored), NOW));
        let weak = lines(&["ETag: W/\"a\""]);
        let asked = lines(&["If-Range: W/\"a\""]);
        assert!(!range_counts(Fields(&asked), Fields(&weak), NOW));
    }

    #[test]
    fn if_range_with_a_date_wants_a_response_that_was_made_a_second_later_at_least() {
        let modified = "Tue, 24 Nov 2026 11:00:00 GMT";
        let asked = [Field::new(b"If-Range", modified.as_bytes())];
        let last_modified = format!("Last-Modified: {modified}");
        for (second, expected) in [(0, false), (1, true), (59, true)] {
            let made = format!("Date: Tue, 24 Nov 2026 11:00:{second:02} GMT");
            let stored = lines(&[&last_modified, &made]);
            assert_eq!(range_counts(Fields(&asked), Fields(&stored), NOW), expected, "{made}");
        }
        let undated = lines(&[&last_modified]);
        let at = parse_date(modified.as_bytes(), NOW).unwrap();
        assert!(!range_counts(Fields(&asked), Fields(&undated), at));
        assert!(range_counts(Fields(&asked), Fields(&undated), at + Duration::from_secs(1)));
        let junk = lines(&["Last-Modified: yesterday", "Date: Tue, 24 Nov 2026 11:00:59 GMT"]);
        let asked = lines(&["If-Range: yesterday"]);
        assert!(!range_counts(Fields(&asked), Fields(&junk), NOW));
    }

    #[test]
    fn a_content_range_that_cannot_be_is_none() {
        let read = |value: &str| {
            ContentRange::of(Fields(&[Field::new(b"content-range", value.as_bytes())]))
        };
        let part = ContentRange { range: range(4, 9), complete: Some(10) };
        assert_eq!(read("bytes 4-9/10"), Some(part));
        assert_eq!(read("bytes 4-9/*"), Some(ContentRange { complete: None, ..part }));
        for value in [
            "bytes 4-10/10",
            "bytes 9-4/10",
            "bytes */10",
            "lines 4-9/10",
            "bytes 4-9",
            "bytes",
            "bytes=4-9/10",
            "bytes -9/10",
            "bytes 4-99999999999999999999/*",
            "",
        ] {
            assert_eq!(read(value), None, "{value}");
        }
        let wrong = lines(&["Content-Range: bytes 4-9/10", "Content-Length: 5"]);
        assert!(ContentRange::contradicts_length(Fields(&wrong)));
        let right = lines(&["Content-Range: bytes 4-9/10", "Content-Length: 6"]);
        assert!(!ContentRange::contradicts_length(Fields(&right)));
    }

    #[test]
    fn a_multipart_response_is_as_long_as_it_says() {
        let frame = Multipart { boundary: "xyz", content_type: Some(b"text/plain"), complete: 10 };
        let parts = [range(0, 1), range(8, 9)];
        let mut body = Vec::new();
        for part in parts {
            body.extend(frame.head(part));
            body.extend_from_slice(b"..");
        }
        body.extend(frame.end());
        assert_eq!(body.len() as u64, frame.length(&parts));
        let text = core::str::from_utf8(&body).unwrap();
        assert_eq!(text.matches("Content-Range: bytes ").count(), 2);
        assert!(text.ends_with("..\r\n--xyz--\r\n"));
    }

    proptest! {
        #[test]
        fn any_range_is_inside_the_representation(
            value in "bytes=[0-9,\\- ]{0,24}", complete in 0u64..30,
        ) {
            let parts = match wanted(&value, complete) {
                Wanted::Part(part) => Vec::from([part]),
                Wanted::Parts(parts) => parts,
                Wanted::Whole | Wanted::Nothing => Vec::new(),
            };
            let mut seen = BTreeSet::new();
            for part in parts {
                prop_assert!(part.first <= part.last && part.last < complete);
                for at in part.first..=part.last {
                    prop_assert!(seen.insert(at), "{} twice", at);
                }
            }
        }
    }
}
