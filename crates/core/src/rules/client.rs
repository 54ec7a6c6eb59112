//! The client's address behind trusted proxies.
//!
//! Each proxy on the way appends the address it was reached from, to `X-Forwarded-For` or to
//! `Forwarded` (RFC 7239). What the last one appended is trusted if that one is trusted, what the
//! one before it appended if that is trusted too, and so on: the client is the right-most address
//! that is not trusted, as with nginx' `real_ip_recursive`. Whatever is left of it the client may
//! have made up.
//!
//! A member that is no address (`unknown`, `_hidden`, a slip) ends the way: the client is whoever
//! the proxy was that wrote it. So does the [`HOPS_MAX`]th.

use core::net::{IpAddr, SocketAddr};

use crate::rules::Network;

/// A header that lists who a request came from, the nearest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trail {
    /// `X-Forwarded-For`: addresses. `X-Forwarded-Proto` is its schemes.
    XForwardedFor,
    /// `Forwarded`: parameters, of which `for` is the address.
    Forwarded,
}

/// Whether `address` is in one of these networks.
#[must_use]
pub fn is_trusted(address: IpAddr, trusted: &[Network]) -> bool {
    trusted.iter().any(|network| network.contains(address))
}

/// The client of a request that came from `peer` with these values of the header `trail`, in the
/// order they came: `peer` itself unless it is trusted. The port is 0 where none is told.
pub fn client_address<'a>(
    peer: SocketAddr,
    trusted: &[Network],
    trail: Trail,
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> SocketAddr {
    follow(peer, trusted, trail, values).0
}

/// The scheme by which the client came, as its proxy tells. `values` are those of `Forwarded`, or
/// of `X-Forwarded-Proto`, whose last member alone is surely a proxy's.
pub fn client_scheme<'a>(
    peer: SocketAddr,
    trusted: &[Network],
    trail: Trail,
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> Option<&'static str> {
    let scheme = match trail {
        Trail::XForwardedFor => members(values).next(),
        Trail::Forwarded => {
            follow(peer, trusted, trail, values).1.and_then(|member| parameter(member, b"proto"))
        }
    }?;
    let known = SCHEMES.into_iter().find(|(told, _)| scheme.eq_ignore_ascii_case(told));
    known.map(|(_, scheme)| scheme)
}

/// The client, and the last member that a trusted proxy has written.
fn follow<'a>(
    peer: SocketAddr,
    trusted: &[Network],
    trail: Trail,
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> (SocketAddr, Option<&'a [u8]>) {
    let (mut client, mut told) = (peer, None);
    for member in members(values).take(HOPS_MAX) {
        if !is_trusted(client.ip(), trusted) {
            break;
        }
        told = Some(member);
        let node = match trail {
            Trail::XForwardedFor => Some(member),
            Trail::Forwarded => parameter(member, b"for"),
        };
        let Some(before) = node.and_then(address) else { break };
        client = before;
    }
    (client, told)
}

/// The members of a list, the last first.
fn members<'a>(
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = &'a [u8]> {
    let members = values.rev().flat_map(|value| FromRight { left: Some(value), at: b',' });
    members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// The value of the one parameter `wanted` of a member of `Forwarded`, without its quotes.
fn parameter<'a>(member: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    for pair in (FromRight { left: Some(member), at: b';' }) {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(wanted) && found.replace(value).is_some() {
            return None;
        }
    }
    let value = found?;
    let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    Some(inner.unwrap_or(value))
}

/// An address, with a port or without: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`. A port that is hidden (`_name`) counts as none.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = core::str::from_utf8(text).ok()?;
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (IpAddr::V6(host.parse().ok()?), ""),
        Some((host, rest)) => (IpAddr::V6(host.parse().ok()?), rest.strip_prefix(':')?),
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (IpAddr::V4(host.parse().ok()?), port),
            _ => (text.parse().ok()?, ""),
        },
    };
    let port = if port.is_empty() || port.starts_with('_') { 0 } else { port.parse().ok()? };
    Some(SocketAddr::new(host.to_canonical(), port))
}

