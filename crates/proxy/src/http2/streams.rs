//! The streams of one connection, counted.
//!
//! A client that opens streams in order to reset them gives its server work for nothing
//! (CVE-2023-44487). Some resets are ordinary: whoever leaves a page takes back what is still on
//! its way. So a connection is given up when more streams than the listener's `resets` allows, and
//! more than half of all it ever had, ended without a response.
//!
//! The level L rises by 1 with each and falls by the
//! rate r per second, never below 0; L > 10 s x r is too much.

use std::{cell::Cell, net::SocketAddr, rc::Rc};

use loadline_core::{time::Instant, units::Rate};

use crate::runtime::timer::Timers;

/// What a connection knows of its streams.
#[derive(Debug)]
pub(crate) struct Streams {
    timers: Rc<Timers>,
    /// Where the client opened the connection to, if that is known.
    destination: Option<SocketAddr>,
    /// Being answered.
    open: Cell<u32>,
    /// Streams ever opened.
    all: Cell<u64>,
    /// Streams that ended without a response.
    abandoned: Cell<u64>,
    /// How many of them the allowed rate has not worn off, in thousandths, when the last one came.
    level: Cell<u64>,
    abandoned_at: Cell<Instant>,
    /// Those of them of which the place is still held.
    held: Cell<u32>,
    allowed: Rate,
    /// When the last one ended.
    idle_since: Cell<Instant>,
}

impl Streams {
    /// None yet, of a connection to this address.
    pub(crate) fn new(
        timers: &Rc<Timers>,
        allowed: Rate,
        destination: Option<SocketAddr>,
    ) -> Rc<Self> {
        Rc::new(Self {
            timers: timers.clone(),
            destination,
            open: Cell::new(0),
            all: Cell::new(0),
            abandoned: Cell::new(0),
            level: Cell::new(0),
            abandoned_at: Cell::new(timers.coarse_now()),
            held: Cell::new(0),
            allowed,
            idle_since: Cell::new(timers.coarse_now()),
        })
    }

    /// Counts one more, until the place is dropped.
    pub(crate) fn enter(self: &Rc<Self>) -> Place {
        self.open.set(self.open.get() + 1);
        self.all.set(self.all.get() + 1);
        let streams = self.clone();
        Place { streams, was_answered: false, hides_length: false }
    }

    /// Since when there has been none; nothing while there are some.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        (self.open.get() == 0).then(|| self.idle_since.get())
    }

    /// Notes that what the last one left was still on its way at `now`.
    pub(crate) fn rest_from(&self, now: Instant) {
        self.idle_since.set(now);
    }

    /// Counts a stream that its client has reset before a response, however long what was asked of
    /// a server goes on: its place, dropped without a response, is not counted again.
    pub(super) fn take_back(&self) {
        self.abandon(self.timers.coarse_now());
        self.held.set(self.held.get() + 1);
    }

    /// Whether the client asks in order to make work rather than to be answered.
    pub(crate) fn is_abused(&self) -> bool {
        let most = self.allowed.as_milli_per_sec().saturating_mul(BURST_SECS);
        self.level.get() > most && self.abandoned.get() > self.all.get() / 2
    }
}

impl Streams {
    /// Counts a stream that ended at `now` without a response.
    fn abandon(&self, now: Instant) {
        let nanos = u128::from(now.since(self.abandoned_at.replace(now)).as_nanos());
        let worn = nanos * u128::from(self.allowed.as_milli_per_sec()) / 1_000_000_000;
        let worn = u64::try_from(worn).unwrap_or(u64::MAX);
        self.level.set(self.level.get().saturating_sub(worn) + 1_000);
        self.abandoned.set(self.abandoned.get() + 1);
    }
}

/// One stream in the count.
#[derive(Debug)]
pub(crate) struct Place {
    streams: Rc<Streams>,
    /// The client has been told something.
    pub(crate) was_answered: bool,
    /// The length of the response is there for HTTP/1 alone.
    pub(crate) hides_length: bool,
}

impl Place {
    /// Where the client opened the connection to, if that is known.
    pub(crate) fn destination(&self) -> Option<SocketAddr> {
        self.streams.destination
    }

    /// The time.
    pub(super) fn now(&self) -> Instant {
        self.streams.timers.coarse_now()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let streams = &self.streams;
        streams.open.set(streams.open.get() - 1);
        let now = streams.timers.coarse_now();
        match streams.held.get() {
            _ if self.was_answered => {}
            0 => streams.abandon(now),
            held => streams.held.set(held - 1),
        }
        streams.idle_since.set(now);
    }
}

/// With 20 per second that is twice what a client can have open: more than one that leaves in the
/// middle of everything.
const BURST_SECS: u64 = 10;

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;

    use super::*;

    #[test]
    fn a_client_that_takes_back_most_requests_is_given_up_and_an_impatient_one_is_not() {
        let streams = Streams::new(&Rc::default(), Rate::per_sec(20), None);
        for _ in 0..=200 {
            streams.enter().was_answered = true;
            drop(streams.enter());
        }
        assert!(!streams.is_abused(), "half were answered");
        drop(streams.enter());
        assert!(streams.is_abused());
    }

    #[test]
    fn what_is_taken_back_slowly_wears_off() {
        let timers: Rc<Timers> = Rc::default();
        let streams = Streams::new(&timers, Rate::per_sec(20), None);
        for millis in 0..1_000 {
            timers.sweep(Instant::ZERO + Duration::from_millis(millis * 50));
            drop(streams.enter());
        }
        assert!(!streams.is_abused(), "20 a second for 50 s");
        (0..201).for_each(|_| drop(streams.enter()));
        assert!(streams.is_abused());
    }

    #[test]
    fn a_stream_that_its_client_has_reset_is_counted_once_and_at_once() {
        let streams = Streams::new(&Rc::default(), Rate::per_sec(20), None);
        let places: Vec<_> = (0..201).map(|_| streams.enter()).collect();
        (0..100).for_each(|_| streams.take_back());
        drop(places);
        assert_eq!(streams.abandoned.get(), 201);
        assert!(streams.is_abused());
    }

    #[test]
    fn a_connection_is_idle_while_no_stream_is_open() {
        let streams = Streams::new(&Rc::default(), Rate::per_sec(20), None);
        let place = streams.enter();
        assert_eq!(streams.idle_since(), None);
        drop(place);
        assert_eq!(streams.idle_since(), Some(Instant::ZERO));
    }
}
