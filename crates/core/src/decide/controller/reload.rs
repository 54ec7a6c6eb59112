//! A reload: which services, groups and servers are new, stay or leave.

use alloc::{collections::BTreeMap, string::ToString, sync::Arc, vec::Vec};

use super::{Controller, Due, planless};
use crate::{
    decide::{
        ledger::{Ledger, ServerId, ServiceChange},
        management::next_look,
        server_table::{Checks, Origins},
        service_plans::ServicePlans,
    },
    fleet::{Fleet, Listener, PolicyKind, Service},
    health::ejection::RETURN_HOLD,
    time::{Duration, Instant},
};

impl Controller {
    /// Puts `fleet` in force. Services that are as they were keep their plans; where all are at
    /// their places, nothing is done for them.
    pub(super) fn reload(&mut self, now: Instant, fleet: &Arc<Fleet>) {
        let before = core::mem::replace(&mut self.fleet, fleet.clone());
        self.ledger.reclaim();
        let origins = self.server_table.enlist(now, (&before, fleet), &mut self.ledger);
        let changes = changes((&before, fleet), &origins, &self.ledger);
        self.draining.settle(now, &changes, &self.ledger);
        if !have_same_routes(&before, fleet) {
            self.ledger.limiters.settle(now, fleet);
        }
        self.ledger.retain(&changes);
        self.management.review(&origins.were, |server| {
            let place = self.server_table.place(server);
            place.is_some_and(|it| fleet.services[it.service].policy == PolicyKind::Managed)
        });
        self.reschedule(now, &before, &origins);
        if !origins.in_place {
            let none = planless();
            let plans = origins.of.iter().map(|it| it.same().and_then(|at| self.plans.get(at)));
            self.plans = plans.map(|plan| plan.unwrap_or(&none).clone()).collect::<ServicePlans>();
        }
        self.touched.extend(origins.changed());
        self.configuration += 1;
        self.reloaded = true;
    }

    /// The place of the service of this name. It is that of any of its servers; only one without
    /// a server is looked for among all services.
    pub(super) fn position(&self, service: &str) -> Option<usize> {
        let servers = self.ledger.servers(service);
        let mut places = servers.filter_map(|(_, server)| self.server_table.place(server.id()));
        let known = places.next().map(|place| place.service);
        known.or_else(|| self.fleet.services.position(service))
    }

    /// Re-creates the timers that are keyed by index, and those of servers in changed services;
    /// drops those of servers that left.
    fn reschedule(&mut self, now: Instant, before: &Fleet, origins: &Origins) {
        let mut dues = self.index_dues(now, before, origins);
        dues.extend(self.server_dues(now, origins));
        let server_table = &self.server_table;
        let stays = |due| match due {
            Due::Check(id) => server_table.get(id).is_some_and(|it| it.checks == Checks::Waiting),
            Due::Return(id) | Due::HearAgain(id) | Due::JoinTimeout(id) => {
                server_table.get(id).is_some()
            }
            Due::Regain(..) | Due::Step(_) | Due::Watch(..) | Due::Manage(_) | Due::Cut => false,
        };
        if origins.in_place {
            let kinds = [Due::Check, Due::Return, Due::HearAgain, Due::JoinTimeout];
            let of_servers = origins.were.iter().flat_map(|id| kinds.map(|kind| kind(*id)));
            of_servers.filter(|due| !stays(*due)).for_each(|due| self.timers.set(due, None));
        } else {
            self.timers.retain(stays);
        }
        for (due, at) in dues {
            self.timers.set(due, at);
        }
        self.begin_checks(now, before, origins);
    }

