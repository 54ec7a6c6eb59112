//! A copy of a controller, to try what would happen from its state on.

use alloc::{collections::VecDeque, vec::Vec};

use super::{Controller, Due};
use crate::{
    decide::server_table::{Checks, Place},
    time::Instant,
};

impl Controller {
    /// A controller that knows what this one knows and shares nothing with it. Nothing is under way
    /// with it: requests in flight are of the other, and checks begin anew. Its first output is its
    /// plan.
    #[must_use]
    pub fn snapshot(&self, now: Instant) -> Self {
        let mut copy = Self {
            fleet: self.fleet.clone(),
            configuration: self.configuration,
            ledger: self.ledger.snapshot(),
            server_table: self.server_table.clone(),
            draining: self.draining.clone(),
            management: self.management.clone(),
            timers: self.timers.clone(),
            touched: (0..self.fleet.services.len()).collect(),
            reloaded: true,
            plans: self.plans.clone(),
            urgent: Vec::new(),
            told: self.told.clone(),
            generation: self.generation,
            outputs: VecDeque::new(),
        };
        copy.draining.count_in(&mut copy.ledger);
        copy.count_in();
        copy.publish(now);
        copy.repeat_checks(now);
        copy
    }

    /// Counts in its own ledger.
    fn count_in(&mut self) {
        for (s, service) in self.fleet.services.iter().enumerate() {
            self.server_table.service_mut(s).state = self.ledger.service(&service.name);
            for (g, group) in service.groups.iter().enumerate() {
                let known = self.server_table.group_mut(s, g);
                known.state = self.ledger.group(&service.name, &group.name);
                for entry in &mut known.entries {
                    let address = entry.address();
                    entry.state = self.ledger.server(&service.name, &group.name, address);
                }
            }
        }
    }

    /// Nobody tells it how the checks of the other one end.
    fn repeat_checks(&mut self, now: Instant) {
        let fleet = self.fleet.clone();
        for (service, of) in fleet.services.iter().enumerate() {
            for (group, of) in of.groups.iter().enumerate() {
                for server in 0..of.servers.len() {
                    let entry = self.server_table.at_mut(Place { service, group, server });
                    if entry.checks == Checks::UnderWay {
                        entry.checks = Checks::Waiting;
                        let id = entry.id();
                        self.timers.set(Due::Check(id), Some(now));
                    }
                }
            }
        }
    }
}
