//! Counters of client connections, by listener.
//!
//! Each worker counts in cells of its own, as for services. A connection holds a `Meter` in its
//! socket, so bytes are counted where they meet the kernel, whatever protocol they belong to, TLS
//! and frames included; and a connection is open for exactly as long as its socket is:
//! `open = accepted - closed`.

use std::sync::Arc;

use crate::telemetry::tally::{Count, Summed};

/// What has been counted of the connections of one listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerTally {
    /// Connections that were taken in.
    pub accepted: u64,
    /// Of these, those that are over.
    pub closed: u64,
    /// Times a worker stopped to accept at the connection limit.
    pub held: u64,
    /// Connections that could not be taken in, mostly for want of file descriptors.
    pub unaccepted: u64,
    /// Connections that ended for want of a good PROXY header.
    pub bad_proxy_headers: u64,
    /// Connections of QUIC that were refused because there were as many as there may be.
    pub full: u64,
    /// Connections that were closed because their client had as many as it may.
    pub over_client_limit: u64,
    /// TLS handshakes that were completed.
    pub handshakes: u64,
    /// TLS handshakes that failed: refused by either side, cut, or too slow.
    pub handshakes_failed: u64,
    /// Bytes that clients sent, as read from their sockets.
    pub received: u64,
    /// Bytes that were sent to clients, as written to their sockets.
    pub sent: u64,
}

impl ListenerTally {
    /// Connections that are open. Read while workers count, it may be off by a few.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.accepted.saturating_sub(self.closed)
    }
}

/// Counters of one listener that one worker writes and anybody reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ListenerCells {
    accepted: Count,
    closed: Count,
    pub(crate) held: Count,
    pub(crate) unaccepted: Count,
    pub(crate) bad_proxy_headers: Count,
    pub(crate) full: Count,
    pub(crate) over_client_limit: Count,
    handshakes: Count,
    handshakes_failed: Count,
    received: Count,
    sent: Count,
}

impl Summed for ListenerCells {
    type Sum = ListenerTally;

    fn add_to(&self, sum: &mut ListenerTally) {
        // Read first, so that no connection is seen to end before it is seen to begin.
        sum.closed += self.closed.get();
        sum.accepted += self.accepted.get();
        sum.held += self.held.get();
        sum.unaccepted += self.unaccepted.get();
        sum.bad_proxy_headers += self.bad_proxy_headers.get();
        sum.full += self.full.get();
        sum.over_client_limit += self.over_client_limit.get();
        sum.handshakes += self.handshakes.get();
        sum.handshakes_failed += self.handshakes_failed.get();
        sum.received += self.received.get();
        sum.sent += self.sent.get();
    }
}

/// One client connection, as it is counted. It belongs to the worker of its cells.
#[derive(Debug)]
pub(crate) struct Meter(Arc<ListenerCells>);

impl Meter {
    /// Counts a connection that has just been accepted.
    pub(crate) fn new(cells: &Arc<ListenerCells>) -> Self {
        cells.accepted.add(1);
        Self(cells.clone())
    }

    pub(crate) fn handshake(&self, has_succeeded: bool) {
        let count = if has_succeeded { &self.0.handshakes } else { &self.0.handshakes_failed };
        count.add(1);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.0.received.add(bytes as u64);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.0.sent.add(bytes as u64);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.0.closed.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tally::Registry;

    #[test]
    fn a_connection_is_open_until_its_meter_is_dropped() {
        let registry = Registry::<&str, ListenerCells>::default();
        let (one, two) = (registry.enlist(&":80"), registry.enlist(&":80"));
        let first = Meter::new(&one);
        let second = Meter::new(&two);
        first.received(3);
        second.received(4);
        second.handshake(false);
        drop(first);
        let tally = &registry.sums()[":80"];
        assert_eq!((tally.accepted, tally.open()), (2, 1));
        assert_eq!((tally.received, tally.handshakes_failed), (7, 1));
    }
}
