//! The retry budget of a service, so that retries do not overload a failing service.
//!
//! Two buckets: every request adds its share (20 %) to the first, which holds at most a hundred
//! retries; a retry takes one out of it or, when it is empty, out of the rate budget `min_rate`
//! that also a quiet service has. Source: Finagle's `RetryBudget`.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::{
        atomic::AtomicU64,
        budget::{Allowance, Budget},
        planner::RateChange,
    },
    fleet::Retry,
    time::Instant,
};

/// What a service may still retry.
#[derive(Clone, Debug, Default)]
pub struct RetryBudget {
    /// Retries saved up, in millionths.
    saved: AtomicU64,
    floor: Budget,
}

impl RetryBudget {
    /// Counts a request.
    pub fn deposit(&self, rules: &Retry) {
        let share = u64::from(rules.budget.as_ppm());
        let before = self.saved.load(Relaxed);
        if before < SAVED_MAX {
            self.saved.store(before.saturating_add(share).min(SAVED_MAX), Relaxed);
        }
    }

    /// Makes the floor ready for other rules; see [`Budget::change`].
    pub(crate) fn change(&self, now: Instant, rules: &Retry, change: RateChange) {
        if let Some(floor) = rules.floor().filter(|floor| change.is_of(&self.floor, floor)) {
            self.floor.change(now, &floor);
        }
    }

    /// Whether there is one to be taken out.
    #[must_use]
    pub fn has(&self, rules: &Retry, now: Instant) -> bool {
        self.saved.load(Relaxed) >= ONE_RETRY
            || rules.floor().is_some_and(|floor| self.floor.ready_at(&floor) <= now)
    }

    /// Takes one retry out, if there is one.
    #[must_use]
    pub fn withdraw(&self, rules: &Retry, now: Instant) -> bool {
        let take = |saved: u64| saved.checked_sub(ONE_RETRY);
        if self.saved.fetch_update(Relaxed, Relaxed, take).is_ok() {
            return true;
        }
        rules.floor().is_some_and(|floor| self.floor.take(&floor, now))
    }

    /// Returns a retry that was not used. It goes to the savings, wherever it came from: the total
    /// is as before.
    pub fn give_back(&self) {
        let add = |saved: u64| Some(saved.saturating_add(ONE_RETRY).min(SAVED_MAX));
        // It never says no.
        let _ = self.saved.fetch_update(Relaxed, Relaxed, add);
    }
}

impl Retry {
    /// What is always allowed. One second of it may be used at once: when a server dies, what was
    /// in flight on it fails in the same millisecond.
    fn floor(&self) -> Option<Allowance> {
        let rate = self.min_rate.as_milli_per_sec();
        let burst = u32::try_from(rate / 1_000).ok();
        (rate > 0).then(|| Allowance::new(self.min_rate, burst))
    }
}

const ONE_RETRY: u64 = 1_000_000;

/// A hundred retries: what is saved up in good times must not feed a storm for long.
const SAVED_MAX: u64 = 100 * ONE_RETRY;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Rate, Ratio};

    #[test]
    fn a_fifth_of_the_requests_may_be_retried_and_no_more() {
        let rules = Retry { min_rate: Rate::default(), ..Retry::default() };
        let budget = RetryBudget::default();
        (0..100).for_each(|_| budget.deposit(&rules));
        let retries = (0..100).filter(|_| budget.withdraw(&rules, Instant::ZERO)).count();
        assert_eq!(retries, 20);
    }

    #[test]
    fn a_quiet_service_has_a_floor_of_retries() {
        let rules = Retry { budget: Ratio::ZERO, ..Retry::default() };
        let budget = RetryBudget::default();
        let retries = (0..100).filter(|_| budget.withdraw(&rules, Instant::ZERO)).count();
        assert_eq!(retries, 10);
    }

    #[test]
    fn savings_are_bounded() {
        let rules = Retry { min_rate: Rate::default(), ..Retry::default() };
        let budget = RetryBudget::default();
        (0..1_000_000).for_each(|_| budget.deposit(&rules));
        let retries = (0..1_000).filter(|_| budget.withdraw(&rules, Instant::ZERO)).count();
        assert_eq!(retries, 100);
    }

    #[test]
    fn a_floor_that_is_raised_is_there_at_once() {
        let rules = |milli| Retry {
            budget: Ratio::ZERO,
            min_rate: Rate::milli_per_sec(milli),
            ..Retry::default()
        };
        let (low, high) = (rules(10), rules(100_000));
        let budget = RetryBudget::default();
        let change = |rules| {
            for change in [RateChange::Lowered, RateChange::Raised] {
                budget.change(Instant::ZERO, rules, change);
            }
        };
        change(&low);
        assert!(budget.withdraw(&low, Instant::ZERO) && !budget.withdraw(&low, Instant::ZERO));
        change(&high);
        let retries = (0..200).filter(|_| budget.withdraw(&high, Instant::ZERO)).count();
        assert_eq!(retries, 99, "a second's worth, less the one that was given");
    }
}
