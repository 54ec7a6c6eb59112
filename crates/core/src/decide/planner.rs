//! Makes a [`ServicePlan`] of the configuration and the state of the servers of a service. Pure: no
//! state of its own.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;

use crate::{
    cluster::share::Share,
    decide::{
        budget::{Allowance, Budget},
        census::{Condition, GroupSnapshot, ServerSnapshot},
        concurrency::{Auto, Bounds, CEILING},
        ledger::{Departed, GroupState, ServerState, ServiceState},
        limits::Limits,
        plan::{GroupPlan, ServerPlan, ServicePlan, WEIGHT_SCALE},
        policy::Chooser,
        priority_tier::{Counted, Part, PriorityTier},
    },
    fleet::{Capacity, Group, Server, Service, Sticky, WhenFull},
    time::{Duration, Instant},
    units::{Rate, Ratio},
};

/// The status of a group: what the planner needs besides the configuration.
#[derive(Clone, Debug)]
pub(crate) struct GroupStatus<'a> {
    pub state: &'a Arc<GroupState>,
    /// Round-trip time from this edge.
    pub distance: Duration,
    /// Too few healthy servers: others come first.
    pub yields: bool,
    /// As in the file.
    pub servers: Vec<ServerStatus<'a>>,
    /// What servers were given that it no longer has.
    pub departed: Arc<Departed>,
}

/// The status of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerStatus<'a> {
    pub state: &'a Arc<ServerState>,
    /// The part of its weight it is given; zero keeps it out.
    pub share: Ratio,
    /// How it counts among those that the capacity of its group is meant for, if it does.
    pub counted: Option<Counted>,
    /// Whether it has been out by ejection and is back in.
    pub is_back: bool,
    pub condition: Condition,
    /// The reason of its condition.
    pub reason: Option<Arc<str>>,
}

impl ServerStatus<'_> {
    /// How it counts: one that is given nothing is as good as down.
    fn counted(&self) -> Option<Counted> {
        let is_idle = self.share == Ratio::ZERO;
        self.counted.map(|it| if is_idle { it.without_health() } else { it })
    }
}

/// Which budgets of a plan are changed. Until it is published requests are still decided by the
/// plan before: at a rate that is lower than the new one each would take more of a raised budget
/// than it may, and whoever comes after would be refused. So budgets are raised last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateChange {
    /// Those that are as they were or lower, and new ones.
    Lowered,
    /// Those that are higher, right before the plan is published.
    Raised,
}

impl RateChange {
    /// Whether the change of this budget is one of these.
    pub(crate) fn is_of(self, budget: &Budget, allowance: &Allowance) -> bool {
        (self == Self::Raised) == budget.is_raised_by(allowance)
    }
}

impl ServicePlan {
    /// Makes the budgets of the service ready for this plan.
    pub(crate) fn change_budgets(&self, now: Instant, change: RateChange) {
        self.state.retries.change(now, &self.retry, change);
        self.groups.iter().for_each(|group| group.change_budgets(now, change));
    }
}

fn snapshot(status: &GroupStatus<'_>) -> GroupSnapshot {
    let server = |it: &ServerStatus<'_>| ServerSnapshot {
        state: it.state.clone(),
        condition: it.condition,
        reason: it.reason.clone(),
    };
    let servers = status.servers.iter().map(server).collect();
    let (state, departed) = (status.state.clone(), status.departed.clone());
    GroupSnapshot { distance: status.distance, state, servers, departed }
}

impl GroupPlan {
    fn change_budgets(&self, now: Instant, change: RateChange) {
        if let Some(auto) = &self.auto {
            self.state.auto.bound(auto.bounds, self.servers.len() as u32);
        }
        let is_of = |budget: &Budget, it: &&Allowance| change.is_of(budget, it);
        if let Some(allowance) =
            self.limits.rate.as_ref().filter(|it| is_of(&self.state.admission.budget, it))
        {
            let before = self.state.tolerance.swap(allowance.tolerance(), Relaxed);
            match self.whole {
                Some(_) => self.state.admission.budget.change_share(now, before, allowance),
                None => self.state.admission.budget.change(now, allowance),
            }
        }
        for server in self.of_all_tiers() {
            let budget = &server.state.admission.budget;
            if let Some(allowance) = server.limits.rate.as_ref().filter(|it| is_of(budget, it)) {
                budget.change(now, allowance);
            }
        }
    }
}

