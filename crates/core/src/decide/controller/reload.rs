//! Another configuration comes into force: who is new, who stays, who leaves.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use super::{Controller, Due, planless};
use crate::{
    decide::{
        ledger::{ServerId, ServiceTransition},
        management::next_look,
        server_table::{Checks, Origin},
        service_plans::ServicePlans,
    },
    fleet::{Fleet, PolicyKind, Service},
    health::ejection::RETURN_HOLD,
    time::{Duration, Instant},
};

impl Controller {
    /// Puts `fleet` in force. Services that are as they were keep their plans.
    pub(super) fn reload(&mut self, now: Instant, fleet: &Arc<Fleet>) {
        let before = core::mem::replace(&mut self.fleet, fleet.clone());
        self.ledger.reclaim();
        let origins = self.server_table.enlist(now, (&before, fleet), &mut self.ledger);
        let news = fleet.services.iter().zip(&origins);
        let news =
            news.map(|(service, origin)| (&*service.name, (service, origin.same().is_some())));
        let news: BTreeMap<&str, (&Service, bool)> = news.collect();
        let fate = |name: &str| match news.get(name) {
            Some((_, true)) => ServiceTransition::Same,
            Some((service, false)) => ServiceTransition::Changed(service),
            None => ServiceTransition::Gone,
        };
        let by_name = before.services.iter().map(|service| (&*service.name, service)).collect();
        self.draining.settle(now, &by_name, fate, &self.ledger);
        self.ledger.limiters.settle(now, fleet);
        self.ledger.retain(fate);
        let managed = |server| {
            let place = self.server_table.place(server)?;
            Some(fleet.services[place.service].policy == PolicyKind::Managed)
        };
        self.management.retain(|server| managed(server) == Some(true));
        self.reschedule(now, &before, &origins);
        let none = planless();
        let plans = origins.iter().map(|origin| origin.same().and_then(|at| self.plans.get(at)));
        self.plans = plans.map(|plan| plan.unwrap_or(&none).clone()).collect::<ServicePlans>();
        let touched = (0..origins.len()).filter(|at| origins[*at].same().is_none());
        self.touched.extend(touched);
        self.configuration += 1;
        self.reloaded = true;
    }

    /// Re-creates the timers that are keyed by index, and those of servers in changed services;
    /// drops those of servers that left.
    fn reschedule(&mut self, now: Instant, before: &Fleet, origins: &[Origin]) {
        let mut dues = self.index_dues(now, origins);
        dues.extend(self.server_dues(now, origins));
        let server_table = &self.server_table;
        self.timers.retain(|due| match due {
            Due::Check(id) => server_table.get(id).is_some_and(|it| it.checks == Checks::Waiting),
            Due::Return(id) | Due::HearAgain(id) | Due::JoinTimeout(id) => {
                server_table.get(id).is_some()
            }
            Due::Regain(..) | Due::Step(_) | Due::Watch(..) | Due::Manage(_) | Due::Cut => false,
        });
        for (due, at) in dues {
            self.timers.set(due, at);
        }
        self.begin_checks(now, before, origins);
    }

    /// When what is keyed by index is due.
    fn index_dues(&self, now: Instant, origins: &[Origin]) -> Vec<(Due, Option<Instant>)> {
        let mut dues = Vec::new();
        let services = self.fleet.services.iter().zip(self.server_table.services()).zip(origins);
        for (s, ((service, known), origin)) in services.enumerate() {
            let was_at = origin.was_at();
            let look = next_look(now, service);
            let look_before = was_at.and_then(|at| self.timers.get(Due::Manage(at)));
            dues.push((Due::Manage(s), look.map(|at| look_before.unwrap_or(at).min(at))));
            dues.push((Due::Step(s), was_at.and_then(|at| self.timers.get(Due::Step(at)))));
            for (g, group) in known.groups.iter().enumerate() {
                let well_since = group.standing.well_since;
                dues.push((Due::Regain(s, g), well_since.map(|since| since + RETURN_HOLD)));
                dues.push((Due::Watch(s, g), group.watch.as_ref().and_then(|watch| watch.due())));
            }
        }
        dues.push((Due::Cut, self.draining.next_deadline()));
        dues
    }

