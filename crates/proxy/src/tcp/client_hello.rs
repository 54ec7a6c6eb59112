//! The server name in a TLS ClientHello, read without decrypting anything.
//!
//! The message comes first on a connection, in the clear, in one record or in pieces over several
//! (RFC 8446, sections 4.1.2 and 5.1; the layout is the same since TLS 1.0). With Encrypted Client
//! Hello the name is the public one of whoever holds the keys.
//!
//! The parser is strict about what it walks over: each length has to fit into the one around it,
//! exactly where something has to be used up. What it does not walk over, such as other extensions,
//! it leaves to the server.

use loadline_core::decide::reason::Reason;
use thiserror::Error;

/// What the first bytes of a connection say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The message is not whole yet.
    Partial,
    /// The message is whole; with the server name in lower case, if it has one.
    Whole(Option<String>),
}

/// Why a connection does not begin with a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum HelloError {
    /// Most likely the client speaks something else.
    #[error("no TLS: the first byte is {0:#04x}, a handshake begins with 0x16")]
    NotTls(u8),
    /// A record with another type in between, or with a version that never was.
    #[error("no TLS record of a handshake inside the ClientHello")]
    NotRecord,
    /// A record without payload, or with more than TLS allows.
    #[error("a TLS record of {0} bytes: there are 1 to 16384")]
    RecordSize(usize),
    /// The first message is another one.
    #[error("no ClientHello: a handshake message of type {0}")]
    NotHello(u8),
    /// More than anybody needs.
    #[error("a ClientHello of {0} bytes: at most {HELLO_MAX} are taken")]
    TooLong(usize),
    /// A length points past the end, or something is left over.
    #[error("malformed ClientHello: {0}")]
    Malformed(&'static str),
    /// RFC 6066, section 3: a DNS name in ASCII.
    #[error("the server name in the ClientHello is no host name")]
    Name,
}

impl HelloError {
    /// The same in the words of the access log.
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::NotTls(_) => Reason::ClientNotTls,
            Self::TooLong(_) => Reason::ClientHelloTooLong,
            Self::Name => Reason::ClientHelloName,
            Self::NotRecord | Self::RecordSize(_) | Self::NotHello(_) | Self::Malformed(_) => {
                Reason::ClientHelloMalformed
            }
        }
    }
}

/// Reads a ClientHello at the beginning of `bytes`.
///
/// # Errors
/// [`HelloError`], as soon as the bytes that are there cannot be the beginning of one.
pub(crate) fn read(bytes: &[u8]) -> Result<Hello, HelloError> {
    let mut message = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((payload, behind)) = record(rest, rest.len() == bytes.len())? else { break };
        message.extend_from_slice(payload);
        if let Some(length) = length(&message)?
            && let Some(body) = message.get(HEADER..length)
        {
            return name(body).map(Hello::Whole);
        }
        rest = behind;
    }
    if bytes.len() > WIRE_MAX { Err(HelloError::TooLong(bytes.len())) } else { Ok(Hello::Partial) }
}

/// The part of a record's payload that has come, and what follows the record; none before its
/// header is whole.
fn record(bytes: &[u8], first: bool) -> Result<Option<Split<'_>>, HelloError> {
    match bytes {
        [HANDSHAKE] | [HANDSHAKE, MAJOR_VERSION, ..] => {}
        [other, ..] if first && *other != HANDSHAKE => return Err(HelloError::NotTls(*other)),
        _ => return Err(HelloError::NotRecord),
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if !(1..=RECORD_MAX).contains(&length) {
        return Err(HelloError::RecordSize(length));
    }
    Ok(Some(rest.split_at(length.min(rest.len()))))
}

/// The length of the message, its header included, once that has come.
fn length(message: &[u8]) -> Result<Option<usize>, HelloError> {
    match message.first() {
        None | Some(&CLIENT_HELLO) => {}
        Some(&other) => return Err(HelloError::NotHello(other)),
    }
    let [_, high, middle, low, ..] = message else { return Ok(None) };
    let length = HEADER + u32::from_be_bytes([0, *high, *middle, *low]) as usize;
    if length > HELLO_MAX { Err(HelloError::TooLong(length)) } else { Ok(Some(length)) }
}

