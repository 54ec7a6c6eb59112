//! Fetches what the next events need before they happen.
//!
//! With many servers a request finds nothing of what it needs in the caches, and would wait for one
//! line of memory after the other. What is due on the next days of the calendar is known: the
//! farther a day, the earlier the step that is taken for it, each of which finds what the one before
//! has fetched. What is decided does not depend on it.

use loadline_linux::prefetch::prefetch;

use super::Simulation;
use crate::events::{Attempt, Event};

impl Simulation {
    /// Goes on to the day that has begun.
    pub(super) fn look_ahead(&mut self) {
        let day = self.events.day();
        let begun = day.saturating_sub(self.looked_ahead).min(CARDS);
        self.looked_ahead = day;
        for back in 0..begun {
            self.events.prefetch(day + CARDS - back);
            self.events.on(day + REQUESTS - back).for_each(|event| self.fetch_request(*event));
            self.events.on(day + SERVERS - back).for_each(|event| self.fetch_server(*event));
        }
    }

    fn fetch_request(&self, event: Event) {
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

    fn fetch_server(&self, event: Event) {
        match event {
            Event::Arrival { source } => {
                let service = self.scenario.sources[source as usize].service;
                self.groups.get(service).into_iter().for_each(prefetch);
            }
            Event::Reaches(attempt) => self.fetch_station(attempt),
            Event::Responds(attempt, _) => self.fetch_state(attempt),
            _ => {}
        }
    }

    fn fetch_station(&self, attempt: Attempt) {
        let Some(request) = self.requests.get(attempt.request) else { return };
        prefetch(&self.stations[request.station as usize]);
        prefetch(&self.groups[request.service as usize]);
    }

    fn fetch_state(&self, attempt: Attempt) {
        let Some(request) = self.requests.get(attempt.request) else { return };
        let permit = request.machine.permit();
        permit.into_iter().for_each(|permit| prefetch(&**permit.state()));
    }
}

/// For which day after today cards, requests and what those need are fetched.
const CARDS: u64 = 12;
const REQUESTS: u64 = 8;
const SERVERS: u64 = 4;
