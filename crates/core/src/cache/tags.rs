//! Names that a server gives to responses so that all of them can be purged at once: `Cache-Tag`
//! (a list with commas, as CDNs have it) and `Surrogate-Key` (separated by spaces, as Varnish and
//! Fastly have it).

use super::field::Fields;

/// The tags of a response, each as it is written. What is stored has at most [`TAGS_MAX`], and none
/// longer than [`TAG_LENGTH_MAX`]: a purge by one that is not kept would leave the response.
pub fn tags(fields: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    let listed = fields.all("cache-tag").flat_map(|value| value.split(|&byte| byte == b','));
    let keys = fields.all("surrogate-key").flat_map(|value| value.split(|&byte| byte == b' '));
    listed.chain(keys).map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty())
}

/// Whether a response has more tags than are kept, or longer ones.
pub(super) fn are_too_many(fields: Fields<'_>) -> bool {
    let exceeds = |(at, tag): (usize, &[u8])| at >= TAGS_MAX || tag.len() > TAG_LENGTH_MAX;
    tags(fields).enumerate().any(exceeds)
}

/// Whether a field is for the cache alone and not sent on to clients.
#[must_use]
pub fn is_for_the_cache(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"cache-tag") || name.eq_ignore_ascii_case(b"surrogate-key")
}

/// The most tags of one response that are kept.
pub const TAGS_MAX: usize = 1_024;

/// The longest tag that is kept, in bytes.
pub const TAG_LENGTH_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::cache::field::{Field, tests::lines};

    #[test]
    fn both_fields_name_tags() {
        let fields = lines(&["Cache-Tag: a, b c,,", "cache-tag: d", "Surrogate-Key: e  f,g"]);
        let all: Vec<_> = tags(Fields(&fields)).collect();
        assert_eq!(all, [&b"a"[..], b"b c", b"d", b"e", b"f,g"]);
    }

    #[test]
    fn their_number_and_length_are_bounded() {
        let too_many =
            |value: &str| are_too_many(Fields(&[Field::new(b"Cache-Tag", value.as_bytes())]));
        assert!(!too_many(&"a,".repeat(TAGS_MAX)) && too_many(&"a,".repeat(TAGS_MAX + 1)));
        let long = "x".repeat(TAG_LENGTH_MAX);
        assert!(!too_many(&long) && too_many(&(long + "x")));
    }
}
