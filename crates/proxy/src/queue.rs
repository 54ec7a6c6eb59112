//! Where requests wait for capacity, one queue for each service, shared by all workers.
//!
//! The length is bounded by the core ([`QueuePlace`](loadline_core::plan::QueuePlace)). The order
//! is kept here: a fair semaphore with one permit, whose holder is the head of the queue. Only
//! the head asks the plan. It asks again when a request of the service has ended, when a plan is
//! published, at the instant the plan named, and after [`RECHECK`] in any case: what the decision
//! depends on is counted in relaxed atomics, and utilization changes with time alone.

use loadline_core::time::Instant;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::{Duration, timeout_at},
};

use crate::clock::Clock;

/// The queue of one service.
#[derive(Debug)]
pub(crate) struct Queue {
    head: Semaphore,
    changed: Notify,
}

impl Queue {
    /// Nobody waits.
    pub(crate) fn new() -> Self {
        Self { head: Semaphore::new(1), changed: Notify::new() }
    }

    /// Waits to become the head.
    pub(crate) async fn head(&self) -> SemaphorePermit<'_> {
        self.head.acquire().await.expect("the semaphore is never closed")
    }

    /// Waits, as the head, until it is worth asking again.
    pub(crate) async fn changed(&self, clock: Clock, until: Instant) {
        let recheck = tokio::time::Instant::now() + RECHECK;
        let until = clock.to_tokio(until).min(recheck);
        // Whether it was the time or the news does not matter.
        let _ = timeout_at(until, self.changed.notified()).await;
    }

    /// Lets the head ask again.
    pub(crate) fn notify(&self) {
        self.changed.notify_one();
    }
}

/// The longest time between two questions.
const RECHECK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn the_queue_is_left_in_the_order_it_was_joined() {
        let (queue, order) = (Queue::new(), RefCell::new(Vec::new()));
        let wait = async |name| {
            let _head = queue.head().await;
            order.borrow_mut().push(name);
        };
        let first = queue.head().await;
        tokio::join!(wait("a"), wait("b"), async { drop(first) });
        assert_eq!(*order.borrow(), ["a", "b"]);
    }
}
