//! What requests and responses have in common: limits, versions, and the fields of a head.
//!
//! A head is parsed as it comes, line by line. `Partial` keeps the place; the next call, with the
//! same bytes and more behind them, goes on from there. The result does not depend on how the
//! bytes were split.

use crate::authentication::is_of_connection;
use crate::connection::{ConnectionOptions, lists, options};
use crate::error::ParseError;
use crate::fields::{Field, Fields, Known, Span, Underscores};
use crate::framing::FramingFields;
use crate::scan::LineCursor;

/// How far the parse of a head got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The head is complete and this many bytes long; what follows is body or the next message.
    Complete(usize),
    /// More bytes are needed. Call again with the same buffer, grown at its end.
    Partial,
}

/// The version of a message. Others are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1, or one with a higher minor number, which reads the same (RFC 9110, 2.5)
    Http11,
}

impl Version {
    /// The version written as `text`.
    ///
    /// # Errors
    /// [`ParseError::UnsupportedVersion`] for a well-formed version other than HTTP/1.x,
    /// [`ParseError::BadVersion`] for anything else.
    #[inline]
    pub(crate) const fn of(text: &[u8]) -> Result<Self, ParseError> {
        match text {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Ok(Self::Http11),
            b"HTTP/1.0" => Ok(Self::Http10),
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                Err(ParseError::UnsupportedVersion)
            }
            _ => Err(ParseError::BadVersion),
        }
    }

    /// Whether this is HTTP/1.0.
    #[must_use]
    pub const fn is_http10(self) -> bool {
        matches!(self, Self::Http10)
    }
}

/// The bounds of a head, and of the trailers of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Longest head in bytes, start line and final empty line included.
    pub bytes: usize,
    /// Most field lines.
    pub fields: usize,
}

impl HeadLimits {
    pub(crate) const DEFAULT: Self = Self { bytes: 16 * 1024, fields: 100 };
}

impl Default for HeadLimits {
    /// 16 KiB and 100 fields: what nginx and HAProxy allow, and no browser reaches.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The part of a head that has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HeadPart {
    /// The start line is not complete.
    #[default]
    Start,
    /// The start line is done, the empty line has not come.
    Fields,
    /// The head is complete, or refused: the next parse is of another message.
    Done,
}

/// The fields of a message and what they say together.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) cursor: LineCursor,
    pub(crate) stage: HeadPart,
    /// A setting, like the limits of the head.
    pub(crate) underscores: Underscores,
    pub(crate) fields: Fields,
    pub(crate) framing: FramingFields,
    pub(crate) connection: ConnectionOptions,
    pub(crate) host: Option<Span>,
    pub(crate) expects_continue: bool,
    pub(crate) te_trailers: bool,
    /// Upgrade offers a protocol, not counting `h2c`.
    pub(crate) offers_protocol: bool,
    /// A challenge, or credentials, for the connection.
    pub(crate) authenticates_connection: bool,
}

impl Section {
    pub(crate) fn new() -> Self {
        Self {
            cursor: LineCursor::default(),
            stage: HeadPart::Start,
            underscores: Underscores::default(),
            fields: Fields::new(),
            framing: FramingFields::default(),
            connection: ConnectionOptions::default(),
            host: None,
            expects_continue: false,
            te_trailers: false,
            offers_protocol: false,
            authenticates_connection: false,
        }
    }

    /// Forgets everything but the settings and the memory of the table.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.cursor = LineCursor::default();
        self.stage = HeadPart::Start;
        self.fields.clear();
        self.framing = FramingFields::default();
        self.connection = ConnectionOptions::default();
        self.host = None;
        self.expects_continue = false;
        self.te_trailers = false;
        self.offers_protocol = false;
        self.authenticates_connection = false;
    }

    /// Reads field lines until the empty one, after which the head is complete.
    ///
    /// # Errors
    /// For each rule of field syntax, for too many fields, and for contradicting fields.
    #[inline]
    pub(crate) fn read_fields(&mut self, window: &[u8], most: usize) -> Result<Status, ParseError> {
        while let Some((start, cr)) = self.cursor.next_line(window)? {
            if start == cr {
                return Ok(Status::Complete(self.cursor.line));
            }
            if self.fields.len() >= most {
                return Err(ParseError::TooManyFields);
            }
            let field = Field::parse(window, (start, cr), self.underscores)?;
            if field.known != Known::Other {
                self.note(window, field, cr)?;
            }
            self.fields.push(field);
        }
        Ok(Status::Partial)
    }

    /// Takes what a known field says.
    fn note(&mut self, buf: &[u8], field: Field, cr: usize) -> Result<(), ParseError> {
        let value = field.value.of(buf);
        match field.known {
            Known::Host if self.host.is_some() => return Err(ParseError::DuplicateHost),
            Known::Host => self.host = Some(field.value),
            Known::ContentLength => {
                self.framing.content_length(value)?;
                self.framing.unusual |= !is_plain(field, cr, buf);
            }
            Known::TransferEncoding => {
                self.framing.transfer_encoding(value)?;
                self.framing.unusual |= !is_plain(field, cr, buf);
            }
            Known::Connection => self.connection.add(value)?,
            Known::Te => self.te_trailers |= lists(value, b"trailers"),
            Known::Expect => self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue"),
            Known::Upgrade => self.offers_protocol |= offered(value).next().is_some(),
            Known::Authorization | Known::ProxyAuthorization => {
                self.authenticates_connection |= is_of_connection(value);
            }
            Known::WwwAuthenticate | Known::ProxyAuthenticate => {
                self.authenticates_connection |= options(value).any(is_of_connection);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a Connection field names `name` as one that ends at this hop.
    pub(crate) fn connection_names(&self, buf: &[u8], name: &[u8]) -> bool {
        self.connection.others > 0
            && self
                .fields
                .as_slice()
                .iter()
                .filter(|field| field.known == Known::Connection)
                .any(|field| lists(field.value.of(buf), name))
    }
}

/// The protocols that an Upgrade field offers and that a tunnel may lead to: all but `h2c`.
pub(crate) fn offered(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    options(value).filter(|protocol| !protocol.eq_ignore_ascii_case(b"h2c"))
}

/// Whether a line is `name: value` with one space at most and nothing after the value.
fn is_plain(field: Field, cr: usize, buf: &[u8]) -> bool {
    let between = Span { start: field.name.end + 1, end: field.value.start }.of(buf);
    field.value.end as usize == cr && matches!(between, b"" | b" ")
}
