//! Ejects servers that answer with more 5xx than the others of their group.

use alloc::vec::Vec;

use super::{Change, Controller, Due, Place};
use crate::{
    decide::ledger::ServerId,
    health::{
        ejection::may_eject,
        outlier::{Evidence, Sample},
    },
    time::Instant,
};

impl Controller {
    /// Hears that servers of a group answer 5xx.
    pub(super) fn errs(&mut self, now: Instant, server: ServerId) {
        let Some(Place { service, group, .. }) = self.server_table.place(server) else {
            // It has left since it was told, and nobody else of its group could tell meanwhile.
            self.ledger.hear_errors_again(server);
            return;
        };
        let watch = self.server_table.group_mut(service, group).watch.get_or_insert_default();
        watch.hear(now);
        self.timers.set(Due::Watch(service, group), watch.due());
    }

    /// Takes the outliers of a group out, the worst first.
    pub(super) fn look_at_errors(&mut self, now: Instant, (service, group): (usize, usize)) {
        let rules = self.fleet.services[service].ejection;
        let excess = rules.and_then(|rules| rules.excess_5xx);
        // Errors from here on are told again.
        self.server_table.group(service, group).state.hear_errors_again();
        let samples = self.mark(now, (service, group));
        while let Some(excess) = excess {
            let Some(watch) = &mut self.server_table.group_mut(service, group).watch else { break };
            let Some((server, evidence)) = watch.outlier(&samples, excess) else { break };
            watch.forget(server);
            self.eject_outlier(now, server, evidence);
        }
    }

    fn eject_outlier(&mut self, now: Instant, server: ServerId, evidence: Evidence) {
        let Some(place) = self.server_table.place(server) else { return };
        let Some(rules) = self.fleet.services[place.service].ejection else { return };
        let (out, all) = self.server_table.ejected_of(place.service);
        let (out_here, here) = self.server_table.group(place.service, place.group).ejected();
        if !may_eject(&rules, out, all) || !may_eject(&rules, out_here, here) {
            return;
        }
        let entry = self.server_table.at_mut(place);
        entry.ejected_mut().eject_outlier(now, &rules, evidence);
        let address = entry.address();
        self.ejected(now, place, |time| Change::Outlier(address, time, evidence));
    }

    /// Begins to count anew for a server that has come back.
    pub(super) fn begin_trial(&mut self, now: Instant, Place { service, group, .. }: Place) {
        self.mark(now, (service, group));
        self.server_table.group(service, group).state.hear_errors_again();
    }

    /// Takes in what the servers of a group that take part have answered.
    fn mark(&mut self, now: Instant, (service, group): (usize, usize)) -> Vec<Sample> {
        let samples = self.samples(now, (service, group));
        let watch = self.server_table.group_mut(service, group).watch.get_or_insert_default();
        watch.mark(now, &samples);
        self.timers.set(Due::Watch(service, group), watch.due());
        samples
    }

    /// What the servers of a group that take part have answered.
    fn samples(&self, now: Instant, (service, group): (usize, usize)) -> Vec<Sample> {
        let rules = self.fleet.services[service].ejection;
        let samples = self.server_table.group(service, group).taking_part().map(|entry| Sample {
            server: entry.id(),
            answers: entry.state.answered(),
            on_trial: rules.is_some_and(|rules| entry.ejected().is_on_trial(now, &rules)),
        });
        samples.collect()
    }
}
