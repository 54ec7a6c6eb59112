//! What a peer has not taken of all that was sent to it: as long as it takes some it is waited for,
//! since closing the connection may take the rest from it.

use loadline_core::{
    decide::request::shorter,
    time::{Duration, Instant},
};

use super::socket::Socket;

/// What a peer has not taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untaken {
    bytes: u32,
    /// Since when it is so much.
    since: Instant,
}

impl Untaken {
    /// What the peer of `socket` has not taken at `now`.
    pub(crate) fn of(socket: &Socket, now: Instant) -> Self {
        Self { bytes: socket.unsent(), since: now }
    }

    /// The same of a peer that may have taken nothing for some time.
    pub(crate) fn since_taken(socket: &Socket, now: Instant) -> Self {
        let untaken = Self::of(socket, now);
        match socket.since_taken().map(Duration::from_std) {
            Some(past) if !untaken.is_nothing() => {
                let since = now.since(Instant::ZERO).saturating_sub(past);
                Self { since: Instant::ZERO + since, ..untaken }
            }
            _ => untaken,
        }
    }

    /// Whether the peer has taken all.
    pub(crate) const fn is_nothing(&self) -> bool {
        self.bytes == 0
    }

    /// How long the peer may be waited for from `now` until this is asked again; none if it may not
    /// be. While it has something left to take it has `idle` for any byte, zero for ever; then
    /// [`LINGER`].
    pub(crate) fn pause(
        &mut self,
        socket: &Socket,
        now: Instant,
        idle: Duration,
    ) -> Option<Duration> {
        let now = Self::of(socket, now);
        if now.bytes < self.bytes {
            *self = now;
        }
        let (limit, pause) = if self.is_nothing() { (LINGER, LINGER) } else { (idle, LOOK) };
        let waited = now.since.since(self.since);
        let is_late = limit > Duration::ZERO && waited >= limit;
        (!is_late).then(|| shorter(pause, limit.saturating_sub(waited)))
    }
}

/// How long a peer may take to notice that the connection is over.
const LINGER: Duration = Duration::from_secs(1);

/// Time from one look at what a peer has left to take to the next.
const LOOK: Duration = Duration::from_millis(250);
