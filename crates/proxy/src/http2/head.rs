//! Heads from one syntax to the other (RFC 9113, 8.2 and 8.3).
//!
//! | HTTP/2 | HTTP/1 |
//! |---|---|
//! | `:method`, `:path` | request line |
//! | `:authority` | Host; one that says otherwise stays, and the parser refuses two |
//! | several `cookie` | one Cookie (8.2.3) |
//! | no `content-length`, and no END_STREAM | chunked |
//! | nothing | Connection and what it names, Transfer-Encoding, Keep-Alive, Upgrade (8.2.2) |
//! | `:status` | status line, without its reason |
//! | names in lower case | names in any |

use std::io;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{CONTENT_LENGTH, COOKIE, HOST},
    request::Parts,
    uri::Authority,
};
use loadline_http1::{Known, ResponseHead};

use super::incoming::Coding;

/// Appends the head of a request with a body (or without, if `is_over`): how the body has to be
/// written.
pub(super) fn write_request(out: &mut Vec<u8>, parts: &Parts, is_over: bool) -> Coding {
    let authority = parts.uri.authority().map(Authority::as_str);
    let target = match (&parts.method, authority) {
        (&Method::CONNECT, Some(authority)) => authority,
        _ => parts.uri.path_and_query().map_or("/", |it| it.as_str()),
    };
    write(out, &[parts.method.as_str().as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\n"]);
    write_host(out, authority, &parts.headers);
    write_fields(out, &parts.headers);
    let counted = parts.headers.contains_key(CONTENT_LENGTH);
    let coding = if is_over || counted { Coding::Plain } else { Coding::Chunked };
    if coding == Coding::Chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    } else if is_over && !counted && expects_body(&parts.method) {
        // RFC 9110, 8.6: some servers answer 411 to a POST that does not say so.
        out.extend_from_slice(b"content-length: 0\r\n");
    }
    out.extend_from_slice(b"\r\n");
    coding
}

/// Appends who is asked.
pub(super) fn write_host(out: &mut Vec<u8>, authority: Option<&str>, headers: &HeaderMap) {
    if let Some(authority) = authority {
        write(out, &[b"host: ", authority.as_bytes(), b"\r\n"]);
    }
    for host in headers.get_all(HOST) {
        if authority.is_none_or(|authority| authority.as_bytes() != host.as_bytes()) {
            write(out, &[b"host: ", host.as_bytes(), b"\r\n"]);
        }
    }
}

/// Appends the fields, but those that belong to a connection and the host.
pub(super) fn write_fields(out: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        let stays =
            name != HOST && name != COOKIE && !ends_here(Known::of(name.as_str().as_bytes()));
        if stays {
            write(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
    }
    let mut before: &[u8] = b"cookie: ";
    for crumb in headers.get_all(COOKIE) {
        write(out, &[before, crumb.as_bytes()]);
        before = b"; ";
    }
    if before == b"; " {
        out.extend_from_slice(b"\r\n");
    }
}

/// The head of an answer, parsed from `bytes`, with another status if one is given.
///
/// # Errors
/// If a field cannot be said in HTTP/2: nothing the HTTP/1 parser lets through.
pub(super) fn answer(head: &ResponseHead, bytes: &[u8], status: u16) -> io::Result<Response<()>> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
    *response.headers_mut() = fields(head.fields().iter(bytes));
    Ok(response)
}

/// Fields as HTTP/2 has them, but those that belong to a connection.
pub(super) fn fields<'a>(from: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in from.filter(|(name, _)| !ends_here(Known::of(name))) {
        let named = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = named {
            // A head has far fewer fields than the table takes (2^15).
            let _ = headers.try_append(name, value);
        }
    }
    headers
}

/// Whether a field belongs to one connection (RFC 9113, 8.2.2). `te` does not: what it may say in
/// HTTP/2 is meant for the server.
const fn ends_here(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::Upgrade
            | Known::Http2Settings
    )
}

fn expects_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

fn write(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}
