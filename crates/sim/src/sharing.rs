//! Cores that all requests of a server share equally (egalitarian processor sharing).
//!
//! The work that one request has had since the beginning is the same for all that are there, so
//! each is done when that sum reaches what it was when it came plus its own work. (Virtual time, as
//! in fair queueing: Demers, Keshav and Shenker, 1989.)

use std::{cmp::Reverse, collections::BinaryHeap};

use loadline_core::time::{Duration, Instant};

use crate::{slab::Handle, speed::Speed};

/// The requests that share the cores of a server.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    cores: f64,
    /// The work, in nanoseconds at full speed, that a request has had that was always there.
    had: f64,
    /// When `had` was computed.
    since: Instant,
    /// By the sum at which they are done; positive floats are in the order of their bits.
    jobs: BinaryHeap<Reverse<(u64, u64, Handle)>>,
    joined: u64,
    /// Counts the departures that were planned; only the last one holds.
    pub(crate) version: u32,
}

impl Sharing {
    pub(crate) fn new(cores: u32) -> Self {
        Self {
            cores: f64::from(cores),
            had: 0.0,
            since: Instant::ZERO,
            jobs: BinaryHeap::new(),
            joined: 0,
            version: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn join(&mut self, now: Instant, work: Duration, request: Handle, speed: &Speed) {
        self.advance(now, speed);
        self.joined += 1;
        let done_at = self.had + work.as_nanos() as f64;
        self.jobs.push(Reverse((done_at.to_bits(), self.joined, request)));
    }

    /// When the next one is done, if none comes before; none where nobody is, or never.
    pub(crate) fn next(&mut self, now: Instant, speed: &Speed) -> Option<(Instant, u32)> {
        // What was had until now counts, also where nobody has come or gone since.
        self.advance(now, speed);
        self.version = self.version.wrapping_add(1);
        let Reverse((done_at, ..)) = self.jobs.peek()?;
        let left = (f64::from_bits(*done_at) - self.had).max(0.0) / self.share();
        let end = speed.end(now, Duration::from_nanos(libm::ceil(left) as u64))?;
        Some((end, self.version))
    }

    /// Takes out the one that is done now.
    pub(crate) fn depart(&mut self, now: Instant, speed: &Speed) -> Option<Handle> {
        self.advance(now, speed);
        self.jobs.pop().map(|Reverse((.., request))| request)
    }

    /// Takes out all, in the order they would have been done.
    pub(crate) fn clear(&mut self, now: Instant, speed: &Speed) -> Vec<Handle> {
        self.advance(now, speed);
        self.version = self.version.wrapping_add(1);
        let jobs = std::mem::take(&mut self.jobs).into_sorted_vec();
        jobs.into_iter().rev().map(|Reverse((.., request))| request).collect()
    }

    /// The part of a core that each has.
    fn share(&self) -> f64 {
        (self.cores / self.jobs.len().max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: Instant, speed: &Speed) {
        if self.jobs.is_empty() {
            // The sum may begin anew, so that it never grows beyond what a float tells apart.
            self.had = 0.0;
        } else {
            self.had += speed.work_between(self.since, now) * self.share();
        }
        self.since = now;
    }
}
