//! Publishes a plan: rebuilds the services that were touched, and keeps the others.

use alloc::{format, string::String, sync::Arc, vec::Vec};

use super::{Change, Controller, Due, Output, notice};
use crate::{
    decide::{
        census::Condition,
        plan::{Plan, ServicePlan, URGENT_MAX},
        planner::{self, GroupStatus, RateChange, ServerStatus},
        server_table::{GroupRank, OfGroup, ServerEntry},
    },
    fleet::{Group, PolicyKind, Service},
    health::ejection::RETURN_HOLD,
    time::{Duration, Instant},
    units::Ratio,
};

impl Controller {
    /// Publishes a plan if anything was touched.
    pub(super) fn publish(&mut self, now: Instant) {
        let touched = core::mem::take(&mut self.touched);
        let reloaded = core::mem::take(&mut self.reloaded);
        if touched.is_empty() && self.urgent.is_empty() && !reloaded {
            return;
        }
        // The plan comes before what is told of it.
        let place = self.outputs.len();
        for &service in &touched {
            self.settle_standings(now, service);
            self.server_table.service_mut(service).planned_at = now;
            let of = &self.fleet.services[service];
            let known = &self.server_table.services()[service];
            let plan = planner::service_plan(of, &known.state, &self.status(service));
            plan.change_budgets(now, RateChange::Lowered);
            self.plans.set(service, Arc::new(plan));
            self.timers.set(Due::Step(service), self.next_slow_start_step(now, service));
        }
        for &service in &touched {
            self.plans[service].change_budgets(now, RateChange::Raised);
        }
        self.ledger.limiters.raise(now);
        self.generation += 1;
        self.tell_urgent();
        let plan = Plan {
            generation: self.generation,
            configuration: self.configuration,
            fleet: self.fleet.clone(),
            services: self.plans.clone(),
            limiters: self.ledger.limiters.in_force().clone(),
            urgent: self.told.clone(),
        };
        self.outputs.insert(place, Output::Publish(Arc::new(plan)));
    }

    /// Adds what is urgent to what has been told, and forgets the oldest.
    fn tell_urgent(&mut self) {
        if self.urgent.is_empty() {
            return;
        }
        let new = self.urgent.drain(..).map(|server| (self.generation, server));
        let all: Vec<_> = self.told.iter().copied().chain(new).collect();
        self.told = all[all.len().saturating_sub(URGENT_MAX)..].into();
    }

    /// Moves groups of a service behind the others or back.
    fn settle_standings(&mut self, now: Instant, service: usize) {
        let of = &self.fleet.services[service];
        for (g, group) in of.groups.iter().enumerate() {
            let known = self.server_table.group_mut(service, g);
            let well = known.healthy_share() >= of.failover_threshold;
            let low = (!well).then(|| known.too_few(of.failover_threshold));
            let change = known.standing.settle(now, low);
            let regain = known.standing.well_since.map(|since| since + RETURN_HOLD);
            self.timers.set(Due::Regain(service, g), regain);
            self.outputs.extend(change.map(|change| notice(of, group, change)));
        }
    }

