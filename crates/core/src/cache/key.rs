//! The primary key of a stored response: RFC 9111 section 2.
//!
//! It is what the server is asked: scheme, host, port, path and query. `GET` and `HEAD` share a
//! key. Only what every server must read alike is brought together (RFC 9110 section 4.2.3): the
//! case of scheme and host, the scheme's own port, and an empty path. Path and query stay as they
//! are forwarded, byte for byte: whether `/a%2Fb`, `/a/b` and `/a/./b` are one resource, or in
//! which order parameters come, is for the server to say, and a cache that guesses gives the
//! response to one of them to who asks for another.

use alloc::{format, string::String, vec::Vec};

use super::{field::Fields, message::Request};

/// The primary key of a request: `http://host[:port]/path?query`.
#[must_use]
pub fn primary_key(request: &Request<'_>) -> Vec<u8> {
    let scheme = request.scheme;
    let authority = authority(scheme, request.authority);
    let mut key = Vec::with_capacity(scheme.len() + authority.len() + request.target.len() + 4);
    for piece in [scheme, b"://", authority] {
        key.extend_from_slice(piece);
    }
    key.make_ascii_lowercase();
    if !matches!(request.target.first(), Some(b'/' | b'*')) {
        key.push(b'/');
    }
    key.extend_from_slice(request.target);
    key
}

/// The primary key of a URL as a person or a program writes it, or the beginning of the keys whose
/// URLs begin like this: a fragment is no part of it, and a beginning without a path gets none.
/// None where there is no scheme, or no host as requests have one: in ASCII.
#[must_use]
pub fn key_of_url(url: &str, is_whole: bool) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let is_scheme = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let is_outside = |it: char| it == '@' || it <= ' ' || !it.is_ascii();
    if !is_scheme || host.is_empty() || host.contains(is_outside) {
        return None;
    }
    let encoded = encoded(target);
    let request = Request {
        method: b"GET",
        scheme: scheme.as_bytes(),
        authority: host.as_bytes(),
        target: &encoded,
        fields: Fields(&[]),
        has_content: false,
    };
    let mut key = String::from_utf8(primary_key(&request)).ok()?;
    if !is_whole && target.is_empty() {
        key.pop();
    }
    Some(key)
}

/// A target as a request has it: with the bytes in percent-encoding that no request may have.
fn encoded(target: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

/// The authority without the port that the scheme has anyway.
fn authority<'a>(scheme: &[u8], authority: &'a [u8]) -> &'a [u8] {
    let own_port: &[u8] = match scheme {
        it if it.eq_ignore_ascii_case(b"http") => b":80",
        it if it.eq_ignore_ascii_case(b"https") => b":443",
        _ => return authority,
    };
    authority.strip_suffix(own_port).or(authority.strip_suffix(b":")).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::message::tests::get;

    fn key(scheme: &str, authority: &str, target: &str) -> Vec<u8> {
        primary_key(&Request {
            scheme: scheme.as_bytes(),
            authority: authority.as_bytes(),
            target: target.as_bytes(),
            ..get(&[])
        })
    }

    #[test]
    fn what_every_server_reads_alike_has_one_key() {
        let plain = b"http://example.com/a?b=c";
        assert_eq!(key("http", "example.com", "/a?b=c"), plain);
        assert_eq!(key("HTTP", "EXAMPLE.com:80", "/a?b=c"), plain);
        assert_eq!(key("http", "example.com:", "/a?b=c"), plain);
        assert_eq!(key("https", "example.com:443", ""), b"https://example.com/");
        assert_eq!(key("http", "example.com", "?q"), b"http://example.com/?q");
        assert_eq!(key("http", "[::1]:80", "/"), b"http://[::1]/");
    }

    #[test]
    fn what_servers_may_tell_apart_has_two() {
        for (one, other) in [
            ("/a", "/a/"),
            ("/a", "/A"),
            ("/a", "/%61"),
            ("/%2f", "/%2F"),
            ("/a/b", "/a//b"),
            ("/a/b", "/a/./b"),
            ("/a?x=1&y=2", "/a?y=2&x=1"),
            ("/a", "/a?"),
            ("/a;x", "/a"),
        ] {
            assert_ne!(key("http", "h", one), key("http", "h", other), "{one} {other}");
        }
        assert_ne!(key("http", "h:8080", "/"), key("http", "h", "/"));
        assert_ne!(key("http", "h:443", "/"), key("http", "h", "/"));
        assert_ne!(key("https", "h", "/"), key("http", "h", "/"));
        assert_ne!(key("http", "h.", "/"), key("http", "h", "/"));
    }

    #[test]
    fn a_url_that_somebody_writes_has_the_key_of_the_requests_for_it() {
        let whole = |url| key_of_url(url, true);
        for (url, key) in [
            ("http://h.test/a?b", "http://h.test/a?b"),
            ("HTTP://H.Test:80/A?B#c", "http://h.test/A?B"),
            ("https://h.test:443", "https://h.test/"),
            ("https://h.test:80?q", "https://h.test:80/?q"),
            ("http://[::1]:80/", "http://[::1]/"),
            ("http://h.test/\u{e4}?q=\u{20ac} 1", "http://h.test/%C3%A4?q=%E2%82%AC%201"),
            ("http://h.test/%c3%A4%", "http://h.test/%c3%A4%"),
        ] {
            assert_eq!(whole(url).as_deref(), Some(key), "{url}");
        }
        for no_url in ["/a", "h.test/a", "", "http:///a", "ftp://h/a", "http:h/a", "http://u@h/a"] {
            assert_eq!(whole(no_url), None, "{no_url}");
        }
        assert_eq!(whole("http://b\u{fc}cher.test/a"), None, "requests have its punycode");
        let beginning = |url| key_of_url(url, false);
        assert_eq!(beginning("HTTPS://H.test:443/img").as_deref(), Some("https://h.test/img"));
        assert_eq!(beginning("https://H.test").as_deref(), Some("https://h.test"));
        assert_eq!(beginning("http://h.test/\u{e4}").as_deref(), Some("http://h.test/%C3%A4"));
        assert_eq!(beginning("https://"), None);
    }

    proptest! {
        #[test]
        fn different_targets_never_share_a_key(one in "/[ -~]{0,9}", other in "/[ -~]{0,9}") {
            prop_assert_eq!(key("http", "h", &one) == key("http", "h", &other), one == other);
        }
    }
}
