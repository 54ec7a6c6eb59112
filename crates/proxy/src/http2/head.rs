//! Heads from one syntax to the other (RFC 9113, 8.2 and 8.3).
//!
//! Here are those of clients of HTTP/3, and both ways towards servers, in the types of `http` that
//! h2 and h3 know. Requests of clients of HTTP/2 go through `request_head`, by the same rules.
//!
//! | HTTP/2 | HTTP/1 |
//! |---|---|
//! | `:method`, `:path` | request line |
//! | `:authority` | Host; one that says otherwise, and several, stay: the parser refuses two |
//! | several `cookie` | one Cookie (8.2.3) |
//! | no `content-length`, and no END_STREAM | chunked, but for CONNECT |
//! | `content-length` and `trailer` | chunked: a counted body of HTTP/1 has no trailers |
//! | trailers behind `content-length` that `trailer` did not announce | nothing (RFC 9110, 6.5.1) |
//! | nothing | Connection and what it names, Transfer-Encoding, Keep-Alive, Upgrade (8.2.2) |
//! | `:status` | status line; its reason is ours |
//! | names in lower case | names in any |

use std::{borrow::Cow, io};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header::{CONTENT_LENGTH, COOKIE, HOST, SEC_WEBSOCKET_ACCEPT, TRAILER},
    request::Parts,
    response,
    uri::{Authority, PathAndQuery, Scheme},
};
use loadline_http1::{BodyReader, Framing, HeadLimits, Known, RequestHead, ResponseHead, reason};

use super::incoming::Coding;

/// Appends the head of a request with a body (or without, if `is_over`): how the body has to be
/// written.
pub(crate) fn write_request(out: &mut Vec<u8>, parts: &Parts, is_over: bool) -> Coding {
    let (method, scheme) = (parts.method.as_str().as_bytes(), scheme(&parts.uri));
    let target = match (&parts.method, parts.uri.authority()) {
        (&Method::CONNECT, Some(authority)) => with_port(scheme, authority.as_str().as_bytes()),
        _ => parts.uri.path_and_query().map_or(&b"/"[..], |it| it.as_str().as_bytes()).into(),
    };
    write(out, &[method, b" ", &target, b" HTTP/1.1\r\n"]);
    write_host(out, &parts.uri, &parts.headers);
    write_fields(out, &parts.headers);
    let counted = is_counted(&parts.headers);
    // What follows a CONNECT is no body (RFC 9110, 9.3.6).
    let is_plain = is_over || counted || parts.method == Method::CONNECT;
    let coding = if is_plain { Coding::Plain } else { Coding::Chunked };
    if coding == Coding::Chunked {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    } else if is_over && !counted && expects_body(method) {
        // RFC 9110, 8.6: some servers answer 411 to a POST that does not say so.
        out.extend_from_slice(b"content-length: 0\r\n");
    }
    out.extend_from_slice(b"\r\n");
    coding
}

/// Whom a CONNECT names, as HTTP/1 says it: with the port, which in an extended one (RFC 8441, 4)
/// the scheme may imply.
pub(super) fn with_port<'a>(scheme: Option<&[u8]>, authority: &'a [u8]) -> Cow<'a, [u8]> {
    let port = authority.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    let has_port = port.len() < authority.len()
        && str::from_utf8(port).is_ok_and(|port| port.parse::<u16>().is_ok());
    match scheme {
        Some(b"https") if !has_port => [authority, b":443"].concat().into(),
        Some(_) if !has_port => [authority, b":80"].concat().into(),
        _ => authority.into(),
    }
}

fn scheme(uri: &Uri) -> Option<&[u8]> {
    uri.scheme_str().map(str::as_bytes)
}

/// Appends who is asked.
pub(super) fn write_host(out: &mut Vec<u8>, uri: &Uri, headers: &HeaderMap) {
    if let Some(authority) = uri.authority() {
        write(out, &[b"host: ", authority.as_str().as_bytes(), b"\r\n"]);
    }
    let hosts = headers.get_all(HOST);
    let is_only = hosts.iter().nth(1).is_none();
    let says_the_same = |host: &HeaderValue| {
        let authority = uri.authority().map(|it| it.as_str().as_bytes());
        authority.is_some_and(|it| are_same(scheme(uri), it, host.as_bytes()))
    };
    for host in hosts {
        if !is_only || !says_the_same(host) {
            write(out, &[b"host: ", host.as_bytes(), b"\r\n"]);
        }
    }
}

/// Whether two authorities say the same by the rules of the scheme (RFC 9113, 8.3.1): the case does
/// not count, nor whether its port is there.
pub(super) fn are_same(scheme: Option<&[u8]>, one: &[u8], other: &[u8]) -> bool {
    let port: &[u8] = match scheme {
        Some(b"https") => b":443",
        Some(b"http") => b":80",
        _ => b"",
    };
    without(port, one).eq_ignore_ascii_case(without(port, other))
}

fn without<'a>(port: &[u8], authority: &'a [u8]) -> &'a [u8] {
    authority.strip_suffix(port).unwrap_or(authority)
}

