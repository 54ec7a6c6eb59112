//! The plan that the controller publishes and every request is decided by: immutable, lock-free.
//!
//! A [`Plan`] holds, for each service, its groups in the order they are filled: those at or above
//! their failover threshold by distance, then those below it. Whoever is down, drained or ejected
//! is not in it. Everything that is counted lives in the [ledger](crate::decide::ledger).

use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::{
        census::GroupSnapshot,
        concurrency::Auto,
        ledger::{GroupState, ServerId, ServerState, ServiceState, release, reserve},
        limits::{Admission, Limits},
        overflow_reason::OverflowReason,
        permit::{Permit, PermitContext},
        policy::Chooser,
        service_plans::ServicePlans,
    },
    fleet::{Ejection, Fleet, Overflow, PolicyKind, Retry, WhenFull},
    rules::RouteLimiters,
    time::{Duration, Instant},
};

/// What all services of an edge are decided by, at one time.
#[derive(Debug)]
pub struct Plan {
    /// Counts up with every plan.
    pub generation: u64,
    /// Counts up with every configuration that is put in force, also where it says the same: what
    /// it names may be another.
    pub configuration: u64,
    /// What the plan was made of.
    pub fleet: Arc<Fleet>,
    /// In the order of [`Fleet::services`].
    pub services: ServicePlans,
    /// In the order of [`Fleet::listeners`].
    pub(crate) limiters: Arc<[RouteLimiters]>,
    /// The last servers on which whoever waits has to look again, with the generation of the plan
    /// that told it first; at most [`URGENT_MAX`].
    pub(crate) urgent: Arc<[(u64, ServerId)]>,
}

impl Plan {
    /// The rate limits of the routes of the listener at this index.
    #[must_use]
    pub fn limiters(&self, listener: usize) -> RouteLimiters {
        self.limiters.get(listener).cloned().unwrap_or_default()
    }

    /// Whether both have the limits of all routes in common, not only equal ones.
    #[must_use]
    pub fn shares_limiters(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.limiters, &other.limiters)
    }

    /// The servers that have been found to hang or were cut since the plan of this generation, so
    /// that whoever waits on them has to look; none where they were too many to tell.
    pub fn urgent_since(&self, generation: u64) -> Option<impl Iterator<Item = ServerId>> {
        let since = self.urgent.partition_point(|(told, _)| *told <= generation);
        let all = since > 0 || self.urgent.len() < URGENT_MAX;
        all.then(|| self.urgent[since..].iter().map(|(_, server)| *server))
    }

    /// The servers to which connections are worth keeping: those that are not about to be given up,
    /// healthy or not.
    pub fn staying(&self) -> impl Iterator<Item = ServerId> {
        let census = self.services.iter().flat_map(|service| &service.census);
        let servers = census.flat_map(|group| &group.servers);
        servers.filter(|it| !it.state.is_leaving()).map(|it| it.state.id())
    }
}

/// How requests for one service are decided.
#[derive(Debug)]
pub struct ServicePlan {
    /// In the order they are filled.
    pub groups: Box<[GroupPlan]>,
    /// Index of the nearest group, as in the file, whether it can be given requests or not. What
    /// goes to another is overflow.
    pub(crate) nearest: u16,
    pub(crate) overflow: Overflow,
    pub(crate) when_full: WhenFull,
    pub(crate) retry: Retry,
    pub(crate) ejection: Option<Ejection>,
    pub(crate) state: Arc<ServiceState>,
    /// Whether demand is counted, since a group is shared with other edges.
    pub(crate) is_shared: bool,
    /// Every group, in the order of the file.
    pub census: Box<[GroupSnapshot]>,
}