    /// When what is keyed by index is due, as far as that may be another time than before.
    fn index_dues(
        &self,
        now: Instant,
        before: &Fleet,
        origins: &Origins,
    ) -> Vec<(Due, Option<Instant>)> {
        let mut dues = Vec::new();
        let services = self.fleet.services.iter().zip(self.server_table.services());
        for (s, ((service, known), origin)) in services.zip(&origins.of).enumerate() {
            if origins.in_place && origin.same().is_some() {
                continue;
            }
            let was_at = origin.was_at();
            let look = next_look(now, service);
            let look_before = was_at.and_then(|at| self.timers.get(Due::Manage(at)));
            dues.push((Due::Manage(s), look.map(|at| look_before.unwrap_or(at).min(at))));
            dues.push((Due::Step(s), was_at.and_then(|at| self.timers.get(Due::Step(at)))));
            let were = was_at.map_or(0, |at| before.services[at].groups.len());
            for g in 0..known.groups.len().max(were) {
                let group = known.groups.get(g);
                let well_since = group.and_then(|group| group.standing.well_since);
                dues.push((Due::Regain(s, g), well_since.map(|since| since + RETURN_HOLD)));
                let watch = group.and_then(|group| group.watch.as_ref());
                dues.push((Due::Watch(s, g), watch.and_then(|watch| watch.due())));
            }
        }
        dues.push((Due::Cut, self.draining.next_deadline()));
        dues
    }

    /// When servers in changed services return, and have joined their group.
    fn server_dues(&self, now: Instant, origins: &Origins) -> Vec<(Due, Option<Instant>)> {
        let servers = || origins.changed().flat_map(|at| self.server_table.servers(at));
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
    fn begin_checks(&mut self, now: Instant, before: &Fleet, origins: &Origins) {
        let (mut new, mut sooner) = (Vec::new(), Vec::new());
        for at in origins.changed() {
            let Some(check) = &self.fleet.services[at].health else { continue };
            let was = origins.of[at].was_at().and_then(|at| before.services[at].health.as_ref());
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

/// The services of the second fleet that are new or another than in the first, and those that the
/// `ledger` knows and that are gone.
fn changes<'a>(
    (before, fleet): (&'a Fleet, &'a Fleet),
    origins: &Origins,
    ledger: &Ledger,
) -> Vec<ServiceChange<'a>> {
    let changes = origins.changed().map(|at| {
        let after = &fleet.services[at];
        let before = origins.of[at].was_at().map(|at| &before.services[at]);
        ServiceChange { name: (&*after.name).into(), before, after: Some(after) }
    });
    // Every service of the fleet is in the ledger: if there are no more, none is gone.
    if ledger.service_count() == fleet.services.len() {
        return changes.collect();
    }
    let by_name = |of: &'a Fleet| of.services.iter().map(|it| (&*it.name, it)).collect();
    let (before, after): (BTreeMap<&str, &Service>, BTreeMap<&str, &Service>) =
        (by_name(before), by_name(fleet));
    let gone = ledger.services().filter(|name| !after.contains_key(name)).map(|name| {
        let before = before.get(name).copied();
        ServiceChange { name: name.to_string().into(), before, after: None }
    });
    changes.chain(gone).collect()
}

/// Whether the listeners of both have the same routes in common.
fn have_same_routes(before: &Fleet, fleet: &Fleet) -> bool {
    let (before, after) = (&before.listeners, &fleet.listeners);
    if before.share(after) {
        return true;
    }
    let mut pairs = before.iter().zip(after);
    let is_same = |(one, other): (&Listener, &Listener)| {
        one.bind == other.bind && one.routes.is_same_as(&other.routes)
    };
    before.len() == after.len() && pairs.all(is_same)
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
    use alloc::vec;

    use super::*;
    use crate::fleet::{Edge, Group, Server};

    #[test]
    fn a_service_is_found_by_its_servers_without_a_walk_over_all_services() {
        let fleet = |services| Fleet::of(Edge::within("here"), Vec::new(), services);
        let service = |n: u8| {
            let server = Server::at(([10, 0, 0, n], 80).into());
            let groups = vec![Group::within("here", vec![server])];
            Service { groups, ..Service::named(&n.to_string()) }
        };
        let mut services: Vec<Service> = (0..3).map(service).collect();
        services.push(Service::named("empty"));
        let mut controller = Controller::new(Instant::ZERO, fleet(services));
        let found = |of: &Controller| ["2", "empty", "none"].map(|name| of.position(name));
        assert_eq!(found(&controller), [Some(2), Some(3), None]);
        // There is nothing to walk over.
        controller.fleet = Arc::new(fleet(Vec::new()));
        assert_eq!(found(&controller), [Some(2), None, None]);
    }

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
