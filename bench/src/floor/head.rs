//! What the floor must know of a head: where it ends, how long the response is, and who closes.

use std::borrow::Cow;
use std::io;
use std::mem::MaybeUninit;

/// How far a head has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Status<T> {
    Partial,
    Complete(T),
}

/// A request without a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The client wants its connection closed after the response.
    pub(super) closes: bool,
    /// Where the name of its `Connection` begins and its value ends, if it has one.
    hop: Option<(usize, usize)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response {
    /// Of head and body together.
    pub(super) length: usize,
    head: usize,
}

/// Reads the head of a request that must be all of it.
pub(super) fn request(bytes: &[u8]) -> io::Result<Status<Request>> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let status = parsed.parse_with_uninit_headers(bytes, &mut headers).map_err(io::Error::other)?;
    let httparse::Status::Complete(length) = status else { return Ok(Status::Partial) };
    if length != bytes.len() || parsed.method != Some("GET") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let hop = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case("connection"));
    let closes = hop.is_some_and(|header| header.value.eq_ignore_ascii_case(b"close"));
    let hop = hop.map(|header| {
        let start = header.name.as_ptr().addr() - bytes.as_ptr().addr();
        (start, header.value.as_ptr_range().end.addr() - bytes.as_ptr().addr())
    });
    Ok(Status::Complete(Request { closes, hop }))
}

/// Reads the head of a response, which must say how long its body is.
pub(super) fn answer(bytes: &[u8]) -> io::Result<Status<Response>> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let status = config
        .parse_response_with_uninit_headers(&mut parsed, bytes, &mut headers)
        .map_err(io::Error::other)?;
    let httparse::Status::Complete(head) = status else { return Ok(Status::Partial) };
    let length = parsed.headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|it| std::str::from_utf8(it.value).ok()?.parse::<usize>().ok());
    let length = length.ok_or(io::ErrorKind::Unsupported)?;
    Ok(Status::Complete(Response { length: head + length, head }))
}

impl Request {
    /// What the server gets: everything but `Connection`, which is for the next hop alone.
    pub(super) fn forwarded<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        match self.hop {
            None => bytes.into(),
            Some((start, end)) => [&bytes[..start], &bytes[end + 2..]].concat().into(),
        }
    }
}

impl Response {
    /// What the client gets: the same, and that the connection is closed if it is.
    pub(super) fn forwarded<'b>(&self, bytes: &'b [u8], closes: bool) -> Cow<'b, [u8]> {
        if !closes {
            return bytes.into();
        }
        let (head, body) = bytes.split_at(self.head);
        [&head[..head.len() - 2], b"Connection: close\r\n\r\n", body].concat().into()
    }
}

const HEADERS: usize = 32;