/// One group that can be given requests.
#[derive(Debug)]
pub struct GroupPlan {
    /// Index in the service, as in the file.
    pub index: u16,
    /// Round-trip time from this edge.
    pub distance: Duration,
    /// Whether too few of its servers are healthy, so that it comes after the others.
    pub yields: bool,
    pub(crate) limits: Limits,
    /// Requests per second that it may be given: by its own rate, or the sum of its servers' where
    /// each has one and that is less. None where neither limits it.
    pub(crate) rate_per_sec: Option<f64>,
    /// The limits of the whole group, where this edge has a share of them.
    pub(crate) whole: Option<Limits>,
    pub(crate) auto: Option<Auto>,
    /// Whether sessions belong to servers by [`PickContext::key`].
    pub(crate) sticks_by_hash: bool,
    /// Whether servers are compared by their share of 5xx.
    pub(crate) compares_5xx: bool,
    /// The servers that can be given requests.
    pub servers: Box<[ServerPlan]>,
    /// Healthy servers of later priorities with these, the lowest first: they stand by.
    pub(crate) later: Box<[(u16, ServerPlan)]>,
    /// Whether all of `servers` are back from an ejection, so that nobody knows how they do.
    pub(crate) are_back: bool,
    /// Whether any of `servers` has a limit that time opens again.
    pub(crate) has_server_gates: bool,
    /// The sum of their weights.
    pub(crate) total_weight: u64,
    pub(crate) policy: PolicyKind,
    pub(crate) chooser: Chooser,
    pub(crate) state: Arc<GroupState>,
}

/// One server that can be given requests.
#[derive(Debug)]
pub struct ServerPlan {
    /// Index in the group, as in the file.
    pub index: u16,
    /// Share of the group's traffic, at least 1; scaled while it starts slowly.
    pub weight: u32,
    pub(crate) limits: Limits,
    pub(crate) state: Arc<ServerState>,
}

/// What a decision depends on besides the plan and the ledger.
#[derive(Clone, Copy, Debug)]
pub struct PickContext<'a> {
    /// The time of the decision.
    pub now: Instant,
    /// Hash of what the service hashes; any value where the policy does not hash.
    pub key: u64,
    /// A random number, uniform over all of `u64`.
    pub draw: u64,
    /// Servers that failed this request already.
    pub tried: &'a [ServerId],
    /// The server that the session of the request is with.
    pub stick: Option<ServerId>,
}

/// What happens to a request.
#[derive(Debug)]
pub enum Decision {
    /// It is sent.
    Send(Permit),
    /// It waits; see [`ServicePlan::pick_queued`].
    Queue(QueuePlace),
    /// It is refused.
    Refuse(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Every server is down, drained, ejected or was tried.
    NoServer,
    /// Every group is full and nobody may wait.
    Full,
    /// Every group is full and so is the queue.
    QueueFull,
}

/// What the request at the head of the queue does next.
#[derive(Debug)]
pub enum QueuedDecision {
    /// It is sent.
    Send(Permit),
    /// It waits until a request ends or a plan is published, and no longer than to this instant if
    /// there is one.
    Wait(Option<Instant>),
    /// It is refused.
    Refuse(Refusal),
}

/// A place in the bounded queue of a service; dropping it leaves the queue.
#[derive(Debug)]
pub struct QueuePlace {
    state: Arc<ServiceState>,
}

impl QueuePlace {
    /// A place, where fewer than so many are taken.
    pub(crate) fn take(state: &Arc<ServiceState>, places: u32) -> Option<Self> {
        reserve(&state.queued, places).then(|| Self { state: state.clone() })
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        release(&self.state.queued);
    }
}

impl ServicePlan {
    /// Decides about a request that has just come (or failed at the servers in `ask.tried`).
    ///
    /// Never blocks, allocates or reads a clock. Requests that wait are not overtaken.
    #[must_use]
    pub fn pick(&self, ask: &PickContext<'_>) -> Decision {
        self.find(ask).map_or_else(|| self.when_full(ask), Decision::Send)
    }

    /// As [`Self::pick`], for a request that never waits and never exceeds a capacity, whatever
    /// `when_full` says.
    #[must_use]
    pub fn pick_spare(&self, ask: &PickContext<'_>) -> Decision {
        self.find(ask).map_or_else(|| Decision::Refuse(self.refusal(ask)), Decision::Send)
    }

