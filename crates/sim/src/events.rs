//! What happens next.

mod calendar;

use loadline_core::time::Instant;

use crate::slab::Handle;
use calendar::Calendar;

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
    /// A waiting request polls its queue without being woken.
    Asks(Handle),
    /// The controller of an edge has something to do.
    Ticks { edge: u32 },
    /// A health check has ended.
    Checked(Handle),
    /// A probe reaches its server, or its answer the edge.
    Probe(Handle),
    /// A fault begins or ends.
    Fault { index: u32, begins: bool },
    /// Edges that share capacity, or their store, have something to do.
    Shares,
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
    calendar: Calendar<Event>,
}

impl Events {
    pub(crate) fn plan(&mut self, at: Instant, event: Event) {
        self.calendar.insert(at.as_nanos(), event);
    }

    /// The present day of the calendar.
    pub(crate) const fn day(&self) -> u64 {
        self.calendar.day()
    }

    /// Events of a near day.
    pub(crate) fn on(&self, day: u64) -> impl Iterator<Item = &Event> {
        self.calendar.on(day)
    }

    /// Prefetches the events of a near day.
    pub(crate) fn prefetch(&self, day: u64) {
        self.calendar.prefetch(day);
    }

    pub(crate) fn next(&mut self) -> Option<(Instant, Event)> {
        self.calendar.next().map(|(at, event)| (Instant::from_nanos(at), event))
    }
}

/// The calendar moves what it holds.
const _: () = assert!(size_of::<Event>() == 16);
