//! The request line of a message that is refused, for whoever tells of it.

use crate::error::ParseError;
use crate::head::Version;
use crate::scan::is_token;
use crate::target::is_target_byte;

/// A request line, each part as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLine<'b> {
    /// The method, a token.
    pub method: &'b [u8],
    /// The target: bytes of one, perhaps in none of its forms.
    pub target: &'b [u8],
    /// The version, perhaps one that is not spoken here.
    pub version: &'b str,
}

impl<'b> RequestLine<'b> {
    /// The one that `bytes` begin with, whatever is behind it; none where it has not come whole or
    /// is malformed.
    #[must_use]
    pub fn read(bytes: &'b [u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        let mut parts = line.split(|&byte| byte == b' ');
        let (method, target, version) = (parts.next()?, parts.next()?, parts.next()?);
        let is_target = !target.is_empty() && target.iter().all(|&byte| is_target_byte(byte));
        let is_version = Version::of(version) != Err(ParseError::BadVersion);
        let is_whole = parts.next().is_none() && is_token(method) && is_target && is_version;
        let version = str::from_utf8(version).ok()?;
        is_whole.then_some(Self { method, target, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_is_read_whatever_is_wrong_behind_it() {
        for (bytes, method, target, version) in [
            ("GET /a?b HTTP/1.1\r\n\r\n", "GET", "/a?b", "HTTP/1.1"),
            ("\r\nBREW * HTTP/1.0\r\nHo st: x\r\n\r\n", "BREW", "*", "HTTP/1.0"),
            ("GET / HTTP/2.0\nHost: x", "GET", "/", "HTTP/2.0"),
        ] {
            let line = RequestLine::read(bytes.as_bytes()).unwrap();
            assert_eq!((line.method, line.target), (method.as_bytes(), target.as_bytes()));
            assert_eq!(line.version, version);
        }
    }

    #[test]
    fn of_what_is_no_request_line_nothing_is_read() {
        for bytes in [
            "", "GET / HTTP/1.1", "\r\n\r\nGET / HTTP/1.1\r\n", "GET /\r\n", "GET  HTTP/1.1\r\n",
            "GET / HTTP/1.1 \r\n", "GET / HTTP/x.1\r\n", "G(T / HTTP/1.1\r\n",
            "GET /a#b HTTP/1.1\r\n", "GET /\u{e9} HTTP/1.1\r\n", "\u{16}\u{3}\u{1} a b\r\n",
        ] {
            assert_eq!(RequestLine::read(bytes.as_bytes()), None, "{bytes:?}");
        }
    }
}
