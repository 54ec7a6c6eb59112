//! Wakes many users of a closed loop at their instants with one timer.
//!
//! tokio's own timer is up to two milliseconds late, which every think time would show as lag, and
//! a [`Timer`] each would take a descriptor from every user. So they wait in one queue, by instant.

use std::{
    cell::RefCell,
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    io,
};

use loadline_core::time::Instant;
use tokio::sync::{Notify, oneshot};

use crate::clock::{self, Timer};

/// The queue of those who sleep. Somebody must [`ring`](Alarm::ring) it.
#[derive(Default)]
pub(crate) struct Alarm {
    queue: RefCell<BinaryHeap<Reverse<Sleeper>>>,
    changed: Notify,
}

struct Sleeper {
    until: Instant,
    wake: oneshot::Sender<()>,
}

impl Alarm {
    /// Returns at `instant` or as soon after it as the machine allows; at once if it has passed.
    pub(crate) async fn sleep(&self, until: Instant) {
        if until <= clock::now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        self.queue.borrow_mut().push(Reverse(Sleeper { until, wake }));
        self.changed.notify_one();
        // It is lost only where the alarm is gone, and then the run has ended.
        let _ = woken.await;
    }

    /// Wakes the sleepers in their turn, for ever.
    ///
    /// # Errors
    /// The system's error where it gives no timer.
    pub(crate) async fn ring(&self) -> io::Result<()> {
        let mut timer = Timer::new()?;
        loop {
            match self.next() {
                None => self.changed.notified().await,
                Some(next) => tokio::select! {
                    rung = timer.until(next) => {
                        rung?;
                        self.wake(clock::now());
                    }
                    () = self.changed.notified() => {}
                },
            }
        }
    }

    fn next(&self) -> Option<Instant> {
        self.queue.borrow().peek().map(|Reverse(sleeper)| sleeper.until)
    }

    fn wake(&self, now: Instant) {
        while self.next().is_some_and(|next| next <= now) {
            let Some(Reverse(sleeper)) = self.queue.borrow_mut().pop() else { return };
            // A sleeper that gave up needs no waking.
            let _ = sleeper.wake.send(());
        }
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> Ordering {
        self.until.cmp(&other.until)
    }
}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.until == other.until
    }
}

impl Eq for Sleeper {}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::time::Duration;

    #[test]
    fn sleepers_wake_at_their_instants_in_order() {
        let alarm = Alarm::default();
        let start = clock::now();
        let woken = RefCell::new(Vec::new());
        let sleeper = async |millis: u64| {
            let until = start + Duration::from_millis(millis);
            alarm.sleep(until).await;
            assert!(clock::now() >= until);
            woken.borrow_mut().push(millis);
        };
        let all = async { tokio::join!(sleeper(30), sleeper(0), sleeper(10), sleeper(20)) };
        let run = async {
            tokio::select! {
                rung = alarm.ring() => rung.map(|()| ((), (), (), ())),
                all = all => Ok(all),
            }
        };
        crate::runtime().unwrap().block_on(run).unwrap();
        assert_eq!(*woken.borrow(), [0, 10, 20, 30]);
    }
}
