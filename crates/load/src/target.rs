//! Where requests go: an `http://` or `https://` URL, taken apart.

use std::{borrow::Cow, fmt, str::FromStr};

use crate::plan::PlanError;

/// A URL of the scheme `http` or `https`: host, port, path with its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    secure: bool,
    host: String,
    /// The interface that a link-local address is of.
    zone: Option<String>,
    port: u16,
    path: String,
}

impl Target {
    /// Whether the scheme is `https`.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// The name or address to connect to, without the brackets of an IPv6 address and without its
    /// zone.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host as the resolver takes it, with its zone.
    pub(crate) fn scoped_host(&self) -> Cow<'_, str> {
        match &self.zone {
            Some(zone) => format!("{}%{zone}", self.host).into(),
            None => self.host.as_str().into(),
        }
    }

    /// Whether the host is a name that must be looked up, not an address.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_err()
    }

    /// The port to connect to.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What the request line asks for: path and query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value of the Host field: the port is left out where it is the scheme's own, and so is a
    /// zone, which says nothing on another machine.
    #[must_use]
    pub fn authority(&self) -> String {
        self.authority_with("")
    }

    fn authority_with(&self, zone: &str) -> String {
        let host = match &self.host {
            host if host.contains(':') => format!("[{host}{zone}]"),
            host => host.clone(),
        };
        if self.port == own_port(self.secure) { host } else { format!("{host}:{}", self.port) }
    }
}

impl FromStr for Target {
    type Err = PlanError;

    /// Reads `http://host:port/path?query` or the same with `https`; a scheme that is left out is
    /// `http`, a fragment is ignored. An IPv6 address may have a zone: `[fe80::1%25eth0]` or, as
    /// people write it, `[fe80::1%eth0]`.
    ///
    /// # Errors
    /// [`PlanError::Url`] with what is wrong with it.
    fn from_str(url: &str) -> Result<Self, PlanError> {
        let wrong = |at, why| PlanError::Url { url: url.to_owned(), why, at };
        let (secure, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some(_) => return Err(wrong(0, "only http:// and https:// are spoken here")),
            None => (false, url),
        };
        let begins = url.len() - rest.len();
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.contains('@') {
            return Err(wrong(begins, "give credentials as a header: -H 'Authorization: ...'"));
        }
        if let Some(at) = tail.bytes().position(|byte| !byte.is_ascii_graphic()) {
            let why = "white space and letters beyond ASCII must be percent-encoded";
            return Err(wrong(begins + end + at, why));
        }
        let authority = split_authority(authority);
        let (host, port) = authority.map_err(|(at, why)| wrong(begins + at, why))?;
        let path = if tail.starts_with('/') { tail.to_owned() } else { format!("/{tail}") };
        let port = port.unwrap_or(own_port(secure));
        let (host, zone) = match host.split_once('%') {
            Some((host, zone)) => (host, Some(unescaped(zone).to_owned())),
            None => (host, None),
        };
        Ok(Self { secure, host: host.to_owned(), zone, port, path })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        let zone = self.zone.as_ref().map_or(String::new(), |zone| format!("%25{zone}"));
        write!(f, "{scheme}://{}{}", self.authority_with(&zone), self.path)
    }
}

/// Host and, where it is given, port of `host`, `host:port`, `[address]` or `[address]:port`; or
/// what is wrong with it, and where.
fn split_authority(authority: &str) -> Result<(&str, Option<u16>), (usize, &'static str)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or((0, "the bracket is not closed"))?;
            let address = host.split_once('%').map_or(host, |(address, _zone)| address);
            let address = address.parse::<std::net::Ipv6Addr>();
            address.map_err(|_| (1, "only an IPv6 address stands in brackets"))?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let (name, zone) = match host.split_once('%') {
        Some((name, zone)) if name.contains(':') => (name, Some(zone)),
        _ => (host, None),
    };
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if zone.map(unescaped).is_some_and(|zone| zone.is_empty() || !zone.bytes().all(named)) {
        return Err((name.len() + 1, "the zone is an interface, like http://[fe80::1%25eth0]/"));
    }
    if host.is_empty() {
        return Err((0, "it needs a host, like http://127.0.0.1:8080/"));
    }
    if let Some(at) = name.bytes().position(|byte| !named(byte)) {
        let why = match name.is_ascii() {
            true => "a host has letters, digits, `.`, `-` and `_` alone",
            false => "write letters of the host beyond ASCII as the DNS has them, with xn--",
        };
        return Err((at, why));
    }
    if rest.is_empty() {
        return Ok((host, None));
    }
    match rest.strip_prefix(':').map(str::parse) {
        Some(Ok(port)) if port != 0 => Ok((host, Some(port))),
        _ => {
            let why = "the port is a number from 1 to 65535; IPv6 addresses stand in brackets";
            Err((authority.len() - rest.len(), why))
        }
    }
}

