//! How old a response is and how long it stays fresh: RFC 9111 section 4.2.
//!
//! ```text
//! apparent_age          = max(0, response_time - date_value)
//! corrected_age_value   = age_value + (response_time - request_time)
//! corrected_initial_age = max(apparent_age, corrected_age_value)
//! current_age           = corrected_initial_age + (now - response_time)
//! fresh                 = freshness_lifetime > current_age
//! ```
//! Here one moment stands for the first three, `generated = response_time -
//! corrected_initial_age`, so that `current_age = now - generated`.

use super::{
    date::parse_date,
    directives::{ResponseDirectives, delta_seconds},
    field::{Fields, members},
    message::Exchange,
    settings::Settings,
    status_code::is_heuristically_cacheable,
};
use crate::time::{Duration, UnixTime};

/// How long a response stays fresh from the moment that it was generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Stated by the server; zero where the statement is invalid.
    Explicit(Duration),
    /// A guess from its `Last-Modified`; zero without one.
    Heuristic(Duration),
    /// Nothing says so, and nothing may be guessed.
    Unknown,
}

impl Lifetime {
    /// The lifetime of the response to an exchange, by RFC 9111 sections 4.2.1 and 4.2.2.
    #[must_use]
    pub fn of(
        exchange: &Exchange<'_>,
        directives: &ResponseDirectives,
        settings: &Settings,
    ) -> Self {
        let fields = exchange.response.fields;
        let date = date(fields, exchange.received);
        if let Some(lifetime) = directives.s_maxage.or(directives.max_age) {
            return Self::Explicit(lifetime);
        }
        if fields.has("expires") && !directives.targeted {
            // Without a date of its own, or with two, it has expired already.
            let expires = fields.single("expires");
            let expires = expires.and_then(|text| parse_date(text, exchange.received));
            return Self::Explicit(expires.map_or(Duration::ZERO, |at| at.since(date)));
        }
        if !directives.public && !is_heuristically_cacheable(exchange.response.status) {
            return Self::Unknown;
        }
        let modified = fields.single("last-modified");
        let modified = modified.and_then(|text| parse_date(text, exchange.received));
        let unchanged = modified.map_or(Duration::ZERO, |at| date.since(at));
        let lifetime = unchanged / 100 * u64::from(settings.heuristic_percent);
        Self::Heuristic(lifetime.min(settings.heuristic_max))
    }

    /// The span; zero if nothing says it.
    #[must_use]
    pub fn span(self) -> Duration {
        match self {
            Self::Explicit(span) | Self::Heuristic(span) => span,
            Self::Unknown => Duration::ZERO,
        }
    }
}

/// When the response was generated, as nearly as its head tells: see the formula above.
#[must_use]
pub fn generated(exchange: &Exchange<'_>) -> UnixTime {
    let Exchange { requested, received, .. } = *exchange;
    let fields = exchange.response.fields;
    // In whole seconds, as the date is: its fraction is no age.
    let apparent_age = received.to_whole_secs().since(date(fields, received));
    let corrected_age_value = age_value(fields) + received.since(requested);
    received - apparent_age.max(corrected_age_value)
}

/// The moment that a response names in `Date`; the one of its reception if it names none.
#[must_use]
pub fn date(fields: Fields<'_>, received: UnixTime) -> UnixTime {
    let date = fields.first("date").and_then(|text| parse_date(text, received));
    date.unwrap_or(received.to_whole_secs())
}

