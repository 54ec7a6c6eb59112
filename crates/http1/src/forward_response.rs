//! The head of a response as it goes to a client.
//!
//! Always HTTP/1.1 (RFC 9112, 2.3: a proxy sends its own version), without the fields that end at
//! this hop. Where nothing changes nothing is copied.

use crate::client_lines::{VIA_10, VIA_11};
use crate::fields::{Field, Known};
use crate::forward::{FRAMING, HOP_BY_HOP, Runs, is_named, next_line, write_framing};
use crate::head::Version;
use crate::response::ResponseHead;

/// What the response is changed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseOptions<'a> {
    /// The version of the client.
    pub client: Version,
    /// Whether the connection to the client is used again. Must be false for a body that ends
    /// with the connection.
    pub keep_alive: bool,
    /// Add to Via.
    pub via: bool,
    /// Leave the chunked coding out, since an HTTP/1.0 client cannot read it: the body is then
    /// what [`BodyReader::feed_data`](crate::BodyReader::feed_data) gives, and ends with the
    /// connection.
    pub dechunk: bool,
    /// Complete lines to add, each with its CR LF.
    pub extra: &'a [u8],
    /// The complete line of Strict-Transport-Security, which replaces the server's; empty for
    /// none, and the server's stays.
    pub hsts: &'a [u8],
    /// The complete line of Alt-Svc, likewise.
    pub alt_svc: &'a [u8],
    /// The complete line of Date, for a response that has none.
    pub date: &'a [u8],
}

impl Default for ResponseOptions<'_> {
    fn default() -> Self {
        Self {
            client: Version::Http11,
            keep_alive: true,
            via: false,
            dechunk: false,
            extra: b"",
            hsts: b"",
            alt_svc: b"",
            date: b"",
        }
    }
}

/// What [`write_response`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Forwarded {
    /// Nothing was written: send the bytes of the head as they are.
    Unchanged,
    /// The head to send was appended.
    Rewritten,
}

/// Appends the head to send to `out`, unless it is the one in `buf`, which `head` was parsed from.
pub fn write_response(
    out: &mut Vec<u8>,
    buf: &[u8],
    head: &ResponseHead,
    options: ResponseOptions<'_>,
) -> Forwarded {
    let section = &head.section;
    let connection = connection_line(head, options);
    let touched = touched(head, options);
    let removes = section.fields.has_any(touched) || section.connection.others > 0;
    let adds = !connection.is_empty()
        || options.via
        || !options.extra.is_empty()
        || !options.hsts.is_empty()
        || !options.alt_svc.is_empty()
        || !options.date.is_empty();
    if !removes && !adds && buf.starts_with(b"HTTP/1.1") {
        return Forwarded::Unchanged;
    }
    out.extend_from_slice(b"HTTP/1.1");
    let mut runs = Runs::new(out, buf, b"HTTP/1.1".len());
    if removes {
        leave_out_fields(&mut runs, buf, head, touched);
    }
    let out = runs.finish(head.head_len() - 2);
    out.extend_from_slice(connection);
    if section.framing.unusual && frames(head) && !options.dechunk {
        write_framing(out, section);
    }
    if options.via {
        out.extend_from_slice(if head.version().is_http10() { VIA_10 } else { VIA_11 });
    }
    out.extend_from_slice(options.extra);
    out.extend_from_slice(options.hsts);
    out.extend_from_slice(options.alt_svc);
    out.extend_from_slice(options.date);
    out.extend_from_slice(b"\r\n");
    Forwarded::Rewritten
}

/// The Connection line this response needs. Interim answers need none: the connection goes on.
fn connection_line(head: &ResponseHead, options: ResponseOptions<'_>) -> &'static [u8] {
    match head.status() {
        101 => b"Connection: upgrade\r\n",
        100..=199 => b"",
        _ if head.tunnels() => b"",
        426 if !options.keep_alive => b"Connection: close, upgrade\r\n",
        _ if !options.keep_alive => b"Connection: close\r\n",
        _ if options.client.is_http10() => b"Connection: keep-alive\r\n",
        426 => b"Connection: upgrade\r\n",
        _ => b"",
    }
}

/// Whether a response of this status may say how its body is framed (RFC 9110, 8.6).
const fn frames(head: &ResponseHead) -> bool {
    head.status() >= 200 && head.status() != 204 && !head.tunnels()
}

/// The set of fields that do not stay.
fn touched(head: &ResponseHead, options: ResponseOptions<'_>) -> u32 {
    let connection = head.section.connection;
    let mut touched = HOP_BY_HOP;
    if matches!(head.status(), 101 | 426) {
        touched &= !Known::Upgrade.bit();
    }
    if head.section.framing.unusual || !frames(head) {
        touched |= FRAMING;
    }
    // Without a body, as to HEAD, nothing is left to dechunk.
    if options.dechunk || options.client.is_http10() {
        touched |= Known::TransferEncoding.bit() | Known::Trailer.bit();
    }
    if !options.hsts.is_empty() {
        touched |= Known::StrictTransportSecurity.bit();
    }
    if !options.alt_svc.is_empty() {
        touched |= Known::AltSvc.bit();
    }
    // A server's `Connection: keep-alive` says what we would say: no reason to rewrite the head.
    let says_the_same = connection.keep_alive
        && options.keep_alive
        && !options.client.is_http10()
        && !connection.close
        && !connection.upgrade
        && connection.others == 0;
    if says_the_same {
        touched &= !Known::Connection.bit();
    }
    touched
}

fn leave_out_fields(runs: &mut Runs<'_>, buf: &[u8], head: &ResponseHead, touched: u32) {
    let fields: &[Field] = head.fields().as_slice();
    for (index, field) in fields.iter().enumerate() {
        if touched & field.known.bit() != 0 || is_named(&head.section, buf, field) {
            runs.leave_out(field.name.start, next_line(fields, index, head.head_len()));
        }
    }
}
