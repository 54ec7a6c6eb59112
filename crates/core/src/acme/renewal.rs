//! When a certificate is renewed, and when its authority is asked again after a failure.

/// What is known of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Valid from, in seconds since 1970.
    pub not_before_s: u64,
    /// Valid until, in seconds since 1970.
    pub not_after_s: u64,
    /// When the authority suggests to renew it (RFC 9773), where it says so.
    pub suggested: Option<Window>,
}

/// A window of ACME Renewal Information, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From when the certificate is to be renewed.
    pub start_s: u64,
    /// Its end, after the start.
    pub end_s: u64,
}

impl Lifetime {
    /// When to renew, in seconds since 1970: at a random point of the suggested window, otherwise
    /// shortly before a third of the lifetime is left. A sixth of it is left in any case: so long
    /// an authority may be away.
    ///
    /// A window that ends before it starts, or starts later than that, is not followed (RFC 9773,
    /// section 4.2). `draw` stays the same for one certificate, so that the point does not move
    /// each time it is asked for.
    #[must_use]
    pub fn renewal_s(&self, draw: u64) -> u64 {
        let lifetime_s = self.not_after_s.saturating_sub(self.not_before_s);
        let latest_s = self.latest_s();
        let followed = self.suggested.filter(|it| it.start_s < it.end_s && it.start_s < latest_s);
        let (start_s, end_s) = match followed {
            Some(window) => (window.start_s, window.end_s.min(latest_s)),
            None => {
                let end_s = self.not_after_s - lifetime_s / 3;
                (end_s - lifetime_s / 10, end_s)
            }
        };
        start_s + share(end_s - start_s, draw)
    }

    /// When it should have been renewed in any case: with a sixth of the lifetime left.
    #[must_use]
    pub fn latest_s(&self) -> u64 {
        self.not_after_s - self.not_after_s.saturating_sub(self.not_before_s) / 6
    }
}

/// Seconds to wait after `failures` failures in a row, at least what the authority asked for by
/// `Retry-After`, up to a week.
///
/// The wait doubles from a minute to six hours; half of it is random.
#[must_use]
pub fn wait_s(failures: u32, retry_after_s: Option<u64>, draw: u64) -> u64 {
    let doubled = FIRST_WAIT_S << failures.saturating_sub(1).min(MAX_DOUBLINGS);
    let longest_s = doubled.min(LONGEST_WAIT_S);
    let shortest_s = (longest_s / 2).max(retry_after_s.unwrap_or(0).min(LONGEST_RETRY_AFTER_S));
    shortest_s + share(longest_s / 2, draw)
}

/// Seconds until an authority is asked once more when to renew: what it wants (RFC 9773, section
/// 4.3.2) if that is a minute to a day, and six hours if it has not answered.
#[must_use]
pub fn ask_again_s(wanted_s: Option<u64>) -> u64 {
    wanted_s.map_or(ASK_S, |wanted_s| wanted_s.clamp(ASK_SHORTEST_S, ASK_LONGEST_S))
}

/// Seconds from a certificate to the next in any case: an authority that always suggests to renew
/// at once is not asked in a circle.
pub const SPACING_S: u64 = 600;

/// The part of `whole` that `draw` is of all draws: less than `whole`, unless that is zero.
pub(crate) fn share(whole: u64, draw: u64) -> u64 {
    let product = u128::from(whole) * u128::from(draw);
    u64::try_from(product >> u64::BITS).unwrap_or(whole)
}

const ASK_S: u64 = 6 * 3600;
const ASK_SHORTEST_S: u64 = 60;
const ASK_LONGEST_S: u64 = 86_400;

const FIRST_WAIT_S: u64 = 60;
const MAX_DOUBLINGS: u32 = 16;
const LONGEST_WAIT_S: u64 = 6 * 3600;
/// Rate limits of authorities count over a week at most.
const LONGEST_RETRY_AFTER_S: u64 = 7 * 86_400;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn lifetimes()(
            not_before_s in 0..4_000_000_000_u64,
            lifetime_s in prop_oneof![3..100_u64, 3..400_000_000_u64],
            window in proptest::option::of((0..5_000_000_000_u64, 0..5_000_000_000_u64)),
        ) -> Lifetime {
            let suggested = window.map(|(start_s, end_s)| Window { start_s, end_s });
            Lifetime { not_before_s, not_after_s: not_before_s + lifetime_s, suggested }
        }
    }

    #[test]
    fn an_authority_is_asked_when_to_renew_as_often_as_it_wants_within_reason() {
        for (wanted_s, waits_s) in
            [(Some(0), 60), (Some(3_600), 3_600), (Some(u64::MAX), 86_400), (None, 21_600)]
        {
            assert_eq!(ask_again_s(wanted_s), waits_s, "{wanted_s:?}");
        }
    }

    proptest! {
        #[test]
        fn a_certificate_is_renewed_while_a_sixth_of_it_is_left(it in lifetimes(), draw: u64) {
            let lifetime_s = it.not_after_s - it.not_before_s;
            prop_assert!(it.renewal_s(draw) + lifetime_s / 6 <= it.not_after_s);
        }

        #[test]
        fn without_a_window_a_third_of_the_lifetime_is_left(it in lifetimes(), draw: u64) {
            let it = Lifetime { suggested: None, ..it };
            let left_s = it.not_after_s - it.renewal_s(draw);
            let lifetime_s = it.not_after_s - it.not_before_s;
            prop_assert!(left_s >= lifetime_s / 3 && left_s <= lifetime_s / 2 + 2);
        }

        #[test]
        fn a_window_within_the_lifetime_is_followed(
            it in lifetimes(), draw: u64, start in 0..1000_u64, length in 1..1000_u64,
        ) {
            let it = Lifetime { not_after_s: it.not_before_s + 2400, ..it };
            let start_s = it.not_before_s + start;
            let window = Window { start_s, end_s: start_s + length };
            let at = Lifetime { suggested: Some(window), ..it }.renewal_s(draw);
            prop_assert!((window.start_s..window.end_s).contains(&at));
        }

        #[test]
        fn a_wait_is_bounded_and_respects_retry_after(
            failures: u32, asked in proptest::option::of(0..10_000_000_u64), draw: u64,
        ) {
            let wait = wait_s(failures, asked, draw);
            let asked = asked.unwrap_or(0).min(LONGEST_RETRY_AFTER_S);
            prop_assert!(wait >= asked.max(FIRST_WAIT_S / 2));
            prop_assert!(wait <= asked.max(LONGEST_WAIT_S / 2) + LONGEST_WAIT_S / 2);
        }

        #[test]
        fn a_wait_gets_no_shorter_with_more_failures(failures in 0..u32::MAX, draw: u64) {
            prop_assert!(wait_s(failures, None, draw) <= wait_s(failures + 1, None, draw));
        }
    }
}
