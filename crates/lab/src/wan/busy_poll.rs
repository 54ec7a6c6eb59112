//! Whether the router sleeps or polls its ports until a packet is due; without its clock.
//!
//! A sleeper is woken late: by some 30 us, and every tenth time, on a virtual machine, by 100 to
//! 200. So the router has itself woken before a packet is due, as early as most wake-ups were late,
//! and polls for the rest. The processor that polling takes is missing elsewhere, so it has a
//! budget. A lab with few packets never uses that up; where there are many, the router wakes the
//! less early, and hardly sleeps anyhow.

use loadline_core::time::{Duration, Instant};

/// When to sleep, and until when.
#[derive(Clone, Debug)]
pub(super) struct BusyPoll {
    /// How late most wake-ups were.
    late: Duration,
    /// Time that may be spent polling.
    budget: Duration,
    /// When the budget was last added to.
    added: Instant,
    wait: Wait,
}

/// What the router does until something comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing is under way, or something is due already.
    Other,
    Sleep {
        until: Instant,
    },
    Poll {
        /// Polling until then has been taken off the budget.
        since: Instant,
    },
}

impl BusyPoll {
    /// A router that has not slept yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { late: LATE_AT_FIRST, budget: BUDGET_MAX, added: now, wait: Wait::Other }
    }

    /// How long to wait for something to come where the next packet is due at `due`: zero is to
    /// poll. For ever where none is under way.
    pub(super) fn begin(&mut self, now: Instant, due: Option<Instant>) -> Option<Duration> {
        let earned = now.since(self.added) / ELAPSED_TO_POLLED;
        self.budget = (self.budget + earned).min(BUDGET_MAX);
        self.added = now;
        // What a turn of polling takes besides counts as well.
        let since = if let Wait::Poll { since } = self.wait { since } else { now };
        self.wait = Wait::Other;
        let left = due?.since(now);
        // Of both, what is left falls faster, so that polling is not broken off.
        let lead = self.late.min(self.budget / BUDGET_TO_LEAD);
        let sleep = left.saturating_sub(lead);
        if sleep > Duration::ZERO {
            self.wait = Wait::Sleep { until: now + sleep };
        } else if left > Duration::ZERO {
            self.wait = Wait::Poll { since };
        }
        Some(sleep)
    }

    /// The wait is over: something `came`, or the time has passed.
    pub(super) fn end(&mut self, now: Instant, came: bool) {
        match self.wait {
            Wait::Poll { since } => {
                self.budget = self.budget.saturating_sub(now.since(since));
                self.wait = Wait::Poll { since: now };
            }
            Wait::Sleep { until } if !came => self.learn(now.since(until)),
            Wait::Sleep { .. } | Wait::Other => {}
        }
    }

    /// Follows the 95th percentile: it stays where one of 20 is later.
    fn learn(&mut self, late: Duration) {
        self.late = match late > self.late {
            true => (self.late + STEP * 19).min(LATE_MAX),
            false => self.late.saturating_sub(STEP).max(LATE_MIN),
        };
    }
}

/// What many a virtual machine needs.
const LATE_AT_FIRST: Duration = Duration::from_micros(150);

/// A wake-up that is later still is not one that polling could make up for.
const LATE_MAX: Duration = Duration::from_micros(300);

const LATE_MIN: Duration = Duration::from_micros(20);

/// Fast enough for the 120 packets of a calibration, and slow enough to keep the rare late ones.
const STEP: Duration = Duration::from_micros(1);

/// At most a twentieth of the time is spent polling.
const ELAPSED_TO_POLLED: u64 = 20;

/// Enough for the packets of a page after 0.1 s of rest.
const BUDGET_MAX: Duration = Duration::from_millis(5);

