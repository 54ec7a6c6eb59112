//! Rate limits per key: each client, or each value of a header or cookie, has its own budget.
//!
//! The budgets are those of [`crate::decide::budget`] (GCRA: one instant each, the theoretical
//! arrival time) in a table that never grows. A key may stand in one of [`WAYS`] places; when these
//! are taken the one that owes least gives way. A budget that owes nothing is as good as new, so
//! that nothing is forgotten unless more keys than the table has places are over their even rate at
//! the same time; and those deepest in debt are kept longest.
//!
//! A place is one atomic number: 16 bits of the key's hash and 48 bits of time in units of 1.024 us
//! (nine years). So two workers never mix the halves of two keys. Keys whose hashes agree in the 16
//! bits and in the set share a budget: with the default of 65,536 places any two of them with a
//! chance of 1 in 500 million.
//!
//! The memory of a table is asked for as zeros and written to where keys come: the kernel gives a
//! page at the first of them, so that a limit that hears of no key takes next to none.

use alloc::{string::String, sync::Arc, vec, vec::Vec};
use core::{array, cmp::Reverse, sync::atomic::Ordering::Relaxed};

use crate::{
    decide::atomic::AtomicU64,
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

/// The key by which requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKey {
    /// The client's address; of IPv6 its first 64 bits.
    Client,
    /// Those with the same value of this header; of the client's address where it is absent.
    Header(String),
    /// Those with the same value of this cookie; of the client's address where it is absent.
    Cookie(String),
}

/// A limit in force. What has been let through is shared by its copies and by the limits that
/// follow it.
#[derive(Clone, Debug)]
pub struct Limiter {
    interval: u64,
    tolerance: u64,
    table: Table,
}

/// A limit with a higher rate than the one before, in whose rate is still said what is owed.
#[derive(Clone, Debug)]
pub(crate) struct Raised {
    limiter: Limiter,
    before: u64,
}

impl Raised {
    /// Says what is owed in the rate of the limit.
    pub(crate) fn settle(self, now: Instant) {
        self.limiter.rescale(self.before, ticks(now));
    }
}

/// The places in which a key may stand.
type Set = [AtomicU64; WAYS];

/// The places of all keys, in sets; a copy is a reference.
#[derive(Clone, Debug)]
struct Table(Arc<Vec<AtomicU64>>);

impl Table {
    fn new(sets: usize) -> Self {
        // `make dist` makes no loop of this: the zeros stay as they were allocated.
        Self(Arc::new(vec![0; sets * WAYS].into_iter().map(AtomicU64::new).collect()))
    }

    fn sets(&self) -> &[Set] {
        self.0.as_chunks().0
    }

    /// A copy that shares nothing with this one.
    fn snapshot(&self) -> Self {
        Self(Arc::new(self.0.iter().cloned().collect()))
    }

    /// A table of another size with what is in this one. Each set gets what any of its keys may
    /// owe; where that is too much those that owe most stay.
    fn resized(&self, count: usize) -> Self {
        let (old, resized) = (self.sets(), Self::new(count));
        for (at, set) in resized.sets().iter().enumerate() {
            let first = at * old.len() / count;
            let end = ((at + 1) * old.len()).div_ceil(count);
            let places = old[first..end].iter().flatten();
            let owed = places.map(|place| place.load(Relaxed)).filter(|seen| *seen != 0);
            let mut owed: Vec<u64> = owed.collect();
            owed.sort_unstable_by_key(|seen| Reverse(seen & TIME));
            set.iter().zip(owed).for_each(|(place, seen)| place.store(seen, Relaxed));
        }
        resized
    }
}

impl Limiter {
    /// A table in which nobody owes anything; takes up to 8 bytes for each of its keys, as they
    /// come.
    #[must_use]
    pub fn new(limit: &RateLimit) -> Self {
        Self::of(limit, Table::new(set_count(limit)))
    }

    /// A copy that shares nothing with this one.
    pub(crate) fn snapshot(&self) -> Self {
        Self { table: self.table.snapshot(), ..*self }
    }

    /// The limit that follows this one: what each key has been given stays given, counted in
    /// requests, not in the time that they took at the old rate. What old copies let through
    /// meanwhile counts too, unless there are more or fewer keys now.
    ///
    /// A limit with a higher rate is not ready until [`Raised::settle`]: as long as this one is in
    /// force each request that it lets through takes more than it may by the next.
    #[must_use]
    pub(crate) fn followed_by(&self, limit: &RateLimit, now: Instant) -> (Self, Option<Raised>) {
        let count = set_count(limit);
        let is_same = self.table.sets().len() == count;
        let table = if is_same { self.table.clone() } else { self.table.resized(count) };
        let next = Self::of(limit, table);
        if is_same && next.interval < self.interval {
            let raised = Raised { limiter: next.clone(), before: self.interval };
            return (next, Some(raised));
        }
        if next.interval != self.interval {
            next.rescale(self.interval, ticks(now));
        }
        (next, None)
    }

