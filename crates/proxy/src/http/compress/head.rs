//! What compression changes in heads: conditions of requests, and what responses say of their body.

use loadline_core::{
    compress::{Algorithm, Offer, Response, Treatment, etag, varies_by_coding},
    fleet::Compression,
};
use loadline_http1::{Forwarded, Framing, Known, Method, RequestHead, ResponseHead};

/// The compression that a request allows. In `text`, its head for the server, conditions by weak
/// tags, which may be ours, are rewritten so that the server can answer them.
pub(crate) fn ask(
    compression: &Compression,
    head: &RequestHead,
    bytes: &[u8],
    text: &mut Vec<u8>,
) -> Offer {
    let is_weak = |name| head.fields().get(bytes, name).is_some_and(etag::has_weak);
    let offer = Offer::of(compression, &head.fields().iter(bytes));
    if offer.asks_weakly || is_weak("if-match") {
        edit(text, b"", |name, value, out| {
            let write = match name.len() {
                13 if name.eq_ignore_ascii_case(b"if-none-match") => etag::write_if_none_match,
                8 if name.eq_ignore_ascii_case(b"if-match") => etag::write_if_match,
                _ => return false,
            };
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            write(value, out);
            out.extend_from_slice(b"\r\n");
            true
        });
    }
    offer
}

/// What becomes of the response that `buf` begins with, of which `early` bytes of the body are at
/// hand.
pub(crate) fn treatment(
    compression: &Compression,
    offer: &Offer,
    (head, method): (&ResponseHead, Method),
    buf: &[u8],
) -> Treatment {
    let length = match head.framing() {
        Framing::Length(length) => Some(length),
        Framing::None if method != Method::Head => Some(0),
        Framing::None => {
            let length = head.fields().get_known(buf, Known::ContentLength);
            length.and_then(|length| std::str::from_utf8(length).ok()?.parse().ok())
        }
        Framing::Chunked | Framing::UntilClose => None,
    };
    let response = Response { status: head.status(), length, fields: head.fields().iter(buf) };
    Treatment::of(compression, offer, response)
}

/// Changes the head of a response: `head` as the server wrote it, `text` as it is to be sent, if
/// that is not the same. A body that is compressed may go in chunks.
pub(crate) fn edit_response(
    treatment: Treatment,
    in_chunks: bool,
    forwarded: Forwarded,
    head: &[u8],
    text: &mut Vec<u8>,
) -> Forwarded {
    if treatment == Treatment::Keep {
        return forwarded;
    }
    if forwarded == Forwarded::Unchanged {
        text.extend_from_slice(head);
    }
    let is_vary = |name: &[u8]| name.eq_ignore_ascii_case(b"vary");
    let varies = fields(text).any(|(name, value)| is_vary(name) && varies_by_coding(value));
    let mut added = Vec::new();
    if let Treatment::Compress(algorithm) = treatment {
        write_coding(algorithm, in_chunks, &mut added);
    }
    if !varies {
        added.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
    edit(text, &added, |name, value, out| match treatment {
        Treatment::Keep | Treatment::Vary => false,
        Treatment::Weaken => weaken(name, value, out),
        Treatment::Compress(_) => is_of_plain_body(name) || weaken(name, value, out),
    });
    Forwarded::Rewritten
}

fn write_coding(algorithm: Algorithm, in_chunks: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Encoding: ");
    out.extend_from_slice(algorithm.coding().as_bytes());
    out.extend_from_slice(b"\r\n");
    if in_chunks {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
}

/// Whether a field is about bytes that the client does not get.
fn is_of_plain_body(name: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"content-length", b"transfer-encoding", b"accept-ranges"];
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Writes the weak form of a strong tag.
fn weaken(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> bool {
    let is_tag = name.eq_ignore_ascii_case(b"etag") && etag::is_strong(value);
    if is_tag {
        out.extend_from_slice(b"ETag: W/");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    is_tag
}

/// Changes the lines of the head that `text` ends with: `replace` writes what comes instead of a
/// field, or says that it stays. Complete lines are `added`.
fn edit(
    text: &mut Vec<u8>,
    added: &[u8],
    mut replace: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> bool,
) {
    let old = std::mem::replace(text, Vec::with_capacity(text.len() + added.len() + SPARE));
    let lines = old.strip_suffix(b"\r\n").unwrap_or(&old);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if !field(line).is_some_and(|(name, value)| replace(name, value, text)) {
            text.extend_from_slice(line);
        }
    }
    text.extend_from_slice(added);
    text.extend_from_slice(b"\r\n");
}

/// Name and value of each field of a head.
fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').filter_map(field)
}

/// Name and value of a line; none for the first of a head, which has a space before any colon.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    (!name.contains(&b' ')).then(|| (name, value.trim_ascii()))
}

/// Room for tags that become longer.
const SPARE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(treatment: Treatment, in_chunks: bool, head: &str) -> String {
        let mut text = Vec::new();
        let head = head.replace('\n', "\r\n");
        let forwarded =
            edit_response(treatment, in_chunks, Forwarded::Unchanged, head.as_bytes(), &mut text);
        assert_eq!(forwarded, Forwarded::Rewritten);
        String::from_utf8(text).unwrap().replace("\r\n", "\n")
    }

    #[test]
    fn a_compressed_response_says_what_it_is_and_nothing_of_what_it_was() {
        let head = "HTTP/1.1 200 OK: fine\nContent-Length: 5\nETag: \"a\"\naccept-ranges: bytes\n\
                    Vary: Origin\nX: y\n\n";
        let expected = "HTTP/1.1 200 OK: fine\nETag: W/\"a\"\nVary: Origin\nX: y\n\
                        Content-Encoding: zstd\nTransfer-Encoding: chunked\n\
                        Vary: Accept-Encoding\n\n";
        assert_eq!(edited(Treatment::Compress(Algorithm::Zstd), true, head), expected);
    }

    #[test]
    fn vary_is_added_once() {
        for vary in ["Accept-Encoding", "origin, accept-encoding", "*"] {
            let head = format!("HTTP/1.1 200 OK\nvary: {vary}\nETag: \"a\"\n\n");
            assert_eq!(edited(Treatment::Vary, false, &head), head);
        }
        let head = "HTTP/1.1 200 OK\n\n";
        let expected = "HTTP/1.1 200 OK\nVary: Accept-Encoding\n\n";
        assert_eq!(edited(Treatment::Vary, false, head), expected);
    }

    #[test]
    fn a_304_gets_the_weak_tag() {
        let head = "HTTP/1.1 304 Not Modified\netag: \"a\"\n\n";
        let expected = "HTTP/1.1 304 Not Modified\nETag: W/\"a\"\nVary: Accept-Encoding\n\n";
        assert_eq!(edited(Treatment::Weaken, false, head), expected);
    }
}