    /// A place for a request that has come just now, if there is one.
    fn find(&self, ask: &PickContext<'_>) -> Option<Permit> {
        if self.groups.is_empty() {
            return None;
        }
        let waiting = self.state.queued();
        if self.overflow == Overflow::Soonest && ask.tried.is_empty() {
            self.state.arrivals.arrive(ask.now);
        }
        let stuck = if waiting == 0 { self.stuck(ask) } else { None };
        let permit = stuck.or_else(|| match self.overflow {
            _ if self.is_last_attempt(ask) => self.last_chance(ask),
            Overflow::Capacity if waiting > 0 => None,
            Overflow::Capacity => self.first_with_room(ask),
            Overflow::Soonest => self.soonest(ask, waiting),
        });
        if ask.tried.is_empty() {
            if self.is_shared {
                self.state.asked.fetch_add(1, Relaxed);
            }
            self.count_asked(permit.as_ref(), ask.now);
        }
        permit
    }

    /// Counts a newcomer in the budgets of the groups that were asked: up to the group that takes
    /// it, or all.
    fn count_asked(&self, permit: Option<&Permit>, now: Instant) {
        let taken = permit.map(|permit| permit.terms.group);
        for group in &self.groups {
            if let Some(rate) = &group.limits.rate {
                group.state.admission.budget.count(rate, now);
            }
            if taken == Some(group.index) {
                return;
            }
            if group.auto.is_some() {
                group.state.auto.turn_away(self.state.queued());
            }
        }
    }

    /// Decides about the request at the head of the queue. Only the head may ask, so that
    /// requests leave in the order they came.
    #[must_use]
    pub fn pick_queued(&self, ask: &PickContext<'_>) -> QueuedDecision {
        if self.groups.is_empty() {
            return QueuedDecision::Refuse(Refusal::NoServer);
        }
        let permit = self.stuck(ask).or_else(|| match self.overflow {
            Overflow::Capacity => self.first_with_room(ask),
            Overflow::Soonest => self.soonest(ask, 0),
        });
        match permit {
            Some(permit) => {
                if permit.terms.finds_limit && ask.tried.is_empty() {
                    let others = self.state.queued().saturating_sub(1);
                    permit.server.group.auto.take_back(others);
                }
                QueuedDecision::Send(permit)
            }
            None if self.nobody_left(ask) => QueuedDecision::Refuse(Refusal::NoServer),
            None => QueuedDecision::Wait(self.ready_at(ask.now)),
        }
    }

    /// Whether a request that waits could be sent to a server, had that not failed it.
    pub(crate) fn holds_up(&self, ask: &PickContext<'_>) -> bool {
        let anywhere = PickContext { tried: &[], ..*ask };
        let is_free = |server: &ServerPlan| {
            ask.tried.contains(&server.state.id()) && server.has_room(&anywhere)
        };
        let is_open = |group: &GroupPlan| group.has_room_at(ask.now) && group.has_rate(ask);
        let holds_up = |group: &GroupPlan| is_open(group) && group.servers.iter().any(is_free);
        !ask.tried.is_empty() && self.groups.iter().any(holds_up)
    }

    /// Counts a request towards the retry budget.
    pub fn count_request(&self) {
        self.state.retries.deposit(&self.retry);
    }

    /// Takes a place elsewhere for a request that a server answered with a 5xx, where one is to be
    /// had at once and a request that has been sent `attempts` times may be sent again. None means
    /// that the client is given the response there is.
    #[must_use]
    pub fn retry_5xx(&self, attempts: u32, ask: &PickContext<'_>) -> Option<Permit> {
        if !self.retry.on_5xx || attempts > self.retry.attempts || self.state.queued() > 0 {
            return None;
        }
        // A place that is not used would have cost its group a request of its rate.
        if !self.state.retries.has(&self.retry, ask.now) {
            return None;
        }
        let permit = self.first_with_room(ask)?;
        self.state.retries.withdraw(&self.retry, ask.now).then_some(permit)
    }

