//! Metrics of the keys that verify JSON Web Tokens.

use loadline_core::state::JwtKeys;

use super::family::{Family, Subject};

/// The keys that are fetched, by their URLs.
const KEYS: Subject<JwtKeys> = Subject {
    labels: &["url"],
    each: |state, to| state.jwt.iter().for_each(|it| to(&[&it.url], it)),
};

/// Every metric there is of them.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &KEYS.gauge("jwt_keys", "Keys of the URL that verify tokens", |it| it.keys as f64),
    &KEYS.gauge_if_any(
        "jwt_keys_age_seconds",
        "Time since the URL last gave its keys; no sample before the first time",
        |it| it.age_s,
    ),
    &KEYS.counter("jwt_fetch_failures", "Fetches of keys that failed", |it| it.failures),
];

#[cfg(test)]
mod tests {
    use loadline_core::state::State;

    use super::super::{Detail, Format, tests::text};
    use super::*;

    #[test]
    fn keys_are_told_by_their_url_and_have_no_age_before_they_are_fetched() {
        let keys = |url: &str| JwtKeys { url: url.to_owned(), ..JwtKeys::default() };
        let known = JwtKeys { keys: 2, age_s: Some(1.5), failures: 3, ..keys("https://a/k") };
        let state = State { jwt: vec![known, keys("https://b/k")], ..State::default() };
        let text = text(state, Detail::Servers, Format::OpenMetrics);
        for line in [
            "loadline_jwt_keys{url=\"https://a/k\"} 2.0",
            "loadline_jwt_keys_age_seconds{url=\"https://a/k\"} 1.5",
            "loadline_jwt_fetch_failures_total{url=\"https://a/k\"} 3",
            "loadline_jwt_keys{url=\"https://b/k\"} 0.0",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("loadline_jwt_keys_age_seconds{url=\"https://b/k\"}"), "{text}");
    }
}
