//! What forwarding a request and forwarding a response have in common.
//!
//! Both copy the head in the longest runs of lines that stay as they are. Fields that end at this
//! hop (RFC 9110, 7.6.1) are left out: Connection and what it names, Keep-Alive,
//! Proxy-Connection, TE, Upgrade unless it is being tunnelled, and, since it is meant for a proxy,
//! Proxy-Authorization. Proxy-Authenticate stays: a client must find it in a 407 (RFC 9110,
//! 15.5.8). Connection cannot name a field that this crate knows: `Connection: Host,
//! X-Forwarded-For` takes nothing away.

use crate::fields::{Field, Known, Span};
use crate::head::Section;

/// Fields that end at this hop in either direction, and those that are as if they had not come.
pub(crate) const HOP_BY_HOP: u32 = Known::Connection.bit()
    | Known::KeepAlive.bit()
    | Known::ProxyConnection.bit()
    | Known::Te.bit()
    | Known::Upgrade.bit()
    | Known::Http2Settings.bit()
    | Known::ProxyAuthorization.bit()
    | Known::Underscored.bit();

/// The two fields that frame a body.
pub(crate) const FRAMING: u32 = Known::ContentLength.bit() | Known::TransferEncoding.bit();

/// Whether Connection names this field, and may.
#[inline]
pub(crate) fn is_named(section: &Section, buf: &[u8], field: &Field) -> bool {
    section.connection.others > 0
        && field.known == Known::Other
        && section.connection_names(buf, field.name.of(buf))
}

/// Copies a head line by line, in runs.
pub(crate) struct Runs<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    buf: &'a [u8],
    /// Start of the run that is not copied yet.
    from: u32,
}

impl<'a> Runs<'a> {
    /// A copy of `buf` from `from` on.
    #[inline]
    pub(crate) const fn new(out: &'a mut Vec<u8>, buf: &'a [u8], from: usize) -> Self {
        Self { out, buf, from: from as u32 }
    }

    /// Copies up to the line at `start`, and goes on at `next`.
    #[inline]
    pub(crate) fn leave_out(&mut self, start: u32, next: u32) {
        self.out.extend_from_slice(Span { start: self.from, end: start }.of(self.buf));
        self.from = next;
    }

    /// Copies the rest, up to `end`.
    #[inline]
    pub(crate) fn finish(self, end: usize) -> &'a mut Vec<u8> {
        self.out.extend_from_slice(Span { start: self.from, end: end as u32 }.of(self.buf));
        self.out
    }
}

/// Where the line after field `index` begins, or the empty line of a head of `length` bytes.
#[inline]
pub(crate) fn next_line(fields: &[Field], index: usize, length: usize) -> u32 {
    fields.get(index + 1).map_or(length as u32 - 2, |field| field.name.start)
}

/// Writes `name: value`, where `name` has its colon and space.
#[inline]
pub(crate) fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes the framing fields of a message in their plainest form.
#[cold]
pub(crate) fn write_framing(out: &mut Vec<u8>, section: &Section) {
    if section.framing.chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    } else if let Some(length) = section.framing.content_length {
        write_line(out, b"Content-Length: ", length.to_string().as_bytes());
    }
}
