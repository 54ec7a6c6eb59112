//! What happens next.

use std::{cmp::Ordering, collections::BinaryHeap};

use loadline_core::time::Instant;

use crate::slab::Handle;

/// What happens at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A request of the source comes.
    Arrival { source: u32 },
    /// A client tries once more.
    Retry(Handle),
    /// An attempt reaches its server.
    Reaches(Attempt),
    /// A station that shares its cores may be done with a request.
    Departs { station: u32, version: u32 },
    /// The response to an attempt reaches the edge, with this status.
    Responds(Attempt, u16),
    /// The connection of an attempt is found to be reset, or refused.
    Resets(Attempt, bool),
    /// The edge has waited for the response to an attempt for as long as it does.
    Expires(Attempt),
    /// The client waits no longer.
    GivesUp(Handle),
    /// A request has stood in the wait queue for as long as it may.
    Overdue(Handle),
    /// A request that waits asks its queue, though nobody woke it.
    Asks(Handle),
    /// The controller of an edge has something to do.
    Ticks { edge: u32 },
    /// A health check has ended.
    Checked(Handle),
    /// A probe reaches its server, or its answer the edge.
    Probe(Handle),
    /// A fault begins or ends.
    Fault { index: u32, begins: bool },
    /// A point of the timeline.
    Sample,
}

/// An attempt of a request to be answered by a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) request: Handle,
    /// Which attempt of the request.
    pub(crate) number: u16,
}

/// Events in the order they happen; at the same instant in the order they were planned.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Planned>,
    planned: u64,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Instant,
    number: u64,
    event: Event,
}

impl Events {
    pub(crate) fn plan(&mut self, at: Instant, event: Event) {
        self.planned += 1;
        self.heap.push(Planned { at, number: self.planned, event });
    }

    pub(crate) fn next(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|planned| (planned.at, planned.event))
    }
}

impl Planned {
    /// Both in one number: it is compared several times for each event.
    const fn key(&self) -> u128 {
        (self.at.as_nanos() as u128) << 64 | self.number as u128
    }
}

impl Ord for Planned {
    /// The earliest is the greatest, so that a heap gives it first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Planned {}

/// The heap moves what it holds: two to a cache line.
const _: () = assert!(size_of::<Planned>() == 32);
