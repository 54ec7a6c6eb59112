//! Where requests wait for capacity: the wait queue of a service behind a lock, with wakers and
//! timers, shared by all workers.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker, ready},
};

use loadline_core::{
    decide::{
        plan::QueuePlace,
        queue::{Left, Next, Position, WaitQueue},
    },
    fleet::Class,
    time::Instant,
};
use tokio::time::sleep_until;

use crate::runtime::clock::Clock;

/// The wait queue of one service. `P` is what gives the right to wait.
#[derive(Debug)]
pub(crate) struct Queue<P = QueuePlace>(Mutex<WaitQueue<P, Waker>>);

/// Somebody in the queue; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Waiter<'q, P = QueuePlace> {
    queue: &'q Queue<P>,
    position: Position,
}

/// A newcomer of a higher class has taken the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displaced;

impl<P> Queue<P> {
    /// Nobody waits.
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Joins behind all of the same class and of higher ones.
    pub(crate) fn join(&self, class: Class, place: P) -> Waiter<'_, P> {
        Waiter { queue: self, position: self.lock().join(class, place) }
    }

    /// Takes the place of whoever gives way to a newcomer of this class, if anybody does.
    pub(crate) fn displace(&self, newcomer: Class) -> Option<P> {
        let left = self.lock().displace(newcomer);
        left.map(wake)
    }

    /// Lets the first ask again.
    pub(crate) fn notify(&self) {
        let first = self.lock().notify();
        first.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, WaitQueue<P, Waker>> {
        // Nobody panics while holding it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> Waiter<'_, P> {
    /// Waits until it is to ask whether there is room.
    pub(crate) async fn may_ask(&self, clock: Clock) -> Result<(), Displaced> {
        let mut timer = pin!(sleep_until(tokio::time::Instant::now()));
        poll_fn(|cx| {
            loop {
                let waker = cx.waker().clone();
                match self.queue.lock().poll(self.position, clock.now(), waker) {
                    Next::Pick => return Poll::Ready(Ok(())),
                    Next::Displaced => return Poll::Ready(Err(Displaced)),
                    Next::Wait(None) => return Poll::Pending,
                    Next::Wait(Some(at)) => timer.as_mut().reset(clock.to_tokio(at)),
                }
                ready!(timer.as_mut().poll(cx));
            }
        })
        .await
    }

    /// There is no room, and none to be expected before `until` if that is known.
    pub(crate) fn no_room(&self, until: Option<Instant>) {
        self.queue.lock().no_room(self.position, until);
    }
}

impl<P> Drop for Waiter<'_, P> {
    fn drop(&mut self) {
        let left = self.queue.lock().leave(self.position);
        drop(left.map(wake));
    }
}

fn wake<P>(Left { place, wakers }: Left<P, Waker>) -> P {
    wakers.into_iter().flatten().for_each(Waker::wake);
    place
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use loadline_core::decide::queue::RECHECK;

    use super::*;

    #[tokio::test]
    async fn the_queue_is_left_by_class_and_then_in_the_order_it_was_joined() {
        let (queue, order) = (Queue::new(), RefCell::new(Vec::new()));
        let clock = Clock::start();
        let first = queue.join(Class::High, ());
        let wait = async |class, name| {
            let waiter = queue.join(class, ());
            waiter.may_ask(clock).await.unwrap();
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
        let (heard, place) =
            tokio::join!(low.may_ask(Clock::start()), async { queue.displace(Class::Normal) });
        assert_eq!((heard, place), (Err(Displaced), Some(2)));
        assert_eq!(queue.displace(Class::High), None);
    }

    #[tokio::test]
    async fn the_first_hears_of_what_changed_while_it_did_not_listen() {
        let (queue, clock) = (Queue::new(), Clock::start());
        let first = queue.join(Class::Normal, ());
        first.may_ask(clock).await.unwrap();
        queue.notify();
        let heard = first.may_ask(clock);
        assert_eq!(tokio::time::timeout(RECHECK.to_std() * 100, heard).await, Ok(Ok(())));
    }

    #[tokio::test]
    async fn the_first_asks_again_though_nothing_changes() {
        let (queue, clock) = (Queue::new(), Clock::start());
        let first = queue.join(Class::Normal, ());
        let asked = clock.now();
        first.may_ask(clock).await.unwrap();
        first.no_room(None);
        first.may_ask(clock).await.unwrap();
        assert!(clock.now().since(asked) >= RECHECK);
    }
}
