//! The trailer section of a chunked body.
//!
//! Kept in memory of its own (bounded, and allocated only when a trailer comes), since its lines
//! may arrive in pieces while the bytes themselves are already on their way to the client.

use std::sync::Arc;

use crate::error::ParseError;
use crate::fields::{Field, Fields, Known, Span, Underscores};
use crate::head::HeadLimits;
use crate::scan::LineCursor;

/// The trailers of a body.
#[derive(Debug, Clone)]
pub struct Trailers {
    bytes: Vec<u8>,
    cursor: LineCursor,
    /// Trailers that are passed on.
    fields: Fields,
    underscores: Underscores,
    limits: HeadLimits,
    /// Names of those that are not.
    hidden: Option<Arc<[String]>>,
}

impl Trailers {
    /// No trailers yet.
    pub(crate) fn new(
        underscores: Underscores,
        limits: HeadLimits,
        hidden: Option<Arc<[String]>>,
    ) -> Self {
        Self {
            bytes: Vec::new(),
            cursor: LineCursor::default(),
            fields: Fields::default(),
            underscores,
            limits,
            hidden,
        }
    }

    /// Appends the section as it is to be passed on, final empty line included.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for field in self.fields.as_slice() {
            let line = Span { start: field.name.start, end: field.value.end };
            out.extend_from_slice(line.of(&self.bytes));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Name and value of each trailer.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter(&self.bytes)
    }

    /// The value of the first trailer called `name` (in any case).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(&self.bytes, name)
    }

    /// Whether nothing of the section is passed on but the final empty line.
    pub(crate) const fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The value of the ORCA trailer `endpoint-load-metrics`.
    #[must_use]
    pub fn load_metrics(&self) -> Option<&[u8]> {
        self.fields.get_known(&self.bytes, Known::EndpointLoadMetrics)
    }

    /// Takes more of the section: how many of `bytes` belong to it, and whether it is complete.
    ///
    /// # Errors
    /// As field lines do, for forbidden names, and for a section that is too large.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), ParseError> {
        let before = self.bytes.len();
        let fits = bytes.len().min(self.limits.bytes.saturating_sub(before));
        self.bytes.extend_from_slice(&bytes[..fits]);
        while let Some((start, cr)) = self.cursor.next_line(&self.bytes)? {
            if start == cr {
                self.bytes.truncate(self.cursor.line);
                return Ok((self.cursor.line - before, true));
            }
            let field = Field::parse(&self.bytes, (start, cr), self.underscores)?;
            if is_forbidden(field.known) {
                return Err(ParseError::ForbiddenTrailer);
            }
            if !is_passed(field.known) || self.hides(field.name.of(&self.bytes)) {
                continue;
            }
            if self.fields.len() == self.limits.fields {
                return Err(ParseError::TrailersTooLarge);
            }
            self.fields.push(field);
        }
        if self.bytes.len() >= self.limits.bytes {
            return Err(ParseError::TrailersTooLarge);
        }
        Ok((fits, false))
    }

    fn hides(&self, name: &[u8]) -> bool {
        let mut hidden = self.hidden.iter().flat_map(|names| names.iter());
        hidden.any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Fields that frame, route or concern the connection: merged into a head by a careless reader,
/// they would change what the message is. A message that has one is refused.
const fn is_forbidden(known: Known) -> bool {
    matches!(
        known,
        Known::Host
            | Known::Connection
            | Known::ContentLength
            | Known::TransferEncoding
            | Known::Upgrade
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::Te
            | Known::Trailer
            | Known::Http2Settings
    )
}

/// Whether a field is passed on. Others mean nothing behind a body, or are for a proxy to say, and
/// may be left out (RFC 9110, 6.5.1).
const fn is_passed(known: Known) -> bool {
    matches!(known, Known::Other | Known::Via | Known::EndpointLoadMetrics)
}
