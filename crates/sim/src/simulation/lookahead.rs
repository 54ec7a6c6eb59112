//! Fetches what the next events need before they happen.
//!
//! With many servers a request finds nothing of what it needs in the caches, and would wait for one
//! line of memory after the other. What is due on the next days of the calendar is known: it is
//! looked at several times while it comes closer, and each time finds what was fetched the time
//! before. What is decided does not depend on it.

use loadline_linux::prefetch::prefetch;

use super::Simulation;
use crate::events::Event;

impl Simulation {
    /// Goes on to the day that has begun.
    pub(super) fn look_ahead(&mut self) {
        let day = self.events.day();
        let begun = day.saturating_sub(self.looked_ahead).min(EVENTS);
        self.looked_ahead = day;
        for day in (0..begun).map(|back| day - back) {
            self.events.prefetch(day + EVENTS);
            self.events.on(day + SUBJECTS).for_each(|event| self.fetch_subject(*event));
            self.events.on(day + SERVERS).for_each(|event| self.fetch_server(*event));
        }
    }

    /// Prefetches the subject of an event: its source or its request.
    fn fetch_subject(&self, event: Event) {
        match event {
            Event::Arrival { source } => {
                prefetch(&self.sources[source as usize]);
                prefetch(&self.scenario.sources[source as usize]);
            }
            Event::Reaches(attempt) | Event::Responds(attempt, _) => {
                self.requests.prefetch(attempt.request);
            }
            _ => {}
        }
    }

    /// Prefetches the server of an event's request.
    fn fetch_server(&self, event: Event) {
        let (Event::Reaches(attempt) | Event::Responds(attempt, _)) = event else { return };
        let Some(request) = self.requests.get(attempt.request) else { return };
        if matches!(event, Event::Reaches(_)) {
            prefetch(&self.stations[request.station as usize]);
            prefetch(&self.groups[request.service as usize]);
        } else if let Some(permit) = request.machine.permit() {
            prefetch(&**permit.state());
        }
    }
}

/// For which day after today the events themselves are fetched, what they are about, and what
/// belongs to their servers. On a day one or two happen.
const EVENTS: u64 = 12;
const SUBJECTS: u64 = 8;
const SERVERS: u64 = 4;
