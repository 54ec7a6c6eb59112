//! A rate budget, exact for every request: the generic cell rate algorithm.
//!
//! The state is one instant, the *theoretical arrival time* (TAT): when the budget will be empty
//! again if nothing more is given. With `T = 1 / rate` and `tau = (burst - 1) * T`, a request at
//! `now` conforms when `TAT - now <= tau`; then `TAT = max(TAT, now) + T`. In any window `W`
//! at most `rate * W + burst` requests conform.
//!
//! The burst is what a budget can save. One that can save little loses what nobody takes in time:
//! at 10/s and a burst of 1, random arrivals of 11/s use 52 % of it. So by default the burst is
//! what random arrivals need, 12 requests or the rate over 100 ms, and what batches need where
//! requests come in batches, up to 128. `docs/decisions/0008-default-burst.md` has the figures.
//!
//! Source: ITU-T I.371 annex A, virtual scheduling. No tick refills anything: time is compared
//! where a request asks.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    cluster::share::Share,
    decide::{atomic::AtomicU64, batches::Batches},
    time::{Duration, Instant},
    units::Rate,
};

/// What a [`Budget`] allows; part of a plan, changes with health and configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    interval: Duration,
    tolerance: Duration,
    /// The tolerance for batches of any size.
    widest: Duration,
}

impl Allowance {
    /// A part of an allowance that is shared: of its rate, and of its burst, with one request more,
    /// so that a small part loses nothing by being rounded, and less by chance.
    #[must_use]
    pub fn shared(rate: Rate, burst: Option<u32>, share: Share) -> Self {
        let whole = burst.map_or_else(|| default_burst(rate), u64::from);
        let interval = share.of_rate(rate).interval();
        let burst = interval.as_nanos().saturating_mul(whole);
        let nothing = interval == Duration::MAX;
        let tolerance = Duration::from_nanos(if nothing { 0 } else { share.of(burst) });
        Self { interval, tolerance, widest: tolerance }
    }

    /// `rate` with bursts of `burst` requests; without one [`default_burst`], and up to
    /// [`default_burst_of_batches`] where requests come in batches.
    #[must_use]
    pub fn new(rate: Rate, burst: Option<u32>) -> Self {
        let least = burst.map_or_else(|| default_burst(rate), u64::from).max(1);
        let most = burst.map_or_else(|| default_burst_of_batches(rate), |_| least);
        let interval = rate.interval();
        // A rate of zero has nothing to save.
        let span = if interval == Duration::MAX { Duration::ZERO } else { interval };
        Self { interval, tolerance: span * (least - 1), widest: span * (most - 1) }
    }

    /// How much earlier than evenly requests may come, in nanoseconds: `(burst - 1)` intervals.
    pub(crate) fn tolerance(&self) -> u64 {
        self.tolerance.as_nanos()
    }

    /// Mean time from one request to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }
}

/// The burst of a budget for which none is set, in requests: what comes at this rate in 100 ms,
/// rounded to the nearest, and at least 12.
#[must_use]
pub fn default_burst(rate: Rate) -> u64 {
    let half = Duration::from_nanos(rate.interval().as_nanos() / 2);
    (rate * (BURST_SPAN + half)).get().max(BURST_MIN)
}

/// The most that it becomes where requests come in batches: 128, or the burst if that is more.
#[must_use]
pub fn default_burst_of_batches(rate: Rate) -> u64 {
    default_burst(rate).max(BURST_OF_BATCHES)
}

/// What has been given, shared by all workers and kept across plans.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// The theoretical arrival time in nanoseconds.
    empty_at: AtomicU64,
    /// The interval that `empty_at` was counted in; written by the owner of the plans only.
    interval: AtomicU64,
    batches: Batches,
}

impl Budget {
    /// Counts a request that asked the budget, admitted or not: the default burst follows the
    /// batches.
    pub fn count(&self, allowance: &Allowance, now: Instant) {
        if allowance.tolerance < allowance.widest {
            self.batches.count(now, allowance.interval);
        }
    }

    fn tolerance(&self, allowance: &Allowance) -> u64 {
        let Allowance { interval, tolerance, widest } = *allowance;
        if tolerance == widest {
            return tolerance.as_nanos();
        }
        (tolerance + self.batches.time(interval)).min(widest).as_nanos()
    }

    /// The first instant at which a request conforms.
    #[must_use]
    pub fn ready_at(&self, allowance: &Allowance) -> Instant {
        let empty_at = self.empty_at.load(Relaxed);
        Instant::from_nanos(empty_at.saturating_sub(self.tolerance(allowance)))
    }

