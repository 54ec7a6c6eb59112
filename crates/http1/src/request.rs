//! The head of a request.
//!
//! `RequestHead` is owned by the caller and used for one message after another; it holds offsets
//! into the buffer it was given, which the accessors take again. Parsing decides everything that
//! later steps need - framing, host, persistence, upgrade - so that nothing is scanned twice.
//!
//! Rules beyond the grammar: exactly one Host in HTTP/1.1 and at most one in 1.0; an absolute
//! target overrides it; one empty line before the request is skipped (RFC 9112, 2.2).

use crate::body::BodyReader;
use crate::error::ParseError;
use crate::fields::{Fields, Span, Underscores};
use crate::framing::Framing;
use crate::head::{HeadLimits, HeadPart, Section, Status, Version};
use crate::method::Method;
use crate::scan::is_token;
use crate::target::{Target, TargetForm, is_authority, is_target_byte, names_host};

/// A parsed request head. Before [`Status::Complete`] its accessors mean nothing.
#[derive(Debug, Clone)]
pub struct RequestHead {
    limits: HeadLimits,
    pub(crate) section: Section,
    method: Method,
    method_text: Span,
    pub(crate) target: Target,
    version: Version,
    framing: Framing,
    length: usize,
}

impl RequestHead {
    /// A head that will hold requests within `limits`. Allocates its table once.
    #[must_use]
    pub fn new(limits: HeadLimits) -> Self {
        Self {
            limits,
            section: Section::new(),
            method: Method::Other,
            method_text: Span::default(),
            target: Target::default(),
            version: Version::Http11,
            framing: Framing::None,
            length: 0,
        }
    }

    /// The same with what becomes of names with an underscore, which are kept otherwise.
    #[must_use]
    pub fn with_underscores(mut self, underscores: Underscores) -> Self {
        self.section.underscores = underscores;
        self
    }

    /// Whether it was made with these settings.
    #[must_use]
    pub fn reads_by(&self, limits: HeadLimits, underscores: Underscores) -> bool {
        (self.limits, self.section.underscores) == (limits, underscores)
    }

    /// Parses the request that begins at `buf[0]`.
    ///
    /// After [`Status::Partial`], call again with the same bytes and more behind them; after
    /// [`Status::Complete`] or an error the next call begins a new message. Call
    /// [`reset`](Self::reset) when the bytes of a partial head are given up.
    ///
    /// # Errors
    /// One variant for each rule; see [`ParseError`].
    #[inline]
    pub fn parse(&mut self, buf: &[u8]) -> Result<Status, ParseError> {
        if self.section.stage == HeadPart::Done {
            self.reset();
        }
        let window = &buf[..buf.len().min(self.limits.bytes)];
        let result = match self.advance(window) {
            Ok(Status::Partial) if buf.len() < self.limits.bytes => return Ok(Status::Partial),
            Ok(Status::Partial) if self.section.stage == HeadPart::Start => {
                Err(ParseError::TargetTooLong)
            }
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
    fn advance(&mut self, window: &[u8]) -> Result<Status, ParseError> {
        while self.section.stage == HeadPart::Start {
            let Some((start, cr)) = self.section.cursor.next_line(window)? else {
                return Ok(Status::Partial);
            };
            if start < cr {
                self.request_line(window, start, cr)?;
                self.section.stage = HeadPart::Fields;
            } else if start > 0 {
                return Err(ParseError::LeadingEmptyLines);
            }
        }
        let status = self.section.read_fields(window, self.limits.fields)?;
        if let Status::Complete(length) = status {
            self.length = length;
            self.conclude(window)?;
        }
        Ok(status)
    }

    /// Takes `method SP target SP version` apart: one space each, none anywhere else.
    #[inline]
    fn request_line(&mut self, buf: &[u8], start: usize, cr: usize) -> Result<(), ParseError> {
        let line = &buf[start..cr];
        let space = line.iter().position(|&byte| byte == b' ').ok_or(ParseError::BadRequestLine)?;
        let method = &line[..space];
        self.method = Method::of(method);
        if self.method == Method::Other && !is_token(method) {
            return Err(ParseError::BadMethod);
        }
        let rest = &line[space + 1..];
        let target = rest.iter().position(|&byte| !is_target_byte(byte)).unwrap_or(rest.len());
        match rest.get(target) {
            Some(b' ') if target > 0 => {}
            None | Some(b' ' | b'\t') => return Err(ParseError::BadRequestLine),
            Some(_) => return Err(ParseError::BadTarget),
        }
        self.version = Version::of(&rest[target + 1..])?;
        self.method_text = Span::new(start, start + space);
        let at = start + space + 1;
        self.target = Target::parse(buf, at, at + target, self.method)?;
        Ok(())
    }

    /// Checks what only the whole head tells.
    #[inline]
    fn conclude(&mut self, buf: &[u8]) -> Result<(), ParseError> {
        match self.section.host {
            Some(host) if !is_authority(host.of(buf)) => return Err(ParseError::BadHost),
            // The URL would be one without a host (RFC 9110, 4.2.1).
            Some(host) if self.target.form == TargetForm::Origin && !names_host(host.of(buf)) => {
                return Err(ParseError::BadHost);
            }
            None if self.version == Version::Http11 => return Err(ParseError::MissingHost),
            _ => {}
        }
        let framing = self.section.framing.decide(self.version.is_http10())?;
        self.framing = framing.unwrap_or(Framing::None);
        if self.method == Method::Connect && self.framing != Framing::None {
            return Err(ParseError::ConnectWithBody);
        }
        Ok(())
    }

    /// The method of the request line.
    #[must_use]
    pub const fn method(&self) -> Method {
        self.method
    }

    /// The method as it was written.
    #[must_use]
    pub fn method_text<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.method_text.of(buf)
    }

    /// The version of the client.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The target as it was written.
    #[must_use]
    pub fn target<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        self.target.whole.of(buf)
    }

