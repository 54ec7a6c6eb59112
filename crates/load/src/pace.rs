//! What happens after the generator itself was held up: no burst.
//!
//! Where the machine took the processor away for 50 ms, ten requests of a plan of 200 per second
//! are overdue at once. Sent at once they would be a burst that nobody planned; left out they
//! would be missing. They are sent at half the planned distance, so at twice the planned rate,
//! until the plan is met again. Their lag and their response time count from the plan all along.
//!
//! `release(i) = max(due(i), release(i - 1) + (due(i) - due(i - 1)) / 2)`, where a release that
//! lies more than [`TOLERANCE`] in the past is moved to now.

use loadline_core::time::{Duration, Instant};

/// When each request of a plan may go, given when it is due and what time it is.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    due: Instant,
    release: Instant,
}

impl Pace {
    /// The instant to send the request that is due at `due`; not before it, and in the past only
    /// within the tolerance. `due` and `now` never run backwards.
    pub(crate) fn release(&mut self, due: Instant, now: Instant) -> Instant {
        let spaced = self.release + due.since(self.due) / 2;
        let release = due.max(spaced);
        let overdue = now.since(release) > TOLERANCE;
        self.due = due;
        self.release = if overdue { now } else { release };
        self.release
    }
}

/// Waking up this late is everyday noise and not worth spreading.
const TOLERANCE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn on_time_the_plan_is_followed_exactly() {
        let mut pace = Pace::default();
        for due in [0, 5, 10, 15] {
            assert_eq!(pace.release(ms(due), ms(due)), ms(due));
        }
    }

    #[test]
    fn after_a_stall_of_fifty_milliseconds_requests_go_at_twice_the_rate() {
        let mut pace = Pace::default();
        assert_eq!(pace.release(ms(0), ms(0)), ms(0));
        let mut now = ms(60);
        let mut releases = Vec::new();
        for i in 1..40 {
            now = now.max(pace.release(ms(5 * i), now));
            releases.push(now.as_nanos() / 100_000);
        }
        assert_eq!(releases[..4], [600, 625, 650, 675]);
        let met = releases.iter().position(|at| *at == 1_150);
        assert_eq!(met, Some(22), "the plan is met again at 115 ms: {releases:?}");
        assert_eq!(releases[23], 1_200);
    }

    proptest! {
        /// However late the generator wakes, the requests let go in one look at the clock are no
        /// more than twice what the plan holds in the tolerance, plus one.
        #[test]
        fn no_wake_lets_a_burst_go(stalls in prop::collection::vec(0u64..80_000_000, 1..60)) {
            let distance = 1_000_000;
            let mut pace = Pace::default();
            let (mut now, mut due) = (Instant::ZERO, Instant::ZERO);
            for stall in stalls {
                now = now + Duration::from_nanos(stall);
                let mut burst = 0;
                let next = loop {
                    let release = pace.release(due, now);
                    prop_assert!(release >= due);
                    if release > now {
                        break release;
                    }
                    burst += 1;
                    due = due + Duration::from_nanos(distance);
                };
                prop_assert!(burst <= 2 * TOLERANCE.as_nanos() / distance + 1, "{burst}");
                now = next;
                due = due + Duration::from_nanos(distance);
            }
        }
    }
}
