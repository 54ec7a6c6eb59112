//! What a parser makes of bytes: the parts of a message that must not differ.

use loadline_http1::{BodyReader, Framing, Method, RequestHead, ResponseHead, Status};

/// A message as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Method and target, or status.
    pub(crate) start: String,
    /// Fields that nobody on the way may change, in their order, the names in lower case.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

/// The requests our own codec finds in what a client sends, until one is refused or not whole.
pub(crate) fn requests(mut bytes: &[u8]) -> Vec<Reading> {
    let mut found = Vec::new();
    let mut head = RequestHead::default();
    while let Ok(Status::Complete(length)) = head.parse(bytes) {
        if head.method() == Method::Connect {
            break;
        }
        let Some((body, rest)) = body(head.framing(), &bytes[length..], false) else { break };
        // Of an absolute target the server gets path and query alone.
        let target = match head.path(bytes) {
            path if path.starts_with(b"?") => [b"/", path].concat(),
            path => path.to_vec(),
        };
        let method = head.method_text(bytes).escape_ascii();
        let host = head.host(bytes).unwrap_or(b"localhost");
        let host = [("host".to_owned(), host.to_vec())];
        let fields = kept(head.fields().iter(bytes));
        let start = format!("{method} {}", target.escape_ascii());
        found.push(Reading { start, fields: host.into_iter().chain(fields).collect(), body });
        bytes = rest;
        if !head.keep_alive() {
            break;
        }
    }
    found
}

/// The response our own codec finds in what a server sends before it closes; none if it is refused
/// or not whole.
pub(crate) fn response(mut bytes: &[u8], to: Method) -> Option<Reading> {
    let mut head = ResponseHead::default();
    loop {
        let Ok(Status::Complete(length)) = head.parse(bytes, to) else { return None };
        if !head.is_interim() {
            let (body, _) = body(head.framing(), &bytes[length..], true)?;
            let fields = kept(head.fields().iter(bytes));
            return Some(Reading { start: head.status().to_string(), fields, body });
        }
        bytes = &bytes[length..];
        head = ResponseHead::default();
    }
}

/// Those of the fields that are the same on both sides: what begins with `x`, but for those that
/// tell about the client.
pub(crate) fn kept<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Vec<(String, Vec<u8>)> {
    fields
        .map(|(name, value)| (name.escape_ascii().to_string().to_ascii_lowercase(), value.to_vec()))
        .filter(|(name, _)| name.starts_with('x') && !name.starts_with("x-"))
        .collect()
}

/// As [`kept`], of what hyper read.
pub(crate) fn of_headers(headers: &hyper::HeaderMap) -> Vec<(String, Vec<u8>)> {
    kept(headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())))
}

/// A body and what follows it; none if it is not whole.
fn body(framing: Framing, bytes: &[u8], closes: bool) -> Option<(Vec<u8>, &[u8])> {
    let mut reader = BodyReader::new(framing);
    let mut data = Vec::new();
    let progress = reader.feed_data(bytes, |piece| data.extend_from_slice(piece)).ok()?;
    let whole = progress.finished || closes && reader.end_of_stream().is_ok();
    whole.then(|| (data, &bytes[progress.consumed..]))
}
