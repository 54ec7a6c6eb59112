//! What an operator decides about a cache, beyond what the RFCs say.

use super::{field::Fields, targeted::CDN_CACHE_CONTROL};
use crate::time::Duration;

/// What is allowed beside what the responses themselves say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a response that allows it is used stale where its server fails, if it has no
    /// `stale-if-error` itself. `None` forbids it, also to responses that have one.
    pub stale_if_error: Option<Duration>,
    /// The same where its group has no capacity left for the request.
    pub stale_if_full: Option<Duration>,
    /// Whether a response with `stale-while-revalidate` is used stale while it is validated.
    pub stale_while_revalidate: bool,
    /// Which part of its age at reception a response without a lifetime stays fresh, in percent:
    /// RFC 9111 section 4.2.2. Zero for none.
    pub heuristic_percent: u8,
    /// The longest such lifetime.
    pub heuristic_max: Duration,
    /// Whether what requests say in `Cache-Control` and `Pragma` counts. `only-if-cached` does in
    /// any case.
    pub request_directives: bool,
    /// What is done with responses that set cookies.
    pub set_cookie: SetCookie,
    /// Whether each request shows its server who is asking, elsewhere than in `Authorization`: its
    /// response is stored as if it were there.
    pub authorized: bool,
    /// The fields of RFC 9213 that are about this cache, most important first.
    pub targets: &'static [&'static str],
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stale_if_error: Some(Duration::from_secs(3_600)),
            stale_if_full: Some(Duration::from_secs(3_600)),
            stale_while_revalidate: true,
            heuristic_percent: 10,
            heuristic_max: Duration::from_secs(86_400),
            request_directives: true,
            set_cookie: SetCookie::WithLifetime,
            authorized: false,
            targets: &[CDN_CACHE_CONTROL],
        }
    }
}

impl Settings {
    /// Whether a request with these fields shows who is asking: RFC 9111 section 3.5.
    #[must_use]
    pub fn is_authorized(&self, request: Fields<'_>) -> bool {
        self.authorized || request.has("authorization")
    }
}

/// What is done with responses that set cookies. RFC 9111 section 7.3: `Set-Cookie` does not
/// inhibit caching; a server that does not think of it gives a visitor's cookie to all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetCookie {
    /// They are stored if they have a lifetime of their own.
    #[default]
    WithLifetime,
    /// They are never stored.
    Refuse,
}
