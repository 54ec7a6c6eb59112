//! Which pings are under way, and what a response to one means. No clock of its own.
//!
//! ```text
//! sent --answer in time--> answered --answer--> duplicate
//!   `--timeout--> lost --answer--> late, then as answered
//! ```
//! Only the first response in time counts; a late one finds its ping counted as lost, for good.

use std::collections::BTreeMap;

use loadline_core::time::{Duration, Instant};

/// The pings to one address.
#[derive(Debug)]
pub(super) struct Track {
    timeout: Duration,
    under_way: BTreeMap<u64, Instant>,
    /// Numbers that timed out and of which no response has come since.
    lost: Vec<u64>,
    sent: u64,
}

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The first, in time: so long it took.
    First(Duration),
    /// The first, after the timeout: so long it took.
    Late,
    /// A further response to the same ping.
    Duplicate,
    /// To something never sent.
    Stray,
}

impl Track {
    pub(super) const fn new(timeout: Duration) -> Self {
        Self { timeout, under_way: BTreeMap::new(), lost: Vec::new(), sent: 0 }
    }

    /// Notes that a number was sent; numbers rise from 1.
    pub(super) fn sent(&mut self, number: u64, at: Instant) {
        self.sent = self.sent.max(number);
        self.under_way.insert(number, at);
    }

    /// Says better when a number was sent; nothing where it has ended.
    pub(super) fn correct(&mut self, number: u64, at: Instant) {
        if let Some(sent) = self.under_way.get_mut(&number) {
            *sent = at;
        }
    }

    /// What a response that came at `at` is. One that came after its timeout is late even where
    /// [`Track::expire`] has not been asked since: its number stays under way, to be lost there.
    pub(super) fn answered(&mut self, number: u64, at: Instant) -> Reply {
        if let Some(sent) = self.under_way.get(&number) {
            let took = at.since(*sent);
            if took > self.timeout {
                return Reply::Late;
            }
            self.under_way.remove(&number);
            return Reply::First(took);
        }
        if let Some(index) = self.lost.iter().position(|lost| *lost == number) {
            self.lost.swap_remove(index);
            return Reply::Late;
        }
        if (1..=self.sent).contains(&number) { Reply::Duplicate } else { Reply::Stray }
    }

    /// Gives one up that cannot be answered any more.
    pub(super) fn give_up(&mut self, number: u64) -> bool {
        self.under_way.remove(&number).is_some()
    }

    /// The numbers whose time is over, the oldest first; each is told once.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<u64> {
        let over = |sent: &Instant| now.since(*sent) > self.timeout;
        let expired: Vec<_> = self
            .under_way
            .iter()
            .filter(|(_, sent)| over(sent))
            .map(|(number, _)| *number)
            .collect();
        for number in &expired {
            self.under_way.remove(number);
            self.lost.push(*number);
        }
        expired
    }

    /// When the next expires if nothing comes.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let oldest = self.under_way.values().next()?;
        Some(*oldest + self.timeout + Duration::from_nanos(1))
    }

    /// The one sent first of those under way.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.under_way.keys().next().copied()
    }

    /// All that are under way.
    pub(super) fn under_way(&self) -> Vec<u64> {
        self.under_way.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn track() -> Track {
        let mut track = Track::new(Duration::from_millis(100));
        track.sent(1, at(0));
        track.sent(2, at(50));
        track
    }

    #[test]
    fn the_first_answer_counts_and_every_other_is_a_duplicate() {
        let mut track = track();
        assert_eq!(track.answered(2, at(53)), Reply::First(Duration::from_millis(3)));
        assert_eq!(track.answered(2, at(54)), Reply::Duplicate);
        assert_eq!(track.answered(1, at(55)), Reply::First(Duration::from_millis(55)));
        assert!(track.expire(at(1_000)).is_empty(), "nothing is left to be lost");
    }

    #[test]
    fn a_late_answer_finds_its_ping_lost() {
        let mut track = track();
        assert_eq!(track.next_expiry(), Some(at(100) + Duration::from_nanos(1)));
        assert!(track.expire(at(100)).is_empty());
        assert_eq!(track.expire(at(120)), [1]);
        assert_eq!(track.answered(1, at(130)), Reply::Late);
        assert_eq!(track.answered(1, at(131)), Reply::Duplicate);
        assert!(track.expire(at(140)).is_empty(), "it is lost once");
    }

    #[test]
    fn an_answer_after_its_time_is_late_before_anybody_looked_too() {
        let mut track = track();
        assert_eq!(track.answered(1, at(101)), Reply::Late);
        assert_eq!(track.expire(at(101)), [1]);
    }

    #[test]
    fn an_answer_to_nothing_is_a_stray() {
        let mut track = track();
        assert_eq!(track.answered(3, at(60)), Reply::Stray);
        assert_eq!(track.answered(0, at(60)), Reply::Stray);
    }

    #[test]
    fn what_cannot_be_answered_is_given_up_once() {
        let mut track = track();
        assert_eq!(track.oldest(), Some(1));
        assert!(track.give_up(1));
        assert!(!track.give_up(1));
        assert_eq!(track.under_way(), [2]);
    }
}
