//! Rate limits per key: each client, or each value of a header or cookie, has its own budget.
//!
//! The budgets are those of [`crate::budget`] (GCRA: one instant each, the theoretical arrival
//! time) in a table that never grows. A key may stand in one of [`WAYS`] places; when these are
//! taken the one that owes least gives way. A budget that owes nothing is as good as new, so that
//! nothing is forgotten unless more keys than the table has places are over their even rate at the
//! same time; and those deepest in debt are kept longest.
//!
//! A place is one atomic number: 16 bits of the key's hash and 48 bits of time in units of 1.024 us
//! (nine years). So two workers never mix the halves of two keys. Keys whose hashes agree in the 16
//! bits and in the set share a budget: with the default of 65,536 places any two of them with a
//! chance of 1 in 500 million.

use alloc::{boxed::Box, string::String};
use core::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    time::{Duration, Instant},
    units::Rate,
};

/// How many requests of each key are let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests of one key.
    pub rate: Rate,
    /// Requests of one key that may come at once, at least 1.
    pub burst: u32,
    /// What a key is.
    pub by: LimitKey,
    /// Keys that are remembered at a time.
    pub keys: u32,
}

/// Whose requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitKey {
    /// Those of a client's address, of IPv6 its first 64 bits.
    Client,
    /// Those with the same value of this header; of the client's address where it is absent.
    Header(String),
    /// Those with the same value of this cookie; of the client's address where it is absent.
    Cookie(String),
}

/// What has been let through, shared by all workers.
#[derive(Debug)]
pub struct Limiter {
    interval: u64,
    tolerance: u64,
    sets: Box<[[AtomicU64; WAYS]]>,
}

impl Limiter {
    /// A table in which nobody owes anything; takes 8 bytes for each of its keys.
    #[must_use]
    pub fn new(limit: &RateLimit) -> Self {
        // Rounded up, so that never more than the rate gets through.
        let interval = limit.rate.interval().as_nanos().div_ceil(1 << TICK_BITS).max(1);
        let sets = (limit.keys as usize).div_ceil(WAYS).max(1);
        Self {
            interval,
            tolerance: interval.saturating_mul(u64::from(limit.burst.saturating_sub(1))),
            sets: (0..sets).map(|_| array::from_fn(|_| AtomicU64::new(0))).collect(),
        }
    }

    /// Takes one request out of the budget of the key with this hash, which must be even over
    /// all 64 bits and secret from those who choose the keys.
    ///
    /// # Errors
    /// How long it takes until the next request of this key conforms.
    pub fn take(&self, key: u64, now: Instant) -> Result<(), Duration> {
        let now = ticks(now);
        let at = ((u128::from(key) * self.sets.len() as u128) >> 64) as usize;
        let tag = key << TIME_BITS;
        loop {
            let (place, seen) = place(&self.sets[at], tag);
            let empty_at = if seen & !TIME == tag { seen & TIME } else { 0 };
            let ready_at = empty_at.saturating_sub(self.tolerance);
            if ready_at > now {
                return Err(Duration::from_nanos((ready_at - now) << TICK_BITS));
            }
            let empty_at = empty_at.max(now).saturating_add(self.interval).min(TIME);
            if place.compare_exchange(seen, tag | empty_at, Relaxed, Relaxed).is_ok() {
                return Ok(());
            }
        }
    }
}

/// Where a key stands, or else the place of the one that owes least, and what is there.
fn place(set: &[AtomicU64; WAYS], tag: u64) -> (&AtomicU64, u64) {
    let seen: [u64; WAYS] = array::from_fn(|way| set[way].load(Relaxed));
    let own = seen.iter().position(|seen| seen & !TIME == tag && *seen != 0);
    let least = || (0..WAYS).min_by_key(|way| seen[*way] & TIME).unwrap_or(0);
    let way = own.unwrap_or_else(least);
    (&set[way], seen[way])
}

fn ticks(now: Instant) -> u64 {
    (now.as_nanos() >> TICK_BITS).min(TIME)
}

/// Places in which a key may stand; as many as a cache line has.
const WAYS: usize = 8;

/// Bits of the time in a place.
const TIME_BITS: u32 = 48;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// A unit of time is this power of two in nanoseconds.
const TICK_BITS: u32 = 10;

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    fn limiter(rate: u64, burst: u32, keys: u32) -> Limiter {
        let rate = Rate::per_sec(rate);
        Limiter::new(&RateLimit { rate, burst, by: LimitKey::Client, keys })
    }

    fn hash(n: u64) -> u64 {
        (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1) + Duration::from_millis(millis)
    }

    #[test]
    fn each_key_has_its_own_budget_and_is_told_when_to_come_back() {
        let limiter = limiter(10, 2, 64);
        for key in [hash(1), hash(2)] {
            assert!(limiter.take(key, at(0)).is_ok() && limiter.take(key, at(0)).is_ok());
            let wait = limiter.take(key, at(0)).expect_err("the burst is over");
            assert!(wait.as_nanos().abs_diff(100_000_000) < 2_000, "{wait:?}");
            assert!(limiter.take(key, at(0) + wait).is_ok());
        }
    }

    #[test]
    fn a_flood_of_other_keys_does_not_forgive_the_one_that_owes_most() {
        let limiter = limiter(10, 5, 64);
        while limiter.take(hash(0), at(0)).is_ok() {}
        for other in 1..100_000 {
            assert!(limiter.take(hash(other), at(1)).is_ok());
        }
        assert!(limiter.take(hash(0), at(2)).is_err());
    }

    proptest! {
        #[test]
        fn no_key_gets_more_than_rate_times_window_plus_burst(
            rate in 1u64..5_000,
            burst in 1u32..50,
            asks in prop::collection::vec((0u64..20_000_000, 0u64..6), 1..400),
        ) {
            let limiter = limiter(rate, burst, 64);
            let mut now = 1_000_000_000;
            let mut given: [Vec<u64>; 6] = [const { vec![] }; 6];
            for (gap, key) in asks {
                now += gap;
                if limiter.take(hash(key), Instant::from_nanos(now)).is_ok() {
                    given[key as usize].push(now);
                }
            }
            for given in given {
                let windows = (0..given.len()).flat_map(|first| {
                    (first..given.len()).map(move |last| (first, last))
                });
                for (first, last) in windows {
                    // A tick is lost where the clock is rounded down.
                    let window = given[last] - given[first] + (1 << TICK_BITS);
                    let allowed = window * rate / 1_000_000_000 + u64::from(burst);
                    prop_assert!((last - first + 1) as u64 <= allowed);
                }
            }
        }
    }
}
