//! Connections that have not sent their first or next header in full, by listener.
//!
//! A client that sends a byte a second holds a connection for as long as `head` allows, and opens
//! another when it is cut: where a thousand of them fill a listener, a limit of time alone only
//! makes room for moments. So a listener at its connection limit gives the place of the client that
//! has been in its head for longest to the next that comes. Only those that had to be waited for
//! are in here: a head that is there at the first read costs nothing.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use loadline_core::time::{Duration, Instant};

/// Connections in their head, each with its slot of the timers.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Listener, when the head began, slot: the oldest of each listener first.
    by_age: BTreeSet<(usize, Instant, usize)>,
    /// The same by slot.
    places: BTreeMap<usize, (usize, Instant)>,
}

impl Heads {
    /// Notes that the connection with this slot waits for a head since `now`, if not before.
    pub(crate) fn enter(&mut self, slot: usize, listener: usize, now: Instant) {
        if let Entry::Vacant(place) = self.places.entry(slot) {
            place.insert((listener, now));
            self.by_age.insert((listener, now, slot));
        }
    }

    /// Notes that it does not wait for one any more, if it did.
    pub(crate) fn leave(&mut self, slot: usize) {
        if let Some((listener, since)) = self.places.remove(&slot) {
            self.by_age.remove(&(listener, since, slot));
        }
    }

    /// Takes out who has waited longest at the listener, and for [`GRACE`] at least.
    pub(crate) fn take_oldest(&mut self, listener: usize, now: Instant) -> Option<usize> {
        let (_, since, slot) = *self.by_age.range((listener, Instant::ZERO, 0)..).next()?;
        let place = self.places.get(&slot)?;
        if place.0 != listener || now < since + GRACE {
            return None;
        }
        self.leave(slot);
        Some(slot)
    }
}

/// Time in which an honest client gets its head through even if a packet of it was lost: a round
/// trip around the world, or the shortest retransmission timeout of Linux (200 ms).
const GRACE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_oldest_of_the_listener_goes_first_and_only_after_its_grace() {
        let mut heads = Heads::default();
        heads.enter(7, 1, at(1_000));
        heads.enter(3, 1, at(1_100));
        heads.enter(5, 2, at(0));
        heads.enter(7, 1, at(9_000));
        assert_eq!(heads.take_oldest(1, at(1_249)), None);
        assert_eq!(heads.take_oldest(1, at(1_250)), Some(7));
        assert_eq!(heads.take_oldest(1, at(1_250)), None);
        assert_eq!(heads.take_oldest(1, at(1_350)), Some(3));
        assert_eq!(heads.take_oldest(1, at(9_999)), None, "5 is with another listener");
    }

    #[test]
    fn whoever_has_sent_its_head_keeps_its_place() {
        let mut heads = Heads::default();
        heads.enter(1, 1, at(0));
        heads.leave(1);
        heads.leave(2);
        assert_eq!(heads.take_oldest(1, at(5_000)), None);
        assert!(heads.by_age.is_empty() && heads.places.is_empty());
    }
}