/// Appends the fields, but those that belong to a connection, the host, and a length that does not
/// count.
pub(super) fn write_fields(out: &mut Vec<u8>, headers: &HeaderMap) {
    let counted = is_counted(headers);
    for (name, value) in headers {
        let stays = name != HOST
            && name != COOKIE
            && (counted || name != CONTENT_LENGTH)
            && !ends_here(Known::of(name.as_str().as_bytes()));
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

/// Trailers as they are: the parser refuses those that may not be there.
pub(crate) fn trailer_text(trailers: &HeaderMap) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in trailers {
        write(&mut text, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    text
}

/// The head of a response, parsed from `bytes`, with another status if one is given.
///
/// # Errors
/// If a field cannot be said in HTTP/2: nothing the HTTP/1 parser lets through.
pub(crate) fn answer(head: &ResponseHead, bytes: &[u8], status: u16) -> io::Result<Response<()>> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
    *response.headers_mut() = fields(head.fields().iter(bytes));
    Ok(response)
}

/// The head of a final response, parsed from `bytes`, and what reads its body there. `has_key`
/// where the client has sent a key for a WebSocket.
///
/// # Errors
/// As [`answer`].
pub(crate) fn final_answer(
    head: &ResponseHead,
    bytes: &[u8],
    has_key: bool,
) -> io::Result<(Response<()>, BodyReader)> {
    if !head.tunnels() {
        return Ok((answer(head, bytes, head.status())?, head.body()));
    }
    // To an extended CONNECT, 200 says what 101 does in HTTP/1 (RFC 8441, 5).
    let mut answer = answer(head, bytes, 200)?;
    if !has_key {
        // It answers a key that the client knows nothing of.
        answer.headers_mut().remove(SEC_WEBSOCKET_ACCEPT);
    }
    Ok((answer, BodyReader::new(Framing::UntilClose)))
}

/// The head of a request for a server, parsed from `bytes`; none if its target cannot be said.
pub(super) fn request(head: &RequestHead, bytes: &[u8], is_secure: bool) -> Option<Request<()>> {
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(head.method_text(bytes)).ok()?;
    *request.headers_mut() = fields(head.fields().iter(bytes));
    let mut target = Uri::default().into_parts();
    target.path_and_query = Some(path_and_query(head.path(bytes))?);
    target.authority = head.host(bytes).and_then(|host| Authority::try_from(host).ok());
    if target.authority.is_some() {
        target.scheme = Some(if is_secure { Scheme::HTTPS } else { Scheme::HTTP });
        request.headers_mut().remove(HOST);
    } else {
        // A Host that is no authority stays a field; h2 allows that to a message of HTTP/1.
        *request.version_mut() = Version::HTTP_11;
    }
    *request.uri_mut() = Uri::from_parts(target).ok()?;
    Some(request)
}

/// Path and query of a target. What they may not have as it is, though it passes in HTTP/1, is
/// escaped as browsers do it.
fn path_and_query(text: &[u8]) -> Option<PathAndQuery> {
    if let Ok(known) = PathAndQuery::try_from(text) {
        return Some(known);
    }
    let (mut escaped, mut in_query) = (Vec::with_capacity(text.len() + 16), false);
    for byte in text {
        in_query |= *byte == b'?';
        match byte {
            b'<' => escaped.extend_from_slice(b"%3C"),
            b'>' => escaped.extend_from_slice(b"%3E"),
            b'"' if in_query => escaped.extend_from_slice(b"%22"),
            b'`' if !in_query => escaped.extend_from_slice(b"%60"),
            _ => escaped.push(*byte),
        }
    }
    PathAndQuery::try_from(escaped).ok()
}

/// Appends the head of a server's response, which has a body unless it `is_over` or answers HEAD:
/// how the body has to be written. None for a switch of protocols, which HTTP/2 does not know.
pub(super) fn write_answer(
    out: &mut Vec<u8>,
    parts: &response::Parts,
    is_over: bool,
    to_head: bool,
) -> Option<Coding> {
    let status = parts.status;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return None;
    }
    write_status(out, status);
    write_fields(out, &parts.headers);
    let bodiless = to_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let counted = bodiless || is_counted(&parts.headers);
    if !counted && is_over {
        out.extend_from_slice(b"content-length: 0\r\n");
    } else if !counted {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Some(if counted || is_over { Coding::Plain } else { Coding::Chunked })
}

/// Appends an interim response.
pub(super) fn write_interim(out: &mut Vec<u8>, head: &Response<()>) {
    write_status(out, head.status());
    write_fields(out, head.headers());
    out.extend_from_slice(b"\r\n");
}

fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    let reason = reason(status.as_u16()).as_bytes();
    write(out, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason, b"\r\n"]);
}

/// Fields as HTTP/2 has them, but those that belong to a connection.
pub(crate) fn fields<'a>(from: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HeaderMap {
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

/// The size of the longest head within `limits` as HTTP/2 counts it: 32 bytes more for each field
/// (RFC 9113, 6.5.2). The exact limit is the parser's.
pub(crate) fn list_size(limits: HeadLimits) -> u32 {
    let size = limits.bytes.saturating_add(limits.fields.saturating_mul(32 + 2));
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// Whether a field belongs to one connection (RFC 9113, 8.2.2). `te` does not: what it may say in
/// HTTP/2 is meant for the server.
pub(super) const fn ends_here(known: Known) -> bool {
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

/// Whether the body goes with its length. One whose trailers are announced (RFC 9110, 6.6.2) goes
/// in chunks instead: only there HTTP/1 has room for trailers.
fn is_counted(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRAILER)
}

/// Whether a method is about what its request brings.
pub(super) fn expects_body(method: &[u8]) -> bool {
    matches!(method, b"POST" | b"PUT" | b"PATCH")
}

fn write(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

/// For a head that was written here, which has been bounded before.
pub(crate) const ANY: HeadLimits = HeadLimits { bytes: usize::MAX, fields: usize::MAX };