    /// Whether a request that has failed `attempts` times may be sent again now.
    #[must_use]
    pub fn may_retry(&self, attempts: u32, now: Instant) -> bool {
        attempts <= self.retry.attempts && self.state.retries.withdraw(&self.retry, now)
    }

    /// Gives back what [`ServicePlan::may_retry`] took for an attempt that came to no server.
    pub(crate) fn give_back_retry(&self) {
        self.state.retries.give_back();
    }

    /// As [`Self::may_retry`], for a request that no server has seen: it costs no budget.
    #[must_use]
    pub fn may_reconnect(&self, attempts: u32) -> bool {
        attempts <= self.retry.attempts
    }

    /// What is counted of the service.
    #[must_use]
    pub fn state(&self) -> &Arc<ServiceState> {
        &self.state
    }

    /// When the first group or server has room again by its rate budget; none where only the end of
    /// a request makes room.
    fn ready_at(&self, now: Instant) -> Option<Instant> {
        self.groups.iter().filter_map(|group| group.ready_at(now)).min()
    }

    fn first_with_room(&self, ask: &PickContext<'_>) -> Option<Permit> {
        self.groups.iter().find_map(|group| group.admit(ask, self))
    }

    /// Counts a request as overflow that only servers without a connection to spare have sent on to
    /// a farther group: the nearest is as good as full.
    pub(crate) fn goes_past_crowded(&self, permit: &mut Permit) {
        if permit.terms.group != self.nearest && permit.terms.overflow.is_none() {
            permit.terms.overflow = Some(OverflowReason::MaxConnections);
            permit.server.group.overflowed.add();
        }
    }

    /// For the last attempt of a request: a group where none has failed it comes before one where
    /// one has. When a whole region dies its servers fail one after the other, and a request in
    /// flight must not spend all its attempts there.
    fn last_chance(&self, ask: &PickContext<'_>) -> Option<Permit> {
        let fresh = self.groups.iter().filter(|group| !group.has_failed(ask));
        let mut order = fresh.chain(self.groups.iter().filter(|group| group.has_failed(ask)));
        order.find_map(|group| group.admit(ask, self))
    }

    fn is_last_attempt(&self, ask: &PickContext<'_>) -> bool {
        !ask.tried.is_empty() && ask.tried.len() >= self.retry.attempts as usize
    }

    fn when_full(&self, ask: &PickContext<'_>) -> Decision {
        let refusal = self.refusal(ask);
        match self.when_full {
            _ if refusal == Refusal::NoServer => Decision::Refuse(refusal),
            WhenFull::Shed => Decision::Refuse(refusal),
            WhenFull::Spread => self.spread(ask).map_or(Decision::Refuse(refusal), Decision::Send),
            WhenFull::Queue { length, .. } => {
                match QueuePlace::take(&self.state, self.queue_places(length)) {
                    Some(place) => Decision::Queue(place),
                    None => self
                        .beyond_queue(ask)
                        .map_or(Decision::Refuse(Refusal::QueueFull), Decision::Send),
                }
            }
        }
    }

    /// Why a request is refused that found no place.
    fn refusal(&self, ask: &PickContext<'_>) -> Refusal {
        if self.nobody_left(ask) { Refusal::NoServer } else { Refusal::Full }
    }

    /// Whether there is no server, or every one has failed this request already.
    fn nobody_left(&self, ask: &PickContext<'_>) -> bool {
        let mut servers = self.groups.iter().flat_map(GroupPlan::of_all_tiers);
        servers.all(|server| ask.tried.contains(&server.state.id()))
    }
}

impl GroupPlan {
    /// Whether a server of this group has failed the request.
    fn has_failed(&self, ask: &PickContext<'_>) -> bool {
        self.servers.iter().any(|server| ask.tried.contains(&server.state.id()))
    }

    /// Gives a permit if the group, which is one of `service`, and one of its servers have room.
    pub(crate) fn admit(&self, ask: &PickContext<'_>, service: &ServicePlan) -> Option<Permit> {
        self.admit_with(ask, service, || self.choose(ask))
    }

