//! What one client gets of a response: all of it, parts, or a status that says why nothing.

use loadline_core::cache::{
    self, ByteRange, Condition, Field, Fields, Incomplete, Multipart, Wanted, format_date,
    is_condition, is_sent_with_304, range_counts, unsatisfied_content_range,
};
use loadline_core::time::UnixTime;
use loadline_http1::reason;

use super::object::Response;

/// A response as one client gets it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and fields, each with its CR LF, without those of the connection and the
    /// framing.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Body,
}

/// What of the body is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The status has none.
    None,
    /// All of it, however long it is.
    Whole,
    /// These parts, one after the other, and this behind them.
    Parts(Vec<Part>, Vec<u8>),
}

/// Bytes of the body, and what goes before them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) before: Vec<u8>,
    pub(crate) from: u64,
    pub(crate) length: u64,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) fields: Fields<'a>,
    /// When the response was received or last validated.
    pub(crate) received: UnixTime,
    pub(crate) now: UnixTime,
    /// Whether parts can be sent in any order.
    pub(crate) is_at_hand: bool,
    /// A random number.
    pub(crate) draw: u64,
}

impl Answer {
    /// What a client gets of a response of this length, if that is known.
    pub(crate) fn of(response: &Response, length: Option<u64>, asked: &Asked<'_>) -> Self {
        if asks_for_all(asked.fields) {
            return Self::whole(response, length);
        }
        let own = response.fields();
        let stored = cache::Response { status: response.status, fields: Fields(&own) };
        match condition(&stored, asked.fields, asked.received) {
            Condition::Failed => return Self::bare(412, b"", asked.now),
            Condition::NotModified => return Self::not_modified(&stored),
            Condition::Send => {}
        }
        if let Some(part) = response.part(asked.received) {
            return Self::of_part(response, &part, asked);
        }
        let counts = response.status == 200
            && asked.fields.has("range")
            && range_counts(asked.fields, stored.fields, asked.received);
        let Some(length) = length.filter(|_| counts) else {
            return Self::whole(response, length);
        };
        match Wanted::of(asked.fields, length) {
            Wanted::Part(range) => Self::part(&stored, range, length),
            Wanted::Parts(ranges) if asked.is_at_hand => {
                Self::parts(&stored, &ranges, length, asked.draw)
            }
            Wanted::Nothing => Self::bare(416, &unsatisfied_content_range(length), asked.now),
            Wanted::Whole | Wanted::Parts(_) => Self::whole(response, Some(length)),
        }
    }

    /// What a client gets of a part that is stored, or is coming in. What it asks for lies within
    /// that, unless its server sent less.
    fn of_part(response: &Response, part: &Incomplete, asked: &Asked<'_>) -> Self {
        let own = response.fields();
        let stored = cache::Response { status: response.status, fields: Fields(&own) };
        let answer = match part.answer(asked.fields, stored.fields, asked.received) {
            Some(Wanted::Part(range)) => Self::part(&stored, range, part.complete),
            Some(Wanted::Parts(ranges)) if asked.is_at_hand => {
                Self::parts(&stored, &ranges, part.complete, asked.draw)
            }
            _ => return Self::whole(response, Some(part.range.length())),
        };
        Self { body: answer.body.behind(part.range.first), ..answer }
    }

    /// All of it, for a client that asks for nothing less.
    pub(crate) fn whole(response: &Response, length: Option<u64>) -> Self {
        let body = if matches!(response.status, 204 | 304) { Body::None } else { Body::Whole };
        let behind = length.and_then(|it| usize::try_from(it).ok()).filter(|it| *it <= COPIED);
        let room = response.text.len() + ADDED + behind.unwrap_or_default();
        let mut head = Vec::with_capacity(room);
        head.extend_from_slice(&response.text);
        Self { status: response.status, head, body }
    }

    /// A status without a body that is made now, with this `Content-Range` unless it is empty.
    fn bare(status: u16, content_range: &[u8], now: UnixTime) -> Self {
        let mut head = status_line(status);
        write(&mut head, b"Date", &format_date(now));
        if !content_range.is_empty() {
            write(&mut head, b"Content-Range", content_range);
        }
        Self { status, head, body: Body::Parts(Vec::new(), Vec::new()) }
    }