/// The server name in the body of a ClientHello.
fn name(body: &[u8]) -> Result<Option<String>, HelloError> {
    let mut body = Reader(body);
    body.take(2 + RANDOM, "it ends before the random")?;
    if body.short("it ends before the session")?.len() > SESSION_MAX {
        return Err(HelloError::Malformed("a session of more than 32 bytes"));
    }
    let suites = body.long("it ends inside the cipher suites")?;
    if suites.is_empty() || suites.len() % 2 == 1 {
        return Err(HelloError::Malformed("a list of cipher suites of no even length"));
    }
    if body.short("it ends inside the compression methods")?.is_empty() {
        return Err(HelloError::Malformed("no compression method"));
    }
    if body.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Reader(body.long("it ends inside the extensions")?);
    if !body.0.is_empty() {
        return Err(HelloError::Malformed("bytes behind the extensions"));
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number("an extension without a type")?;
        let data = extensions.long("an extension longer than the list of extensions")?;
        if kind == SERVER_NAME && found.replace(data).is_some() {
            return Err(HelloError::Malformed("two server names"));
        }
    }
    found.map(host_name).transpose()
}

/// The only kind of name there is, in the only place for it (RFC 6066, section 3).
fn host_name(extension: &[u8]) -> Result<String, HelloError> {
    let mut extension = Reader(extension);
    let mut list = Reader(extension.long("a server name without a list")?);
    let kind = list.take(1, "an empty list of server names")?;
    let name = list.long("a server name longer than its list")?;
    if kind != [HOST_NAME] || !list.0.is_empty() || !extension.0.is_empty() {
        return Err(HelloError::Malformed("a server name that is not one host name"));
    }
    // A trailing dot is wrong and harmless.
    let name = name.strip_suffix(b".").unwrap_or(name);
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
    let labels = name.split(|byte| *byte == b'.').all(|label| (1..=63).contains(&label.len()));
    if name.len() > NAME_MAX || !labels || !name.iter().all(fits) {
        return Err(HelloError::Name);
    }
    Ok(name.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
}

/// A beginning, and what follows it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// What is left of something to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize, missing: &'static str) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(HelloError::Malformed(missing))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, missing: &'static str) -> Result<u16, HelloError> {
        let bytes = self.take(2, missing)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector with a length of one byte.
    fn short(&mut self, missing: &'static str) -> Result<&'a [u8], HelloError> {
        let length = self.take(1, missing)?[0];
        self.take(usize::from(length), missing)
    }

    /// A vector with a length of two bytes.
    fn long(&mut self, missing: &'static str) -> Result<&'a [u8], HelloError> {
        let length = self.number(missing)?;
        self.take(usize::from(length), missing)
    }
}

/// The longest message taken, its header included. Browsers send up to 2 KiB, with keys that
/// resist quantum computers in them.
const HELLO_MAX: usize = 16 << 10;

/// The most that is read in the hope of a whole message: many small records cost more than they
/// carry.
const WIRE_MAX: usize = 2 * HELLO_MAX;

/// The type of a record, RFC 8446, section 5.1.
const HANDSHAKE: u8 = 22;

/// Of every version of TLS.
const MAJOR_VERSION: u8 = 3;

/// Type, version, length.
const RECORD_HEADER: usize = 5;

/// The most a record in clear holds.
const RECORD_MAX: usize = 1 << 14;

/// The type of a handshake message, RFC 8446, section 4.
const CLIENT_HELLO: u8 = 1;

/// Type and length of a handshake message.
const HEADER: usize = 4;

/// Bytes of randomness behind the version.
const RANDOM: usize = 32;

/// The longest session identifier.
const SESSION_MAX: usize = 32;

/// The type of the extension, RFC 6066.
const SERVER_NAME: u16 = 0;

/// The type of a name in it.
const HOST_NAME: u8 = 0;

/// The longest host name, RFC 1035.
const NAME_MAX: usize = 253;

#[cfg(test)]
mod tests;