    /// The same for a server that `choose` takes a place on.
    pub(crate) fn admit_with<'a>(
        &'a self,
        ask: &PickContext<'_>,
        service: &ServicePlan,
        choose: impl FnOnce() -> Option<&'a ServerPlan>,
    ) -> Option<Permit> {
        if !self.has_rate(ask) {
            return None;
        }
        if !reserve(&self.state.in_flight, self.limits.in_flight) {
            return None;
        }
        if !self.enter(ask.now) {
            release(&self.state.in_flight);
            return None;
        }
        let permit = choose().and_then(|server| {
            if self.limits.take(self.admission(), ask.now) {
                return Some(server);
            }
            server.give_back();
            None
        });
        match permit {
            Some(server) => Some(self.permit(server, ask.now, service.overflow_reason(self, ask))),
            None => {
                release(&self.state.in_flight);
                if self.auto.is_some() {
                    self.state.auto.leave();
                }
                None
            }
        }
    }

    /// Whether rate and utilization would let a request in, and the share has not ended.
    fn has_rate(&self, ask: &PickContext<'_>) -> bool {
        (self.whole.is_none() || !self.state.share_has_ended(ask.now))
            && self.limits.has_room(self.admission(), ask.now)
    }

    fn admission(&self) -> &Admission {
        &self.state.admission
    }

    /// Chooses a server and reserves a place on it. Between the choice and the reservation another
    /// worker may have taken the place: then the policy is asked again.
    // All policies are large: once is enough.
    #[inline(never)]
    fn choose(&self, ask: &PickContext<'_>) -> Option<&ServerPlan> {
        if self.sticks_by_hash
            && let Some(server) =
                self.rendezvous_server(ask.key).and_then(|server| self.take(server, ask))
        {
            return Some(server);
        }
        if let Some(server) = self.spared(ask) {
            return Some(server);
        }
        let chosen = (0..CHOICES_MAX).find_map(|_| {
            let server = self.chooser.choose(self, ask, |server| server.has_room(ask))?;
            server.reserve(ask.now).then_some(server)
        });
        chosen.or_else(|| self.after_active_tier(ask))
    }

    pub(crate) fn permit(
        &self,
        server: &ServerPlan,
        now: Instant,
        overflow: Option<OverflowReason>,
    ) -> Permit {
        let terms = PermitContext {
            group: self.index,
            server: server.index,
            overflow,
            over_capacity: false,
            tracks_peak: self.policy == PolicyKind::PeakEwma,
            ahead: (self.policy == PolicyKind::Prequal)
                .then(|| server.state.in_flight_of_all(now).saturating_sub(1)),
            finds_limit: self.auto.is_some(),
            compares_5xx: self.compares_5xx,
            server_utilization: server.limits.utilization,
            group_utilization: self.limits.utilization,
        };
        server.state.requests.add();
        if terms.server_utilization.is_some() {
            server.state.admission.utilization.count();
        }
        if terms.group_utilization.is_some() {
            self.state.admission.utilization.count();
        }
        if overflow.is_some() {
            self.state.overflowed.add();
        }
        Permit::new(server.state.clone(), now, terms)
    }

    /// When a limit of rate or utilization makes room, if one is what the group waits for.
    pub(crate) fn ready_at(&self, now: Instant) -> Option<Instant> {
        let of_server = |server: &ServerPlan| server.limits.ready_at(server.admission(), now);
        let gated = if self.has_server_gates { &self.servers[..] } else { &[] };
        let of_servers = || gated.iter().filter_map(of_server).min();
        self.limits.ready_at(self.admission(), now).or_else(of_servers)
    }

    /// Whether the group as a whole could take a request at `now`, as far as rate and requests in
    /// flight go; for display and tests, a decision reserves what it finds.
    #[must_use]
    pub fn has_room_at(&self, now: Instant) -> bool {
        let rate = self.limits.rate.as_ref();
        self.state.in_flight() < self.limits.in_flight
            && self.has_found_room()
            && rate.is_none_or(|allowance| self.state.admission.budget.ready_at(allowance) <= now)
    }

