//! Content that is stored in slices of one size, each a response of its own to a request for a
//! range: which content is, which bytes a slice has, and whether a response brings them. RFC 9110
//! section 14, RFC 9111 section 3.3.

use super::{
    entity_tag::EntityTag,
    field::Fields,
    message::Response,
    range::{ByteRange, ContentRange},
};
use crate::time::Duration;

/// Content in slices. The first is the leading one: its fields are those of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// How long the content is, more than one slice.
    pub complete: u64,
    /// How long each slice is but the last, at least 1.
    pub size: u32,
}

impl Slices {
    /// How content of `complete` bytes, which this response to a request for all of it begins, is
    /// stored in slices of `size`; none where it is not: where it fits into one, its server does
    /// not say that it has ranges, or no strong tag tells whether two of them belong together.
    #[must_use]
    pub fn of(response: &Response<'_>, complete: u64, size: u32) -> Option<Self> {
        if size == 0 || complete <= u64::from(size) || response.status != 200 {
            return None;
        }
        let has_ranges = response.fields.list("accept-ranges").any(|unit| unit == b"bytes");
        let is_named = strong_tag(response.fields).is_some();
        (has_ranges && is_named).then_some(Self { complete, size })
    }

    /// The slice that has the byte at this place.
    #[must_use]
    pub const fn index(&self, place: u64) -> u64 {
        place / self.size as u64
    }

    /// The bytes of the slice that has the one at this place; none where that is behind the end.
    #[must_use]
    pub fn around(&self, place: u64) -> Option<ByteRange> {
        self.range(self.index(place)).filter(|_| place < self.complete)
    }

    /// The bytes of a slice; none where it is behind the end.
    #[must_use]
    pub fn range(&self, index: u64) -> Option<ByteRange> {
        let first = index.checked_mul(u64::from(self.size)).filter(|at| *at < self.complete)?;
        let last = first.saturating_add(u64::from(self.size) - 1).min(self.complete - 1);
        Some(ByteRange { first, last })
    }
}

/// How long the content is, named by a strong tag, of which a response brings exactly these bytes;
/// none where it does not.
#[must_use]
pub fn brings(response: &Response<'_>, range: ByteRange) -> Option<u64> {
    let part = ContentRange::of(response.fields).filter(|part| part.range == range)?;
    let is_it = response.status == 206 && strong_tag(response.fields).is_some();
    part.complete.filter(|_| is_it)
}

/// How long it is waited before a slice is asked for once more for which no server had room, after
/// so many such attempts; none where it is given up, after half a minute in all. Its client has had
/// the beginning, and is better slow than cut off.
#[must_use]
pub const fn pause_before(attempt: u32) -> Option<Duration> {
    match attempt {
        0..=6 => Some(Duration::from_millis(250 << attempt)),
        _ => None,
    }
}

/// The tag of content, where equal ones name the same bytes.
#[must_use]
pub fn strong_tag(fields: Fields<'_>) -> Option<&[u8]> {
    let tag = EntityTag::parse(fields.single("etag")?);
    (tag.is_valid() && !tag.weak).then_some(tag.opaque)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::cache::field::tests::lines;

    fn of(status: u16, fields: &[&str]) -> Option<Slices> {
        let fields = lines(fields);
        Slices::of(&Response { status, fields: Fields(&fields) }, 100, 30)
    }

    #[test]
    fn content_with_ranges_and_a_strong_tag_is_stored_in_slices() {
        let ranges = "Accept-Ranges: bytes";
        let slices = Slices { complete: 100, size: 30 };
        assert_eq!(of(200, &[ranges, "ETag: \"a\""]), Some(slices));
        assert_eq!(of(206, &[ranges, "ETag: \"a\""]), None);
        assert_eq!(of(200, &["ETag: \"a\""]), None);
        assert_eq!(of(200, &["Accept-Ranges: none", "ETag: \"a\""]), None);
        for tag in ["ETag: W/\"a\"", "ETag: a", "ETag: ", "X: \"a\""] {
            assert_eq!(of(200, &[ranges, tag]), None, "{tag}");
        }
        let fields = lines(&[ranges, "ETag: \"a\""]);
        let whole = Response { status: 200, fields: Fields(&fields) };
        assert_eq!(Slices::of(&whole, 30, 30), None, "it fits into one");
        assert_eq!(Slices::of(&whole, 30, 0), None);
    }

    #[test]
    fn a_slice_is_what_was_asked_for_and_nothing_else() {
        let range = ByteRange { first: 30, last: 59 };
        let brings = |status: u16, fields: &[&str]| {
            let fields = lines(fields);
            brings(&Response { status, fields: Fields(&fields) }, range)
        };
        let (right, tag) = ("Content-Range: bytes 30-59/100", "ETag: \"a\"");
        assert_eq!(brings(206, &[right, tag]), Some(100));
        assert_eq!(brings(200, &[right, tag]), None, "the whole, whatever else it says");
        assert_eq!(brings(206, &[tag]), None);
        assert_eq!(brings(206, &[right]), None);
        assert_eq!(brings(206, &[right, "ETag: W/\"a\""]), None);
        for wrong in ["bytes 30-58/100", "bytes 31-59/100", "bytes 0-99/100", "bytes 30-59/*"] {
            let range = alloc::format!("Content-Range: {wrong}");
            assert_eq!(brings(206, &[&range, tag]), None, "{wrong}");
        }
    }

    #[test]
    fn a_slice_without_room_is_asked_for_again_for_half_a_minute() {
        let pauses: Vec<_> = (0..).map_while(pause_before).collect();
        assert_eq!(pauses[..3], [250, 500, 1_000].map(Duration::from_millis));
        let all = pauses.iter().fold(Duration::ZERO, |sum, pause| sum + *pause);
        assert!(all >= Duration::from_secs(30) && all < Duration::from_secs(40), "{all}");
    }

    proptest! {
        #[test]
        fn slices_are_all_of_the_content_in_order(complete in 1u64..500, size in 1u32..100) {
            let slices = Slices { complete, size };
            let all: Vec<_> = (0..).map_while(|index| slices.range(index)).collect();
            let mut next = 0;
            for (index, range) in all.iter().enumerate() {
                prop_assert_eq!(range.first, next);
                prop_assert!(range.length() <= u64::from(size));
                prop_assert_eq!(slices.index(range.first), index as u64);
                prop_assert_eq!(slices.index(range.last), index as u64);
                next = range.last + 1;
            }
            prop_assert_eq!(next, complete);
            prop_assert_eq!(slices.around(complete - 1), all.last().copied());
            prop_assert_eq!(slices.around(complete), None);
            prop_assert_eq!(slices.range(u64::MAX), None);
        }
    }
}
