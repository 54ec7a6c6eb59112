//! Waking at an instant, not a millisecond after it.
//!
//! One [`Timer`] serves every wait: a heap holds who waits for when, the timer is set to the
//! earliest. That costs one or two system calls an alarm, and neither a thread nor a descriptor for
//! each who waits.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt, io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use loadline_core::time::{Duration, Instant};
use tokio::sync::oneshot;

use crate::{clock, timer::Timer};

/// All the waits on one runtime.
pub struct Alarms {
    timer: Timer,
    waits: Mutex<Waits>,
}

struct Waits {
    heap: BinaryHeap<Reverse<Wait>>,
    set_to: SetTo,
    /// Makes waits for one instant end in the order they began.
    next: u64,
}

/// What the timer is set to.
#[derive(Clone, Copy)]
enum SetTo {
    Nothing,
    At(Instant),
    /// The driver is awake and sets the timer before it sleeps: nobody else has to.
    Driven,
}

struct Wait {
    at: Instant,
    order: u64,
    wake: oneshot::Sender<()>,
}

impl Alarms {
    /// No waits yet, on the runtime of the caller.
    ///
    /// # Errors
    /// The system's, where no descriptor is left.
    pub fn new() -> io::Result<Self> {
        let waits = Waits { heap: BinaryHeap::new(), set_to: SetTo::Nothing, next: 0 };
        Ok(Self { timer: Timer::new()?, waits: Mutex::new(waits) })
    }

    /// Returns at `at`, or as soon after as the machine allows; at once if that has passed.
    /// Somebody has to [`drive`](Self::drive).
    ///
    /// # Errors
    /// The system's, if the timer cannot be set.
    pub async fn until(&self, at: Instant) -> io::Result<()> {
        if at <= clock::now() {
            return Ok(());
        }
        let ring = self.enter(at)?;
        ring.await.map_err(|_| io::Error::other("the alarms are not driven any more"))
    }

    /// Ends each wait in its time, for ever.
    ///
    /// # Errors
    /// The system's; none is expected of a timer that could be made.
    pub async fn drive(&self) -> io::Result<()> {
        loop {
            self.timer.expired().await?;
            while self.end_due()? {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Ends what is due and sets the timer for the rest; true if the next is too close for that.
    fn end_due(&self) -> io::Result<bool> {
        let mut waits = self.waits();
        let now = clock::now();
        waits.wake_due(now);
        let next = waits.heap.peek().map(|Reverse(wait)| wait.at);
        if next.is_some_and(|at| at <= now + LEAD) {
            waits.set_to = SetTo::Driven;
            return Ok(true);
        }
        waits.set_to = SetTo::Nothing;
        next.map_or(Ok(()), |at| self.set(&mut waits, at))?;
        Ok(false)
    }

    fn enter(&self, at: Instant) -> io::Result<oneshot::Receiver<()>> {
        let (wake, ring) = oneshot::channel();
        let mut waits = self.waits();
        let order = waits.next;
        waits.next += 1;
        waits.heap.push(Reverse(Wait { at, order, wake }));
        let is_late = match waits.set_to {
            SetTo::Nothing => true,
            SetTo::At(set_to) => at < set_to,
            SetTo::Driven => false,
        };
        if is_late {
            self.set(&mut waits, at)?;
        }
        Ok(ring)
    }

    fn set(&self, waits: &mut Waits, at: Instant) -> io::Result<()> {
        self.timer.set(at, LEAD)?;
        waits.set_to = SetTo::At(at);
        Ok(())
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarms").finish_non_exhaustive()
    }
}

impl Waits {
    fn wake_due(&mut self, now: Instant) {
        while self.heap.peek().is_some_and(|Reverse(wait)| wait.at <= now) {
            let Some(Reverse(wait)) = self.heap.pop() else { return };
            // Who no longer listens has given up waiting.
            let _ = wait.wake.send(());
        }
    }
}

impl Ord for Wait {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Wait {}

/// How long before an instant the timer wakes the driver, which then looks at the clock without
/// sleeping: an idle machine takes at least this long to wake up.
const LEAD: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_woken_and_nothing_else() {
        let mut waits = Waits { heap: BinaryHeap::new(), set_to: SetTo::Nothing, next: 0 };
        let begin = clock::now();
        let millis = |count| begin + Duration::from_millis(count);
        let mut rings: Vec<_> = [9, 3, 6]
            .into_iter()
            .map(|at| {
                let (wake, ring) = oneshot::channel();
                waits.heap.push(Reverse(Wait { at: millis(at), order: at, wake }));
                ring
            })
            .collect();
        let mut woken = |waits: &mut Waits, now| {
            waits.wake_due(millis(now));
            rings.iter_mut().map(|ring| ring.try_recv().is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(woken(&mut waits, 2), [false, false, false]);
        assert_eq!(woken(&mut waits, 3), [false, true, false]);
        assert_eq!(woken(&mut waits, 8), [false, false, true]);
        assert_eq!(woken(&mut waits, 9), [true, false, false]);
    }

    #[tokio::test]
    async fn all_waits_end_and_none_early() {
        let alarms = Alarms::new().unwrap();
        let begin = clock::now();
        let ended = Mutex::new(Vec::new());
        let wait = async |millis| {
            let at = begin + Duration::from_millis(millis);
            alarms.until(at).await.unwrap();
            assert!(clock::now() >= at);
            ended.lock().unwrap().push(millis);
        };
        let all = async { tokio::join!(wait(9), wait(3), wait(6), wait(0), wait(3)) };
        tokio::select! {
            _ = all => {}
            failed = alarms.drive() => panic!("{failed:?}"),
        }
        let mut ended = ended.into_inner().unwrap();
        ended.sort_unstable();
        assert_eq!(ended, [0, 3, 3, 6, 9]);
    }

    #[tokio::test]
    async fn a_wait_that_was_given_up_disturbs_nobody() {
        let alarms = Alarms::new().unwrap();
        let begin = clock::now();
        let story = async {
            let given_up = alarms.enter(begin + Duration::from_millis(2)).unwrap();
            drop(given_up);
            alarms.until(begin + Duration::from_millis(5)).await.unwrap();
        };
        tokio::select! {
            () = story => {}
            failed = alarms.drive() => panic!("{failed:?}"),
        }
        assert!(clock::now() >= begin + Duration::from_millis(5));
        assert!(alarms.waits().heap.is_empty());
    }
}
