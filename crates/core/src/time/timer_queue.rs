//! A queue of timers: each key once, the earliest first.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::time::Instant;

/// When each of the things is due that have a time.
#[derive(Clone, Debug)]
pub(crate) struct TimerQueue<K> {
    times: BTreeMap<K, Instant>,
    order: BTreeSet<(Instant, K)>,
}

impl<K> Default for TimerQueue<K> {
    fn default() -> Self {
        Self { times: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> TimerQueue<K> {
    /// Sets when something is due; never, with none.
    pub(crate) fn set(&mut self, what: K, at: Option<Instant>) {
        let before = match at {
            Some(at) => self.times.insert(what, at),
            None => self.times.remove(&what),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, what));
        }
        self.order.extend(at.map(|at| (at, what)));
    }

    /// Takes out what is due at `now`, the earliest first.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        let (at, what) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.order.pop_first();
        self.times.remove(&what);
        Some(what)
    }

    /// When something is due; none if never.
    pub(crate) fn get(&self, what: K) -> Option<Instant> {
        self.times.get(&what).copied()
    }

    /// When the next thing is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// What has a time, in no order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = K> {
        self.times.keys().copied()
    }

    /// Forgets everything but this.
    pub(crate) fn retain(&mut self, stays: impl Fn(K) -> bool) {
        self.times.retain(|what, _| stays(*what));
        self.order.retain(|(_, what)| stays(*what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn each_thing_is_due_once_and_at_the_time_that_was_said_last() {
        let mut queue = TimerQueue::default();
        for (what, time) in [("b", 20), ("a", 10), ("b", 5), ("c", 30)] {
            queue.set(what, Some(at(time)));
        }
        queue.set("a", None);
        assert_eq!(
            (queue.next(), queue.get("b"), queue.get("a")),
            (Some(at(5)), Some(at(5)), None)
        );
        assert_eq!(
            (queue.pop(at(4)), queue.pop(at(5)), queue.pop(at(29))),
            (None, Some("b"), None)
        );
        queue.retain(|what| what != "c");
        assert_eq!((queue.next(), queue.pop(at(99))), (None, None));
    }
}
