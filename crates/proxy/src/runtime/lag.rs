//! The lag of a worker's event loop: the time from an event to its handling.

use std::{cell::Cell, rc::Rc, time};

use loadline_core::time::{Duration, Instant};
use tokio::sync::Notify;

use crate::runtime::clock::Clock;

/// The lag measured by a task that is woken now and then and runs behind all others. It halves from
/// one measurement to the next.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    last: Cell<Duration>,
    /// Since when the task waits.
    woken: Cell<Option<Instant>>,
    wake: Notify,
}

impl Lag {
    /// Runs behind all other tasks, and sees how long that takes.
    pub(super) async fn watch(self: Rc<Self>, clock: Clock) {
        loop {
            self.wake.notified().await;
            if let Some(woken) = self.woken.take() {
                self.observe(clock.now().since(woken));
            }
        }
    }

    /// Wakes the task; `late` is the lateness of the event that does so.
    pub(super) fn probe(&self, now: Instant, late: time::Duration) {
        if self.woken.get().is_none() {
            let late = Duration::from_std(late.saturating_sub(TIMER)).as_nanos();
            self.woken.set(Some(Instant::from_nanos(now.as_nanos().saturating_sub(late))));
            self.wake.notify_one();
        }
    }

    fn observe(&self, late: Duration) {
        self.last.set(late.saturating_sub(IDLE).max(self.last.get() / 2));
    }

    /// What it is now.
    pub(crate) fn get(&self, now: Instant) -> Duration {
        let waits = self.woken.get().map_or(Duration::ZERO, |woken| now.since(woken));
        self.last.get().max(waits.saturating_sub(IDLE))
    }
}

/// Timers are of whole milliseconds, and so late where nothing else is to be done.
const TIMER: time::Duration = time::Duration::from_millis(2);

/// A lag that is none: the tasks of one turn take as long.
const IDLE: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    #[test]
    fn what_comes_late_is_remembered_for_some_time_and_what_is_in_time_is_none() {
        let lag = Lag::default();
        let after = |micros| {
            lag.observe(Duration::from_micros(micros));
            lag.get(Instant::ZERO).as_nanos() / 1_000
        };
        assert_eq!([50, 40_100, 50, 50].map(after), [0, 40_000, 20_000, 10_000]);
        (0..30).for_each(|_| _ = after(50));
        assert_eq!(after(50), 0);
    }

    #[tokio::test]
    async fn tasks_that_wait_for_their_turn_are_the_lag() {
        let clock = Clock::start();
        let lag = Rc::new(Lag::default());
        let watched = lag.clone();
        let wait = async move {
            spawn_local(watched.clone().watch(clock));
            yield_now().await;
            for _ in 0..20 {
                spawn_local(async { std::thread::sleep(time::Duration::from_millis(1)) });
            }
            watched.probe(clock.now(), time::Duration::ZERO);
            while watched.woken.get().is_some() {
                yield_now().await;
            }
        };
        LocalSet::new().run_until(wait).await;
        let seen = lag.get(clock.now());
        assert!(seen >= Duration::from_millis(19), "{seen:?}");
    }
}
