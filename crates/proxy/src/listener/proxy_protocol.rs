//! The header of the PROXY protocol: parsed and written.
//!
//! Versions 1, a line of text, and 2, a binary header, as in HAProxy's `proxy-protocol.txt`
//! (revision of 2020/03/05). Reading is strict: a header is never guessed, and what the document
//! does not allow is refused. Extensions (TLVs) of version 2 have to be well-formed, and are
//! skipped but for a checksum, which has to be right.

use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::Range,
};

use loadline_core::fleet::ProxyVersion;
use thiserror::Error;

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Who opened it.
    pub(crate) source: SocketAddr,
    /// Where it was opened to.
    pub(crate) destination: SocketAddr,
}

/// What the first bytes of a connection say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// The header is not whole yet.
    Partial,
    /// The header is whole.
    Whole {
        /// Both ends of the connection; none if the sender speaks for itself, as health checks do.
        ends: Option<Ends>,
        /// Bytes of the header; what follows is for whoever is behind.
        length: usize,
    },
}

/// Why a connection does not begin with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum HeaderError {
    /// Most likely the client speaks to us directly.
    #[error("no PROXY header at the beginning")]
    Missing,
    /// A line without an end where it has to be.
    #[error("a PROXY line of more than 107 bytes")]
    LineTooLong,
    /// A line that is not as the document says.
    #[error("malformed PROXY line: {0}")]
    Line(&'static str),
    /// Neither 1 nor 2.
    #[error("version {0} of the PROXY protocol; there are 1 and 2")]
    Version(u8),
    /// A value that nobody has assigned.
    #[error("malformed PROXY header: {0}")]
    Binary(&'static str),
    /// More than anybody needs.
    #[error("a PROXY header with {0} bytes of addresses and extensions: at most 4096 are taken")]
    TooLong(usize),
}

/// Reads a header at the beginning of `bytes`.
///
/// # Errors
/// [`HeaderError`], as soon as the bytes that are there cannot be the beginning of one.
pub(crate) fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
    let begins = |with: &[u8]| {
        let common = bytes.len().min(with.len());
        bytes[..common] == with[..common]
    };
    match () {
        () if begins(LINE_START) => read_line(bytes),
        () if begins(SIGNATURE) => read_binary(bytes),
        () => Err(HeaderError::Missing),
    }
}

/// Writes the header of a connection with these ends, or of one that speaks for itself.
pub(crate) fn write(into: &mut Vec<u8>, version: ProxyVersion, ends: Option<Ends>) {
    let ends = ends.map(Ends::of_one_family);
    match version {
        ProxyVersion::V1 => write_line(into, ends),
        ProxyVersion::V2 => write_binary(into, ends),
    }
}

impl Ends {
    /// The same ends: an address of version 4 that is written as one of version 6 is of version 4.
    fn canonical(self) -> Self {
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        Self { source: canonical(self.source), destination: canonical(self.destination) }
    }

    /// The same ends, both of one address family: of version 4 if they can be.
    fn of_one_family(self) -> Self {
        let Self { source, destination } = self.canonical();
        if source.is_ipv4() == destination.is_ipv4() {
            return Self { source, destination };
        }
        let mapped = |end: SocketAddr| SocketAddr::new(IpAddr::V6(octets_v6(end.ip())), end.port());
        Self { source: mapped(source), destination: mapped(destination) }
    }
}

fn octets_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn read_line(bytes: &[u8]) -> Result<Header, HeaderError> {
    let seen = &bytes[..bytes.len().min(LINE_MAX)];
    let Some(end) = seen.windows(2).position(|pair| pair == b"\r\n") else {
        let over = bytes.len() >= LINE_MAX;
        return if over { Err(HeaderError::LineTooLong) } else { Ok(Header::Partial) };
    };
    let line = str::from_utf8(&seen[LINE_START.len()..end])
        .map_err(|_| HeaderError::Line("it is not ASCII"))?;
    let length = end + 2;
    // What follows UNKNOWN means nothing.
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Ok(Header::Whole { ends: None, length });
    }
    let words: Vec<&str> = line.split(' ').collect();
    let [family, source, destination, source_port, destination_port] = words[..] else {
        return Err(HeaderError::Line("it needs a family, two addresses and two ports"));
    };
    let address = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::from).ok(),
        _ => text.parse::<Ipv6Addr>().map(IpAddr::from).ok(),
    };
    if !matches!(family, "TCP4" | "TCP6") {
        return Err(HeaderError::Line("its family is not TCP4, TCP6 or UNKNOWN"));
    }
    let end = |address_text: &str, port_text: &str| {
        let address = address(address_text);
        let address = address.ok_or(HeaderError::Line("an address that is not of its family"))?;
        Ok(SocketAddr::new(address, port(port_text)?))
    };
    let (source, destination) = (end(source, source_port)?, end(destination, destination_port)?);
    Ok(Header::Whole { ends: Some(Ends { source, destination }.canonical()), length })
}

/// A number from 0 to 65535 without signs or leading zeros.
fn port(text: &str) -> Result<u16, HeaderError> {
    let plain = text == "0" || !text.starts_with(['0', '+']);
    let port = text.parse().ok().filter(|_| plain);
    port.ok_or(HeaderError::Line("a port that is not a number from 0 to 65535"))
}