    /// Takes one request out of the budget if it conforms at `now`.
    #[must_use]
    pub fn take(&self, allowance: &Allowance, now: Instant) -> bool {
        let tolerance = self.tolerance(allowance);
        let take = |empty_at: u64| {
            let ready_at = empty_at.saturating_sub(tolerance);
            let start = empty_at.max(now.as_nanos());
            (ready_at <= now.as_nanos())
                .then(|| start.saturating_add(allowance.interval.as_nanos()))
        };
        self.empty_at.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    /// Gives back a request that was taken and is not sent.
    pub fn give_back(&self, allowance: &Allowance) {
        let interval = allowance.interval.as_nanos();
        let give = |empty_at: u64| Some(empty_at.saturating_sub(interval));
        // It never says no.
        let _ = self.empty_at.fetch_update(Relaxed, Relaxed, give);
    }

    /// Whether this allowance is a higher rate than what is owed is counted in.
    pub(crate) fn is_raised_by(&self, allowance: &Allowance) -> bool {
        allowance.interval.as_nanos() < self.interval.load(Relaxed)
    }

    /// Makes the budget ready for another allowance: what has been given stays given, counted in
    /// requests, not in the time that they took at the old rate.
    pub fn change(&self, now: Instant, allowance: &Allowance) {
        let new = allowance.interval.as_nanos();
        let old = self.interval.swap(new, Relaxed);
        if old == new || old == 0 {
            return;
        }
        let rescale = |empty_at: u64| {
            let debt = empty_at.checked_sub(now.as_nanos())?;
            let debt = u128::from(debt) * u128::from(new) / u128::from(old);
            Some(now.as_nanos().saturating_add(u64::try_from(debt).unwrap_or(u64::MAX)))
        };
        // Where nothing is owed there is nothing to rescale.
        let _ = self.empty_at.fetch_update(Relaxed, Relaxed, rescale);
    }
}

impl Budget {
    /// Makes the budget ready for another part of a budget that is shared, after one with the
    /// tolerance `before`: what it has saved stays,
    /// the new burst at most, and nothing is added to it. So what all parts together have saved
    /// never grows by being moved, and in any window the whole gives `rate * W + burst` at most,
    /// with the sum of the parts' bursts, however often they are moved.
    pub(crate) fn change_share(&self, now: Instant, before: u64, allowance: &Allowance) {
        let (new, tolerance) = (allowance.interval.as_nanos(), allowance.tolerance.as_nanos());
        let old = self.interval.swap(new, Relaxed);
        if (old, before) == (new, tolerance) {
            return;
        }
        let burst = u128::from(tolerance) + u128::from(new);
        let change = |empty_at: u64| {
            if new == Duration::MAX.as_nanos() {
                return Some(u64::MAX);
            }
            let had_none = old == 0 || old == Duration::MAX.as_nanos();
            let debt = if had_none {
                burst
            } else {
                let scaled = |nanos: u128| nanos * u128::from(new) / u128::from(old);
                let debt = scaled(empty_at.saturating_sub(now.as_nanos()).into());
                (debt + burst).saturating_sub(scaled(u128::from(before) + u128::from(old)))
            };
            Some(now.as_nanos().saturating_add(u64::try_from(debt).unwrap_or(u64::MAX)))
        };
        // It never says no.
        let _ = self.empty_at.fetch_update(Relaxed, Relaxed, change);
    }
}

/// The default burst is what comes in this time: long enough for the jitter of real arrivals,
/// short enough that the first second of a spike is already right.
const BURST_SPAN: Duration = Duration::from_millis(100);

/// Random arrivals of 1.1 times a budget use 98.8 % of it with a burst of 12, 97.1 % with 8.
const BURST_MIN: u64 = 12;

/// Batches of 5 on average use 98.6 % of a budget of which they want 1.1 times with a burst of 100.
const BURST_OF_BATCHES: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn of_an_even_double_rate_every_other_request_conforms() {
        let allowance = Allowance::new(Rate::per_sec(100), Some(1));
        let budget = Budget::default();
        let taken: Vec<bool> =
            (0..10).map(|n| budget.take(&allowance, Instant::from_nanos(n * 5_000_000))).collect();
        assert_eq!(taken, [true, false].repeat(5));
    }

    #[test]
    fn the_default_burst_is_a_tenth_of_a_second_and_at_least_twelve() {
        for (rate, burst) in [(500, 1), (1_000, 12), (100_000, 12), (500_000, 50)] {
            let allowance = Allowance::new(Rate::milli_per_sec(rate), None);
            let budget = Budget::default();
            let take = |_: &u32| {
                budget.count(&allowance, Instant::ZERO);
                budget.take(&allowance, Instant::ZERO)
            };
            let at_once = (0..1_000).filter(take).count();
            assert_eq!(at_once, burst.max(12), "{rate} in a thousand seconds");
        }
    }

    #[test]
    fn a_refused_request_knows_when_to_come_back() {
        let allowance = Allowance::new(Rate::per_sec(10), Some(2));
        let budget = Budget::default();
        let now = Instant::from_nanos(7_000_000_000);
        assert!(budget.take(&allowance, now) && budget.take(&allowance, now));
        assert!(!budget.take(&allowance, now));
        let ready = budget.ready_at(&allowance);
        assert_eq!(ready.since(now), Duration::from_millis(100));
        assert!(budget.take(&allowance, ready));
    }