/// The whole lead is given by a full budget, less by one that many packets have used up.
const BUDGET_TO_LEAD: u64 = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How the wait for one packet went.
    struct Waited {
        /// When the router was awake for it.
        awake: Instant,
        polled: Duration,
    }

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Waits for a packet as the engine does, where wake-ups are `late` and each poll takes 1 us.
    fn wait(busy_poll: &mut BusyPoll, now: Instant, due: Instant, late: Duration) -> Waited {
        let (mut now, mut polled) = (now, Duration::ZERO);
        while now < due {
            let sleep = busy_poll.begin(now, Some(due)).unwrap();
            assert!(now + sleep <= due);
            now = now + if sleep > Duration::ZERO { sleep + late } else { micros(1) };
            polled = polled + if sleep > Duration::ZERO { Duration::ZERO } else { micros(1) };
            busy_poll.end(now, false);
        }
        Waited { awake: now, polled }
    }

    /// Packets, each due so long after the one before: how late the router was awake for the last
    /// of them, and the share of the time that it polled.
    fn run(busy_poll: &mut BusyPoll, spacing: Duration, late: Duration) -> (Duration, f64) {
        let (mut now, mut polled, mut was_late) = (busy_poll.added, Duration::ZERO, Duration::ZERO);
        for _ in 0..PACKETS {
            let due = now + spacing;
            let waited = wait(busy_poll, now, due, late);
            (now, polled) = (waited.awake, polled + waited.polled);
            was_late = now.since(due);
        }
        (was_late, polled.as_secs_f64() / (spacing * PACKETS).as_secs_f64())
    }

    const PACKETS: u64 = 2_000;

    #[test]
    fn a_router_that_is_woken_late_is_awake_when_a_packet_is_due() {
        for late in [0, 30, 120, 190, 280].map(micros) {
            let mut busy_poll = BusyPoll::new(Instant::ZERO);
            let (was_late, share) = run(&mut busy_poll, Duration::from_millis(10), late);
            assert!(was_late <= micros(1), "woken {late} late: {was_late}");
            assert!(share < 0.005, "woken {late} late: {share}");
        }
    }

    #[test]
    fn where_wake_ups_become_prompt_it_polls_less_and_more_again_where_they_do_not() {
        let mut busy_poll = BusyPoll::new(Instant::ZERO);
        run(&mut busy_poll, Duration::from_millis(10), micros(250));
        assert!(busy_poll.late >= micros(250), "{busy_poll:?}");
        run(&mut busy_poll, Duration::from_millis(10), micros(5));
        assert!(busy_poll.late <= micros(40), "{busy_poll:?}");
        run(&mut busy_poll, Duration::from_millis(10), micros(250));
        assert!(busy_poll.late >= micros(250), "{busy_poll:?}");
    }

    #[test]
    fn with_many_packets_a_twentieth_of_the_time_is_polled() {
        let mut busy_poll = BusyPoll::new(Instant::ZERO);
        let (_, share) = run(&mut busy_poll, micros(200), micros(1));
        // The budget that there is at first is a further 1.25 % here.
        assert!((0.045..=0.0625).contains(&share), "{share}");
    }

    #[test]
    fn what_comes_while_it_sleeps_says_nothing_of_wake_ups() {
        let mut busy_poll = BusyPoll::new(Instant::ZERO);
        let before = busy_poll.late;
        let sleep = busy_poll.begin(Instant::ZERO, Some(Instant::ZERO + micros(5_000))).unwrap();
        assert_eq!(sleep, micros(4_850));
        busy_poll.end(Instant::ZERO + micros(900), true);
        assert_eq!(busy_poll.late, before);
    }

    #[test]
    fn with_nothing_under_way_it_sleeps_for_ever_and_with_something_overdue_not_at_all() {
        let mut busy_poll = BusyPoll::new(Instant::ZERO);
        let now = Instant::ZERO + micros(1_000);
        assert_eq!(busy_poll.begin(now, None), None);
        busy_poll.end(now + micros(70), true);
        let budget = busy_poll.budget;
        assert_eq!(busy_poll.begin(now + micros(70), Some(now)), Some(Duration::ZERO));
        busy_poll.end(now + micros(90), false);
        assert_eq!(busy_poll.budget, budget);
    }

    proptest! {
        #[test]
        fn it_polls_no_more_than_its_share_of_the_time_however_packets_come(
            packets in prop::collection::vec((0u64..2_000, 0u64..400), 1..500),
        ) {
            let mut busy_poll = BusyPoll::new(Instant::ZERO);
            let (mut now, mut polled) = (Instant::ZERO, Duration::ZERO);
            for (until_due, late) in packets {
                let waited = wait(&mut busy_poll, now, now + micros(until_due), micros(late));
                (now, polled) = (waited.awake, polled + waited.polled);
                let most = now.since(Instant::ZERO) / ELAPSED_TO_POLLED + BUDGET_MAX;
                prop_assert!(polled <= most, "{polled} of {now:?}");
            }
        }
    }
}
