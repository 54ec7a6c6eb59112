//! Coalesces equal events: reports the first, then one for each period, with the number since.
//!
//! A server that fails every request is worth a line in the log, not one for each request.

use alloc::{collections::BTreeMap, vec::Vec};
use core::mem;

use crate::time::{Duration, Instant};

/// Kinds of events by key `K`, and when each was last told. Beyond some thousand they are
/// counted together, as others.
#[derive(Debug)]
pub struct Coalesced<K> {
    period: Duration,
    /// The kinds that came since the generations changed.
    kinds: BTreeMap<K, Kind>,
    /// Those that came before.
    older: BTreeMap<K, Kind>,
    /// When the generations last changed.
    changed: Option<Instant>,
    /// When the others were last told.
    others_told: Option<Instant>,
    /// Other events since then.
    others: u64,
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
        Self {
            period,
            kinds: BTreeMap::new(),
            older: BTreeMap::new(),
            changed: None,
            others_told: None,
            others: 0,
        }
    }

    /// Takes note of `count` events: how many are to be told of now, if any are. None where they
    /// are counted with others.
    pub fn note(&mut self, now: Instant, key: &K, count: u64) -> Option<u64> {
        let known = self.kinds.get_mut(key).or_else(|| self.older.get_mut(key));
        if let Some(kind) = known {
            kind.untold += count;
            if now.since(kind.told) < self.period {
                return None;
            }
            kind.told = now;
            return Some(mem::take(&mut kind.untold));
        }
        if self.kinds.len() >= GENERATION_MAX && !self.change(now) {
            self.others += count;
            return None;
        }
        self.kinds.insert(key.clone(), Kind { told: now, untold: 0 });
        Some(count)
    }

    /// Takes note of `count` other events: how many are to be told of now, if any are.
    pub fn note_others(&mut self, now: Instant, count: u64) -> Option<u64> {
        self.others += count;
        let is_due = self.others_told.is_none_or(|told| now.since(told) >= self.period);
        if self.others == 0 || !is_due {
            return None;
        }
        self.others_told = Some(now);
        Some(mem::take(&mut self.others))
    }

    /// Takes note of `count` events of which nothing is told before the end.
    pub fn keep(&mut self, key: &K, count: u64) {
        match self.kinds.get_mut(key).or_else(|| self.older.get_mut(key)) {
            Some(kind) => kind.untold += count,
            None => self.others += count,
        }
    }

    /// At the end: the kinds of which something is yet to be told with how many events, and how
    /// many others.
    #[must_use]
    pub fn take_untold(&mut self) -> (Vec<(K, u64)>, u64) {
        let kinds = mem::take(&mut self.older).into_iter().chain(mem::take(&mut self.kinds));
        let untold = kinds.map(|(key, kind)| (key, kind.untold)).filter(|(_, count)| *count > 0);
        (untold.collect(), mem::take(&mut self.others))
    }

    /// Makes room, once in a period: forgets the kinds of the older generation, whose untold events
    /// are others from now on.
    fn change(&mut self, now: Instant) -> bool {
        if self.changed.is_some_and(|changed| now.since(changed) < self.period) {
            return false;
        }
        self.changed = Some(now);
        let forgotten = mem::replace(&mut self.older, mem::take(&mut self.kinds));
        self.others += forgotten.values().map(|kind| kind.untold).sum::<u64>();
        true
    }
}

/// Kinds of events that are remembered at a time: hundreds of servers, each with several reasons.
const KINDS_MAX: usize = 4096;

/// Of each generation.
const GENERATION_MAX: usize = KINDS_MAX / 2;

#[cfg(test)]
mod tests {
    use alloc::vec;

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
    fn what_is_untold_at_the_end_is_told_then() {
        let mut events = Coalesced::new(Duration::from_secs(60));
        for (kind, count) in [("refused", 1), ("refused", 2), ("expired", 1), ("refused", 3)] {
            let _ = events.note(at(1), &kind, count);
        }
        events.keep(&"refused", 4);
        events.keep(&"unknown", 5);
        assert_eq!(events.take_untold(), (vec![("refused", 9)], 5));
        assert_eq!(events.take_untold(), (vec![], 0));
    }

    #[test]
    fn ten_thousand_kinds_round_and_round_are_a_bounded_number_of_lines_and_none_is_lost() {
        let mut events = Coalesced::new(Duration::from_secs(60));
        let (mut seen, mut told, mut lines) = (0, 0, 0);
        let (rounds, kinds) = (130, 10_000_u64);
        for round in 0..rounds {
            for key in 0..kinds {
                let now = at(round * 1_000 + key / 10);
                let these = [events.note(now, &key, 1), events.note_others(now, 0)];
                seen += 1;
                told += these.iter().flatten().sum::<u64>();
                lines += these.iter().flatten().count();
            }
            assert!(events.kinds.len() + events.older.len() <= KINDS_MAX);
        }
        let minutes = 3;
        assert!(lines <= minutes * (KINDS_MAX + GENERATION_MAX + 1), "{lines}");
        let untold = events.kinds.values().chain(events.older.values()).map(|kind| kind.untold);
        assert_eq!(told + untold.sum::<u64>() + events.others, seen);
    }

    #[test]
    fn a_kind_for_which_there_is_no_room_is_one_of_the_others() {
        let mut events = Coalesced::new(Duration::from_secs(60));
        for key in 0..KINDS_MAX {
            assert_eq!(events.note(at(0), &key, 1), Some(1));
            assert_eq!(events.note_others(at(0), 0), None);
        }
        assert_eq!(events.note(at(1), &KINDS_MAX, 3), None);
        assert_eq!(events.note_others(at(1), 0), Some(3));
        assert_eq!(events.note(at(2), &KINDS_MAX, 3), None);
        assert_eq!(events.note_others(at(60_000), 0), None);
        assert_eq!(events.note_others(at(60_001), 4), Some(7));
        assert_eq!(events.note(at(60_002), &KINDS_MAX, 1), Some(1), "now there is room");
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