    #[test]
    fn a_change_of_rate_forgives_nothing() {
        let (fast, slow) = (Rate::per_sec(100), Rate::per_sec(10));
        let (fast, slow) = (Allowance::new(fast, Some(4)), Allowance::new(slow, Some(4)));
        let budget = Budget::default();
        let now = Instant::from_nanos(1_000_000_000);
        budget.change(now, &fast);
        let given = (0..3).filter(|_| budget.take(&fast, now)).count();
        budget.change(now, &slow);
        let more = (0..9).filter(|_| budget.take(&slow, now)).count();
        assert_eq!((given, more), (3, 1));
    }

    proptest! {
        #[test]
        fn no_window_gets_more_than_rate_times_window_plus_burst(
            rate in 1u64..5_000,
            burst in prop::option::of(1u32..50),
            batches in prop::collection::vec((0u64..20_000_000, 1u8..40), 1..100),
        ) {
            let rated = Rate::per_sec(rate);
            let allowance = Allowance::new(rated, burst);
            let burst = burst.map_or(default_burst_of_batches(rated), u64::from);
            let budget = Budget::default();
            let mut now = 0;
            let mut given = Vec::new();
            for (gap, size) in batches {
                now += gap;
                for _ in 0..size {
                    budget.count(&allowance, Instant::from_nanos(now));
                    if budget.take(&allowance, Instant::from_nanos(now)) {
                        given.push(now);
                    }
                }
            }
            for (first, start) in given.iter().enumerate() {
                for (last, end) in given.iter().enumerate().skip(first) {
                    let in_window = (last - first + 1) as u64;
                    let allowed = (end - start) * rate / 1_000_000_000 + burst;
                    prop_assert!(in_window <= allowed, "{in_window} > {allowed}");
                }
            }
        }
    }

    /// What three edges give of a budget that is moved between them while each is asked all the
    /// time.
    fn given(rate: u64, moves: &[(u64, [u64; 3])]) -> Vec<Instant> {
        let budgets = [Budget::default(), Budget::default(), Budget::default()];
        let rate = Rate::per_sec(rate);
        let (mut given, mut before) = (Vec::new(), [0; 3]);
        let mut now = Instant::ZERO;
        for (millis, parts) in moves {
            let all = parts.iter().sum::<u64>().max(1);
            let shares =
                parts.map(|part| Allowance::shared(rate, Some(20), Share::part(part, all)));
            for ((budget, share), before) in budgets.iter().zip(&shares).zip(&mut before) {
                let before = core::mem::replace(before, share.tolerance());
                budget.change_share(now, before, share);
            }
            for _ in 0..*millis * 2 {
                now = now + Duration::from_micros(500);
                for (budget, share) in budgets.iter().zip(&shares) {
                    while budget.take(share, now) {
                        given.push(now);
                    }
                }
            }
        }
        given
    }

    proptest! {
        #[test]
        fn a_budget_that_is_moved_between_edges_is_exceeded_in_no_window(
            rate in 20_u64..2_000,
            moves in prop::collection::vec((1_u64..200, prop::array::uniform3(0_u64..4)), 1..20),
        ) {
            let given = given(rate, &moves);
            for (first, from) in given.iter().enumerate() {
                for (last, to) in given.iter().enumerate().skip(first) {
                    let window = to.since(*from).as_secs_f64();
                    // The burst of 20, and one for each edge.
                    let most = rate as f64 * window + 20.0 + 3.0 + 1e-3;
                    prop_assert!(((last - first + 1) as f64) <= most, "{window} s from {from:?}");
                }
            }
        }
    }

    #[test]
    fn a_share_that_grows_earns_more_and_has_saved_no_more() {
        let (all, budget) = (Rate::per_sec(100), Budget::default());
        let share = |percent| Allowance::shared(all, Some(20), Share::part(percent, 100));
        budget.change_share(Instant::ZERO, 0, &share(50));
        assert!(!budget.take(&share(50), Instant::ZERO), "it begins with nothing");
        let now = Instant::ZERO + Duration::from_secs(10);
        budget.change_share(now, share(50).tolerance(), &share(100));
        let given = (0..30).filter(|_| budget.take(&share(100), now)).count();
        assert_eq!(given, 11, "the burst of a half, and one");
        budget.change_share(now, share(100).tolerance(), &share(0));
        let later = now + Duration::from_secs(10);
        assert!(!budget.take(&share(0), later), "nothing of nothing");
        budget.change_share(later, share(0).tolerance(), &share(50));
        assert!(!budget.take(&share(50), later), "nothing was earned meanwhile");
    }

    #[test]
    fn a_rate_of_zero_is_no_rate_without_a_limit() {
        let nothing = Allowance::new(Rate::default(), Some(10));
        let budget = Budget::default();
        let given = (1..100).filter(|at| budget.take(&nothing, Instant::from_nanos(*at))).count();
        assert!(given <= 1, "{given}");
    }
}
