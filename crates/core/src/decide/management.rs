//! The servers of the policy `managed`: what their [`manager`](crate::decide::manager) measures,
//! and when.
//!
//! Servers of services with the policy `managed` are looked at every interval; a look that changes
//! their weights by more than the sensitivity asks for a plan.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    decide::{
        ledger::{ServerId, ServerState},
        manager::{Managed, Manager, Observation},
        server_table::OfGroup,
    },
    fleet::{Group, PolicyKind, Service},
    time::{Duration, Instant},
    units::Ratio,
};

/// All managed servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Management {
    servers: BTreeMap<ServerId, Adjustment>,
}

/// What the manager made of a server so far.
#[derive(Clone, Copy, Debug)]
struct Adjustment {
    /// Factor on its weight, smoothed.
    factor: f64,
    /// The factor in the current plan.
    in_force: f64,
    /// How much it had been given at the last look; none before the first.
    given: Option<u64>,
    /// How long its last check that passed took.
    check: Option<Duration>,
}

impl Default for Adjustment {
    fn default() -> Self {
        Self { factor: 1.0, in_force: 1.0, given: None, check: None }
    }
}

impl Management {
    /// Forgets those of these servers that are not managed any more.
    pub(crate) fn review(&mut self, servers: &[ServerId], is_managed: impl Fn(ServerId) -> bool) {
        for server in servers.iter().filter(|server| !is_managed(**server)) {
            self.servers.remove(server);
        }
    }

    /// Servers of which something was measured.
    pub(crate) fn servers(&self) -> impl Iterator<Item = ServerId> {
        self.servers.keys().copied()
    }

    /// A check of a server passed.
    pub(crate) fn checked(&mut self, server: ServerId, time: Duration) {
        self.servers.entry(server).or_default().check = Some(time);
    }

    /// Looks at the healthy servers of a service; says whether weights changed.
    pub(crate) fn look(&mut self, now: Instant, service: &Service, groups: &[OfGroup]) -> bool {
        let mut changed = false;
        for (group, known) in service.groups.iter().zip(groups) {
            let servers = healthy(group, known).collect::<Vec<_>>();
            changed |= self.look_at(now, &service.manager, &servers);
        }
        changed
    }

    fn look_at(&mut self, now: Instant, manager: &Manager, states: &[(f64, &ServerState)]) -> bool {
        let (mut servers, mut in_force) = (Vec::new(), Vec::new());
        for (weight, state) in states {
            let standing = self.servers.entry(state.id()).or_default();
            let observed = standing.observe(now, state);
            servers.push(Managed { weight: *weight, factor: standing.factor, observed });
            in_force.push(standing.in_force);
        }
        let factors = manager.factors(&servers);
        let changes = manager.is_worth(&servers, &factors, &in_force);
        for ((_, state), factor) in states.iter().zip(factors) {
            let standing = self.servers.entry(state.id()).or_default();
            standing.factor = factor;
            if changes {
                standing.in_force = factor;
            }
        }
        changes
    }

    /// What the weight of a server is multiplied with.
    pub(crate) fn factor(&self, server: ServerId) -> Ratio {
        self.servers.get(&server).map_or(Ratio::ONE, |it| Ratio::from_f64(it.in_force))
    }
}

impl Adjustment {
    fn observe(&mut self, now: Instant, state: &ServerState) -> Observation {
        let given = state.given();
        let before = self.given.replace(given);
        Observation {
            active: Some(state.active()),
            new: before.map(|before| given.wrapping_sub(before) as f64),
            check: self.check.map(Duration::as_secs_f64),
            reported: state.admission.utilization.mean(now).map(Ratio::as_f64),
        }
    }
}

/// The servers that are looked at, with their weights in the file.
fn healthy<'a>(
    group: &'a Group,
    known: &'a OfGroup,
) -> impl Iterator<Item = (f64, &'a ServerState)> {
    let servers = group.servers.iter().zip(&known.entries);
    let healthy = servers.filter(|(server, entry)| server.weight > 0 && entry.is_healthy());
    healthy.map(|(server, entry)| (f64::from(server.weight), &*entry.state))
}

/// When a service is looked at next, if it is managed.
pub(crate) fn next_look(now: Instant, service: &Service) -> Option<Instant> {
    (service.policy == PolicyKind::Managed).then(|| now + service.manager.interval)
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn of_many_managed_servers_those_of_services_that_changed_alone_are_looked_at() {
        let (mut management, asked) = (Management::default(), Cell::new(0));
        (0..10_000).for_each(|n| management.checked(ServerId(n), Duration::from_millis(1)));
        management.review(&[ServerId(7), ServerId(8)], |server| {
            asked.set(asked.get() + 1);
            server == ServerId(8)
        });
        assert_eq!((asked.get(), management.servers().count()), (2, 9_999));
    }
}
