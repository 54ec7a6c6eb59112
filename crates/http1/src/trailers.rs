//! The trailer section of a chunked body.
//!
//! Kept in memory of its own (bounded, and allocated only when a trailer comes), since its lines
//! may arrive in pieces while the bytes themselves are already on their way to the client.

use crate::error::ParseError;
use crate::fields::{Field, Fields, Known, Span, Underscores};
use crate::scan::LineCursor;

/// The trailers of a body.
#[derive(Debug, Clone, Default)]
pub struct Trailers {
    bytes: Vec<u8>,
    cursor: LineCursor,
    fields: Fields,
    underscores: Underscores,
}

impl Trailers {
    /// No trailers yet.
    pub(crate) fn new(underscores: Underscores) -> Self {
        Self { underscores, ..Self::default() }
    }

    /// Appends the section as it is to be passed on, final empty line included.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let fields = self.fields.as_slice().iter();
        for field in fields.filter(|field| field.known != Known::Underscored) {
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

    /// Whether the section is the final empty line alone.
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
        let fits = bytes.len().min(MAX_BYTES - before);
        self.bytes.extend_from_slice(&bytes[..fits]);
        while let Some((start, cr)) = self.cursor.next_line(&self.bytes)? {
            if start == cr {
                self.bytes.truncate(self.cursor.line);
                return Ok((self.cursor.line - before, true));
            }
            if self.fields.len() == MAX_FIELDS {
                return Err(ParseError::TrailersTooLarge);
            }
            let field = Field::parse(&self.bytes, (start, cr), self.underscores)?;
            if is_forbidden(field.known) {
                return Err(ParseError::ForbiddenTrailer);
            }
            self.fields.push(field);
        }
        if self.bytes.len() == MAX_BYTES {
            return Err(ParseError::TrailersTooLarge);
        }
        Ok((fits, false))
    }
}

/// Fields that frame, route or concern the connection: merged into a head by a careless reader,
/// they would change what the message is. A message that has one is refused.
const fn is_forbidden(known: Known) -> bool {
    use Known::{EndpointLoadMetrics, Other, Underscored, Via};
    !matches!(known, Other | Via | EndpointLoadMetrics | Underscored)
}

/// Longest trailer section, final empty line included.
const MAX_BYTES: usize = 8 * 1024;

/// Most trailers.
const MAX_FIELDS: usize = 64;