    fn of(limit: &RateLimit, table: Table) -> Self {
        // Rounded up, so that never more than the rate gets through.
        let interval = limit.rate.interval().as_nanos().div_ceil(1 << TICK_BITS).max(1);
        let tolerance = interval.saturating_mul(u64::from(limit.burst.saturating_sub(1)));
        Self { interval, tolerance, table }
    }

    /// Says in the present interval what is owed in the one before.
    fn rescale(&self, before: u64, now: u64) {
        let rescaled = |seen: u64| {
            // Where nothing is owed there is nothing to rescale.
            let debt = (seen & TIME).checked_sub(now)?;
            let debt = u128::from(debt) * u128::from(self.interval) / u128::from(before);
            let empty_at = now.saturating_add(u64::try_from(debt).unwrap_or(TIME)).min(TIME);
            Some(seen & !TIME | empty_at)
        };
        for place in self.table.0.iter() {
            let _ = place.fetch_update(Relaxed, Relaxed, rescaled);
        }
    }

    /// Takes one request out of the budget of the key with this hash, which must be even over
    /// all 64 bits and secret from those who choose the keys.
    ///
    /// # Errors
    /// How long it takes until the next request of this key conforms.
    pub fn take(&self, key: u64, now: Instant) -> Result<(), Duration> {
        let now = ticks(now);
        let sets = self.table.sets();
        let at = ((u128::from(key) * sets.len() as u128) >> 64) as usize;
        let tag = key << TIME_BITS;
        loop {
            let (place, seen) = place(&sets[at], tag);
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

/// How many sets a limit has.
fn set_count(limit: &RateLimit) -> usize {
    (limit.keys as usize).div_ceil(WAYS).max(1)
}

/// The place of a key, or of the key that owes least, and its value.
fn place(set: &Set, tag: u64) -> (&AtomicU64, u64) {
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

    #[test]
    fn a_limit_that_follows_another_forgives_nothing() {
        let fast = limiter(100, 4, 64);
        (0..3).for_each(|_| assert!(fast.take(hash(1), at(0)).is_ok()));
        let slow = RateLimit { rate: Rate::per_sec(10), burst: 4, by: LimitKey::Client, keys: 64 };
        let (slow, raised) = fast.followed_by(&slow, at(0));
        assert!(raised.is_none());
        let more = (0..9).filter(|_| slow.take(hash(1), at(0)).is_ok()).count();
        assert_eq!(more, 1, "three of four were given before");
        assert!(slow.take(hash(2), at(0)).is_ok());
        assert!(fast.take(hash(1), at(0)).is_err(), "who still goes by the old one sees the same");
    }

    #[test]
    fn what_the_old_limit_lets_through_until_a_raised_one_is_in_force_does_not_refuse_for_long() {
        let old = limiter(1, 10, 64);
        let higher =
            RateLimit { rate: Rate::per_sec(100), burst: 10, by: LimitKey::Client, keys: 64 };
        let (new, raised) = old.followed_by(&higher, at(0));
        // It takes a second until all else of the configuration is there.
        assert_eq!((0..100).filter(|n| old.take(hash(1), at(10 * n)).is_ok()).count(), 10);
        raised.expect("it is higher").settle(at(0));
        assert!(new.take(hash(1), at(1_000)).is_ok());
    }

    #[test]
    fn a_table_of_another_size_knows_who_owes() {
        for (before, after) in [(64, 1_000), (1_000, 64), (64, 40)] {
            let terms =
                |keys| RateLimit { rate: Rate::per_sec(10), burst: 5, by: LimitKey::Client, keys };
            let limiter = Limiter::new(&terms(before));
            let keys = || (0..8).map(hash);
            keys().for_each(|key| while limiter.take(key, at(0)).is_ok() {});
            let (next, _) = limiter.followed_by(&terms(after), at(0));
            assert!(keys().all(|key| next.take(key, at(1)).is_err()), "{before} to {after}");
            assert!(next.take(hash(100), at(1)).is_ok());
        }
    }

    #[test]
    fn a_million_clients_are_each_held_to_their_rate_in_the_memory_that_is_stated() {
        let (clients, keys) = (1_000_000, 16 << 20);
        let limiter = limiter(10, 5, keys);
        assert_eq!(size_of_val(limiter.table.sets()), keys as usize * 8);
        let mut given = vec![0_u8; clients];
        // In 100 ms each asks ten times, of which five are its burst.
        for round in 0..10 {
            for (client, given) in given.iter_mut().enumerate() {
                let now = at(10 * round) + Duration::from_nanos(client as u64);
                let key = hash(client as u64);
                *given += u8::from(limiter.take(hash(key ^ key >> 29), now).is_ok());
            }
        }
        assert_eq!(given.iter().filter(|given| **given > 5).count(), 0, "over their rate");
        // Those whose hashes agree share a budget.
        assert!(given.iter().filter(|given| **given < 5).count() < 40);
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
