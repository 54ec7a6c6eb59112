//! Entity tags and how they compare: RFC 9110 section 8.8.3.

/// An entity tag; a text without quotes, which is none, is kept as it is and equals only itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether it is weak: equal ones tell that contents mean the same, not that they are the same
    /// bytes.
    pub weak: bool,
    /// What is compared, with its quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads a whole field value.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Self {
        match text {
            [b'W', b'/', opaque @ ..] if opaque.starts_with(b"\"") => Self { weak: true, opaque },
            opaque => Self { weak: false, opaque },
        }
    }

    /// Whether it has the form of an entity tag: `"..."` or `W/"..."`.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let [b'"', inside @ .., b'"'] = self.opaque else { return false };
        inside.iter().all(|&byte| byte > b' ' && byte != b'"' && byte != 0x7f)
    }

    /// Whether both name the same bytes: equal and neither weak.
    #[must_use]
    pub fn equals_strongly(&self, other: &Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Whether both name what means the same: equal, weak or not.
    #[must_use]
    pub fn equals_weakly(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }
}

/// The tags of a list, as `If-Match` and `If-None-Match` have it. In a tag a backslash is a
/// character as any other, so this is no list of quoted strings.
pub fn entity_tags(list: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = list;
    core::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', tail @ ..] = rest {
            rest = tail;
        }
        let (tag, tail) = rest.split_at(tag_length(rest));
        rest = tail;
        (!tag.is_empty()).then(|| EntityTag::parse(tag.trim_ascii_end()))
    })
}

fn tag_length(text: &[u8]) -> usize {
    let start = if text.starts_with(b"W/\"") { 3 } else { usize::from(text.starts_with(b"\"")) };
    let find = |wanted: u8, from: usize| {
        text[from..].iter().position(|&byte| byte == wanted).map(|at| from + at)
    };
    let closed = if start > 0 { find(b'"', start).map(|at| at + 1) } else { None };
    closed.or_else(|| find(b',', 0)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_of_the_rfc() {
        // RFC 9110 section 8.8.3.2: tags, strong, weak.
        for (one, other, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
            ("abc", "\"abc\"", false, false),
            ("w/\"1\"", "\"1\"", false, false),
        ] {
            let (a, b) = (EntityTag::parse(one.as_bytes()), EntityTag::parse(other.as_bytes()));
            assert_eq!(a.equals_strongly(&b), strong, "{one} {other}");
            assert_eq!(a.equals_weakly(&b), weak, "{one} {other}");
        }
    }

    #[test]
    fn a_list_has_tags_with_commas_and_backslashes_in_them() {
        let tags = |text: &'static str| -> Vec<&'static [u8]> {
            entity_tags(text.as_bytes()).map(|tag| tag.opaque).collect()
        };
        assert_eq!(tags("\"a\", W/\"b\" ,\"c,d\""), [&b"\"a\""[..], b"\"b\"", b"\"c,d\""]);
        assert_eq!(tags("\"a\\\", \"b\""), [&b"\"a\\\""[..], b"\"b\""]);
        assert_eq!(tags("abc , \"d"), [&b"abc"[..], b"\"d"]);
        assert!(tags(" ,, ").is_empty());
    }

    proptest! {
        #[test]
        fn any_list_ends(list in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(entity_tags(&list).count() <= list.len());
        }
    }
}
