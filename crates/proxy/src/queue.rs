//! Where requests wait for capacity, one queue for each service, shared by all workers.
//!
//! The length is bounded by the core ([`QueuePlace`]), and so is the order ([`Line`]): by class,
//! then first come, first served. Only the first asks the plan. It asks again when a request of
//! the service has ended, when a plan is published, at the instant the plan named, and after
//! [`RECHECK`] in any case: what the decision depends on is counted in relaxed atomics, and
//! utilization changes with time alone.
//!
//! Whoever waits may lose its place to a newcomer of a higher class, together with the right to
//! it, so that the bound holds at any instant.

use std::{
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use loadline_core::{
    fleet::Class,
    line::{Line, Rank},
    plan::QueuePlace,
    time::Instant,
};
use tokio::time::{Duration, timeout_at};

use crate::clock::Clock;

/// The queue of one service. `P` is what gives the right to wait.
#[derive(Debug)]
pub(crate) struct Queue<P = QueuePlace> {
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    line: Line<Waiter<P>>,
    /// Something has changed since the first asked.
    news: bool,
}

#[derive(Debug)]
struct Waiter<P> {
    place: P,
    waker: Option<Waker>,
}

/// Somebody in the queue; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Standing<'q, P = QueuePlace> {
    queue: &'q Queue<P>,
    rank: Rank,
}

/// A newcomer of a higher class has taken the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displaced;

impl<P> Queue<P> {
    /// Nobody waits.
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { line: Line::default(), news: false }) }
    }

    /// Joins behind all of the same class and of higher ones.
    pub(crate) fn join(&self, class: Class, place: P) -> Standing<'_, P> {
        let rank = self.state().line.join(class, Waiter { place, waker: None });
        Standing { queue: self, rank }
    }

    /// Takes the place of whoever gives way to a newcomer of this class, if anybody does.
    pub(crate) fn displace(&self, newcomer: Class) -> Option<P> {
        let Waiter { place, waker } = self.state().line.displace(newcomer)?;
        waker.into_iter().for_each(Waker::wake);
        Some(place)
    }

    /// Lets the first ask again.
    pub(crate) fn notify(&self) {
        let mut state = self.state();
        state.news = true;
        state.wake_first();
    }

    fn state(&self) -> MutexGuard<'_, State<P>> {
        // Nobody panics while holding it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> State<P> {
    fn wake_first(&mut self) {
        if let Some((_, waiter)) = self.line.first_mut() {
            waiter.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Whether this is the first; if not, it is woken when it may be.
    fn is_first(&mut self, rank: Rank, cx: &Context<'_>) -> Result<bool, Displaced> {
        let is_first = self.line.first_mut().is_some_and(|(first, _)| first == rank);
        let waiter = self.line.get_mut(rank).ok_or(Displaced)?;
        waiter.waker = Some(cx.waker().clone());
        Ok(is_first)
    }
}

impl<P> Standing<'_, P> {
    /// Waits to be the first.
    pub(crate) async fn turn(&self) -> Result<(), Displaced> {
        poll_fn(|cx| match self.queue.state().is_first(self.rank, cx) {
            Ok(false) => Poll::Pending,
            Ok(true) => Poll::Ready(Ok(())),
            Err(displaced) => Poll::Ready(Err(displaced)),
        })
        .await
    }

    /// Waits, as the first, until it is worth asking again, or until somebody else is the first.
    pub(crate) async fn changed(
        &self,
        clock: Clock,
        until: Option<Instant>,
    ) -> Result<(), Displaced> {
        let recheck = tokio::time::Instant::now() + RECHECK;
        let until = until.map_or(recheck, |until| clock.to_tokio(until).min(recheck));
        let news = poll_fn(|cx| {
            let mut state = self.queue.state();
            match state.is_first(self.rank, cx) {
                Ok(true) if !std::mem::take(&mut state.news) => Poll::Pending,
                first => Poll::Ready(first.map(|_| ())),
            }
        });
        // Whether it was the time or the news does not matter.
        timeout_at(until, news).await.unwrap_or(Ok(()))
    }
}

impl<P> Drop for Standing<'_, P> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        // Somebody who was displaced has left already.
        let _ = state.line.leave(self.rank);
        state.wake_first();
    }
}

/// The longest time between two questions.
const RECHECK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn the_queue_is_left_by_class_and_then_in_the_order_it_was_joined() {
        let (queue, order) = (Queue::new(), RefCell::new(Vec::new()));
        let first = queue.join(Class::High, ());
        let wait = async |class, name| {
            let standing = queue.join(class, ());
            standing.turn().await.unwrap();
            order.borrow_mut().push(name);
        };
        tokio::join!(
            wait(Class::Low, "d"),
            wait(Class::Normal, "b"),
            wait(Class::Normal, "c"),
            wait(Class::High, "a"),
            async { drop(first) },
        );
        assert_eq!(*order.borrow(), ["a", "b", "c", "d"]);
    }

    #[tokio::test]
    async fn whoever_is_displaced_hears_of_it_and_its_place_is_handed_on() {
        let queue = Queue::new();
        let (_first, low) = (queue.join(Class::High, 1), queue.join(Class::Low, 2));
        let (heard, place) = tokio::join!(low.turn(), async { queue.displace(Class::Normal) });
        assert_eq!((heard, place), (Err(Displaced), Some(2)));
        assert_eq!(queue.displace(Class::High), None);
    }

    #[tokio::test]
    async fn the_first_hears_of_what_changed_while_it_did_not_listen() {
        let queue = Queue::new();
        let first = queue.join(Class::Normal, ());
        first.turn().await.unwrap();
        queue.notify();
        let clock = Clock::start();
        let heard = first.changed(clock, None);
        assert_eq!(tokio::time::timeout(RECHECK * 100, heard).await, Ok(Ok(())));
    }
}