    /// How the groups of a service do, as far as its last plan goes.
    fn status(&self, service: usize) -> Vec<GroupStatus<'_>> {
        let (of, known) = (&self.fleet.services[service], &self.server_table.services()[service]);
        let slow_start = planner::slow_start(of);
        let server = |entry| {
            let share = ServerEntry::share(entry, known.planned_at, slow_start);
            let (condition, reason) = entry.condition();
            let share = share * self.management.factor(entry.id());
            ServerStatus {
                state: &entry.state,
                share,
                counted: entry.counted(),
                is_back: entry.ejected().is_back(),
                condition,
                reason,
            }
        };
        let groups = of.groups.iter().zip(&known.groups).map(|(group, known)| GroupStatus {
            state: &known.state,
            distance: self.distance(group, known),
            yields: known.standing.yields,
            servers: known.entries.iter().map(server).collect(),
            departed: self.ledger.departed(&of.name, &group.name),
        });
        groups.collect()
    }

    /// The round-trip time of the file, zero in the edge's own region, else what checks measured;
    /// a group that has not been reached yet counts as farther than any.
    fn distance(&self, group: &Group, known: &OfGroup) -> Duration {
        let own = (group.region == self.fleet.edge.region).then_some(Duration::ZERO);
        group.rtt.or(own).or(known.distance).unwrap_or(Duration::MAX)
    }

    fn next_slow_start_step(&self, now: Instant, service: usize) -> Option<Instant> {
        let span = planner::slow_start(&self.fleet.services[service]);
        let starting = |entry: &ServerEntry| entry.is_healthy() && entry.is_starting(now, span);
        let starts = span > Duration::ZERO && self.server_table.servers(service).any(starting);
        starts.then(|| now + span / SLOW_START_STEPS)
    }

    /// Panics where the state contradicts itself, or plans are not what they would be if they were
    /// made from nothing; for tests, after every step.
    ///
    /// # Panics
    /// On a defect of the controller.
    pub fn check_invariants(&self) {
        self.server_table.check_invariants(&self.fleet);
        for due in self.timers.iter() {
            assert!(self.has(due), "{due:?} is of something that is there");
        }
        for server in self.management.servers() {
            let service =
                self.server_table.place(server).map(|it| &self.fleet.services[it.service]);
            let is_managed = service.is_some_and(|it| it.policy == PolicyKind::Managed);
            assert!(is_managed, "{server:?} was managed before");
        }
        assert_eq!(self.plans.len(), self.fleet.services.len(), "a plan for each service");
        for (service, kept) in self.plans.iter().enumerate() {
            let (of, known) =
                (&self.fleet.services[service], &self.server_table.services()[service]);
            let anew = planner::service_plan(of, &known.state, &self.status(service));
            let waits = self.server_table.servers(service).any(ServerEntry::awaits_first_check);
            assert_eq!(outline(kept, waits), outline(&anew, waits), "plan of {}", of.name);
        }
    }

    /// Whether that is there for which a timer is set.
    fn has(&self, due: Due) -> bool {
        let services = self.server_table.services();
        match due {
            Due::Return(id) | Due::HearAgain(id) | Due::JoinTimeout(id) | Due::Check(id) => {
                self.server_table.get(id).is_some()
            }
            Due::Regain(service, group) | Due::Watch(service, group) => {
                services.get(service).is_some_and(|it| group < it.groups.len())
            }
            Due::Step(service) | Due::Manage(service) => service < services.len(),
            Due::Cut => true,
        }
    }
}

/// All that a plan says, but for what follows from it. While first checks are awaited nobody is
/// told who has passed already.
fn outline(plan: &ServicePlan, waits: bool) -> String {
    let groups = plan.groups.iter().map(|group| {
        let servers = group.of_all_tiers();
        let servers = servers.map(|it| (it.index, it.weight, it.limits, it.state.id()));
        let order = (group.index, group.distance, group.yields);
        let terms = (group.limits, group.auto, group.policy, group.total_weight, group.are_back);
        (order, terms, servers.collect::<Vec<_>>())
    });
    let census = plan.census.iter().map(|group| {
        let servers = group.servers.iter().map(|it| {
            let untold = waits && it.condition == Condition::Up;
            let condition = if untold { Condition::Unchecked } else { it.condition };
            (it.state.id(), condition, &it.reason)
        });
        (group.distance, servers.collect::<Vec<_>>())
    });
    format!("{:?}", (groups.collect::<Vec<_>>(), census.collect::<Vec<_>>()))
}

/// The plan of a service of which nothing is known yet.
pub(super) fn planless() -> Arc<ServicePlan> {
    Arc::new(planner::service_plan(&Service::named(""), &Arc::default(), &[]))
}

impl OfGroup {
    /// What is told where less than `threshold` of its servers are healthy.
    fn too_few(&self, threshold: Ratio) -> Change {
        if self.is_drained() {
            return Change::Drained;
        }
        let (healthy, servers) = self.healthy();
        Change::Yields(healthy, servers, threshold)
    }
}

impl GroupRank {
    /// Yields at once where too few are healthy, which is told as `low`; comes back after
    /// [`RETURN_HOLD`] without interruption.
    fn settle(&mut self, now: Instant, low: Option<Change>) -> Option<Change> {
        if let Some(low) = low {
            let drained = low == Change::Drained;
            let news = !self.yields || self.drained && !drained;
            *self = Self { yields: true, drained, well_since: None };
            return news.then_some(low);
        }
        if !self.yields {
            return None;
        }
        let since = *self.well_since.get_or_insert(now);
        (now.since(since) >= RETURN_HOLD).then(|| {
            *self = Self::default();
            Change::Recovered
        })
    }
}

/// A slow start moves on in twenty steps: fine enough that none is a jump of load.
const SLOW_START_STEPS: u64 = 20;
