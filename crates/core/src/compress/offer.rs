//! Whether a response to a request may be compressed, and how.
//!
//! A compressed body tells by its length how often parts of it recur. Whoever can make a browser
//! send requests with text of his choice, and sees how long the encrypted responses are, finds out
//! a secret that a page has beside that text, byte by byte (BREACH, 2013). It takes credentials
//! that browsers add by themselves (a cookie, or an Authorization that they remember), and requests
//! that another site causes. So a request with such credentials gets its response as it is, unless
//!
//! - the browser says that the site itself asks, or the user (`Sec-Fetch-Site: same-origin` or
//!   `none`; Fetch Metadata, 2.3: pages cannot set the field), or
//! - the response says that it is for everybody ([`super::Treatment`]), or
//! - the file asks for it.

use super::{AcceptEncoding, Algorithm, elements, etag};
use crate::fleet::Compression;

/// Compression that a request allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The client's preferred algorithm; none if it gets the response as it is.
    pub algorithm: Option<Algorithm>,
    /// Whether it has credentials that make a secret in the response likely.
    pub is_private: bool,
    /// Whether it asks whether a response has changed by a weak tag, which may be one of ours.
    pub asks_weakly: bool,
}

impl Offer {
    /// What a request with these header fields allows.
    #[must_use]
    pub fn of<'a>(
        compression: &Compression,
        fields: &(impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone),
    ) -> Self {
        let named = |name: &'static str| {
            let fields = fields.clone();
            let named = fields.filter(move |field| field.0.eq_ignore_ascii_case(name.as_bytes()));
            named.map(|field| field.1)
        };
        let forbids = |value: &[u8]| {
            elements(value).any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
        };
        let accepted = AcceptEncoding::parse(named("accept-encoding"));
        let is_for_user =
            named("cookie").next().is_some() || named("authorization").any(is_remembered);
        let is_own = named("sec-fetch-site").any(|site| matches!(site, b"same-origin" | b"none"));
        Self {
            algorithm: accepted
                .choose(&compression.algorithms)
                .filter(|_| !named("cache-control").any(forbids)),
            is_private: is_for_user && !is_own && !compression.credentials,
            asks_weakly: named("if-none-match").any(etag::has_weak),
        }
    }
}

/// Whether a browser adds such an Authorization to requests that any site causes: all but tokens,
/// which a script has to add.
fn is_remembered(value: &[u8]) -> bool {
    let scheme = value.split(|byte| *byte == b' ').next().unwrap_or_default();
    !scheme.eq_ignore_ascii_case(b"bearer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(fields: &[(&str, &str)], compression: &Compression) -> Offer {
        Offer::of(compression, &fields.iter().map(|field| (field.0.as_bytes(), field.1.as_bytes())))
    }

    #[test]
    fn credentials_that_browsers_add_by_themselves_make_a_request_private() {
        let usual = Compression::default();
        let asked = Compression { credentials: true, ..Compression::default() };
        for (fields, is_private) in [
            (&[][..], false),
            (&[("Cookie", "session=1")], true),
            (&[("authorization", "Basic YTpi")], true),
            (&[("Authorization", "Negotiate x")], true),
            (&[("Authorization", "Bearer x")], false),
            (&[("Cookie", "a=b"), ("Sec-Fetch-Site", "same-origin")], false),
            (&[("Cookie", "a=b"), ("Sec-Fetch-Site", "none")], false),
            (&[("Cookie", "a=b"), ("Sec-Fetch-Site", "same-site")], true),
            (&[("Cookie", "a=b"), ("Sec-Fetch-Site", "cross-site")], true),
        ] {
            assert_eq!(offer(fields, &usual).is_private, is_private, "{fields:?}");
            assert!(!offer(fields, &asked).is_private, "{fields:?}");
        }
    }

    #[test]
    fn a_client_that_forbids_changes_gets_none() {
        let usual = Compression::default();
        let accepts = ("Accept-Encoding", "gzip");
        assert_eq!(offer(&[accepts], &usual).algorithm, Some(Algorithm::Gzip));
        let forbids = [accepts, ("Cache-Control", "no-cache, No-Transform")];
        assert_eq!(offer(&forbids, &usual).algorithm, None);
        let only = Compression { algorithms: [Algorithm::Brotli].into(), ..usual };
        assert_eq!(offer(&[accepts], &only).algorithm, None);
    }

    #[test]
    fn a_weak_tag_is_noticed_where_it_asks_for_changes() {
        let usual = Compression::default();
        let asks = |name, tag| offer(&[(name, tag)], &usual).asks_weakly;
        assert!(asks("If-None-Match", "\"a\", W/\"b\""));
        assert!(!asks("If-None-Match", "\"a\"") && !asks("If-Match", "W/\"b\""));
    }
}
