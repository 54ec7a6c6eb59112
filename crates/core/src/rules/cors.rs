//! Cross-origin resource sharing (CORS), as the Fetch standard has it: which pages of other origins
//! may read responses.
//!
//! A *preflight* - `OPTIONS` with `Origin` and `Access-Control-Request-Method` - is answered here.
//! Of every other response the CORS headers are ours, whoever made it and whatever it says.

use alloc::{
    borrow::ToOwned as _,
    string::{String, ToString as _},
    vec::Vec,
};

use super::{DirectResponse, HeaderEdits, Template};
use crate::time::Duration;

/// Who may read the responses of a route, and send what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// The pages of these may.
    pub origins: Vec<Origin>,
    /// Methods that they may use beside GET, HEAD and POST.
    pub methods: Vec<String>,
    /// Headers that they may send beside the simple ones; all that they ask for where omitted.
    pub headers: Option<Vec<String>>,
    /// Headers of responses that they may read beside the simple ones.
    pub exposed: Vec<String>,
    /// Whether they may send cookies and read what comes then.
    pub credentials: bool,
    /// How long browsers remember the response to a preflight, in whole seconds.
    pub max_age: Duration,
}

/// Origins: scheme, host and port of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// All.
    Any,
    /// This one, in lower case.
    Exact(String),
    /// Written `https://*.example.com`: one or more labels before this domain.
    Under {
        /// With the colon and the slashes.
        scheme: String,
        /// The domain with its leading dot, and its port if it has one.
        domain: String,
    },
}

/// A text is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin is `*`, or a scheme and a host without a path: \"https://app.example.com\"")]
pub struct OriginError;

impl Origin {
    /// An origin as the file has it.
    ///
    /// # Errors
    /// If it is neither `*`, nor a scheme and a host, with a port at most and `*.` before it.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let lower = text.to_ascii_lowercase();
        let at = lower.find("://").ok_or(OriginError)? + 3;
        let (scheme, host) = lower.split_at(at);
        let name = host.strip_prefix("*.").unwrap_or(host);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if scheme.len() == 3 || name.is_empty() || !name.bytes().all(allowed) {
            return Err(OriginError);
        }
        Ok(match host.strip_prefix('*') {
            Some(domain) => Self::Under { scheme: scheme.to_owned(), domain: domain.to_owned() },
            None => Self::Exact(lower),
        })
    }

    fn matches(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(own) => own.as_bytes().eq_ignore_ascii_case(origin),
            Self::Under { scheme, domain } => {
                let lower = origin.to_ascii_lowercase();
                let host = lower.strip_prefix(scheme.as_bytes());
                let label = host.and_then(|host| host.strip_suffix(domain.as_bytes()));
                label.is_some_and(|label| !label.is_empty())
            }
        }
    }
}

impl Cors {
    /// The response to a preflight from `origin` that asks for these headers: 403 for others.
    #[must_use]
    pub fn preflight(&self, origin: &[u8], asked_headers: &[u8]) -> DirectResponse {
        let Some(mut headers) = self.allowed(origin) else {
            return DirectResponse { status: 403, headers: Vec::new(), body: String::new() };
        };
        let mut say = |name: &str, value: String| {
            if !value.is_empty() {
                headers.push((name.to_owned(), Template::literal(&value)));
            }
        };
        say("Access-Control-Allow-Methods", self.methods.join(", "));
        let asked = String::from_utf8_lossy(asked_headers);
        let asked = || asked.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        let allowed = self.headers.as_ref().map_or_else(asked, |own| own.join(", "));
        say("Access-Control-Allow-Headers", allowed);
        let seconds = self.max_age.as_nanos() / 1_000_000_000;
        say("Access-Control-Max-Age", seconds.to_string());
        let varies = "Access-Control-Request-Method, Access-Control-Request-Headers";
        say("Vary", varies.to_owned());
        DirectResponse { status: 204, headers, body: String::new() }
    }

    /// What is changed of a response to a request from `origin`. Without one, as where a page of
    /// the same origin asks, it may stay in a browser's cache for pages of others: so it tells them
    /// then as well what it tells all.
    #[must_use]
    pub fn edits(&self, origin: Option<&[u8]>) -> HeaderEdits {
        let origin = origin.or_else(|| self.is_for_all().then_some(&b""[..]));
        let mut set = origin.and_then(|origin| self.allowed(origin)).unwrap_or_default();
        if !set.is_empty() && !self.exposed.is_empty() {
            let value = Template::literal(&self.exposed.join(", "));
            set.push(("Access-Control-Expose-Headers".to_owned(), value));
        }
        // Others of the server's stay beside it.
        set.retain(|(name, _)| name != VARY);
        let add = if self.is_for_all() { Vec::new() } else { Vec::from([varies_by_origin()]) };
        HeaderEdits { remove: OURS.map(String::from).into(), set, add }
    }

