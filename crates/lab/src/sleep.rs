//! A worker that falls asleep where nobody asks, as free machines of a platform do.
//!
//! ```text
//! awake --no request for `after`--> asleep --a request--> waking --`wake` later--> awake
//! ```
//! A request that wakes the worker, and those that come while it is waking, wait until it is
//! awake. Nothing happens at the instant it falls asleep: that it did shows with the next request.

use loadline_core::time::{Duration, Instant};

/// When a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Time without a request after which it falls asleep.
    pub after: Duration,
    /// Time to wake up.
    pub wake: Duration,
}

/// A sleep and how far it has come.
#[derive(Debug)]
pub(crate) struct Sleeper {
    sleep: Sleep,
    last: Option<Instant>,
    awake_at: Instant,
}

impl Sleeper {
    /// Asleep: nobody has asked yet.
    pub(crate) fn new(sleep: Sleep) -> Self {
        Self { sleep, last: None, awake_at: Instant::ZERO }
    }

    /// Notes a request that comes `now`; gives the instant from which it is worked on.
    pub(crate) fn note_request(&mut self, now: Instant) -> Instant {
        if self.last.is_none_or(|last| now >= last + self.sleep.after) {
            self.awake_at = now + self.sleep.wake;
        }
        // Who is still waking up has not been idle.
        self.last = Some(now.max(self.awake_at));
        now.max(self.awake_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn the_first_request_and_one_after_a_long_idle_time_wait_until_it_is_awake() {
        let sleep = Sleep { after: Duration::from_secs(900), wake: Duration::from_secs(10) };
        let mut sleeper = Sleeper::new(sleep);
        assert_eq!(sleeper.note_request(at(5)), at(15));
        assert_eq!(sleeper.note_request(at(7)), at(15), "it is waking up already");
        assert_eq!(sleeper.note_request(at(16)), at(16));
        assert_eq!(sleeper.note_request(at(915)), at(915), "899 s idle");
        assert_eq!(sleeper.note_request(at(1815)), at(1825), "900 s idle");
    }

    #[test]
    fn waking_longer_than_it_takes_to_fall_asleep_ends_all_the_same() {
        let sleep = Sleep { after: Duration::from_secs(1), wake: Duration::from_secs(10) };
        let mut sleeper = Sleeper::new(sleep);
        assert_eq!(sleeper.note_request(at(0)), at(10));
        assert_eq!(sleeper.note_request(at(9)), at(10));
    }
}
