//! Validators of responses that are compressed on the way (RFC 9110, 8.8.3).
//!
//! A strong entity tag promises the same bytes, which a compressed response does not have: its tag
//! becomes weak. The client then asks with the weak one, and the server knows the strong one alone.
//!
//! | the client says | the server is told |
//! |---|---|
//! | `If-None-Match: W/"a"` | `W/"a", "a"` |
//! | `If-Match: W/"a"` | `"a"` |
//! | `If-Range: W/"a"` | the same |
//!
//! `If-None-Match` is compared weakly (13.1.2): a server that compares bytes finds its own tag
//! among them. `If-Match` is compared strongly (13.1.1): the weak tag would never match, although
//! the client has the whole representation. `If-Range` never matches, as it should: bytes of the
//! compressed and of the plain form must not be joined.
//!
//! A server whose own tag is weak is asked the same as before by `If-None-Match`, and refuses
//! `If-Match` as before: it compares strongly. A 304 comes back with the strong tag, and tells the
//! client of a response that it does not have (RFC 9111, 4.3.4), unless it is made weak again.

use alloc::vec::Vec;

use super::elements;

/// Whether a tag is strong.
#[must_use]
pub fn is_strong(tag: &[u8]) -> bool {
    matches!(tag, [b'"', .., b'"'])
}

/// The opaque part of a weak tag, in its quotes.
#[must_use]
pub fn of_weak(tag: &[u8]) -> Option<&[u8]> {
    tag.strip_prefix(b"W/").filter(|opaque| is_strong(opaque))
}

/// Whether a list of tags has a weak one.
#[must_use]
pub fn has_weak(list: &[u8]) -> bool {
    elements(list).any(|tag| of_weak(tag).is_some())
}

/// Writes the tags of If-None-Match as a server is to see them.
pub fn write_if_none_match(list: &[u8], out: &mut Vec<u8>) {
    for (index, tag) in elements(list).enumerate() {
        out.extend_from_slice(if index > 0 { b", " } else { b"" });
        out.extend_from_slice(tag);
        if let Some(strong) = of_weak(tag).filter(|strong| !elements(list).any(|it| it == *strong))
        {
            out.extend_from_slice(b", ");
            out.extend_from_slice(strong);
        }
    }
}

/// The strong tag of a list that has only that and its weak form; any other list. A server that
/// compares the whole field with its tag knows it.
#[must_use]
pub fn in_one_form(list: &[u8]) -> &[u8] {
    let mut tags = elements(list);
    match (tags.next().and_then(of_weak), tags.next(), tags.next()) {
        (Some(strong), Some(other), None) if strong == other => other,
        _ => list,
    }
}

/// Writes the tags of If-Match as a server is to see them.
pub fn write_if_match(list: &[u8], out: &mut Vec<u8>) {
    for (index, tag) in elements(list).enumerate() {
        out.extend_from_slice(if index > 0 { b", " } else { b"" });
        out.extend_from_slice(of_weak(tag).unwrap_or(tag));
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn written(write: impl Fn(&[u8], &mut Vec<u8>), list: &str) -> String {
        let mut out = Vec::new();
        write(list.as_bytes(), &mut out);
        String::from_utf8(out).expect("what came was text")
    }

    #[test]
    fn a_weak_tag_is_asked_for_in_its_strong_form_too() {
        for (list, expected) in [
            ("W/\"a\"", "W/\"a\", \"a\""),
            ("\"a\"", "\"a\""),
            ("W/\"a\",\"b\"", "W/\"a\", \"a\", \"b\""),
            ("W/\"a\", \"a\"", "W/\"a\", \"a\""),
            ("W/\"a,b\"", "W/\"a,b\", \"a,b\""),
            ("*", "*"),
            ("w/\"a\"", "w/\"a\""),
            ("W/a", "W/a"),
        ] {
            assert_eq!(written(write_if_none_match, list), expected);
        }
    }

    #[test]
    fn a_tag_in_both_forms_is_told_in_one() {
        for (list, expected) in [
            ("W/\"a\", \"a\"", "\"a\""),
            ("W/\"a,b\",\"a,b\"", "\"a,b\""),
            ("W/\"a\", \"b\"", "W/\"a\", \"b\""),
            ("W/\"a\", \"a\", \"b\"", "W/\"a\", \"a\", \"b\""),
            ("W/\"a\"", "W/\"a\""),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(in_one_form(list.as_bytes()), expected.as_bytes(), "{list}");
        }
    }

    #[test]
    fn a_weak_tag_that_has_to_match_becomes_strong() {
        for (list, expected) in
            [("W/\"a\"", "\"a\""), ("\"a\" ,W/\"b\"", "\"a\", \"b\""), ("*", "*"), ("W/", "W/")]
        {
            assert_eq!(written(write_if_match, list), expected);
        }
    }

    #[test]
    fn only_a_quoted_tag_is_strong() {
        assert!(is_strong(b"\"\"") && is_strong(b"\"a\""));
        assert!(!is_strong(b"\"") && !is_strong(b"") && !is_strong(b"W/\"a\"") && !is_strong(b"a"));
        assert!(has_weak(b"\"a\", W/\"b\"") && !has_weak(b"\"a\", \"W/b\""));
    }
}