fn write_line(into: &mut Vec<u8>, ends: Option<Ends>) {
    let written = match ends {
        None => write!(into, "PROXY UNKNOWN\r\n"),
        Some(Ends { source, destination }) => {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (source.ip(), destination.ip());
            write!(into, "PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port())
        }
    };
    written.expect("writing into memory cannot fail");
}

fn read_binary(bytes: &[u8]) -> Result<Header, HeaderError> {
    let local = match bytes.get(SIGNATURE.len()) {
        None => return Ok(Header::Partial),
        Some(&VERSION_2_LOCAL) => true,
        Some(&VERSION_2_PROXY) => false,
        Some(byte) if byte >> 4 != 2 => return Err(HeaderError::Version(byte >> 4)),
        Some(_) => return Err(HeaderError::Binary("a command that is not LOCAL or PROXY")),
    };
    let Some(header) = bytes.get(..BINARY_HEADER) else { return Ok(Header::Partial) };
    let size = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if size > BODY_MAX {
        return Err(HeaderError::TooLong(size));
    }
    let Some(whole) = bytes.get(..BINARY_HEADER + size) else { return Ok(Header::Partial) };
    let ends = if local { None } else { addresses(whole)? };
    Ok(Header::Whole { ends, length: whole.len() })
}

/// The ends in a header. Families that this proxy cannot have as clients are valid, and as good as
/// none.
fn addresses(header: &[u8]) -> Result<Option<Ends>, HeaderError> {
    let (family, body) = (header[13], &header[BINARY_HEADER..]);
    let (width, protocol) = match (family >> 4, family & 0x0f) {
        // Whatever addresses it has mean nothing (section 2.2).
        (0, 0..=2) => return Ok(None),
        (1, protocol @ 0..=2) => (4, protocol),
        (2, protocol @ 0..=2) => (16, protocol),
        (3, protocol @ 0..=2) => (UNIX_PATH, protocol),
        _ => return Err(HeaderError::Binary("a family or transport that is not assigned")),
    };
    let ports = if matches!(width, 4 | 16) { 4 } else { 0 };
    let Some((block, extensions)) = body.split_at_checked(2 * width + ports) else {
        return Err(HeaderError::Binary("it is shorter than the addresses of its family"));
    };
    check_extensions(header, extensions)?;
    let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    let address = |at: usize| -> Option<IpAddr> {
        match width {
            4 => <[u8; 4]>::try_from(&block[at..at + 4]).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(&block[at..at + 16]).ok().map(IpAddr::from),
        }
    };
    if ports == 0 || protocol != STREAM {
        return Ok(None);
    }
    let ends = address(0).zip(address(width)).map(|(source, destination)| Ends {
        source: SocketAddr::new(source, port(2 * width)),
        destination: SocketAddr::new(destination, port(2 * width + 2)),
    });
    Ok(ends.map(Ends::canonical))
}

/// Extensions, at the end of `header`, follow each other without a gap: a type, a length of two
/// bytes, a value.
fn check_extensions(header: &[u8], mut bytes: &[u8]) -> Result<(), HeaderError> {
    let mut checksum = None;
    while !bytes.is_empty() {
        let (kind, length) = match bytes {
            [kind, high, low, ..] => (*kind, usize::from(u16::from_be_bytes([*high, *low]))),
            _ => return Err(HeaderError::Binary("an extension that is cut off")),
        };
        let rest = bytes.get(3 + length..);
        bytes = rest.ok_or(HeaderError::Binary("an extension longer than the header"))?;
        let end = header.len() - bytes.len();
        if kind == CRC32C && checksum.replace(end - length..end).is_some() {
            return Err(HeaderError::Binary("more than one checksum"));
        }
    }
    match checksum.is_none_or(|place| is_right(header, place)) {
        true => Ok(()),
        false => Err(HeaderError::Binary("its CRC32C checksum is wrong")),
    }
}

/// Whether the checksum at `place` is that of the header, with zeros in its own place (section
/// 2.2.3).
fn is_right(header: &[u8], place: Range<usize>) -> bool {
    let (before, after) = (&header[..place.start], &header[place.end..]);
    let sum = crc32c(before.iter().chain(&[0; 4]).chain(after));
    header[place] == sum.to_be_bytes()
}

/// The checksum of SCTP (RFC 9260, appendix A). Bit by bit: few senders have one.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let step = |sum: u32, _| (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg());
    !bytes.fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

fn write_binary(into: &mut Vec<u8>, ends: Option<Ends>) {
    into.extend_from_slice(SIGNATURE);
    let Some(Ends { source, destination }) = ends else {
        into.extend_from_slice(&[VERSION_2_LOCAL, 0, 0, 0]);
        return;
    };
    let (family, size) = if source.is_ipv4() { (0x11, 12) } else { (0x21, 36) };
    into.extend_from_slice(&[VERSION_2_PROXY, family, 0, size]);
    for end in [source, destination] {
        match end.ip() {
            IpAddr::V4(address) => into.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => into.extend_from_slice(&address.octets()),
        }
    }
    into.extend_from_slice(&source.port().to_be_bytes());
    into.extend_from_slice(&destination.port().to_be_bytes());
}

/// The longest header that is taken: what has come by then decides.
pub(crate) const HEADER_MAX: usize = BINARY_HEADER + BODY_MAX;

/// How a line begins.
const LINE_START: &[u8] = b"PROXY ";

/// The longest line, its end included (section 2.1).
const LINE_MAX: usize = 107;

/// How a binary header begins (section 2.2).
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length.
const BINARY_HEADER: usize = 16;

/// Addresses and extensions. The largest in use carry certificates' names and identifiers of
/// clouds, some hundred bytes.
const BODY_MAX: usize = 4096;

/// Version 2, command LOCAL.
const VERSION_2_LOCAL: u8 = 0x20;

/// Version 2, command PROXY.
const VERSION_2_PROXY: u8 = 0x21;

/// The transport of TCP.
const STREAM: u8 = 1;

/// Bytes of a path of a Unix socket.
const UNIX_PATH: usize = 108;

/// The type of the extension that has a checksum.
const CRC32C: u8 = 3;

/// The polynomial of Castagnoli, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

#[cfg(test)]
mod tests;