    /// Whether a header of a response is ours alone.
    #[must_use]
    pub fn is_ours(name: &[u8]) -> bool {
        OURS.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Headers for an origin that may read responses; none for others.
    fn allowed(&self, origin: &[u8]) -> Option<Vec<(String, Template)>> {
        if !self.origins.iter().any(|own| own.matches(origin)) {
            return None;
        }
        let told: &[u8] = if self.is_for_all() { b"*" } else { origin };
        let allow = ("Access-Control-Allow-Origin".to_owned(), Template::literal_bytes(told));
        let mut headers = Vec::from([allow]);
        if self.credentials {
            let name = "Access-Control-Allow-Credentials".to_owned();
            headers.push((name, Template::literal("true")));
        }
        if !self.is_for_all() {
            headers.push(varies_by_origin());
        }
        Some(headers)
    }

    /// Whether every origin is told the same.
    fn is_for_all(&self) -> bool {
        self.origins.contains(&Origin::Any) && !self.credentials
    }
}

fn varies_by_origin() -> (String, Template) {
    (VARY.to_owned(), Template::literal("Origin"))
}

const VARY: &str = "Vary";

/// The headers of responses that are ours alone.
const OURS: [&str; 6] = [
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Methods",
    "Access-Control-Allow-Headers",
    "Access-Control-Expose-Headers",
    "Access-Control-Max-Age",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn cors(origins: &[&str]) -> Cors {
        Cors {
            origins: origins.iter().map(|it| Origin::parse(it).expect("an origin")).collect(),
            methods: Vec::from(["PUT".to_owned()]),
            headers: None,
            exposed: Vec::from(["X-Total".to_owned()]),
            credentials: false,
            max_age: Duration::from_secs(600),
        }
    }

    fn said(fields: &[(String, Template)]) -> Vec<String> {
        fields.iter().map(|(name, value)| [name, ": ", &value.to_string()].concat()).collect()
    }

    #[test]
    fn origins_match_by_scheme_host_and_port() {
        for (own, origin, matches) in [
            ("https://a.test", "https://a.test", true),
            ("https://a.test", "https://A.test", true),
            ("https://a.test", "http://a.test", false),
            ("https://a.test", "https://a.test:8443", false),
            ("https://*.a.test", "https://x.y.a.test", true),
            ("https://*.a.test", "https://a.test", false),
            ("https://*.a.test", "https://evila.test", false),
            ("*", "null", true),
        ] {
            let own = Origin::parse(own).expect("an origin");
            assert_eq!(own.matches(origin.as_bytes()), matches, "{own:?} {origin}");
        }
        for wrong in ["a.test", "https://", "https://a.test/", "://a", "https://a b"] {
            assert_eq!(Origin::parse(wrong), Err(OriginError), "{wrong}");
        }
    }

    #[test]
    fn a_preflight_says_what_its_origin_may_and_refuses_others() {
        let own = cors(&["https://a.test"]);
        let response = own.preflight(b"https://a.test", b"x-token");
        assert_eq!(response.status, 204);
        assert_eq!(
            said(&response.headers),
            [
                "Access-Control-Allow-Origin: https://a.test",
                "Vary: Origin",
                "Access-Control-Allow-Methods: PUT",
                "Access-Control-Allow-Headers: x-token",
                "Access-Control-Max-Age: 600",
                "Vary: Access-Control-Request-Method, Access-Control-Request-Headers",
            ]
        );
        assert_eq!(own.preflight(b"https://b.test", b"").status, 403);
    }

    #[test]
    fn a_response_names_the_origin_and_varies_by_it_unless_it_is_for_all() {
        let edits = cors(&["https://a.test"]).edits(Some(b"https://a.test"));
        let expected = [
            "Access-Control-Allow-Origin: https://a.test",
            "Access-Control-Expose-Headers: X-Total",
        ];
        assert_eq!(said(&edits.set), expected);
        assert_eq!(said(&edits.add), ["Vary: Origin"]);
        let stranger = cors(&["https://a.test"]).edits(Some(b"https://b.test"));
        assert_eq!((said(&stranger.set).len(), said(&stranger.add)), (0, said(&edits.add)));
        let open = cors(&["*"]).edits(Some(b"https://b.test"));
        assert_eq!(said(&open.set)[0], "Access-Control-Allow-Origin: *");
        assert!(open.add.is_empty());
        assert_eq!(cors(&["*"]).edits(None), open, "it may stay in a cache for pages of others");
        let named = cors(&["https://a.test"]).edits(None);
        assert_eq!((said(&named.set).len(), said(&named.add)), (0, said(&edits.add)));
        let with_cookies = Cors { credentials: true, ..cors(&["*"]) };
        let edits = with_cookies.edits(Some(b"https://b.test"));
        assert_eq!(said(&edits.set)[0], "Access-Control-Allow-Origin: https://b.test");
    }
}
