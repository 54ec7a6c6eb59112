//! Which of many equal events are told: the first, then one each period for all since.
//!
//! A server that fails every request is worth a line in the log, not one for each request.

use alloc::collections::BTreeMap;

use crate::time::{Duration, Instant};

/// Kinds of events by key `K`, and when each was last told.
#[derive(Debug)]
pub struct Coalesced<K> {
    period: Duration,
    kinds: BTreeMap<K, Kind>,
}

#[derive(Debug)]
struct Kind {
    told: Instant,
    /// Events since `told`.
    untold: u64,
}

impl<K: Ord + Clone> Coalesced<K> {
    /// Tells each kind of event at most once in `period`.
    #[must_use]
    pub const fn new(period: Duration) -> Self {
        Self { period, kinds: BTreeMap::new() }
    }

    /// Takes note of `count` events: how many are to be told of now, if any are.
    pub fn note(&mut self, now: Instant, key: &K, count: u64) -> Option<u64> {
        if let Some(kind) = self.kinds.get_mut(key) {
            kind.untold += count;
            if now.since(kind.told) < self.period {
                return None;
            }
            kind.told = now;
            return Some(core::mem::take(&mut kind.untold));
        }
        if self.kinds.len() >= KINDS_MAX {
            self.forget(now);
        }
        self.kinds.insert(key.clone(), Kind { told: now, untold: 0 });
        Some(count)
    }

    /// Makes room: forgets the kinds told longer than a period ago, else the one told first.
    fn forget(&mut self, now: Instant) {
        let period = self.period;
        self.kinds.retain(|_, kind| now.since(kind.told) < period);
        if self.kinds.len() >= KINDS_MAX {
            let oldest = self.kinds.iter().min_by_key(|(_, kind)| kind.told);
            let oldest = oldest.map(|(key, _)| key.clone());
            if let Some(key) = oldest {
                self.kinds.remove(&key);
            }
        }
    }
}

/// Kinds of events that are remembered at a time: hundreds of servers, each with several reasons.
const KINDS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let mut events = Coalesced::new(Duration::from_secs(60));
        assert_eq!(events.note(at(0), &"refused", 1), Some(1));
        assert_eq!(events.note(at(1), &"refused", 2), None);
        assert_eq!(events.note(at(2), &"expired", 1), Some(1), "another kind");
        assert_eq!(events.note(at(59_999), &"refused", 1), None);
        assert_eq!(events.note(at(60_000), &"refused", 1), Some(4));
        assert_eq!(events.note(at(60_001), &"refused", 1), None);
    }

    #[test]
    fn memory_is_bounded_whatever_happens() {
        let mut events = Coalesced::new(Duration::from_secs(60));
        for key in 0..2 * KINDS_MAX {
            assert_eq!(events.note(at(key as u64), &key, 1), Some(1));
        }
        assert_eq!(events.kinds.len(), KINDS_MAX);
    }

    proptest! {
        #[test]
        fn no_kind_is_told_twice_in_a_period_and_none_is_lost(
            gaps in prop::collection::vec((0u64..2_000, 1u64..9), 1..100),
        ) {
            let mut events = Coalesced::new(Duration::from_secs(1));
            let (mut now, mut seen, mut told, mut last) = (0, 0, 0, None);
            for (gap, count) in gaps {
                now += gap;
                seen += count;
                if let Some(these) = events.note(at(now), &(), count) {
                    prop_assert!(last.is_none_or(|last| now - last >= 1_000));
                    (last, told) = (Some(now), told + these);
                    prop_assert_eq!(told, seen);
                }
            }
        }
    }
}
