//! Idle connections to servers, kept for the next request.
//!
//! A worker keeps its own: that takes no lock, and to a server nearby another connection is open in
//! no time. To a far one a handshake takes a round trip, and the slow start behind it several, so
//! what is kept to such a server is there for every worker, last in, first out. The kernel's events
//! for a connection go to the worker that had it last, until another takes it over.

use std::{
    iter,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
};

use loadline_core::time::{Duration, Instant};

use crate::{
    io::socket::{Io, Socket},
    tls::{Dialing, Tls},
    upstream::pool::Slot,
};

/// A server is far from here on, by the round trip: far more than it takes to lock and to have the
/// kernel watch a connection for another thread, which is some microseconds.
pub(crate) const FAR: Duration = Duration::from_millis(1);

/// A TCP connection, or one with TLS on it, on which nothing is under way.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) io: Io,
    pub(crate) tls: Option<Box<Tls>>,
}

impl Idle {
    /// Whether neither bytes nor the end of the stream have come. Costs a system call only if
    /// something has.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match &mut self.tls {
            Some(tls) => tls.is_quiet(&mut self.io),
            None => self.io.is_quiet(),
        }
    }
}

/// A connection that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) idle: Idle,
    pub(crate) slot: Slot,
    /// Whether the last response was large.
    pub(crate) large: bool,
    pub(crate) until: Instant,
}

impl Kept {
    /// Whether it may be kept further.
    pub(crate) fn stays(&mut self, now: Instant) -> bool {
        now < self.until && self.idle.is_quiet()
    }

    /// Whether it may carry a message where connections are made with `tls`.
    pub(crate) fn is_good(&mut self, tls: Option<&Dialing>) -> bool {
        let is_same = match (&self.idle.tls, tls) {
            (None, None) => true,
            (Some(made), Some(tls)) => tls.has_made(made),
            _ => false,
        };
        is_same && self.idle.is_quiet()
    }

    pub(crate) fn into_parts(self) -> (Socket, Slot, bool) {
        (self.idle.into(), self.slot, self.large)
    }
}

/// What all workers know of the connections to one server.
#[derive(Debug, Default)]
pub(crate) struct Common {
    /// How many are open, of whichever worker.
    pub(crate) open: Arc<AtomicU32>,
    /// Number of kept connections, read without the lock.
    count: AtomicUsize,
    /// Kept connections, each with its worker's thread.
    kept: Mutex<Vec<(ThreadId, Kept)>>,
}

impl Common {
    /// Keeps a connection for whichever worker needs one next.
    pub(crate) fn keep(&self, connection: Kept) {
        let mut kept = self.lock();
        kept.push((thread::current().id(), connection));
        self.count.store(kept.len(), Relaxed);
    }

    /// Keeps a connection that is used last.
    pub(crate) fn keep_below(&self, connection: Kept) {
        let mut kept = self.lock();
        kept.insert(0, (thread::current().id(), connection));
        self.count.store(kept.len(), Relaxed);
    }

    /// A kept connection that is good for use with `tls`, if there is one; from now on this
    /// worker's.
    pub(crate) fn take(&self, tls: Option<&Dialing>) -> Option<Kept> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let mut kept = self.lock();
        let good = |(whose, mut it): (_, Kept)| it.is_good(tls).then_some((whose, it));
        let taken = iter::from_fn(|| kept.pop()).find_map(good);
        self.count.store(kept.len(), Relaxed);
        drop(kept);
        let (whose, mut taken) = taken?;
        let is_mine = whose == thread::current().id();
        (is_mine || taken.idle.io.unwatch().is_ok()).then_some(taken)
    }

    /// Lets the last `count` that this worker keeps stay until `until`: how many there are.
    pub(crate) fn stay(&self, count: usize, until: Instant) -> usize {
        if self.count.load(Relaxed) == 0 {
            return 0;
        }
        let mine = thread::current().id();
        let mut kept = self.lock();
        let last = kept.iter_mut().rev().filter(|(whose, _)| *whose == mine).take(count);
        last.map(|(_, kept)| kept.until = kept.until.max(until)).count()
    }

    /// Closes what has been kept for too long or has been closed by its server.
    pub(crate) fn sweep(&self, now: Instant) {
        self.close(|kept| !kept.stays(now));
    }

    /// Closes all that is kept.
    pub(crate) fn clear(&self) {
        self.close(|_| true);
    }

    fn close(&self, mut which: impl FnMut(&mut Kept) -> bool) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let mut kept = self.lock();
        let closed: Vec<_> = kept.extract_if(.., |(_, kept)| which(kept)).collect();
        self.count.store(kept.len(), Relaxed);
        // Closing takes system calls, for which nobody need wait.
        drop(kept);
        drop(closed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(ThreadId, Kept)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
