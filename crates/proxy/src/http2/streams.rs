//! The streams of one connection, counted.
//!
//! A client that opens streams in order to reset them gives its server work for nothing
//! (CVE-2023-44487). Some resets are ordinary: whoever leaves a page takes back what is still on
//! its way. So a connection is given up when more than [`ABANDONED_MAX`] streams, and more than
//! half of all it ever had, ended without an answer.

use std::{cell::Cell, rc::Rc};

use loadline_core::time::Instant;

use crate::timer::Timers;

/// What a connection knows of its streams.
#[derive(Debug)]
pub(super) struct Streams {
    timers: Rc<Timers>,
    /// Being answered.
    open: Cell<u32>,
    /// That there ever were.
    all: Cell<u64>,
    /// That ended without an answer.
    abandoned: Cell<u64>,
    /// When the last one ended.
    idle_since: Cell<Instant>,
}

impl Streams {
    /// None yet.
    pub(super) fn new(timers: &Rc<Timers>) -> Rc<Self> {
        Rc::new(Self {
            timers: timers.clone(),
            open: Cell::new(0),
            all: Cell::new(0),
            abandoned: Cell::new(0),
            idle_since: Cell::new(timers.coarse_now()),
        })
    }

    /// Counts one more, until the place is dropped.
    pub(super) fn enter(self: &Rc<Self>) -> Place {
        self.open.set(self.open.get() + 1);
        self.all.set(self.all.get() + 1);
        Place { streams: self.clone(), was_answered: false }
    }

    /// Since when there has been none; nothing while there are some.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.open.get() == 0).then(|| self.idle_since.get())
    }

    /// Whether the client asks in order to make work rather than to be answered.
    pub(super) fn is_abused(&self) -> bool {
        let abandoned = self.abandoned.get();
        abandoned > ABANDONED_MAX && abandoned > self.all.get() / 2
    }
}

/// One stream in the count.
#[derive(Debug)]
pub(super) struct Place {
    streams: Rc<Streams>,
    /// The client has been told something.
    pub(super) was_answered: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        let streams = &self.streams;
        streams.open.set(streams.open.get() - 1);
        streams.abandoned.set(streams.abandoned.get() + u64::from(!self.was_answered));
        streams.idle_since.set(streams.timers.coarse_now());
    }
}

/// Twice what a client can have open: more than one that leaves in the middle of everything.
const ABANDONED_MAX: u64 = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_takes_back_most_requests_is_given_up_and_an_impatient_one_is_not() {
        let streams = Streams::new(&Rc::default());
        for _ in 0..=ABANDONED_MAX {
            streams.enter().was_answered = true;
            drop(streams.enter());
        }
        assert!(!streams.is_abused(), "half were answered");
        drop(streams.enter());
        assert!(streams.is_abused());
    }

    #[test]
    fn a_connection_is_idle_while_no_stream_is_open() {
        let streams = Streams::new(&Rc::default());
        let place = streams.enter();
        assert_eq!(streams.idle_since(), None);
        drop(place);
        assert_eq!(streams.idle_since(), Some(Instant::ZERO));
    }
}
