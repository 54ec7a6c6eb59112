//! Field lines: names, values, and the table of a head.
//!
//! A field is four offsets into the buffer that was parsed and, for the names that matter to a
//! proxy, which one it is - so that nobody looks at names twice.

use crate::error::ParseError;
use crate::scan::is_token_byte;

/// A range of bytes in the buffer that was parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range from `start` to `end`. Heads are limited to far less than 4 GiB.
    #[inline]
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The bytes of this range in `buf`; empty if `buf` does not reach so far.
    #[inline]
    #[must_use]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Whether the range has no bytes.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// The field names that a proxy acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Known {
    /// Any name that is not in this list.
    Other,
    /// Host
    Host,
    /// Connection
    Connection,
    /// Content-Length
    ContentLength,
    /// Transfer-Encoding
    TransferEncoding,
    /// Upgrade
    Upgrade,
    /// Keep-Alive
    KeepAlive,
    /// Proxy-Connection
    ProxyConnection,
    /// TE
    Te,
    /// Trailer
    Trailer,
    /// Expect
    Expect,
    /// Via
    Via,
    /// Forwarded (RFC 7239)
    Forwarded,
    /// X-Forwarded-For
    XForwardedFor,
    /// X-Forwarded-Proto
    XForwardedProto,
    /// X-Forwarded-Host
    XForwardedHost,
    /// Any other name that begins with X-Forwarded-, and X-Real-IP
    XForwardedOther,
    /// Date
    Date,
    /// Max-Forwards
    MaxForwards,
    /// WWW-Authenticate
    WwwAuthenticate,
    /// Authorization
    Authorization,
    /// Proxy-Authenticate
    ProxyAuthenticate,
    /// Proxy-Authorization
    ProxyAuthorization,
    /// HTTP2-Settings
    Http2Settings,
    /// endpoint-load-metrics (ORCA)
    EndpointLoadMetrics,
    /// Strict-Transport-Security (RFC 6797)
    StrictTransportSecurity,
    /// Alt-Svc (RFC 7838)
    AltSvc,
    /// Any name with an underscore, where it is to be left out ([`Underscores::Drop`])
    Underscored,
}

/// What becomes of a field whose name has an underscore.
///
/// CGI, and whoever names fields as it does (WSGI, PHP, Rack), turns hyphens into underscores:
/// such a server takes `Content_Length` for Content-Length, and `X_Forwarded_For` for
/// X-Forwarded-For. A proxy, by the grammar, takes neither for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Underscores {
    /// The field is dropped.
    Drop,
    /// The message is refused.
    Refuse,
    /// The field is kept like any other.
    #[default]
    Keep,
}

impl Underscores {
    /// Which name a field has whose name has an underscore.
    ///
    /// # Errors
    /// [`ParseError::UnderscoreInName`] where it is refused.
    pub(crate) const fn admit(self) -> Result<Known, ParseError> {
        match self {
            Self::Drop => Ok(Known::Underscored),
            Self::Refuse => Err(ParseError::UnderscoreInName),
            Self::Keep => Ok(Known::Other),
        }
    }
}

impl Known {
    /// Which of the known names `name` is, in any case.
    #[inline]
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        let Some(first) = name.first() else { return Self::Other };
        let (known, text): (Self, &[u8]) = match (name.len(), first | 0x20) {
            (2, b't') => (Self::Te, b"te"),
            (3, b'v') => (Self::Via, b"via"),
            (4, b'h') => (Self::Host, b"host"),
            (4, b'd') => (Self::Date, b"date"),
            (6, b'e') => (Self::Expect, b"expect"),
            (7, b'u') => (Self::Upgrade, b"upgrade"),
            (7, b't') => (Self::Trailer, b"trailer"),
            (7, b'a') => (Self::AltSvc, b"alt-svc"),
            (9, b'f') => (Self::Forwarded, b"forwarded"),
            (9, b'x') => (Self::XForwardedOther, b"x-real-ip"),
            (10, b'c') => (Self::Connection, b"connection"),
            (10, b'k') => (Self::KeepAlive, b"keep-alive"),
            (12, b'm') => (Self::MaxForwards, b"max-forwards"),
            (13, b'a') => (Self::Authorization, b"authorization"),
            (14, b'c') => (Self::ContentLength, b"content-length"),
            (14, b'h') => (Self::Http2Settings, b"http2-settings"),
            (15, b'x') => (Self::XForwardedFor, b"x-forwarded-for"),
            (16, b'x') => (Self::XForwardedHost, b"x-forwarded-host"),
            (16, b'p') => (Self::ProxyConnection, b"proxy-connection"),
            (16, b'w') => (Self::WwwAuthenticate, b"www-authenticate"),
            (17, b'x') => (Self::XForwardedProto, b"x-forwarded-proto"),
            (17, b't') => (Self::TransferEncoding, b"transfer-encoding"),
            (18, b'p') => (Self::ProxyAuthenticate, b"proxy-authenticate"),
            (19, b'p') => (Self::ProxyAuthorization, b"proxy-authorization"),
            (21, b'e') => (Self::EndpointLoadMetrics, b"endpoint-load-metrics"),
            (25, b's') => (Self::StrictTransportSecurity, b"strict-transport-security"),
            _ => return Self::of_prefix(name),
        };
        if name.eq_ignore_ascii_case(text) { known } else { Self::of_prefix(name) }
    }

    /// Which of the known names `name` is by its beginning.
    #[inline]
    fn of_prefix(name: &[u8]) -> Self {
        const PREFIX: &[u8] = b"x-forwarded-";
        let begins = matches!(name.first(), Some(b'x' | b'X'))
            && name.get(..PREFIX.len()).is_some_and(|it| it.eq_ignore_ascii_case(PREFIX));
        if begins { Self::XForwardedOther } else { Self::Other }
    }

    /// The bit of this name in a set of names.
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// One field line of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Where the name stands; the line begins here.
    pub name: Span,
    /// Where the value stands, without the white space around it.
    pub value: Span,
    /// Which name it is.
    pub known: Known,
}

