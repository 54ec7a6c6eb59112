//! Servers that answer with more 5xx than the others of their group are taken out.

use alloc::{string::String, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;

use super::{Change, Controller, Place, notice};
use crate::{
    ejection::may_eject,
    ledger::ServerId,
    outlier::{Evidence, Sample},
    time::{Duration, Instant},
};

impl Controller {
    /// Hears that servers of a group answer 5xx.
    pub(super) fn errs(&mut self, now: Instant, server: ServerId) {
        let Some(member) = self.roster.get(server) else { return };
        let (service, group) = member.place.of(&self.fleet);
        let key = (service.name.clone(), group.name.clone());
        self.watches.entry(key).or_default().hear(now);
    }

    /// Looks at the groups where that is due; says whether a server was taken out.
    pub(super) fn eject_outliers(&mut self, now: Instant) -> bool {
        let due =
            self.watches.iter().filter(|(_, watch)| watch.due().is_some_and(|due| due <= now));
        let due: Vec<(String, String)> = due.map(|(key, _)| key.clone()).collect();
        let mut ejected = false;
        for (service, group) in due {
            // Errors from here on are told again.
            self.ledger.group(&service, &group).errors_told.store(false, Relaxed);
            let of_service = self.fleet.services.iter().position(|it| it.name == service);
            let place = of_service.and_then(|s| {
                let groups = &self.fleet.services[s].groups;
                let g = groups.iter().position(|it| it.name == group)?;
                Some(Place { service: s, group: g, server: 0 })
            });
            ejected |= place.is_some_and(|place| self.look(now, place));
        }
        ejected
    }

    /// Takes the outliers of one group out, the worst first.
    fn look(&mut self, now: Instant, place: Place) -> bool {
        let (service, group) = place.of(&self.fleet);
        let key = (service.name.clone(), group.name.clone());
        let rules = service.ejection;
        let excess = rules.and_then(|rules| rules.excess_5xx);
        let mut samples = self.samples(now, place);
        let mut ejected = false;
        while let (Some(watch), Some(excess)) = (self.watches.get_mut(&key), excess) {
            let Some((server, evidence)) = watch.outlier(&samples, excess) else { break };
            watch.forget(server);
            samples.retain(|sample| sample.server != server);
            ejected |= self.eject_outlier(now, server, evidence);
        }
        self.watches.entry(key).or_default().mark(now, &samples);
        ejected
    }

    fn eject_outlier(&mut self, now: Instant, server: ServerId, evidence: Evidence) -> bool {
        let Some(place) = self.roster.get(server).map(|member| member.place) else { return false };
        let (service, group) = place.of(&self.fleet);
        let Some(rules) = &service.ejection else { return false };
        let (out, all) = self.roster.ejected_of(place.service);
        let (out_here, here) = self.roster.ejected_of_group(place.service, place.group);
        let may = may_eject(rules, out, all) && may_eject(rules, out_here, here);
        let Some(member) = self.roster.get_mut(server).filter(|_| may) else { return false };
        member.ejected.eject_outlier(now, rules, evidence);
        member.check_now(now);
        let address = member.address;
        let time = member.ejected.until().map_or(Duration::ZERO, |until| until.since(now));
        self.ledger.server(&service.name, &group.name, address).count_ejection();
        self.outputs.push_back(notice(service, group, Change::Outlier(address, time, evidence)));
        true
    }

    /// Begins to count anew for a server that has come back.
    pub(super) fn begin_trial(&mut self, now: Instant, place: Place) {
        let samples = self.samples(now, place);
        let (service, group) = place.of(&self.fleet);
        let key = (service.name.clone(), group.name.clone());
        self.watches.entry(key).or_default().mark(now, &samples);
        self.ledger.group(&service.name, &group.name).errors_told.store(false, Relaxed);
    }

    /// What the servers of a group that take part have answered.
    fn samples(&mut self, now: Instant, place: Place) -> Vec<Sample> {
        let Self { fleet, ledger, roster, .. } = self;
        let (service, group) = place.of(fleet);
        let members = roster.taking_part(place.service, place.group);
        let samples = members.map(|(server, member)| Sample {
            server,
            answers: ledger.server(&service.name, &group.name, member.address).answered(),
            on_trial: service.ejection.is_some_and(|it| member.ejected.is_on_trial(now, &it)),
        });
        samples.collect()
    }

    /// Forgets groups that are not among these.
    pub(super) fn forget_watches(&mut self, groups: &[(String, String)]) {
        let ledger = &mut self.ledger;
        self.watches.retain(|key, _| {
            let stays = groups.contains(key);
            if !stays {
                ledger.group(&key.0, &key.1).errors_told.store(false, Relaxed);
            }
            stays
        });
    }
}