    /// When servers in changed services return, and have joined their group.
    fn server_dues(&self, now: Instant, origins: &[Origin]) -> Vec<(Due, Option<Instant>)> {
        let changed = (0..origins.len()).filter(|at| origins[*at].same().is_none());
        let servers = || changed.clone().flat_map(|at| self.server_table.servers(at));
        let returns = servers().map(|entry| (Due::Return(entry.id()), entry.returns_at()));
        let joined_at = |due| self.timers.get(due).unwrap_or(now + JOIN_TIMEOUT);
        let joins = servers().map(|entry| {
            let due = Due::JoinTimeout(entry.id());
            (due, entry.is_joining.then(|| joined_at(due)))
        });
        returns.chain(joins).collect()
    }

    /// Has servers checked that were not until now or not like this: few at once, many in the
    /// course of an interval. Where only the times of checks are others, none waits longer than by
    /// these.
    fn begin_checks(&mut self, now: Instant, before: &Fleet, origins: &[Origin]) {
        let (mut new, mut sooner) = (Vec::new(), Vec::new());
        for (at, origin) in origins.iter().enumerate().filter(|(_, it)| it.same().is_none()) {
            let Some(check) = &self.fleet.services[at].health else { continue };
            let was = origin.was_at().and_then(|at| before.services[at].health.as_ref());
            let asks_the_same = was.is_some_and(|was| was.probe == check.probe);
            for entry in self.server_table.servers(at).filter(|it| it.checks == Checks::Waiting) {
                let id = entry.id();
                match self.timers.get(Due::Check(id)).filter(|_| asks_the_same) {
                    None => new.push((id, check.interval)),
                    Some(due) if was != Some(check) => {
                        let by_these = turn_of(now, id, entry.health.interval(check));
                        sooner.push((id, due.min(by_these)));
                    }
                    Some(_) => {}
                }
            }
        }
        let at_once = new.len() <= CHECKS_AT_ONCE;
        let turn = |(id, interval)| (id, if at_once { now } else { turn_of(now, id, interval) });
        for (id, at) in new.into_iter().map(turn).chain(sooner) {
            self.timers.set(Due::Check(id), Some(at));
        }
    }
}

/// The next turn of a server in an interval that all servers share: the turns of numbers that
/// follow each other are spread evenly over it, as multiples of the golden ratio are over a circle
/// (Knuth, The Art of Computer Programming 3, section 6.4).
pub(super) fn turn_of(now: Instant, server: ServerId, interval: Duration) -> Instant {
    let part = u64::from((server.index() as u32).wrapping_mul(GOLDEN));
    let interval = interval.as_nanos().max(1);
    let turn = (u128::from(interval) * u128::from(part)) >> u32::BITS;
    let since = (u128::from(now.as_nanos()) + u128::from(interval) - turn) % u128::from(interval);
    now + Duration::from_nanos(interval - since as u64)
}

/// How long a server that has joined a group may need until it serves: what boots for longer is
/// missing.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// 2^32 over the golden ratio.
const GOLDEN: u32 = 0x9e37_79b9;

/// So many connections at once disturb nobody; and of a service of usual size it is known at once
/// who answers.
const CHECKS_AT_ONCE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_ahead_and_spread_evenly_over_the_interval() {
        let (now, second) = (Instant::from_nanos(7_300_000_000), Duration::from_secs(1));
        let mut turns: Vec<u64> =
            (0..1_000).map(|id| turn_of(now, ServerId(id), second).since(now).as_nanos()).collect();
        turns.sort_unstable();
        assert!(turns[0] > 0 && turns[999] <= 1_000_000_000);
        let widest = turns.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest < Some(3_000_000), "{widest:?} ns, 1,000,000 on average");
        let first = turn_of(now, ServerId(5), second);
        assert_eq!(turn_of(first, ServerId(5), second), first + second);
    }
}