impl Field {
    /// The field in the line `buf[start..cr]`, whose control characters are already excluded.
    #[inline]
    pub(crate) fn parse(
        buf: &[u8],
        (start, cr): (usize, usize),
        underscores: Underscores,
    ) -> Result<Self, ParseError> {
        let line = &buf[start..cr];
        let mut has_underscore = false;
        let ends_name = |&byte: &u8| {
            has_underscore |= byte == b'_';
            !is_token_byte(byte)
        };
        let length = line.iter().position(ends_name).unwrap_or(line.len());
        if length == 0 || line.get(length) != Some(&b':') {
            return Err(bad_name(line, length));
        }
        let is_text = |&byte: &u8| byte != b' ' && byte != b'\t';
        let value = &line[length + 1..];
        let before = value.iter().position(is_text).unwrap_or(value.len());
        let after = value[before..].iter().rev().position(is_text).unwrap_or(0);
        Ok(Self {
            name: Span::new(start, start + length),
            value: Span::new(start + length + 1 + before, cr - after),
            known: if has_underscore { underscores.admit()? } else { Known::of(&line[..length]) },
        })
    }
}

/// What is wrong with a line whose first `length` bytes are token bytes and are no field name.
#[cold]
fn bad_name(line: &[u8], length: usize) -> ParseError {
    match line.get(length) {
        Some(b' ' | b'\t') if length == 0 => ParseError::ObsFold,
        Some(b':') => ParseError::EmptyFieldName,
        Some(b' ' | b'\t') if line.contains(&b':') => ParseError::SpaceBeforeColon,
        _ => ParseError::BadFieldName,
    }
}

/// The fields of a head or of a trailer section, in the order they came.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    list: Vec<Field>,
    /// One bit for each [`Known`] name that occurs.
    seen: u32,
}

impl Fields {
    /// An empty table with room for what nearly every head needs; it grows once if that is short.
    pub(crate) fn new() -> Self {
        Self { list: Vec::with_capacity(USUAL_FIELDS), seen: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.seen = 0;
    }

    #[inline]
    pub(crate) fn push(&mut self, field: Field) {
        self.seen |= field.known.bit();
        self.list.push(field);
    }

    /// Whether any name of the set `bits` occurs.
    #[inline]
    pub(crate) const fn has_any(&self, bits: u32) -> bool {
        self.seen & bits != 0
    }

    /// Whether the field occurs.
    #[inline]
    #[must_use]
    pub const fn has(&self, known: Known) -> bool {
        self.has_any(known.bit())
    }

    /// How many fields there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The fields as offsets, those that are to be left out among them.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[Field] {
        &self.list
    }

    /// Name and value of each field but those that are to be left out; `buf` is the buffer that
    /// was parsed.
    pub fn iter<'b>(&self, buf: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + Clone {
        let there = self.list.iter().filter(|field| field.known != Known::Underscored);
        there.map(move |field| (field.name.of(buf), field.value.of(buf)))
    }

    /// The value of each field with this name, in the order they came.
    pub fn all_known<'b>(
        &self,
        buf: &'b [u8],
        known: Known,
    ) -> impl DoubleEndedIterator<Item = &'b [u8]> {
        let named = self.list.iter().filter(move |field| field.known == known);
        named.map(move |field| field.value.of(buf))
    }

    /// The value of the first field called `name` (in any case).
    #[must_use]
    pub fn get<'b>(&self, buf: &'b [u8], name: &str) -> Option<&'b [u8]> {
        self.iter(buf)
            .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// The value of the first field with this name; costs nothing when it does not occur.
    #[must_use]
    pub fn get_known<'b>(&self, buf: &'b [u8], known: Known) -> Option<&'b [u8]> {
        if !self.has(known) {
            return None;
        }
        self.list.iter().find(|field| field.known == known).map(|field| field.value.of(buf))
    }
}

/// Room reserved for fields: browsers send 12 to 20.
const USUAL_FIELDS: usize = 32;