/// A zone without the escape of the `%` before it (RFC 6874).
fn unescaped(zone: &str) -> &str {
    zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone)
}

/// The port of a URL that names none (RFC 9110, section 4.2).
const fn own_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(url: &str) -> Target {
        url.parse().unwrap()
    }

    #[test]
    fn a_url_is_read_with_and_without_its_scheme() {
        for url in
            ["http://localhost:8080/a?b=c#d", "localhost:8080/a?b=c", "HTTP://localhost:8080/a?b=c"]
        {
            let target = read(url);
            assert_eq!(
                (target.host(), target.port(), target.path()),
                ("localhost", 8080, "/a?b=c")
            );
            assert_eq!(target.to_string(), "http://localhost:8080/a?b=c");
        }
        assert_eq!(read("example.org").to_string(), "http://example.org/");
        assert_eq!(read("example.org?x=1").path(), "/?x=1");
        assert_eq!(read("http://[::1]:81").authority(), "[::1]:81");
        assert_eq!(read("[::1]").host(), "::1");
        assert!(!read("example.org:443").is_secure());
        let secure = read("https://example.org/a");
        assert_eq!((secure.is_secure(), secure.port()), (true, 443));
        assert_eq!(secure.to_string(), "https://example.org/a");
        assert_eq!(read("https://example.org:80").authority(), "example.org:80");
    }

    #[test]
    fn a_link_local_address_has_a_zone_that_servers_are_not_told() {
        for url in ["http://[fe80::1%25eth0]:81/a", "[fe80::1%eth0]:81/a"] {
            let target = read(url);
            assert_eq!((target.host(), &*target.scoped_host()), ("fe80::1", "fe80::1%eth0"));
            assert_eq!((target.authority().as_str(), target.is_named()), ("[fe80::1]:81", false));
            assert_eq!(target.to_string(), "http://[fe80::1%25eth0]:81/a");
        }
        for url in ["[fe80::1%]", "[fe80::1%25et/h0]", "[fe80::1%25e h]", "host%25eth0"] {
            assert!(url.parse::<Target>().is_err(), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        for (url, why) in [
            ("https://", "needs a host"),
            ("ftp://a/", "only http:// and https://"),
            ("", "needs a host"),
            (":8080", "needs a host"),
            ("http:///x", "needs a host"),
            ("a:0", "1 to 65535"),
            ("a:x", "1 to 65535"),
            ("::1", "needs a host"),
            ("fe80::1", "brackets"),
            ("[::1", "not closed"),
            ("[::1]8", "1 to 65535"),
            ("[host]", "IPv6"),
            ("me:pw@a/", "Authorization"),
            ("a/b c", "percent-encoded"),
            ("a/ü", "percent-encoded"),
            ("a b/", "letters, digits"),
            ("http://m\u{fc}nchen.test/", "xn--"),
        ] {
            let error = url.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }

    #[test]
    fn the_place_of_what_is_wrong_is_said() {
        for (url, wrong) in [
            ("ftp://a/", "ftp://a/"),
            ("https://", ""),
            ("http://a b/", " b/"),
            ("http://m\u{fc}nchen/", "\u{fc}nchen/"),
            ("http://me:pw@a/", "me:pw@a/"),
            ("http://a:99999/", ":99999/"),
            ("http://[::1/", "[::1/"),
            ("http://[::1]8/", "8/"),
            ("a/b?c=\u{fc}#d", "\u{fc}#d"),
        ] {
            match url.parse::<Target>() {
                Err(PlanError::Url { at, .. }) => assert_eq!(url.get(at..), Some(wrong), "{url}"),
                other => panic!("{url}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_read_again(url: String) {
            if let Ok(target) = url.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
            }
        }
    }
}
