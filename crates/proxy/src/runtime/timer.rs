//! Deadlines of many connections, without a timer of the runtime for each request.
//!
//! Every connection owns one slot: its deadline, and how to wake its task. Arming a deadline is a
//! store into an array; a sweep over the array every [`TICK`] finds what has passed, so a deadline
//! is met up to two ticks late and never early. Time comes from the sweep as well, so that arming
//! reads no clock.
//!
//! A slot has no deadline, is *armed* (one lies ahead), *expired* (the sweep has passed the
//! deadline and woken the task) until it is armed again, or *displaced*: expired early, since the
//! listener is full and no other client has been longer about its head.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    future::{Future, poll_fn},
    rc::Rc,
    task::{Context, Poll, Waker},
    time,
};

use loadline_core::{
    decide::ledger::ServerId,
    time::{Duration, Instant},
};

use crate::listener::{handle::ListenerHandle, pending_heads::Heads};

/// The deadlines of all connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// When the last sweep was.
    swept: Cell<Instant>,
    /// Time between the last two sweeps.
    gap: Cell<Duration>,
    slots: RefCell<Slots>,
}

/// Two arrays side by side, so that a sweep reads nothing but deadlines.
#[derive(Debug, Default)]
struct Slots {
    deadlines: Vec<Deadline>,
    wakers: Vec<Option<Waker>>,
    /// The servers that the tasks wait on.
    servers: Vec<Option<ServerId>>,
    free: Vec<usize>,
    heads: Heads,
}

/// What becomes of a slot with the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deadline {
    None,
    At(Instant),
    /// The sweep has passed it.
    Expired,
    /// The client has lost its place.
    Displaced,
}

impl Timers {
    /// Wakes every task whose deadline has passed.
    pub(crate) fn sweep(&self, now: Instant) {
        self.gap.set(now.since(self.swept.replace(now)));
        let slots = &mut *self.slots.borrow_mut();
        for (deadline, waker) in slots.deadlines.iter_mut().zip(&slots.wakers) {
            if matches!(deadline, Deadline::At(at) if *at <= now) {
                *deadline = Deadline::Expired;
                wake(waker.as_ref());
            }
        }
    }

    /// Wakes every task, so that it looks at what else has changed.
    pub(crate) fn wake_all(&self) {
        self.slots.borrow().wakers.iter().for_each(|waker| wake(waker.as_ref()));
    }

    /// Wakes the tasks that wait on these servers.
    pub(crate) fn wake_those_on(&self, servers: &BTreeSet<ServerId>) {
        let slots = self.slots.borrow();
        let waits = |server: &Option<ServerId>| server.is_some_and(|it| servers.contains(&it));
        let waiting = slots.servers.iter().zip(&slots.wakers).filter(|(server, _)| waits(server));
        waiting.for_each(|(_, waker)| wake(waker.as_ref()));
    }

    /// Gives up the listener's client that has been slowest to send its header, if one has taken
    /// long enough; its task is woken.
    pub(crate) fn displace(&self, listener: &ListenerHandle) -> bool {
        let slots = &mut *self.slots.borrow_mut();
        let Some(slot) = slots.heads.take_oldest(listener.id(), self.swept.get()) else {
            return false;
        };
        slots.deadlines[slot] = Deadline::Displaced;
        wake(slots.wakers[slot].as_ref());
        true
    }

    /// Whether the worker itself did not run for a while: deadlines that passed then are not the
    /// peers' fault.
    pub(crate) fn was_late(&self) -> bool {
        self.gap.get() > LATE
    }

    /// When the last sweep was: the time, up to a [`TICK`] old.
    pub(crate) fn coarse_now(&self) -> Instant {
        self.swept.get()
    }
}

fn wake(waker: Option<&Waker>) {
    if let Some(waker) = waker {
        waker.wake_by_ref();
    }
}

/// One slot; dropping it gives the slot back.
#[derive(Debug)]
pub(crate) struct Timer {
    timers: Rc<Timers>,
    slot: usize,
    /// The limit it was last armed with.
    limit: Cell<Duration>,
}

impl Timer {
    /// A slot without a deadline, which wakes nobody yet.
    pub(crate) fn unbound(timers: &Rc<Timers>) -> Self {
        let slots = &mut *timers.slots.borrow_mut();
        let slot = slots.free.pop().unwrap_or(slots.deadlines.len());
        if slot == slots.deadlines.len() {
            slots.deadlines.push(Deadline::None);
            slots.wakers.push(None);
            slots.servers.push(None);
        }
        Self { timers: timers.clone(), slot, limit: Cell::new(Duration::ZERO) }
    }

    /// Wakes the task that polls with `cx` from now on.
    fn bind(&self, cx: &Context<'_>) {
        self.timers.slots.borrow_mut().wakers[self.slot] = Some(cx.waker().clone());
    }