/// The pieces of a text from its right end, divided `at` this byte where that is in no quotes. What
/// stands to the left cannot change how the right is read.
struct FromRight<'a> {
    left: Option<&'a [u8]>,
    at: u8,
}

impl<'a> Iterator for FromRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.left.take()?;
        let mut is_quoted = false;
        for index in (0..text.len()).rev() {
            if text[index] == b'"' {
                let escapes = text[..index].iter().rev().take_while(|byte| **byte == b'\\');
                is_quoted ^= escapes.count() % 2 == 0;
            } else if text[index] == self.at && !is_quoted {
                self.left = Some(&text[..index]);
                return Some(&text[index + 1..]);
            }
        }
        Some(text)
    }
}

/// What proxies tell, and the scheme that it is: Traefik tells those of WebSocket.
const SCHEMES: [(&[u8], &str); 4] =
    [(b"https", "https"), (b"http", "http"), (b"wss", "https"), (b"ws", "http")];

/// More proxies one behind the other than anybody has. Without a bound a client could name trusted
/// ones until the head is full.
pub const HOPS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use alloc::{format, string::ToString};

    use proptest::prelude::*;

    use super::*;

    const PEER: &str = "10.0.0.1:4711";

    fn trusted() -> [Network; 2] {
        ["10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().unwrap())
    }

    fn client(peer: &str, trail: Trail, values: &[&str]) -> std::string::String {
        let values = values.iter().map(|value| value.as_bytes());
        client_address(peer.parse().unwrap(), &trusted(), trail, values).to_string()
    }

    #[test]
    fn a_peer_that_is_not_trusted_is_the_client_whatever_it_says() {
        for trail in [Trail::XForwardedFor, Trail::Forwarded] {
            assert_eq!(client("192.0.2.1:80", trail, &["1.1.1.1", "for=1.1.1.1"]), "192.0.2.1:80");
        }
        assert_eq!(client(PEER, Trail::XForwardedFor, &[]), PEER);
    }

    #[test]
    fn the_client_is_the_right_most_address_that_is_not_trusted() {
        for (values, expected) in [
            (&["192.0.2.7"][..], "192.0.2.7:0"),
            (&["1.1.1.1, 192.0.2.7"], "192.0.2.7:0"),
            (&["1.1.1.1,192.0.2.7 , 10.2.3.4"], "192.0.2.7:0"),
            (&["1.1.1.1, 192.0.2.7", "10.2.3.4, 10.9.9.9"], "192.0.2.7:0"),
            (&["10.5.5.5", "10.2.3.4"], "10.5.5.5:0"),
            (&["192.0.2.7:8080"], "192.0.2.7:8080"),
            (&["2001:db9::7"], "[2001:db9::7]:0"),
            (&["[2001:db9::7]"], "[2001:db9::7]:0"),
            (&["1.1.1.1, [2001:db9::7]:443, 2001:db8::1"], "[2001:db9::7]:443"),
            (&["::ffff:192.0.2.7, ::ffff:10.0.0.9"], "192.0.2.7:0"),
            (&["192.0.2.7, , ,"], "192.0.2.7:0"),
        ] {
            assert_eq!(client(PEER, Trail::XForwardedFor, values), expected, "{values:?}");
        }
        assert_eq!(client("[2001:db8::9]:80", Trail::XForwardedFor, &["192.0.2.7"]), "192.0.2.7:0");
    }

    #[test]
    fn what_is_no_address_ends_the_way() {
        for value in [
            "", "unknown", "_hidden", "192.0.2.7 1.1.1.1", "192.0.2", "192.0.2.256", "host:80",
            "192.0.2.7:", "192.0.2.7:x", "192.0.2.7:65536", "[192.0.2.7]", "[2001:db9::7", "[]:80",
            "2001:db9::7%eth0", "\"192.0.2.7\"", "for=192.0.2.7", "[2001:db9::7]80", "\u{e9}",
        ] {
            // An empty port is written by nobody; the address before it is plain all the same.
            let expected = if value == "192.0.2.7:" { "192.0.2.7:0" } else { PEER };
            assert_eq!(client(PEER, Trail::XForwardedFor, &[value]), expected, "{value}");
            let behind = format!("1.1.1.1, {value}, 10.2.3.4");
            let expected = match value {
                "" => "1.1.1.1:0",
                "192.0.2.7:" => expected,
                _ => "10.2.3.4:0",
            };
            assert_eq!(client(PEER, Trail::XForwardedFor, &[&behind]), expected, "{behind}");
        }
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_has_it() {
        for (value, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60:0"),
            ("For=\"[2001:db9:cafe::17]:4711\"", "[2001:db9:cafe::17]:4711"),
            ("for=192.0.2.43, FOR=\"[2001:db9:cafe::17]\"", "[2001:db9:cafe::17]:0"),
            ("for=192.0.2.43;by=10.0.0.1, for=10.0.0.3;host=\"a, for=1.1.1.1\"", "192.0.2.43:0"),
            ("proto=https ; for=\"192.0.2.43:_port\"", "192.0.2.43:0"),
            ("for=\"192.0.2.43:47011\"", "192.0.2.43:47011"),
            ("for=192.0.2.43, for=unknown", PEER),
            ("for=192.0.2.43, for=_SEVKISEK", PEER),
            ("for=192.0.2.43, for=\"_gazonk\", for=10.0.0.7", "10.0.0.7:0"),
            ("for=192.0.2.43, by=10.0.0.3", PEER),
            ("for=192.0.2.43;for=192.0.2.44", PEER),
            ("192.0.2.43", PEER),
            ("for=\"192.0.2.43", PEER),
            ("for=\"\\1.1.1.1\"", PEER),
            // An open quote of the client's swallows nothing that its proxy has written.
            ("for=\"1.1.1.1, for=192.0.2.43", "192.0.2.43:0"),
            ("for=\"1.1.1.1\\, for=\"[2001:db9::7]\"", "[2001:db9::7]:0"),
        ] {
            assert_eq!(client(PEER, Trail::Forwarded, &[value]), expected, "{value}");
        }
    }

    #[test]
    fn a_list_without_end_is_read_no_further_than_anybody_needs() {
        let list = "10.0.0.2,".repeat(100_000);
        assert_eq!(client(PEER, Trail::XForwardedFor, &["192.0.2.7", &list]), "10.0.0.2:0");
    }

    proptest! {
        #[test]
        fn nothing_a_client_says_changes_what_its_proxy_says_of_it(said in "\\PC{0,60}") {
            let (said, who) = (format!("{said}, 192.0.2.7"), "192.0.2.7:0");
            prop_assert_eq!(client(PEER, Trail::XForwardedFor, &[&said]), who);
            let said = said.replace(", ", ", for=");
            prop_assert_eq!(client(PEER, Trail::Forwarded, &[&said]), who);
        }

        #[test]
        fn the_client_is_the_peer_or_somebody_in_the_list(members in prop::collection::vec(
            prop_oneof!["10\\.0\\.0\\.[1-9]", "192\\.0\\.2\\.[1-9]", "_[a-z]"], 0..40),
        ) {
            let list = members.join(", ");
            let answer = client(PEER, Trail::XForwardedFor, &[&list]);
            // The plain reading: from the right, as long as all are trusted.
            let mut expected = PEER.to_string();
            for member in members.iter().rev().take(HOPS_MAX) {
                if !expected.starts_with("10.") || member.starts_with('_') {
                    break;
                }
                expected = format!("{member}:0");
            }
            prop_assert_eq!(answer, expected);
        }
    }
}
