//! Forward authentication: a service says who may ask, as with `auth_request` of nginx,
//! `forward_auth` of Caddy and `ext_authz` of Envoy.
//!
//! It gets the head of the request with another method and another path, and is told the request
//! that there was by the headers of Traefik and Caddy, which such services read.

use alloc::{
    borrow::ToOwned as _,
    string::{String, ToString as _},
    vec::Vec,
};
use core::net::IpAddr;

use super::{HeaderEdits, Template};

/// Which service is asked, for what, and what it may tell servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardAuth {
    /// Index of the service.
    pub service: usize,
    /// Path and query of what it is asked for.
    pub path: String,
    /// Fields of its response that the request gets, instead of those of its client.
    pub copy_headers: Vec<String>,
}

/// The request that a service is asked about.
#[derive(Clone, Copy, Debug)]
pub struct AskedAbout<'a> {
    /// Method of the request that is asked about.
    pub method: &'a [u8],
    /// Path and query as they came.
    pub target: &'a [u8],
    /// The host that was asked for, with its port where it has one.
    pub host: Option<&'a [u8]>,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Address of its client.
    pub client: IpAddr,
}

impl ForwardAuth {
    /// Asks the service with this index for `/`, and tells servers nothing of what it says.
    #[must_use]
    pub fn new(service: usize) -> Self {
        Self { service, path: "/".to_owned(), copy_headers: Vec::new() }
    }

    /// Whether a response with this status lets the request in. Others are given to the client.
    #[must_use]
    pub const fn lets_in(status: u16) -> bool {
        matches!(status, 200..300)
    }

    /// Makes the head of a request to the service of that of a request for a server: it has no
    /// body, and its response must not depend on what the client has stored. What the head `has`
    /// of the client is the listener's, or that of a trusted proxy, and stays.
    #[must_use]
    pub fn asking(about: &AskedAbout<'_>, has: impl Fn(&str) -> bool) -> HeaderEdits {
        let client = about.client.to_canonical().to_string();
        let told = [("X-Forwarded-Method", about.method), ("X-Forwarded-Uri", about.target)];
        let absent = [
            ("X-Forwarded-Host", about.host.unwrap_or_default()),
            ("X-Forwarded-Proto", about.scheme.as_bytes()),
            ("X-Forwarded-For", client.as_bytes()),
        ];
        let absent = absent.into_iter().filter(|(name, value)| !value.is_empty() && !has(name));
        let field =
            |(name, value): (&str, &[u8])| (name.to_owned(), Template::literal_bytes(value));
        HeaderEdits {
            remove: OF_ONE_MESSAGE.map(str::to_owned).into(),
            set: told.into_iter().chain(absent).map(field).collect(),
            add: Vec::new(),
        }
    }

    /// What a request that is let in gets of the `fields` of the response.
    #[must_use]
    pub fn copied<'a>(&self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HeaderEdits {
        let is_copied = |name: &[u8]| {
            self.copy_headers.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
        };
        let copied = fields.filter(|(name, _)| is_copied(name));
        let set = copied.map(|(name, value)| {
            (String::from_utf8_lossy(name).into_owned(), Template::literal_bytes(value))
        });
        HeaderEdits { set: set.collect(), ..HeaderEdits::default() }
    }
}

/// Fields that are about the body of the request, its connection, or the response to it.
const OF_ONE_MESSAGE: [&str; 14] = [
    "Connection", "Content-Length", "Expect", "If-Match", "If-Modified-Since", "If-None-Match",
    "If-Range", "If-Unmodified-Since", "Keep-Alive", "Range", "TE", "Trailer", "Transfer-Encoding",
    "Upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Variable, Variables};

    struct Nothing;

    impl Variables for Nothing {
        fn write(&self, _: Variable, _: &mut Vec<u8>) {}
    }

    fn about(target: &str) -> AskedAbout<'_> {
        AskedAbout {
            method: b"POST",
            target: target.as_bytes(),
            host: Some(b"a.test:81"),
            scheme: "https",
            client: [192, 0, 2, 7].into(),
        }
    }

    #[test]
    fn a_service_hears_of_method_and_target_and_of_no_body() {
        let edits = ForwardAuth::asking(&about("/a?b=$c"), |_| true);
        for gone in ["content-length", "transfer-encoding", "if-none-match", "x-forwarded-uri"] {
            assert!(edits.drops(gone.as_bytes()), "{gone}");
        }
        assert!(!edits.drops(b"cookie") && !edits.drops(b"x-forwarded-for"));
        let told: Vec<String> =
            edits.fields().map(|(name, value)| alloc::format!("{name}: {value}")).collect();
        assert_eq!(told, ["X-Forwarded-Method: POST", "X-Forwarded-Uri: /a?b=$$c"]);
    }

    #[test]
    fn a_service_hears_of_host_scheme_and_client_where_the_head_says_nothing_of_them() {
        let told = |has: &dyn Fn(&str) -> bool| -> Vec<String> {
            let edits = ForwardAuth::asking(&about("/"), has);
            edits.set.iter().map(|(name, value)| alloc::format!("{name}: {value}")).collect()
        };
        let request = ["X-Forwarded-Method: POST", "X-Forwarded-Uri: /"];
        assert_eq!(told(&|_| true), request);
        let of_client = [
            "X-Forwarded-Host: a.test:81", "X-Forwarded-Proto: https", "X-Forwarded-For: 192.0.2.7",
        ];
        assert_eq!(told(&|_| false), [&request[..], &of_client].concat());
        let behind_a_proxy = |name: &str| name == "X-Forwarded-For";
        assert_eq!(told(&behind_a_proxy), [&request[..], &of_client[..2]].concat());
    }

    #[test]
    fn a_value_that_is_not_utf_8_is_copied_as_it_came() {
        let copy_headers = ["Remote-Name".to_owned()].into();
        let auth = ForwardAuth { copy_headers, ..ForwardAuth::new(0) };
        let edits = auth.copied([(&b"Remote-Name"[..], &b"M\xfcller $x"[..])].into_iter());
        let [(name, value)] = &edits.set[..] else { panic!("{edits:?}") };
        let mut written = Vec::new();
        value.write(&Nothing, &mut written);
        assert_eq!((&**name, &written[..]), ("Remote-Name", &b"M\xfcller $x"[..]));
        assert!(value.is_literal());
    }

    #[test]
    fn only_success_lets_in_and_only_what_is_named_is_copied() {
        let in_of = |status| ForwardAuth::lets_in(status);
        assert_eq!(
            [199, 200, 204, 299, 300, 302, 401, 500].map(in_of),
            [false, true, true, true, false, false, false, false]
        );
        let auth =
            ForwardAuth { copy_headers: ["Remote-User".to_owned()].into(), ..ForwardAuth::new(0) };
        let fields = [(&b"remote-user"[..], &b"$ali"[..]), (b"Set-Cookie", b"a=b")];
        let edits = auth.copied(fields.into_iter());
        assert_eq!(edits.set, [("remote-user".to_owned(), Template::literal("$ali"))]);
    }
}