/// Makes the plan of a service. `status` has an entry for each group, as in the file.
pub(crate) fn service_plan(
    service: &Service,
    state: &Arc<ServiceState>,
    status: &[GroupStatus<'_>],
) -> ServicePlan {
    let groups = service.groups.iter().zip(status).enumerate();
    let mut groups: Vec<GroupPlan> = groups
        .filter_map(|(index, (group, status))| group_plan(service, index, group, status))
        .collect();
    groups.sort_by_key(|group| (group.yields, group.distance, group.index));
    // Of several at one distance the first is filled first.
    let nearest = status.iter().enumerate().min_by_key(|(index, it)| (it.distance, *index));
    ServicePlan {
        nearest: nearest.map_or(0, |(index, _)| index as u16),
        is_shared: service
            .groups
            .iter()
            .zip(status)
            .any(|(group, it)| group.capacity.is_shared() && it.state.share().is_some()),
        groups: groups.into(),
        overflow: service.overflow,
        when_full: service.when_full,
        retry: service.retry,
        ejection: service.ejection,
        state: state.clone(),
        census: status.iter().map(snapshot).collect(),
    }
}

/// None where the group has no server that can be given requests.
fn group_plan(
    service: &Service,
    index: usize,
    group: &Group,
    status: &GroupStatus<'_>,
) -> Option<GroupPlan> {
    if group.scaler == Ratio::ZERO {
        return None;
    }
    let servers = group.servers.iter().zip(&status.servers);
    let counted = servers.filter_map(|(server, it)| Some((server.priority, it.counted()?)));
    let tier = PriorityTier::of(&counted);
    let share = status.state.share().filter(|_| group.capacity.is_shared());
    let servers = servers_in_use(group, status, share, |priority| tier.is_of(priority));
    let servers: Box<[_]> = servers.map(|(_, server)| server).collect();
    if servers.is_empty() {
        return None;
    }
    let tier_part = tier.part(group.scaler);
    let limits_of = |share| limits(&group.capacity, group.scaler, tier_part, share);
    let group_limits = limits_of(share);
    Some(GroupPlan {
        index: index as u16,
        distance: status.distance,
        yields: status.yields,
        auto: group.finds_limit().then(|| auto(service, group, servers.len())),
        rate_per_sec: rate_per_sec(&group_limits, &servers),
        limits: group_limits,
        whole: share.map(|_| limits_of(None)),
        chooser: Chooser::build(service.policy, &servers),
        policy: service.policy,
        compares_5xx: service.ejection.is_some_and(|rules| rules.excess_5xx.is_some()),
        total_weight: servers.iter().map(|server| u64::from(server.weight)).sum(),
        sticks_by_hash: matches!(service.sticky, Some(Sticky::Hash(_))),
        state: status.state.clone(),
        later: standing_by(group, status, tier, share),
        are_back: servers.iter().all(|server| status.servers[usize::from(server.index)].is_back),
        has_server_gates: servers.iter().any(|server| server.limits.is_gated()),
        servers,
    })
}

/// The servers of a group that can be given requests, with their priorities: those that take part
/// and whose priority is one of these.
fn servers_in_use(
    group: &Group,
    status: &GroupStatus<'_>,
    share: Option<Share>,
    is_of: impl Fn(u16) -> bool,
) -> impl Iterator<Item = (u16, ServerPlan)> {
    let servers = group.servers.iter().zip(&status.servers).enumerate();
    servers
        .filter(move |(_, (server, it))| {
            server.weight > 0 && it.share > Ratio::ZERO && is_of(server.priority)
        })
        .map(move |(index, (server, it))| {
            let limits = server_limits(&server.capacity, group.scaler, share);
            let (weight, state) = (weight(server, it.share), it.state.clone());
            (server.priority, ServerPlan { index: index as u16, weight, limits, state })
        })
}

/// The servers that stand by, the lowest priority first.
fn standing_by(
    group: &Group,
    status: &GroupStatus<'_>,
    tier: PriorityTier,
    share: Option<Share>,
) -> Box<[(u16, ServerPlan)]> {
    let is_later = |priority| tier.is_before(priority);
    let mut later: Vec<_> = servers_in_use(group, status, share, is_later).collect();
    later.sort_by_key(|(priority, _)| *priority);
    later.into()
}

/// The rate of a group, or the sum of its servers' where each has one and that is less.
fn rate_per_sec(limits: &Limits, servers: &[ServerPlan]) -> Option<f64> {
    let per_sec = |limits: &Limits| {
        let allowance = limits.rate.as_ref()?;
        Some(1.0 / allowance.interval().as_secs_f64())
    };
    let of_servers: Option<f64> = servers.iter().map(|server| per_sec(&server.limits)).sum();
    per_sec(limits).into_iter().chain(of_servers).reduce(f64::min)
}

/// The terms of a limit that is found: it is found for so many servers that are in use.
fn auto(service: &Service, group: &Group, servers: usize) -> Auto {
    let ceiling = group.capacity.max_in_flight.unwrap_or(CEILING);
    let floor = u32::try_from(servers).unwrap_or(u32::MAX).clamp(1, ceiling);
    let holds = service.groups.len() == 1 && matches!(service.when_full, WhenFull::Queue { .. });
    Auto { bounds: Bounds { floor, ceiling }, scaler: Part::scaled(group.scaler), holds }
}

/// What is left of a capacity when this part of it is in use. At least one request in flight
/// remains, and the least rate that there is. Utilization is a mean over servers, so it does not
/// shrink with health.
///
/// Of what is shared with other edges this edge has its share, which may be nothing. Utilization is
/// not divided: what servers report is the work of all edges, so all see and hold the same figure.
fn limits(capacity: &Capacity, scaler: Ratio, part: Part, share: Option<Share>) -> Limits {
    let in_flight = |places: u32| {
        let places = part.of(u64::from(places)).max(1) as u32;
        share.map_or(places, |share| share.of_places(places))
    };
    let rate = |rate: Rate| {
        let rate = Rate::milli_per_sec(part.of(rate.as_milli_per_sec()).max(1));
        match share {
            Some(share) => Allowance::shared(rate, capacity.burst, share),
            None => Allowance::new(rate, capacity.burst),
        }
    };
    Limits {
        rate: capacity.max_rate.map(rate),
        in_flight: capacity.max_in_flight.map_or(u32::MAX, in_flight),
        utilization: capacity.max_utilization.map(|target| target * scaler),
    }
}

/// The same for one server. It has a place where this edge has any share of its group: a share of
/// few places on each server comes to none, and would make that of the group worth nothing.
fn server_limits(capacity: &Capacity, scaler: Ratio, share: Option<Share>) -> Limits {
    let limits = limits(capacity, scaler, Part::scaled(scaler), share);
    let least = u32::from(share != Some(Share::NONE));
    Limits { in_flight: limits.in_flight.max(least), ..limits }
}

/// The part of its weight that a server is given now, at least one hundredth.
fn weight(server: &Server, share: Ratio) -> u32 {
    (share.of(u64::from(server.weight * WEIGHT_SCALE)) as u32).max(1)
}

/// How long servers of a service start slowly. Where requests are hashed they do not: each change
/// of weight would move keys.
pub(crate) fn slow_start(service: &Service) -> Duration {
    let hashes = service.policy.hashes() || matches!(service.sticky, Some(Sticky::Hash(_)));
    if hashes { Duration::ZERO } else { service.slow_start }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::decide::{
        ledger::Ledger,
        plan::{Decision, PickContext},
    };

    /// The plan of one server with this rate, with budgets as they were.
    fn web(ledger: &mut Ledger, per_sec: u64) -> ServicePlan {
        let address = ([10, 0, 0, 1], 80).into();
        let capacity = Capacity {
            max_rate: Some(Rate::per_sec(per_sec)),
            burst: Some(10),
            ..Capacity::default()
        };
        let group = Group { capacity, ..Group::within("near", vec![Server::at(address)]) };
        let service =
            Service { groups: vec![group], when_full: WhenFull::Shed, ..Service::named("web") };
        let (state, server) = (ledger.group("web", "near"), ledger.server("web", "near", address));
        let server = ServerStatus {
            state: &server,
            share: Ratio::ONE,
            counted: Some(Counted::Healthy),
            is_back: false,
            condition: Condition::Up,
            reason: None,
        };
        let (servers, distance) = (vec![server], Duration::ZERO);
        let departed = ledger.departed("web", "near");
        let status = GroupStatus { state: &state, distance, yields: false, servers, departed };
        service_plan(&service, &ledger.service("web"), &[status])
    }

    /// How many of a hundred requests in a second are sent by this plan.
    fn sent(plan: &ServicePlan, from: Instant) -> usize {
        let at = |n: u64| PickContext {
            now: from + Duration::from_millis(10 * n),
            key: 0,
            draw: 0,
            tried: &[],
            stick: None,
        };
        (0..100).filter(|n| matches!(plan.pick(&at(*n)), Decision::Send(_))).count()
    }

    #[test]
    fn requests_of_the_plan_before_do_not_use_up_a_rate_that_a_reload_raises() {
        let (mut ledger, second) = (Ledger::default(), Duration::from_secs(1));
        let start = Instant::ZERO + second;
        let before = web(&mut ledger, 1);
        before.change_budgets(start, RateChange::Lowered);
        let next = web(&mut ledger, 100);
        next.change_budgets(start, RateChange::Lowered);
        // While the plans of a thousand other services are made.
        assert_eq!(sent(&before, start), 10);
        next.change_budgets(start, RateChange::Raised);
        assert_eq!(sent(&next, start + second), 100);
        // A rate that is lowered has what was given before by then.
        let last = web(&mut ledger, 1);
        last.change_budgets(start + second * 2, RateChange::Lowered);
        last.change_budgets(start + second * 2, RateChange::Raised);
        assert!(sent(&last, start + second * 2) <= 11);
    }
}