    /// Wakes the task that awaits this from now on.
    pub(crate) fn bind_here(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            self.bind(cx);
            Poll::Ready(())
        })
    }

    /// A slot without a deadline, for the task that awaits this.
    pub(crate) async fn here(timers: &Rc<Timers>) -> Self {
        let timer = Self::unbound(timers);
        timer.bind_here().await;
        timer
    }

    /// Sets the deadline to `limit` from now; to none if that is zero.
    pub(crate) fn arm(&self, limit: Duration) {
        self.limit.set(limit);
        let deadline = match limit {
            Duration::ZERO => Deadline::None,
            limit => Deadline::At(self.timers.swept.get() + limit + SLACK),
        };
        self.timers.slots.borrow_mut().deadlines[self.slot] = deadline;
    }

    /// Sets it as it was set last, from now on.
    pub(crate) fn arm_again(&self) {
        self.arm(self.limit.get());
    }

    /// Goes on from so long ago with the limit it was set to last; false if that has passed.
    pub(crate) fn go_on_since(&self, past: Duration) -> bool {
        let left = self.limit.get().saturating_sub(past);
        if left == Duration::ZERO || self.is_displaced() {
            return false;
        }
        let deadline = Deadline::At(self.timers.swept.get() + left + SLACK);
        self.timers.slots.borrow_mut().deadlines[self.slot] = deadline;
        true
    }

    /// Says on which server the task waits from now on.
    pub(crate) fn wait_on(&self, server: ServerId) {
        self.timers.slots.borrow_mut().servers[self.slot] = Some(server);
    }

    /// Whether the deadline has passed.
    pub(crate) fn has_expired(&self) -> bool {
        matches!(self.deadline(), Deadline::Expired | Deadline::Displaced)
    }

    /// As [`Timer::has_expired`], for a client whose head has to be waited for: at the limit of its
    /// listener it may lose its place.
    pub(crate) fn has_waited_enough(&self, listener: &ListenerHandle) -> bool {
        if self.has_expired() {
            return true;
        }
        let now = self.timers.swept.get();
        self.timers.slots.borrow_mut().heads.enter(self.slot, listener.id(), now);
        false
    }

    /// Says that the head has come.
    pub(crate) fn stop_waiting(&self) {
        self.timers.slots.borrow_mut().heads.leave(self.slot);
    }

    /// Whether the client has lost its place to another.
    pub(crate) fn is_displaced(&self) -> bool {
        self.deadline() == Deadline::Displaced
    }

    fn deadline(&self) -> Deadline {
        self.timers.slots.borrow().deadlines[self.slot]
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let slots = &mut *self.timers.slots.borrow_mut();
        slots.deadlines[self.slot] = Deadline::None;
        slots.heads.leave(self.slot);
        slots.free.push(self.slot);
        slots.wakers[self.slot] = None;
        slots.servers[self.slot] = None;
    }
}

/// Time from one sweep to the next: short against any timeout, long against the cost of a sweep
/// (40 us for 100,000 connections).
pub(crate) const TICK: time::Duration = time::Duration::from_millis(25);

/// Ten ticks.
const LATE: Duration = Duration::from_millis(250);

/// The time of the last sweep may be a tick old.
const SLACK: Duration = Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering::Relaxed},
        },
        task::Wake,
    };

    use super::*;
    use crate::listener::handle::ListenerKey;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_deadline_expires_late_by_no_more_than_its_slack_and_wakes_once() {
        let (timers, woken) = (Rc::new(Timers::default()), Arc::new(Woken::default()));
        timers.sweep(Instant::ZERO + MS);
        let timer = Timer::unbound(&timers);
        timer.bind(&Context::from_waker(&Waker::from(woken.clone())));
        timer.arm(MS * 100);
        timers.sweep(Instant::ZERO + MS * 101);
        assert!(!timer.has_expired());
        for _ in 0..3 {
            timers.sweep(Instant::ZERO + MS * 126);
        }
        assert!(timer.has_expired());
        assert_eq!(woken.0.load(Relaxed), 1);
        timer.arm(Duration::ZERO);
        timers.sweep(Instant::ZERO + MS * 1_000_000);
        assert!(!timer.has_expired());
    }

    #[test]
    fn a_client_in_its_head_is_displaced_at_once_and_woken() {
        let (timers, woken) = (Rc::new(Timers::default()), Arc::new(Woken::default()));
        let key = ListenerKey { bind: ([127, 0, 0, 1], 0).into(), nth: 0 };
        let listener = ListenerHandle::new((0, key), &Arc::default(), Arc::default());
        timers.sweep(Instant::ZERO + MS * 1_000);
        let [slow, read] = [Timer::unbound(&timers), Timer::unbound(&timers)];
        for timer in [&slow, &read] {
            timer.bind(&Context::from_waker(&Waker::from(woken.clone())));
            timer.arm(MS * 60_000);
            assert!(!timer.has_waited_enough(&listener));
        }
        read.stop_waiting();
        assert!(!timers.displace(&listener), "it has not been slow for long");
        timers.sweep(Instant::ZERO + MS * 2_000);
        assert!(timers.displace(&listener));
        assert!(slow.is_displaced() && slow.has_waited_enough(&listener));
        assert!(!read.has_expired() && !timers.displace(&listener));
        timers.sweep(Instant::ZERO + MS * 2_025);
        assert!(slow.is_displaced(), "and stays so");
        assert_eq!(woken.0.load(Relaxed), 1);
    }

    #[test]
    fn a_deadline_goes_on_from_a_time_that_was_later_than_it_was_set() {
        let timers = Rc::new(Timers::default());
        let timer = Timer::unbound(&timers);
        timer.arm(MS * 100);
        timers.sweep(Instant::ZERO + MS * 130);
        assert!(timer.has_expired() && !timer.go_on_since(MS * 100) && timer.has_expired());
        assert!(timer.go_on_since(MS * 40) && !timer.has_expired());
        timers.sweep(Instant::ZERO + MS * 230);
        assert!(timer.has_expired());
        assert!(timer.go_on_since(MS), "with the limit it was set to");
    }

    #[test]
    fn slots_are_used_again() {
        let timers = Rc::new(Timers::default());
        let first = Timer::unbound(&timers);
        drop(Timer::unbound(&timers));
        let again = Timer::unbound(&timers);
        assert_eq!((first.slot, again.slot), (0, 1));
        assert!(!again.has_expired());
    }
}
