//! `Cache-Status`, which tells how a cache handled a request: RFC 9211.

use alloc::vec::Vec;

use super::reuse::Forward;

/// What this cache did with a request.
#[derive(Clone, Copy, Debug)]
pub struct CacheStatus<'a> {
    /// The name of the cache.
    pub cache: &'a str,
    /// Where the response is from.
    pub outcome: Outcome,
    /// The remaining lifetime of the response in seconds, negative if it is stale.
    pub ttl: Option<i64>,
    /// The primary key, for those who may see it.
    pub key: Option<&'a [u8]>,
    /// What else there is to say: a token, such as a [`Refusal`](super::Refusal).
    pub detail: Option<&'a str>,
}

/// Where a response is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What is stored, without asking a server.
    Hit,
    /// What a server answered.
    Forwarded {
        /// Why it was asked.
        why: Forward,
        /// The status code of its response, if that is another than the client gets.
        status: Option<u16>,
        /// Whether its response was stored.
        stored: bool,
        /// Whether one request to it was made for several clients.
        collapsed: bool,
    },
}

impl CacheStatus<'_> {
    /// Appends the member of this cache to `out`; after what the caches before it wrote comes a
    /// comma, as this cache is nearer to the client.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_token_or_string(self.cache.as_bytes(), out);
        match self.outcome {
            Outcome::Hit => out.extend_from_slice(b"; hit"),
            Outcome::Forwarded { why, status, stored, collapsed } => {
                out.extend_from_slice(b"; fwd=");
                out.extend_from_slice(why.token().as_bytes());
                if let Some(status) = status {
                    write_parameter("fwd-status", i64::from(status), out);
                }
                if stored {
                    out.extend_from_slice(b"; stored");
                }
                if collapsed {
                    out.extend_from_slice(b"; collapsed");
                }
            }
        }
        if let Some(ttl) = self.ttl {
            write_parameter("ttl", ttl, out);
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b"; key=");
            write_string(key, out);
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            write_token_or_string(detail.as_bytes(), out);
        }
    }
}

impl Forward {
    /// The token of RFC 9211 section 2.2.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Partial => "partial",
            Self::Request => "request",
            Self::Stale => "stale",
        }
    }
}

fn write_parameter(name: &str, value: i64, out: &mut Vec<u8>) {
    // An integer of a structured field has 15 digits at most.
    let value = value.clamp(-INTEGER_MAX, INTEGER_MAX);
    for piece in ["; ", name, "=", itoa::Buffer::new().format(value)] {
        out.extend_from_slice(piece.as_bytes());
    }
}

fn write_token_or_string(text: &[u8], out: &mut Vec<u8>) {
    let starts = text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'*');
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte);
    if starts && text.iter().all(inside) {
        out.extend_from_slice(text);
    } else {
        write_string(text, out);
    }
}

/// A string of RFC 8941 section 3.3.3; what it cannot hold is written as in a URI.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(alloc::format!("%{byte:02X}").as_bytes()),
        }
    }
    out.push(b'"');
}

const INTEGER_MAX: i64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;

    const HIT: CacheStatus<'static> =
        CacheStatus { cache: "edge", outcome: Outcome::Hit, ttl: None, key: None, detail: None };

    fn text(status: &CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn forwarded(why: Forward) -> Outcome {
        Outcome::Forwarded { why, status: None, stored: false, collapsed: false }
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 9211 section 3, with names of this cache's choice.
        assert_eq!(text(&HIT), "edge; hit");
        assert_eq!(text(&CacheStatus { ttl: Some(376), ..HIT }), "edge; hit; ttl=376");
        let stale = CacheStatus { ttl: Some(-412), ..HIT };
        assert_eq!(text(&stale), "edge; hit; ttl=-412");
        let miss = CacheStatus { outcome: forwarded(Forward::UriMiss), ..HIT };
        assert_eq!(text(&miss), "edge; fwd=uri-miss");
        let outcome = Outcome::Forwarded {
            why: Forward::Stale,
            status: Some(304),
            stored: true,
            collapsed: true,
        };
        let validated = CacheStatus { outcome, ..HIT };
        assert_eq!(text(&validated), "edge; fwd=stale; fwd-status=304; stored; collapsed");
    }

    #[test]
    fn what_is_no_token_is_quoted() {
        let key = Some(&b"http://h/\"\\\xe9\x01"[..]);
        let status = CacheStatus { cache: "my edge", key, detail: Some("set-cookie"), ..HIT };
        let expected = "\"my edge\"; hit; key=\"http://h/\\\"\\\\%E9%01\"; detail=set-cookie";
        assert_eq!(text(&status), expected);
        assert_eq!(text(&CacheStatus { cache: "", ..HIT }), "\"\"; hit");
    }

    #[test]
    fn a_number_has_15_digits_at_most() {
        let far = CacheStatus { ttl: Some(i64::MIN), ..HIT };
        assert_eq!(text(&far), "edge; hit; ttl=-999999999999999");
    }
}
