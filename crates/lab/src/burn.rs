//! Real cores: threads that spend processor time.
//!
//! N threads take jobs from one first-in-first-out queue. A job is the Mandelbrot set, computed
//! and drawn; where that took less than the service time, rows of it are computed again until the
//! thread has used so much *processor* time. On a machine with fewer cores than threads a job
//! therefore takes longer on the clock, as it would in the tutorial.

use std::{
    collections::VecDeque,
    hint::black_box,
    io,
    num::NonZeroU32,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use loadline_core::time::{Duration, Instant};
use loadline_linux::clock;
use tokio::sync::oneshot;

use crate::{
    cores::Load,
    mandelbrot::{self, Picture},
};

/// The threads and their queue. They end when it is dropped, each after the job it is on.
pub(crate) struct Furnace {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    threads: u64,
    service: Duration,
}

struct State {
    queue: VecDeque<Order>,
    in_service: u64,
    most_queued: u64,
    /// Thread time spent on jobs until `since`.
    busy: Duration,
    since: Instant,
    closed: bool,
}

/// A picture somebody waits for, or waited for.
type Order = oneshot::Sender<Vec<u8>>;

impl Furnace {
    /// Starts `threads` threads on which every job uses at least `service` of processor time.
    ///
    /// # Errors
    /// The system's, where a thread cannot be started.
    pub(crate) fn new(threads: NonZeroU32, service: Duration) -> io::Result<Self> {
        let state = Mutex::new(State {
            queue: VecDeque::new(),
            in_service: 0,
            most_queued: 0,
            busy: Duration::ZERO,
            since: clock::now(),
            closed: false,
        });
        let threads = u64::from(threads.get());
        let shared = Arc::new(Shared { state, wake: Condvar::new(), threads, service });
        let furnace = Self { shared };
        for n in 0..threads {
            let shared = Arc::clone(&furnace.shared);
            thread::Builder::new().name(format!("burn-{n}")).spawn(move || shared.work())?;
        }
        Ok(furnace)
    }

    /// Queues a job at once; the picture comes when it is done. The job is done even if the
    /// receiver is dropped.
    pub(crate) fn order(&self) -> oneshot::Receiver<Vec<u8>> {
        let (order, picture) = oneshot::channel();
        let mut state = self.shared.state();
        state.queue.push_back(order);
        // What an idle thread is about to take does not wait.
        let idle = self.shared.threads - state.in_service;
        let waiting = (state.queue.len() as u64).saturating_sub(idle);
        state.most_queued = state.most_queued.max(waiting);
        drop(state);
        self.shared.wake.notify_one();
        picture
    }

    /// What the threads are doing now.
    pub(crate) fn load(&self) -> Load {
        let mut state = self.shared.state();
        state.count_busy();
        Load {
            in_service: state.in_service,
            queued: state.queue.len() as u64,
            most_queued: state.most_queued,
            busy: state.busy,
        }
    }
}

impl Drop for Furnace {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(order) = self.take() {
            let picture = burn(self.service);
            // Counted as done before the response is out: who has it may ask at once.
            self.finish();
            let _ = order.send(picture);
        }
    }

    /// The next job in the queue, waited for; nothing once the furnace is closed.
    fn take(&self) -> Option<Order> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(order) = state.queue.pop_front() {
                state.count_busy();
                state.in_service += 1;
                return Some(order);
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self) {
        let mut state = self.state();
        state.count_busy();
        state.in_service -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds what has been spent since the last time; before `in_service` changes.
    fn count_busy(&mut self) {
        let now = clock::now();
        self.busy = self.busy + now.since(self.since) * self.in_service;
        self.since = now;
    }
}

/// Draws the picture, and computes on until the thread has used `service` of processor time.
fn burn(service: Duration) -> Vec<u8> {
    let begin = clock::thread_time();
    let picture = Picture::compute().to_png().unwrap_or_default();
    let mut rows = (0..Picture::HEIGHT).cycle();
    while clock::thread_time().saturating_sub(begin) < service {
        rows.next().map(|y| mandelbrot::row(y).map(black_box).count());
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_job_uses_its_processor_time_and_gives_the_picture() {
        let before = clock::thread_time();
        let drawn = burn(SERVICE);
        let used = clock::thread_time().saturating_sub(before);
        assert!(used >= SERVICE, "{used}");
        assert_eq!(drawn, Picture::compute().to_png().unwrap());

        let furnace = Furnace::new(NonZeroU32::MIN, SERVICE).unwrap();
        assert_eq!(furnace.order().await.unwrap(), drawn);
    }

    #[tokio::test]
    async fn jobs_are_done_in_order_even_if_their_callers_have_gone() {
        let furnace = Furnace::new(NonZeroU32::MIN, SERVICE).unwrap();
        let begin = clock::now();
        drop(furnace.order());
        drop(furnace.order());
        furnace.order().await.unwrap();
        let took = clock::now().since(begin);
        assert!(took >= SERVICE * 3, "{took}");
        let load = furnace.load();
        assert_eq!((load.in_service, load.queued, load.most_queued), (0, 0, 2));
        assert!(load.busy >= SERVICE * 3, "{}", load.busy);
    }
}
