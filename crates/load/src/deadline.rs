//! Deadlines of many requests without a timer for each.
//!
//! A request that has to wait enters its deadline and its task into a table; a sweep over the
//! table, once a tick, wakes the tasks whose deadline has passed. So a deadline is met up to a tick
//! late and never early, and a request that is answered in time pays for two stores.

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::pin,
    task::{Poll, Waker},
    time,
};

use loadline_core::time::Instant;
use tokio::time::{MissedTickBehavior, interval};

use loadline_linux::clock;

/// The deadlines of everything that waits on one thread.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    table: RefCell<Table>,
}

/// Two arrays side by side, so that a sweep reads nothing but deadlines.
#[derive(Debug, Default)]
struct Table {
    deadlines: Vec<Due>,
    wakers: Vec<Waker>,
    free: Vec<usize>,
}

/// What a place of the table waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    At(Instant),
    /// The deadline has passed, and the task was woken.
    Passed,
}

/// One entry; dropping it gives its place back.
struct Entry<'a> {
    deadlines: &'a Deadlines,
    place: usize,
}

impl Deadlines {
    /// What `future` gives, or none where `deadline` passes first.
    pub(crate) async fn within<F: Future>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut entry: Option<Entry<'_>> = None;
        poll_fn(|cx| {
            // First, so that what is too late begins nothing new.
            if entry.as_ref().is_some_and(Entry::has_passed) {
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            match &entry {
                Some(entry) => entry.note(cx.waker()),
                None => entry = Some(self.enter(deadline, cx.waker())),
            }
            Poll::Pending
        })
        .await
    }

    /// Sweeps for ever, often enough for deadlines that lie `patience` ahead: sixteen times in it,
    /// each millisecond at most and every 25 ms at least.
    pub(crate) async fn keep(&self, patience: time::Duration) {
        let mut ticks = interval((patience / 16).clamp(SHORTEST_TICK, LONGEST_TICK));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sweep(clock::now());
        }
    }

    fn sweep(&self, now: Instant) {
        let table = &mut *self.table.borrow_mut();
        for (deadline, waker) in table.deadlines.iter_mut().zip(&table.wakers) {
            if matches!(deadline, Due::At(at) if *at <= now) {
                *deadline = Due::Passed;
                waker.wake_by_ref();
            }
        }
    }

    fn enter(&self, deadline: Instant, waker: &Waker) -> Entry<'_> {
        let table = &mut *self.table.borrow_mut();
        let deadline = Due::At(deadline);
        let place = table.free.pop().unwrap_or(table.deadlines.len());
        if place == table.deadlines.len() {
            table.deadlines.push(deadline);
            table.wakers.push(waker.clone());
        } else {
            table.deadlines[place] = deadline;
            table.wakers[place].clone_from(waker);
        }
        Entry { deadlines: self, place }
    }
}

impl Entry<'_> {
    fn has_passed(&self) -> bool {
        self.deadlines.table.borrow().deadlines[self.place] == Due::Passed
    }

    /// The task may have moved to another waker since.
    fn note(&self, waker: &Waker) {
        self.deadlines.table.borrow_mut().wakers[self.place].clone_from(waker);
    }
}

impl Drop for Entry<'_> {
    /// The waker stays until the place is used again: its task is most often the next to do so.
    fn drop(&mut self) {
        let table = &mut *self.deadlines.table.borrow_mut();
        table.deadlines[self.place] = Due::Nothing;
        table.free.push(self.place);
    }
}

const SHORTEST_TICK: time::Duration = time::Duration::from_millis(1);
const LONGEST_TICK: time::Duration = time::Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::{pending, ready},
        task::Context,
    };

    const fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn what_is_in_time_is_given_and_leaves_no_entry() {
        let deadlines = Deadlines::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let in_time = pin!(deadlines.within(ms(1), ready(7)));
        assert_eq!(in_time.poll(cx), Poll::Ready(Some(7)));
        assert!(deadlines.table.borrow().deadlines.is_empty());
    }

    #[test]
    fn a_deadline_passes_at_the_first_sweep_after_it_and_its_place_is_used_again() {
        let deadlines = Deadlines::default();
        let cx = &mut Context::from_waker(Waker::noop());
        {
            let mut late = pin!(deadlines.within(ms(100), pending::<()>()));
            assert_eq!(late.as_mut().poll(cx), Poll::Pending);
            deadlines.sweep(ms(99));
            assert_eq!(late.as_mut().poll(cx), Poll::Pending);
            deadlines.sweep(ms(101));
            assert_eq!(late.as_mut().poll(cx), Poll::Ready(None));
        }
        let mut next = pin!(deadlines.within(ms(0), pending::<()>()));
        assert_eq!(next.as_mut().poll(cx), Poll::Pending);
        assert_eq!(deadlines.table.borrow().deadlines.len(), 1);
        deadlines.sweep(ms(101));
        assert_eq!(next.as_mut().poll(cx), Poll::Ready(None));
    }
}