    /// The form of the target.
    #[must_use]
    pub const fn target_form(&self) -> TargetForm {
        self.target.form
    }

    /// Path and query, whatever the form: what routes match. `/` for an absolute target without a
    /// path (`?query` alone stays as it is), the authority for CONNECT, `*` for `OPTIONS *`.
    #[must_use]
    pub fn path<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        if self.target.path.is_empty() { b"/" } else { self.target.path.of(buf) }
    }

    /// The host (and port) the request is for: the authority of the target if it has one, else
    /// the Host field. `None` for an HTTP/1.0 request with neither.
    #[must_use]
    pub fn host<'b>(&self, buf: &'b [u8]) -> Option<&'b [u8]> {
        if self.target.authority.is_empty() {
            return self.section.host.map(|host| host.of(buf));
        }
        Some(self.target.authority.of(buf))
    }

    /// Where the body ends; never [`Framing::UntilClose`].
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// A reader for its body, whose trailers are read by the settings of the head.
    #[must_use]
    pub const fn body(&self) -> BodyReader {
        let body = BodyReader::new(self.framing).with_limits(self.limits);
        body.with_underscores(self.section.underscores)
    }

    /// Whether the client wants to use the connection again.
    #[must_use]
    pub const fn keep_alive(&self) -> bool {
        self.section.connection.persists(self.version.is_http10())
    }

    /// Whether the client asks for another protocol on this connection, behind the body if there
    /// is one: HTTP/1.1, `Connection: upgrade`, Upgrade. An offer of h2c does not count: a tunnel
    /// into a server that speaks HTTP/2 would carry requests past every rule of the proxy.
    #[must_use]
    pub const fn upgrade(&self) -> bool {
        self.section.connection.upgrade
            && self.section.offers_protocol
            && matches!(self.version, Version::Http11)
    }

    /// Whether the client waits for `100 Continue` before it sends the body. HTTP/1.0 clients
    /// never do, whatever they say.
    #[must_use]
    pub const fn expects_continue(&self) -> bool {
        self.section.expects_continue
            && matches!(self.version, Version::Http11)
            && !matches!(self.framing, Framing::None)
    }

    /// Whether its credentials are for the connection that it goes over (NTLM, Negotiate): what
    /// comes over that later is taken for the same user's.
    #[must_use]
    pub const fn authenticates_connection(&self) -> bool {
        self.section.authenticates_connection
    }

    /// Whether the client takes trailers (`TE: trailers`).
    #[must_use]
    pub const fn accepts_trailers(&self) -> bool {
        self.section.te_trailers
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

    /// Whether the request line ends in `HTTP/1.1`, byte for byte.
    pub(crate) fn is_http11(&self, buf: &[u8]) -> bool {
        buf.get(self.target.whole.end as usize..).is_some_and(|rest| rest.starts_with(b" HTTP/1.1"))
    }

    /// Where the request line begins: 2 if an empty line came before it.
    pub(crate) const fn start(&self) -> usize {
        self.method_text.start as usize
    }
}

impl Default for RequestHead {
    fn default() -> Self {
        Self::new(HeadLimits::default())
    }
}
