//! The head of a response.
//!
//! As strict as for requests: a server that frames its response in two ways would let one client's
//! bytes pass for another's answer. A status line without the space before an empty reason is
//! accepted, since many servers write it.

use crate::body::BodyReader;
use crate::error::ParseError;
use crate::fields::{Fields, Known, Span};
use crate::framing::Framing;
use crate::head::{HeadLimits, HeadPart, Section, Status, Version};
use crate::method::Method;

/// A parsed response head. Before [`Status::Complete`] its accessors mean nothing.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    limits: HeadLimits,
    pub(crate) section: Section,
    version: Version,
    status: u16,
    reason: Span,
    framing: Framing,
    tunnels: bool,
    length: usize,
}

impl ResponseHead {
    /// A head that will hold responses within `limits`. Allocates its table once.
    #[must_use]
    pub fn new(limits: HeadLimits) -> Self {
        Self {
            limits,
            section: Section::new(),
            version: Version::Http11,
            status: 0,
            reason: Span::default(),
            framing: Framing::None,
            tunnels: false,
            length: 0,
        }
    }

    /// Parses the response that begins at `buf[0]` and answers a request with method `to`.
    ///
    /// Called again after [`Status::Partial`] as [`RequestHead::parse`](crate::RequestHead::parse)
    /// is. Interim answers (100, 103) are complete heads of their own: see
    /// [`is_interim`](Self::is_interim).
    ///
    /// # Errors
    /// One variant for each rule; see [`ParseError`].
    #[inline]
    pub fn parse(&mut self, buf: &[u8], to: Method) -> Result<Status, ParseError> {
        if self.section.stage == HeadPart::Done {
            self.reset();
        }
        let window = &buf[..buf.len().min(self.limits.bytes)];
        let result = match self.advance(window, to) {
            Ok(Status::Partial) if buf.len() < self.limits.bytes => return Ok(Status::Partial),
            Ok(Status::Partial) => Err(ParseError::HeadTooLarge),
            result => result,
        };
        self.section.stage = HeadPart::Done;
        result
    }

    /// Forgets a partial head.
    #[inline]
    pub fn reset(&mut self) {
        self.section.clear();
    }

    #[inline]
    fn advance(&mut self, window: &[u8], to: Method) -> Result<Status, ParseError> {
        if self.section.stage == HeadPart::Start {
            let Some((start, cr)) = self.section.cursor.next_line(window)? else {
                return Ok(Status::Partial);
            };
            self.status_line(&window[start..cr])?;
            self.section.stage = HeadPart::Fields;
        }
        let status = self.section.read_fields(window, self.limits.fields)?;
        if let Status::Complete(length) = status {
            self.length = length;
            self.conclude(to)?;
        }
        Ok(status)
    }

    #[inline]
    fn status_line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let (version, rest) = line.split_at_checked(8).ok_or(ParseError::BadStatusLine)?;
        self.version = Version::of(version)?;
        self.status = match rest {
            [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']
            | [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ', ..] => {
                [a, b, c].iter().fold(0, |code, &digit| code * 10 + u16::from(digit - b'0'))
            }
            _ => return Err(ParseError::BadStatusLine),
        };
        self.reason = Span::new(13.min(line.len()), line.len());
        Ok(())
    }

    /// Decides the framing, which depends on the request and on the status (RFC 9112, 6.3).
    #[inline]
    fn conclude(&mut self, to: Method) -> Result<(), ParseError> {
        let framing = self.section.framing.decide(self.version.is_http10())?;
        self.tunnels = self.status == 101 || (to == Method::Connect && self.status / 100 == 2);
        let bodiless = self.tunnels
            || to == Method::Head
            || self.status < 200
            || matches!(self.status, 204 | 304);
        self.framing =
            if bodiless { Framing::None } else { framing.unwrap_or(Framing::UntilClose) };
        Ok(())
    }

    /// The status, 100 to 999.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The reason, often empty.
    #[must_use]
    pub fn reason<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.reason.of(buf)
    }

    /// The version of the server.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Where the body ends.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// A reader for its body, whose trailers are bounded as the head is.
    #[must_use]
    pub const fn body(&self) -> BodyReader {
        BodyReader::new(self.framing).with_limits(self.limits).padded()
    }

    /// Whether the server lets the connection be used again after the body.
    #[must_use]
    pub const fn keep_alive(&self) -> bool {
        self.section.connection.persists(self.version.is_http10())
            && !self.tunnels
            && !matches!(self.framing, Framing::UntilClose)
    }

    /// Whether another response to the same request follows (1xx other than 101).
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Whether the connection carries another protocol from here on: 101, or 2xx to CONNECT.
    #[must_use]
    pub const fn tunnels(&self) -> bool {
        self.tunnels
    }

    /// Whether the server authenticates the connection (NTLM, Negotiate): what comes over it later
    /// is taken for the same user's.
    #[must_use]
    pub const fn authenticates_connection(&self) -> bool {
        self.section.authenticates_connection
    }

    /// The value of `endpoint-load-metrics` (ORCA); costs nothing where a server does not send it.
    #[must_use]
    pub fn load_metrics<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        self.section.fields.get_known(buf, Known::EndpointLoadMetrics)
    }

    /// The header fields in the order they came.
    #[must_use]
    pub const fn fields(&self) -> &Fields {
        &self.section.fields
    }

    /// Length of the head in bytes, final empty line included.
    #[must_use]
    pub const fn head_len(&self) -> usize {
        self.length
    }
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self::new(HeadLimits::default())
    }
}