    /// Whether the group and one of its servers have room at `now`; nothing is taken.
    pub(crate) fn has_place_at(&self, now: Instant) -> bool {
        self.has_room_at(now)
            && (self.whole.is_none() || !self.state.share_has_ended(now))
            && self.limits.ready_at(self.admission(), now).is_none()
            && self.servers.iter().any(|server| server.has_place_at(now))
    }

    /// What is counted of the group.
    #[must_use]
    pub fn state(&self) -> &Arc<GroupState> {
        &self.state
    }
}

impl ServerPlan {
    /// Whether the server could take this request; nothing is taken yet.
    pub(crate) fn has_room(&self, ask: &PickContext<'_>) -> bool {
        self.state.in_flight.load(Relaxed) < self.limits.in_flight
            && self.limits.has_room(self.admission(), ask.now)
            && !ask.tried.contains(&self.state.id())
    }

    /// Whether the server has room at `now`, whatever it has failed.
    fn has_place_at(&self, now: Instant) -> bool {
        self.state.in_flight.load(Relaxed) < self.limits.in_flight
            && self.limits.ready_at(self.admission(), now).is_none()
    }

    fn admission(&self) -> &Admission {
        &self.state.admission
    }

    pub(crate) fn reserve(&self, now: Instant) -> bool {
        if !self.state.reserve(self.limits.in_flight) {
            return false;
        }
        let taken = self.limits.take(self.admission(), now);
        if !taken {
            self.state.release();
        }
        taken
    }

    /// Gives back what [`ServerPlan::reserve`] took, for a request that is not sent.
    fn give_back(&self) {
        self.state.release();
        self.limits.give_back(self.admission());
    }

    /// What is counted of the server.
    #[must_use]
    pub fn state(&self) -> &Arc<ServerState> {
        &self.state
    }
}

/// Servers that hang or are cut one after the other are told one by one up to here.
pub(crate) const URGENT_MAX: usize = 256;

/// Weights in a plan are hundredths of those in the file, to have room below 1 for slow starts.
pub(crate) const WEIGHT_SCALE: u32 = 100;

/// How often a policy is asked again when another worker was faster; after that the group counts
/// as full, which errs on the side of its limits.
const CHOICES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decide::controller::{Controller, Output},
        fleet::{Capacity, Edge, Group, Server, Service},
        units::Rate,
    };

    #[test]
    fn a_request_that_loses_the_race_for_its_group_costs_the_server_no_rate() {
        let limited = |per_sec| Capacity {
            max_rate: Some(Rate::per_sec(per_sec)),
            burst: Some(1),
            ..Capacity::default()
        };
        let server = Server { capacity: limited(1), ..Server::at(([127, 0, 0, 1], 80).into()) };
        let group = Group { capacity: limited(100), ..Group::within("near", alloc::vec![server]) };
        let services = alloc::vec![Service { groups: alloc::vec![group], ..Service::named("web") }];
        let fleet = Fleet::of(Edge::within("near"), alloc::vec![], services);
        let mut controller = Controller::new(Instant::ZERO, fleet);
        let Some(Output::Publish(plan)) = controller.poll() else { panic!("no plan") };
        let group = &plan.services[0].groups[0];
        let now = Instant::ZERO;
        let ask = PickContext { now, key: 0, draw: 0, tried: &[], stick: None };
        let lost = group.admit_with(&ask, &plan.services[0], || {
            // Another worker is faster.
            let allowance = group.limits.rate.as_ref().expect("it is limited");
            assert!(group.state.admission.budget.take(allowance, now));
            group.servers[0].reserve(now).then_some(&group.servers[0])
        });
        assert!(lost.is_none());
        assert!(group.servers[0].has_room(&ask), "its request a second is still to be had");
        assert_eq!((group.state.in_flight(), group.servers[0].state.in_flight()), (0, 0));
    }
}
