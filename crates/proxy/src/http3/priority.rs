//! Which responses of a connection go first (RFC 9218).
//!
//! `u=0` is the most urgent and `u=7` the least. What is as urgent goes one behind the other, in
//! the order of the requests, or is sent at once where it is of use in parts (`i`). Requests that
//! say nothing are `u=3` and share: their clients may know nothing of priorities. A server can say
//! otherwise of its response, and a client later on of its request, by PRIORITY_UPDATE.

use http::HeaderMap;

/// What is said of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Priority {
    urgency: Option<u8>,
    /// Whether it is of use in parts.
    incremental: Option<bool>,
}

impl Priority {
    /// What a head says. Members that make no sense are ignored.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self::of_values(headers.get_all(NAME).iter().filter_map(|value| value.to_str().ok()))
    }

    /// What a frame PRIORITY_UPDATE says: the value of a field.
    pub(super) fn of_value(value: &[u8]) -> Self {
        Self::of_values(str::from_utf8(value).into_iter())
    }

    fn of_values<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut said = Self::default();
        for member in values.flat_map(|value| value.split(',')) {
            let member = member.split(';').next().unwrap_or_default().trim();
            match member.split_once('=').unwrap_or((member, "?1")) {
                ("u", value) => said.urgency = level_of(value).or(said.urgency),
                ("i", "?1") => said.incremental = Some(true),
                ("i", "?0") => said.incremental = Some(false),
                _ => {}
            }
        }
        said
    }

    /// This, where `other` says nothing.
    pub(super) fn under(self, other: Self) -> Self {
        Self {
            urgency: other.urgency.or(self.urgency),
            incremental: other.incremental.or(self.incremental),
        }
    }

    /// What quinn orders streams by, the highest first, for the stream `id`.
    pub(super) fn order(self, id: u64) -> i32 {
        let is_silent = self == Self::default();
        let urgency = self.urgency.unwrap_or(URGENCY);
        let base = i32::from(LEAST - urgency.min(LEAST)) * STEP;
        if self.incremental.unwrap_or(is_silent) {
            return base;
        }
        // Before those that share, or they would never be through.
        let place = i32::try_from(id / 4).unwrap_or(STEP).min(STEP - 2);
        base + STEP - 1 - place
    }
}

fn level_of(value: &str) -> Option<u8> {
    match value.as_bytes() {
        [digit @ b'0'..=b'7'] => Some(digit - b'0'),
        _ => None,
    }
}

const NAME: &str = "priority";

/// Of what says nothing (RFC 9218, 4.1).
const URGENCY: u8 = 3;

/// The least urgent.
const LEAST: u8 = 7;

/// From one urgency to the next: places for as many requests of a connection.
const STEP: i32 = 1 << 27;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(values: &[&str]) -> Priority {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(NAME, HeaderValue::from_str(value).unwrap());
        }
        Priority::of(&headers)
    }

    fn said(urgency: Option<u8>, incremental: Option<bool>) -> Priority {
        Priority { urgency, incremental }
    }

    #[test]
    fn members_are_read_and_what_makes_no_sense_is_ignored() {
        assert_eq!(of(&["u=5, i"]), said(Some(5), Some(true)));
        assert_eq!(of(&["i=?0;x=1", "foo=bar,u=0"]), said(Some(0), Some(false)));
        assert_eq!(of(&["u=8, u=-1, u=1.5, u=\"1\", i=1, u"]), Priority::default());
        assert_eq!(of(&[",,=,;"]), Priority::default());
    }

    #[test]
    fn the_urgent_go_first_then_the_older_then_those_that_share() {
        let order = |text: &str, id| of(&[text]).order(id);
        let sorted = [
            order("u=0", 400),
            order("u=1", 0),
            order("u=1", 4),
            order("u=1", (1 << 62) - 4),
            order("u=1, i", 8),
            order("", 12),
            order("u=3, i", 0),
            order("u=7", 0),
            order("u=7, i", 0),
        ];
        assert!(sorted.is_sorted_by(|a, b| a >= b), "{sorted:?}");
        assert_eq!(order("", 0), order("", 4), "who says nothing shares");
        assert!(order("u=3", 0) > order("", 4), "one behind the other");
    }

    #[test]
    fn a_server_says_otherwise_of_what_it_knows_better() {
        let (client, server) = (said(Some(1), Some(true)), said(Some(6), None));
        assert_eq!(client.under(server), said(Some(6), Some(true)));
        assert_eq!(client.under(Priority::default()), client);
    }
}
