//! Error pages and maintenance pages.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::net::IpAddr;

use crate::{rules::Networks, time::Duration};

/// The body of a response, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The value of `Content-Type`.
    pub content_type: String,
    /// What is sent.
    pub body: Arc<[u8]>,
}

/// The same page in several types; the first is for whoever likes none better.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(pub Vec<Page>);

/// Pages by the status that they are sent with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages(pub Vec<(Statuses, Pages)>);

/// The statuses that a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// One status.
    One(u16),
    /// All of its hundred: 4 or 5.
    Class(u16),
}

/// What clients of a service get while it is not to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Whether maintenance is on.
    pub enabled: bool,
    /// When they are told to come again; not at all if omitted.
    pub retry_after: Option<Duration>,
    /// Pages for these clients; without one, the page for 503 or a line of text.
    pub pages: Pages,
    /// Clients that are let in all the same.
    pub allow: Option<Networks>,
}

impl Maintenance {
    /// Whether a client gets no further.
    #[must_use]
    pub fn stops(&self, client: IpAddr) -> bool {
        let is_allowed = || self.allow.as_ref().is_some_and(|networks| networks.contains(client));
        self.enabled && !is_allowed()
    }
}

impl ErrorPages {
    /// The page for a status, of several types the one that a client with this `Accept` likes best.
    /// A page for one status goes before one for all of its hundred.
    #[must_use]
    pub fn find(&self, status: u16, accept: &[u8]) -> Option<&Page> {
        let by = |wanted| self.0.iter().find(|(statuses, _)| *statuses == wanted);
        let found = by(Statuses::One(status)).or_else(|| by(Statuses::Class(status / 100)));
        found.and_then(|(_, pages)| pages.choose(accept))
    }

    /// Whether `Accept` decides anything.
    #[must_use]
    pub fn has_choice(&self) -> bool {
        self.0.iter().any(|(_, pages)| pages.has_choice())
    }
}

impl Pages {
    /// The page that a client with this `Accept` likes best (RFC 9110, 12.5.1); the first of those
    /// that it likes equally, or where it likes none.
    #[must_use]
    pub fn choose(&self, accept: &[u8]) -> Option<&Page> {
        let mut best = (self.0.first()?, 0);
        for page in &self.0 {
            let weight = weight(accept, &page.content_type);
            if weight > best.1 {
                best = (page, weight);
            }
        }
        Some(best.0)
    }

    /// Whether there are several.
    #[must_use]
    pub const fn has_choice(&self) -> bool {
        self.0.len() > 1
    }
}

/// How much `accept` likes a type, in thousandths: as its most exact range says.
fn weight(accept: &[u8], content_type: &str) -> u32 {
    let own = content_type.split(';').next().unwrap_or_default().trim();
    let kind = own.split('/').next().unwrap_or_default();
    let mut found = (0, 0);
    for range in accept.split(|byte| *byte == b',') {
        let Ok(range) = core::str::from_utf8(range) else { continue };
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let exactness = match name.split_once('/') {
            _ if name.eq_ignore_ascii_case(own) => 3,
            Some((of, "*")) if of.eq_ignore_ascii_case(kind) => 2,
            Some(("*", "*")) => 1,
            _ => continue,
        };
        let weight = parts.find_map(|it| it.strip_prefix("q=").or_else(|| it.strip_prefix("Q=")));
        let weight = weight.map_or(Some(1.0), |it| it.parse::<f32>().ok()).unwrap_or(0.0);
        if exactness > found.0 {
            found = (exactness, (weight.clamp(0.0, 1.0) * 1000.0) as u32);
        }
    }
    found.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content_type: &str) -> Page {
        Page { content_type: content_type.into(), body: Arc::from(&b"x"[..]) }
    }

    #[test]
    fn a_client_gets_the_type_that_it_likes_best_and_browsers_get_html() {
        let pages = Pages([page("text/html; charset=utf-8"), page("application/json")].into());
        let chosen = |accept: &str| {
            let page = pages.choose(accept.as_bytes()).expect("a page");
            page.content_type.split(';').next().map(String::from).unwrap_or_default()
        };
        for (accept, expected) in [
            ("", "text/html"),
            ("*/*", "text/html"),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
            ("application/json", "application/json"),
            ("application/json, text/plain, */*", "text/html"),
            ("text/*;q=0.5, application/json", "application/json"),
            ("application/json;q=0.4, text/html;q=0.5", "text/html"),
            ("text/html;q=0, */*", "application/json"),
            ("image/png", "text/html"),
            ("Application/JSON; q=nonsense, text/*;q=0.1", "text/html"),
        ] {
            assert_eq!(chosen(accept), expected, "{accept}");
        }
        assert_eq!(Pages::default().choose(b"*/*"), None);
    }

    #[test]
    fn a_page_for_one_status_goes_before_one_for_its_hundred() {
        let pages = |text: &str| Pages([page(text)].into());
        let all = ErrorPages(
            [(Statuses::Class(5), pages("a/all")), (Statuses::One(503), pages("a/one"))].into(),
        );
        let found = |status| all.find(status, b"").map(|page| page.content_type.as_str());
        assert_eq!([found(503), found(502), found(404)], [Some("a/one"), Some("a/all"), None]);
    }

    #[test]
    fn maintenance_stops_all_but_those_who_are_allowed() {
        let networks = ["10.0.0.0/8".parse().expect("a network")];
        let mut maintenance =
            Maintenance { allow: Some(networks.into_iter().collect()), ..Maintenance::default() };
        let address = |text: &str| text.parse().expect("an address");
        assert!(!maintenance.stops(address("192.0.2.1")));
        maintenance.enabled = true;
        assert!(maintenance.stops(address("192.0.2.1")));
        assert!(!maintenance.stops(address("10.1.2.3")));
        assert!(!maintenance.stops(address("::ffff:10.1.2.3")));
    }
}
