//! The normal form of hosts and paths, in which rules compare them.
//!
//! A rule that denies `/admin` must also deny `/%61dmin`, `//admin` and `/x/../admin`, because the
//! server behind may read all of them as the same. So percent-encoding is undone (once, `%2F` too),
//! empty segments and `.` are dropped, and `..` takes back the segment before it. This is what
//! nginx compares locations with. What is sent to the server is the path as it came, unless a rule
//! changes it; then it is the normal form, changed and encoded again, or the path as it came behind
//! another prefix.

use alloc::{format, vec::Vec};
use core::{
    fmt::{self, Write as _},
    net::Ipv6Addr,
};

/// The host of an authority in lower case, without its port and without a dot at its end.
///
/// `scratch` is used where it has to be changed. An IPv6 address keeps its brackets, and is written
/// as RFC 5952 has it.
#[must_use]
pub fn host<'a>(authority: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let name = match authority.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if authority[at] == b':' => &authority[..at],
        _ => authority,
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    if let Some(address) = bracketed(name) {
        let mut rest = Rest(name);
        if write!(rest, "[{address}]").is_ok() && rest.0.is_empty() {
            return name;
        }
        *scratch = format!("[{address}]").into_bytes();
        return scratch;
    }
    if !name.iter().any(u8::is_ascii_uppercase) {
        return name;
    }
    scratch.clear();
    scratch.extend(name.iter().map(u8::to_ascii_lowercase));
    scratch
}

/// An IPv6 address in brackets.
fn bracketed(name: &[u8]) -> Option<Ipv6Addr> {
    let inner = name.strip_prefix(b"[")?.strip_suffix(b"]")?;
    str::from_utf8(inner).ok()?.parse().ok()
}

/// What is left of a text that is compared with what is written.
struct Rest<'a>(&'a [u8]);

impl fmt::Write for Rest<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text.as_bytes()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// The normal form of a path without its query; `scratch` is used where it has to be changed.
#[must_use]
pub fn path<'a>(path: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let odd = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.');
    if !path.starts_with(b"/") || !(path.contains(&b'%') || path.windows(2).any(odd)) {
        return path;
    }
    scratch.clear();
    decode(path, |byte| byte, scratch);
    let kept = fold(scratch);
    scratch.truncate(kept);
    scratch
}

/// Writes a normal path so that it can stand in a request line.
pub fn encode(path: &[u8], out: &mut Vec<u8>) {
    for byte in path {
        encode_byte(*byte, out);
    }
}

/// The same of a path, or a part of one, that the file gives: what is percent-encoded there stays.
pub(super) fn encode_written(path: &[u8], out: &mut Vec<u8>) {
    for byte in (Decoded { rest: path }) {
        match byte {
            Byte::Plain(byte) => encode_byte(byte, out),
            Byte::Encoded(byte) => write_encoded(byte, out),
        }
    }
}

fn encode_byte(byte: u8, out: &mut Vec<u8>) {
    if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
        out.push(byte);
    } else {
        write_encoded(byte, out);
    }
}

fn write_encoded(byte: u8, out: &mut Vec<u8>) {
    let digit = |n: u8| b"0123456789ABCDEF"[usize::from(n)];
    out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
}

/// Undoes percent-encoding; `plain` maps each byte that is not encoded.
pub(super) fn decode(text: &[u8], plain: impl Fn(u8) -> u8, out: &mut Vec<u8>) {
    out.extend(Decoded { rest: text }.map(|byte| match byte {
        Byte::Plain(byte) => plain(byte),
        Byte::Encoded(byte) => byte,
    }));
}

/// Bytes of a text whose percent-encoding is undone. What is no encoding stays as it is.
pub(super) struct Decoded<'a> {
    pub(super) rest: &'a [u8],
}

/// A byte, and how it was written.
pub(super) enum Byte {
    Plain(u8),
    Encoded(u8),
}

impl Iterator for Decoded<'_> {
    type Item = Byte;

    fn next(&mut self) -> Option<Byte> {
        if let [b'%', high, low, rest @ ..] = self.rest
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            self.rest = rest;
            return Some(Byte::Encoded(high << 4 | low));
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(Byte::Plain(*first))
    }
}

/// Whether a path has a segment `.` or `..`, however it is written.
#[must_use]
pub fn has_dots(path: &[u8]) -> bool {
    let mut decoded = Vec::new();
    let mut path = path;
    if path.contains(&b'%') {
        decode(path, |byte| byte, &mut decoded);
        path = &decoded;
    }
    path.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"." | b".."))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Drops empty segments and `.`, follows `..`; the length of what is left at the beginning.
fn fold(path: &mut [u8]) -> usize {
    let (mut kept, mut slash) = (0, 0);
    while slash < path.len() {
        let start = slash + 1;
        let length = path[start..].iter().position(|byte| *byte == b'/');
        let end = length.map_or(path.len(), |length| start + length);
        let stays = match &path[start..end] {
            b"" | b"." => false,
            b".." => {
                kept = path[..kept].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                false
            }
            _ => true,
        };
        if stays {
            path.copy_within(slash..end, kept);
            kept += end - slash;
        } else if end == path.len() {
            // `/a/.` and `/a/..` name a directory, as `/a/` does.
            path[kept] = b'/';
            kept += 1;
        }
        slash = end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec};

    use proptest::prelude::*;

    use super::*;

    fn normal(text: &str) -> String {
        String::from_utf8_lossy(path(text.as_bytes(), &mut vec![])).into_owned()
    }

    #[test]
    fn every_way_to_write_a_path_has_one_form() {
        for (written, expected) in [
            ("/admin", "/admin"),
            ("/%61dmin", "/admin"),
            ("//admin", "/admin"),
            ("/x/../admin", "/admin"),
            ("/x/%2e%2e/admin", "/admin"),
            ("/x%2f..%2Fadmin", "/admin"),
            ("/../../admin", "/admin"),
            ("/./admin/.", "/admin/"),
            ("/admin/x/..", "/admin/"),
            ("/a//", "/a/"),
            ("/..", "/"),
            ("/", "/"),
            ("/...", "/..."),
            ("/.well-known/x", "/.well-known/x"),
            ("/100%", "/100%"),
            ("/%zz", "/%zz"),
            ("/%2561", "/%61"),
            ("*", "*"),
        ] {
            assert_eq!(normal(written), expected, "{written}");
        }
    }

    #[test]
    fn a_host_is_lower_case_without_port_and_last_dot() {
        for (written, expected) in [
            ("Example.COM:8080", "example.com"),
            ("example.com.", "example.com"),
            ("example.com.:80", "example.com"),
            ("[2001:db8::1]:80", "[2001:db8::1]"),
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:0:0:1]:80", "[::1]"),
            ("[2001:DB8::0:1]", "[2001:db8::1]"),
            ("[::ffff:7f00:1]", "[::ffff:127.0.0.1]"),
            ("[zz:1]", "[zz:1]"),
            ("", ""),
        ] {
            assert_eq!(host(written.as_bytes(), &mut vec![]), expected.as_bytes(), "{written}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_has_the_same_normal_form(text in "(/[a-c.%?# \u{e9}]{0,4}){1,6}") {
            let normal = |text: &[u8]| path(text, &mut vec![]).to_vec();
            // A normal form may hold a percent sign, so that it is not its own normal form.
            let once = normal(text.as_bytes());
            let mut encoded = vec![];
            encode(&once, &mut encoded);
            prop_assert!(encoded.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'?'));
            prop_assert_eq!(normal(&encoded), once);
        }
    }
}
