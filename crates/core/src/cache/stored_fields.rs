//! Which fields of a response are stored, and how a newer one changes them: RFC 9111 sections 3.1
//! and 3.2.

use alloc::vec::Vec;

use super::{
    directives::withheld_fields,
    field::{Field, Fields},
    tags::is_for_the_cache,
};

/// The fields of a response that a shared cache keeps, in their order: not those of the connection
/// (RFC 9110 section 7.6.1, and what `Connection` names), nor of proxy authentication, nor those
/// that `private="..."` or `no-cache="..."` names.
pub fn stored_fields(fields: Fields<'_>) -> impl Iterator<Item = Field<'_>> {
    fields.iter().filter(move |field| is_stored(field.name, fields))
}

/// The fields of a response that are not stored since `private="..."` or `no-cache="..."` names
/// them: whoever it was fetched for gets them, and nobody else (RFC 9111 sections 5.2.2.4 and
/// 5.2.2.7).
pub fn withheld(fields: Fields<'_>) -> impl Iterator<Item = Field<'_>> {
    fields.iter().filter(move |Field { name, .. }| {
        is_withheld(name, fields) && !is_of_the_connection(name, fields) && !is_written_anew(name)
    })
}

fn is_stored(name: &[u8], fields: Fields<'_>) -> bool {
    !is_of_the_connection(name, fields) && !is_withheld(name, fields)
}

fn is_of_the_connection(name: &[u8], fields: Fields<'_>) -> bool {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    OF_THE_CONNECTION.iter().any(|known| is(known.as_bytes())) || fields.list("connection").any(is)
}

fn is_withheld(name: &[u8], fields: Fields<'_>) -> bool {
    withheld_fields(fields).any(|other| name.eq_ignore_ascii_case(other))
}

/// Whether a cache says that itself of each response, or tells it to nobody.
fn is_written_anew(name: &[u8]) -> bool {
    let own = ["age", "content-length", "date"];
    own.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) || is_for_the_cache(name)
}

/// The fields of a stored response after a newer one freshened it, such as a 304: each field of
/// the newer one replaces the lines of that name. Not replaced are those of the connection and
/// those that describe the content as it is stored: `Content-Length`, `Content-Encoding`,
/// `Content-Range` and `Transfer-Encoding`. The age is that of the newer one, or none. What is
/// `private="..."` or `no-cache="..."` from now on is left out, though it was stored before.
#[must_use]
pub fn freshened_fields<'a>(stored: Fields<'a>, newer: Fields<'a>) -> Vec<Field<'a>> {
    let replaces = |field: &Field<'a>| !OF_THE_CONTENT.iter().any(|known| field.is(known));
    let new: Vec<Field<'a>> = stored_fields(newer).filter(replaces).collect();
    let replaced = |field: &Field<'a>| {
        field.is("age") || new.iter().any(|other| other.name.eq_ignore_ascii_case(field.name))
    };
    let mut all: Vec<Field<'a>> = stored.iter().filter(|field| !replaced(field)).collect();
    all.extend_from_slice(&new);
    let kept = |field: &Field<'a>| !is_withheld(field.name, Fields(&all));
    all.iter().copied().filter(kept).collect()
}

const OF_THE_CONNECTION: [&str; 10] = [
    "connection", "keep-alive", "proxy-authenticate", "proxy-authentication-info",
    "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
];

const OF_THE_CONTENT: [&str; 3] = ["content-length", "content-encoding", "content-range"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::field::tests::lines;

    fn names<'a>(fields: impl Iterator<Item = Field<'a>>) -> Vec<&'a str> {
        fields.map(|field| core::str::from_utf8(field.name).unwrap()).collect()
    }

    #[test]
    fn fields_of_the_connection_are_not_stored() {
        let all = lines(&[
            "Connection: a, B", "A: 1", "b: 2", "C: 3", "Keep-Alive: timeout=5",
            "Proxy-Authenticate: x", "Proxy-Authentication-Info: x", "Proxy-Connection: x",
            "TE: x", "Upgrade: x", "Transfer-Encoding: chunked", "Set-Cookie: a=b",
        ]);
        assert_eq!(names(stored_fields(Fields(&all))), ["C", "Set-Cookie"]);
    }

    #[test]
    fn fields_that_are_private_or_need_validation_are_not_stored() {
        let all =
            lines(&["Cache-Control: private=\"A\", no-cache=\"b, c\"", "a: 1", "B: 2", "d: 4"]);
        assert_eq!(names(stored_fields(Fields(&all))), ["Cache-Control", "d"]);
        assert_eq!(names(withheld(Fields(&all))), ["a", "B"]);
    }

    #[test]
    fn what_is_withheld_and_said_anew_of_each_response_is_given_to_nobody() {
        let all = lines(&[
            "Cache-Control: no-cache=\"date, te, cache-tag, x, set-cookie\"",
            "Date: Sun, 06 Nov 1994 08:49:37 GMT",
            "TE: a",
            "Connection: x",
            "X: 1",
            "Cache-Tag: a",
            "Set-Cookie: a=b",
            "set-cookie: c=d",
        ]);
        assert_eq!(names(withheld(Fields(&all))), ["Set-Cookie", "set-cookie"]);
    }

    #[test]
    fn what_caches_before_this_one_said_is_stored() {
        let all = lines(&["Cache-Status: shield; hit", "A: 1"]);
        assert_eq!(names(stored_fields(Fields(&all))), ["Cache-Status", "A"]);
    }

    #[test]
    fn a_304_replaces_what_it_names_but_nothing_of_the_content() {
        let stored = lines(&[
            "Content-Length: 10", "Content-Type: text/plain", "X-A: 1", "X-A: 2", "X-B: 1",
            "Age: 100",
        ]);
        let newer = lines(&["content-length: 0", "x-a: 3", "Content-Type: text/html", "TE: x"]);
        let fresh = freshened_fields(Fields(&stored), Fields(&newer));
        let expected =
            lines(&["Content-Length: 10", "X-B: 1", "x-a: 3", "Content-Type: text/html"]);
        assert_eq!(fresh, expected);
    }

    #[test]
    fn what_a_304_makes_private_is_not_kept_and_what_was_private_stays_so() {
        let stored = lines(&["Cache-Control: max-age=1", "X-User: alice", "X-A: 1"]);
        for control in ["private=\"X-User\"", "no-cache=\"x-user\""] {
            let newer = [Field::new(b"Cache-Control", control.as_bytes())];
            let fresh = freshened_fields(Fields(&stored), Fields(&newer));
            assert_eq!(fresh, [stored[2], newer[0]], "{control}");
        }
        let stored = lines(&["Cache-Control: private=\"X-User\"", "X-A: 1"]);
        let newer = lines(&["X-User: bob", "X-A: 2"]);
        let fresh = freshened_fields(Fields(&stored), Fields(&newer));
        assert_eq!(fresh, [stored[0], newer[1]]);
    }
}
