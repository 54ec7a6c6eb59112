//! When the keys at a URL are fetched: at once, before what is known gets old, after a failure,
//! and when a token names a key that is not known.
//!
//! ```text
//! idle --due, or wanted--> under way --succeeded--> idle, due when the response gets old
//!   ^                          |
//!   '---due after a pause------'failed: what was known before stays
//! ```
//! Anybody can make up the name of a key, so that names alone make for one request in
//! [`WANTED_SPACING`], and for none while the URL fails. One that has brought other keys does not
//! count: nobody but the issuer makes those.

use crate::{
    acme::share,
    time::{Duration, Instant},
};

/// What is known of the fetches of one URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    due: Instant,
    is_under_way: bool,
    failures: u32,
    /// When a key was wanted that made for a fetch.
    wanted: Option<Instant>,
}

impl Refresh {
    /// A URL of which nothing is known: it is due.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self { due: now, is_under_way: false, failures: 0, wanted: None }
    }

    /// When the next fetch is to begin; none while one is under way.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        (!self.is_under_way).then_some(self.due)
    }

    /// Whether the last fetch has failed.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// A fetch begins.
    pub const fn begin(&mut self) {
        self.is_under_way = true;
    }

    /// A key is wanted that is not known, while no fetch is under way. Whether one is due for it.
    pub fn want(&mut self, now: Instant) -> bool {
        let is_late = self.wanted.is_none_or(|wanted| now.since(wanted) >= WANTED_SPACING);
        if is_late && !self.is_failing() {
            self.wanted = Some(now);
            self.due = now;
        }
        self.due <= now
    }

    /// The fetch has brought keys, for as long as the response says: others than before, or the
    /// same.
    pub fn succeed(&mut self, now: Instant, max_age: Option<Duration>, are_others: bool) {
        let wait = max_age.unwrap_or(USUAL_AGE).clamp(SHORTEST_AGE, LONGEST_AGE);
        let wanted = self.wanted.filter(|_| !are_others);
        *self = Self { due: now + wait, is_under_way: false, failures: 0, wanted };
    }

    /// The fetch has failed. The pause after it doubles from a second to a minute, half of it at
    /// random: `draw` is uniform over all of `u64`.
    pub fn fail(&mut self, now: Instant, draw: u64) {
        let doubled = FIRST_PAUSE.as_nanos() << self.failures.min(MAX_DOUBLINGS);
        let half = doubled.min(LONGEST_PAUSE.as_nanos()) / 2;
        let pause = Duration::from_nanos(half + share(half, draw));
        let failures = self.failures.saturating_add(1);
        *self = Self { due: now + pause, is_under_way: false, failures, ..*self };
    }
}

/// How soon a key that is not known makes for another fetch.
const WANTED_SPACING: Duration = Duration::from_secs(30);

/// Lifetime of keys whose response states none.
const USUAL_AGE: Duration = Duration::from_secs(600);
const SHORTEST_AGE: Duration = Duration::from_secs(60);
/// A key that was withdrawn verifies nothing any more after this.
const LONGEST_AGE: Duration = Duration::from_secs(3_600);

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u32 = 6;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn fetched(at_s: u64, max_age_s: Option<u64>) -> Refresh {
        let mut refresh = Refresh::new(at(0));
        refresh.begin();
        refresh.succeed(at(at_s), max_age_s.map(Duration::from_secs), true);
        refresh
    }

    #[test]
    fn keys_are_fetched_at_once_and_again_when_the_response_gets_old() {
        let mut refresh = Refresh::new(at(5));
        assert_eq!(refresh.next_deadline(), Some(at(5)));
        refresh.begin();
        assert_eq!(refresh.next_deadline(), None);
        for (max_age_s, next_s) in
            [(None, 601), (Some(300), 301), (Some(0), 61), (Some(86_400), 3_601)]
        {
            assert_eq!(fetched(1, max_age_s).next_deadline(), Some(at(next_s)), "{max_age_s:?}");
        }
    }

    #[test]
    fn names_that_nobody_knows_make_for_one_fetch_in_half_a_minute() {
        let mut refresh = fetched(1, None);
        assert!(refresh.want(at(2)));
        assert_eq!(refresh.next_deadline(), Some(at(2)));
        refresh.begin();
        refresh.succeed(at(3), None, false);
        assert!(!refresh.want(at(4)) && !refresh.want(at(31)));
        assert_eq!(refresh.next_deadline(), Some(at(603)));
        assert!(refresh.want(at(32)));
    }

    #[test]
    fn keys_that_rotate_twice_in_half_a_minute_are_fetched_twice() {
        let mut refresh = fetched(1, None);
        for second in [2, 4] {
            assert!(refresh.want(at(second)));
            refresh.begin();
            refresh.succeed(at(second + 1), None, true);
        }
        assert!(refresh.want(at(6)));
        refresh.begin();
        refresh.succeed(at(7), None, false);
        assert!(!refresh.want(at(8)));
    }

    #[test]
    fn a_url_that_fails_is_tried_again_after_pauses_that_grow_and_names_change_nothing() {
        let mut refresh = fetched(1, None);
        for (draw, pause_ms) in [(0, 500), (u64::MAX, 2_000), (0, 2_000), (0, 4_000)] {
            refresh.begin();
            refresh.fail(at(700), draw);
            let pause = refresh.next_deadline().expect("idle").since(at(700));
            assert!(pause <= Duration::from_millis(pause_ms), "{pause}");
            assert!(pause + Duration::from_nanos(1) >= Duration::from_millis(pause_ms), "{pause}");
            assert!(refresh.is_failing() && !refresh.want(at(700)));
        }
        (0..100).for_each(|_| refresh.fail(at(700), u64::MAX));
        assert!(refresh.next_deadline().expect("idle") <= at(760));
        refresh.begin();
        refresh.succeed(at(760), None, false);
        assert!(!refresh.is_failing() && refresh.want(at(761)));
    }
}
