//! The wait queue of a service: its order, who is displaced when it is full, who tries again when.
//!
//! A higher class is always before a lower one; within a class it is first come, first served. A
//! newcomer that finds no place takes that of a waiter of a lower class: of the lowest class there
//! is, the one that has waited longest. It has the least of its time left, and would be served
//! after all of the higher classes, if at all; those behind it move up, so that whoever is served
//! in the end has waited less. (Dropping from the front rather than from the tail: Lakshman,
//! Neidhardt and Ott, "The drop from front strategy in TCP and in TCP over ATM", 1996.) Within its
//! own class nobody is displaced: a newcomer that finds only its equals is refused.
//!
//! Only the first asks the plan: when it becomes the first, when something has changed since it
//! asked (a request of the service has ended, another plan is published), at the instant the plan
//! named, and after [`RECHECK`] in any case.
//!
//! The queue wakes nobody itself. A waiter that polls leaves a waker, of any type; whatever makes
//! it worth polling again gives the waker back, to be woken. How many may wait is bounded by their
//! places ([`QueuePlace`](crate::decide::plan::QueuePlace)), which waiters bring and the queue
//! gives back.

use alloc::collections::BTreeMap;

use crate::{
    fleet::Class,
    time::{Duration, Instant},
};

/// A wait queue: each waiter has a place `P`, and is woken by a `W`.
#[derive(Debug)]
pub struct WaitQueue<P, W> {
    waiters: BTreeMap<Position, Waiter<P, W>>,
    joined: u64,
    /// The last to ask; none where something has changed since.
    asked: Option<Asked>,
}

/// Where a waiter is in a [`WaitQueue`]. The smallest is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    class: Class,
    number: u64,
}

/// What a waiter does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is the first, and asks the plan.
    Pick,
    /// It waits to be woken, and no longer than to this instant if there is one.
    Wait(Option<Instant>),
    /// A newcomer of a higher class has taken its place.
    Displaced,
}

/// A waiter that has left the queue.
#[derive(Debug)]
#[must_use = "somebody is to be woken"]
pub struct Left<P, W> {
    /// Its place in the queue.
    pub place: P,
    /// Waiters to wake: the displaced one, and the new first one.
    pub wakers: [Option<W>; 2],
}

#[derive(Debug)]
struct Waiter<P, W> {
    place: P,
    waker: Option<W>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    by: Position,
    /// When it asks again, though nothing has changed.
    again: Instant,
}

impl<P, W> Default for WaitQueue<P, W> {
    fn default() -> Self {
        Self { waiters: BTreeMap::new(), joined: 0, asked: None }
    }
}

impl<P, W> WaitQueue<P, W> {
    /// Joins behind all of the same class and of higher ones. A newcomer polls first of all.
    pub fn join(&mut self, class: Class, place: P) -> Position {
        self.joined += 1;
        let position = Position { class, number: self.joined };
        self.waiters.insert(position, Waiter { place, waker: None });
        position
    }

    /// Says what a waiter does now. `waker` is kept until polling again is worth it, except for
    /// [`Next::Pick`].
    pub fn poll(&mut self, position: Position, now: Instant, waker: W) -> Next {
        let is_first = self.first() == Some(position);
        let Some(waiter) = self.waiters.get_mut(&position) else { return Next::Displaced };
        let asked = self.asked.filter(|asked| asked.by == position && now < asked.again);
        if is_first && asked.is_none() {
            // From before it asks: a change meanwhile is one since then.
            self.asked = Some(Asked { by: position, again: now + RECHECK });
            waiter.waker = None;
            return Next::Pick;
        }
        waiter.waker = Some(waker);
        Next::Wait(asked.filter(|_| is_first).map(|asked| asked.again))
    }

    /// Hears from whoever asked that there is no room, and none to be expected before `until` if
    /// that is known.
    pub fn no_room(&mut self, position: Position, until: Option<Instant>) {
        let asked = self.asked.as_mut().filter(|asked| asked.by == position);
        if let (Some(asked), Some(until)) = (asked, until) {
            asked.again = asked.again.min(until);
        }
    }

    /// Hears that there may be room. Gives the waker of the first, which asks again.
    #[must_use = "the first is to be woken"]
    pub fn notify(&mut self) -> Option<W> {
        self.asked = None;
        self.wake_first()
    }

    /// Takes a waiter out; none if it has been displaced.
    pub fn leave(&mut self, position: Position) -> Option<Left<P, W>> {
        let was_first = self.first() == Some(position);
        let Waiter { place, .. } = self.waiters.remove(&position)?;
        let next = if was_first { self.wake_first() } else { None };
        Some(Left { place, wakers: [None, next] })
    }

    /// Takes out whoever gives way to a newcomer of this class, if anybody does.
    pub fn displace(&mut self, newcomer: Class) -> Option<Left<P, W>> {
        let (last, _) = self.waiters.last_key_value()?;
        let lowest = last.class;
        if lowest <= newcomer {
            return None;
        }
        let longest = Position { class: lowest, number: 0 };
        let (position, _) = self.waiters.range(longest..).next()?;
        let position = *position;
        let waker = self.waiters.get_mut(&position)?.waker.take();
        let Left { place, wakers: [_, next] } = self.leave(position)?;
        Some(Left { place, wakers: [waker, next] })
    }

    fn first(&self) -> Option<Position> {
        self.waiters.first_key_value().map(|(position, _)| *position)
    }

    fn wake_first(&mut self) -> Option<W> {
        self.waiters.first_entry()?.get_mut().waker.take()
    }
}

/// The longest time between two questions. What a decision depends on is counted in relaxed
/// atomics, and utilization changes with time alone.
pub const RECHECK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests;
