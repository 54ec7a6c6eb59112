//! What the [`manager`](crate::manager) knows of the servers it manages, and when it looks again.
//!
//! Servers of services with the policy `managed` are looked at every interval; a look that changes
//! their weights by more than the sensitivity asks for a plan.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use crate::{
    fleet::{Fleet, PolicyKind, Service},
    ledger::{Ledger, ServerId, ServerState},
    manager::{Managed, Manager, Observation},
    time::{Duration, Instant},
    units::Ratio,
};

/// All managed servers.
#[derive(Debug, Default)]
pub(crate) struct Management {
    servers: BTreeMap<ServerId, Standing>,
    /// When each service is looked at next, by its place in the file; none that is not managed.
    due: BTreeMap<usize, Instant>,
}

/// What the manager made of a server so far.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// What its weight is multiplied with, smoothed.
    factor: f64,
    /// The same as plans have it.
    in_force: f64,
    /// How much it had been given at the last look; none before the first.
    given: Option<u64>,
    /// How long its last check that passed took.
    check: Option<Duration>,
}

impl Default for Standing {
    fn default() -> Self {
        Self { factor: 1.0, in_force: 1.0, given: None, check: None }
    }
}

impl Management {
    /// Takes in what is configured now, and forgets servers that are gone.
    pub(crate) fn settle(&mut self, now: Instant, fleet: &Fleet, ledger: &mut Ledger) {
        let mut known = core::mem::take(&mut self.servers);
        let mut due = core::mem::take(&mut self.due);
        for (place, service) in managed(fleet) {
            let next = now + service.manager.interval;
            self.due.insert(place, due.remove(&place).unwrap_or(next).min(next));
            for group in &service.groups {
                let ids = group
                    .servers
                    .iter()
                    .map(|server| ledger.server(&service.name, &group.name, server.address).id());
                self.servers.extend(ids.map(|id| (id, known.remove(&id).unwrap_or_default())));
            }
        }
    }

    /// A check of a server passed.
    pub(crate) fn checked(&mut self, server: ServerId, time: Duration) {
        if let Some(standing) = self.servers.get_mut(&server) {
            standing.check = Some(time);
        }
    }

    /// Looks at the healthy servers of the services that are due; says whether weights changed.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        fleet: &Fleet,
        ledger: &mut Ledger,
        is_healthy: impl Fn(ServerId) -> bool,
    ) -> bool {
        let mut changed = false;
        for (place, service) in managed(fleet) {
            let due = self.due.entry(place).or_insert(now);
            if *due > now {
                continue;
            }
            *due = now + service.manager.interval;
            for group in &service.groups {
                let servers = group.servers.iter().filter(|server| server.weight > 0);
                let states = servers.map(|server| {
                    let state = ledger.server(&service.name, &group.name, server.address);
                    (f64::from(server.weight), state)
                });
                let states: Vec<_> = states.filter(|(_, it)| is_healthy(it.id())).collect();
                changed |= self.look_at(now, &service.manager, &states);
            }
        }
        changed
    }

    fn look_at(
        &mut self,
        now: Instant,
        manager: &Manager,
        states: &[(f64, Arc<ServerState>)],
    ) -> bool {
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

    /// When to look again.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.due.values().copied().min()
    }
}

impl Standing {
    fn observe(&mut self, now: Instant, state: &ServerState) -> Observation {
        let given = state.given();
        let before = self.given.replace(given);
        Observation {
            active: Some(state.active()),
            new: before.map(|before| given.wrapping_sub(before) as f64),
            check: self.check.map(Duration::as_secs_f64),
            reported: state.utilization.mean(now).map(Ratio::as_f64),
        }
    }
}

fn managed(fleet: &Fleet) -> impl Iterator<Item = (usize, &Service)> {
    let services = fleet.services.iter().enumerate();
    services.filter(|(_, service)| service.policy == PolicyKind::Managed)
}
