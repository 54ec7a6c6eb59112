//! Which fields of a response are stored, and how a newer one changes them: RFC 9111 sections 3.1
//! and 3.2.

use alloc::vec::Vec;

use super::{
    directives::withheld_fields,
    field::{Field, Fields},
};

/// The fields of a response that a shared cache keeps, in their order: not those of the connection
/// (RFC 9110 section 7.6.1, and what `Connection` names), nor of proxy authentication, nor those
/// that `private="..."` or `no-cache="..."` names.
pub fn stored_fields(fields: Fields<'_>) -> impl Iterator<Item = Field<'_>> {
    fields.iter().filter(move |field| is_stored(field.name, fields))
}

fn is_stored(name: &[u8], fields: Fields<'_>) -> bool {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    !(OF_THE_CONNECTION.iter().any(|known| is(known.as_bytes()))
        || fields.list("connection").any(is)
        || withheld_fields(fields).any(is))
}

/// The fields of a stored response after a newer one freshened it, such as a 304: each field of
/// the newer one replaces the lines of that name. Not replaced are those of the connection and
/// those that describe the content as it is stored: `Content-Length`, `Content-Encoding`,
/// `Content-Range` and `Transfer-Encoding`. The age is that of the newer one, or none.
#[must_use]
pub fn freshened_fields<'a>(stored: Fields<'a>, newer: Fields<'a>) -> Vec<Field<'a>> {
    let replaces = |field: &Field<'a>| !OF_THE_CONTENT.iter().any(|known| field.is(known));
    let new: Vec<Field<'a>> = stored_fields(newer).filter(replaces).collect();
    let replaced = |field: &Field<'a>| {
        field.is("age") || new.iter().any(|other| other.name.eq_ignore_ascii_case(field.name))
    };
    stored.iter().filter(|field| !replaced(field)).chain(new.iter().copied()).collect()
}

const OF_THE_CONNECTION: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // What this cache said of another response; it says its own.
    "cache-status",
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
            "Connection: a, B",
            "A: 1",
            "b: 2",
            "C: 3",
            "Keep-Alive: timeout=5",
            "Proxy-Authenticate: x",
            "Proxy-Authentication-Info: x",
            "Proxy-Connection: x",
            "TE: x",
            "Upgrade: x",
            "Transfer-Encoding: chunked",
            "Set-Cookie: a=b",
        ]);
        assert_eq!(names(stored_fields(Fields(&all))), ["C", "Set-Cookie"]);
    }

    #[test]
    fn fields_that_are_private_or_need_validation_are_not_stored() {
        let all =
            lines(&["Cache-Control: private=\"A\", no-cache=\"b, c\"", "a: 1", "B: 2", "d: 4"]);
        assert_eq!(names(stored_fields(Fields(&all))), ["Cache-Control", "d"]);
    }

    #[test]
    fn a_304_replaces_what_it_names_but_nothing_of_the_content() {
        let stored = lines(&[
            "Content-Length: 10",
            "Content-Type: text/plain",
            "X-A: 1",
            "X-A: 2",
            "X-B: 1",
            "Age: 100",
        ]);
        let newer = lines(&["content-length: 0", "x-a: 3", "Content-Type: text/html", "TE: x"]);
        let fresh = freshened_fields(Fields(&stored), Fields(&newer));
        let expected =
            lines(&["Content-Length: 10", "X-B: 1", "x-a: 3", "Content-Type: text/html"]);
        assert_eq!(fresh, expected);
    }
}