    fn not_modified(stored: &cache::Response<'_>) -> Self {
        let mut head = status_line(304);
        for field in stored.fields.iter().filter(|field| is_sent_with_304(field.name)) {
            write(&mut head, field.name, field.value);
        }
        Self { status: 304, head, body: Body::None }
    }

    fn part(stored: &cache::Response<'_>, range: ByteRange, complete: u64) -> Self {
        let mut head = status_line(206);
        let kept = stored.fields.iter().filter(|field| !field.is("content-range"));
        kept.for_each(|field| write(&mut head, field.name, field.value));
        write(&mut head, b"Content-Range", &range.content_range(complete));
        let part = Part { before: Vec::new(), from: range.first, length: range.length() };
        Self { status: 206, head, body: Body::Parts(Vec::from([part]), Vec::new()) }
    }

    fn parts(stored: &cache::Response<'_>, ranges: &[ByteRange], complete: u64, draw: u64) -> Self {
        let boundary = format!("{draw:016x}");
        let content_type = stored.fields.first("content-type");
        let multipart = Multipart { boundary: &boundary, content_type, complete };
        let mut head = status_line(206);
        let is_of_one = |field: &Field<'_>| field.is("content-type") || field.is("content-range");
        let kept = stored.fields.iter().filter(|field| !is_of_one(field));
        kept.for_each(|field| write(&mut head, field.name, field.value));
        write(&mut head, b"Content-Type", &multipart.content_type());
        let part = |range: &ByteRange| Part {
            before: multipart.head(*range),
            from: range.first,
            length: range.length(),
        };
        let parts = ranges.iter().map(part).collect();
        Self { status: 206, head, body: Body::Parts(parts, multipart.end()) }
    }
}

impl Body {
    /// The same of a body whose first byte is at this place of the whole.
    fn behind(mut self, first: u64) -> Self {
        if let Self::Parts(parts, _) = &mut self {
            parts.iter_mut().for_each(|part| part.from -= first);
        }
        self
    }

    /// How long it is, of a whole of this length; none where nobody knows, or for no body.
    pub(crate) fn length(&self, whole: Option<u64>) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Whole => whole,
            Self::Parts(parts, after) => {
                let of = |part: &Part| part.length + part.before.len() as u64;
                Some(parts.iter().map(of).sum::<u64>() + after.len() as u64)
            }
        }
    }
}

/// Whether a request has neither conditions nor a range.
pub(crate) fn asks_for_all(fields: Fields<'_>) -> bool {
    let asks_less = |name| is_condition(name) || name.eq_ignore_ascii_case(b"range");
    !fields.iter().any(|field| asks_less(field.name))
}

/// Whether a request wants another response than this one, by conditions that only its server may
/// answer (RFC 9110 section 13.2.1, RFC 9111 section 4.3.2).
pub(crate) fn wants_another(response: &Response, fields: Fields<'_>, received: UnixTime) -> bool {
    let is_of_server = |name: &[u8]| {
        let names: [&[u8]; 2] = [b"if-match", b"if-unmodified-since"];
        names.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    if !fields.iter().any(|field| is_of_server(field.name)) {
        return false;
    }
    let own = response.fields();
    let stored = cache::Response { status: response.status, fields: Fields(&own) };
    condition(&stored, fields, received) == Condition::Failed
}

/// What the conditions of a `GET` or `HEAD` with these fields make of a response.
pub(crate) fn condition(
    stored: &cache::Response<'_>,
    fields: Fields<'_>,
    received: UnixTime,
) -> Condition {
    let request = cache::Request {
        method: b"GET",
        scheme: b"",
        authority: b"",
        target: b"",
        fields,
        has_content: false,
    };
    Condition::of(&request, stored, received)
}

/// So much of a body is cheaper to copy behind a head than to send from a place of its own.
pub(crate) const COPIED: usize = 4 << 10;

/// Room for what is added to a stored head: age, status of the cache, length, connection.
const ADDED: usize = 256;

fn status_line(status: u16) -> Vec<u8> {
    format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes()
}

/// Appends a field.
pub(crate) fn write(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for piece in [name, b": ", value, b"\r\n"] {
        text.extend_from_slice(piece);
    }
}