/// What `Age` says: of several values the first one, of an invalid one nothing (RFC 9111
/// section 5.1).
fn age_value(fields: Fields<'_>) -> Duration {
    let first = fields.first("age").and_then(|value| members(value).next());
    first.filter(|text| !text.starts_with(b"\"")).and_then(delta_seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::field::tests::lines;
    use crate::cache::message::tests::exchange;

    const NOW: &str = "Tue, 24 Nov 2026 12:00:00 GMT";

    fn lifetime(status: u16, response: &[&str]) -> Lifetime {
        let lines = lines(response);
        let exchange = exchange(status, &lines);
        let settings = Settings::default();
        let directives = ResponseDirectives::of(Fields(&lines), settings.targets);
        Lifetime::of(&exchange, &directives, &settings)
    }

    fn explicit(secs: u64) -> Lifetime {
        Lifetime::Explicit(Duration::from_secs(secs))
    }

    fn age(response: &[&str]) -> u64 {
        let lines = lines(response);
        let exchange = exchange(200, &lines);
        exchange.received.since(generated(&exchange)).as_nanos() / 1_000_000_000
    }

    #[test]
    fn s_maxage_comes_before_max_age_and_that_before_expires() {
        let date = std::format!("Date: {NOW}");
        let expires = "Expires: Tue, 24 Nov 2026 12:05:00 GMT";
        assert_eq!(lifetime(200, &[&date, expires]), explicit(300));
        let all = "Cache-Control: max-age=20, s-maxage=10";
        assert_eq!(lifetime(200, &[&date, expires, all]), explicit(10));
        assert_eq!(lifetime(200, &[&date, expires, "Cache-Control: max-age=20"]), explicit(20));
        let targeted = "CDN-Cache-Control: max-age=7";
        assert_eq!(lifetime(200, &[&date, expires, all, targeted]), explicit(7));
        let other = "CDN-Cache-Control: immutable";
        let guessed = lifetime(200, &[&date, expires, all, other]);
        assert_eq!(guessed, Lifetime::Heuristic(Duration::ZERO));
    }

    #[test]
    fn an_expires_that_is_no_date_has_passed() {
        for expires in ["Expires: 0", "Expires: -1", "Expires: Tue, 24 Nov 2026 11:00:00 GMT"] {
            assert_eq!(lifetime(200, &[expires]), explicit(0), "{expires}");
        }
        let twice =
            ["Expires: Tue, 24 Nov 2026 13:00:00 GMT", "Expires: Tue, 24 Nov 2026 14:00:00 GMT"];
        assert_eq!(lifetime(200, &twice), explicit(0));
        let wrong_date = ["Date: foo", "Expires: Tue, 24 Nov 2026 12:00:10 GMT"];
        assert_eq!(lifetime(200, &wrong_date), explicit(10));
    }

    #[test]
    fn a_tenth_of_the_time_without_change_is_guessed_for_some_status_codes() {
        let modified = "Last-Modified: Tue, 24 Nov 2026 11:50:00 GMT";
        let minute = Lifetime::Heuristic(Duration::from_secs(60));
        for status in [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501] {
            assert_eq!(lifetime(status, &[modified]), minute, "{status}");
        }
        for status in [201, 202, 302, 307, 403, 500, 502, 503, 504, 599] {
            assert_eq!(lifetime(status, &[modified]), Lifetime::Unknown, "{status}");
        }
        assert_eq!(lifetime(599, &[modified, "Cache-Control: public"]), minute);
        let long_ago = "Last-Modified: Tue, 24 Nov 1998 11:50:00 GMT";
        let day = Lifetime::Heuristic(Duration::from_secs(86_400));
        assert_eq!(lifetime(200, &[long_ago]), day);
    }

    #[test]
    fn the_age_is_what_the_date_or_the_caches_before_say() {
        assert_eq!(age(&["Date: Tue, 24 Nov 2026 11:59:00 GMT"]), 60);
        assert_eq!(age(&["Date: Tue, 24 Nov 2026 11:59:00 GMT", "Age: 20"]), 60);
        // A response that took a second: `exchange`.
        assert_eq!(age(&["Date: Tue, 24 Nov 2026 12:00:00 GMT", "Age: 20"]), 21);
        assert_eq!(age(&["Date: Tue, 24 Nov 2026 13:00:00 GMT", "Age: 20"]), 21);
    }

    #[test]
    fn of_several_ages_the_first_counts_and_an_invalid_one_is_none() {
        for (value, expected) in [("7200, 0", 7201), ("0, 7200", 1), ("0, 0", 1)] {
            assert_eq!(age(&[&std::format!("Age: {value}")]), expected, "{value}");
        }
        assert_eq!(age(&["Age: 7200", "Age: 0"]), 7201);
        for value in ["abc", "-7200", "7200.0", "7200;a=b", "\"7200\""] {
            assert_eq!(age(&[&std::format!("Age: {value}")]), 1, "{value}");
        }
        assert!(age(&["Age: 2147483648"]) >= 2_147_483_648);
    }
}
