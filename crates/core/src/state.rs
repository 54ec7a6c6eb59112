//! What a running edge does, as plain data for whoever shows it: metrics, API, dashboard.
//!
//! A [`State`] is filled in three steps. [`State::of_edge`] and [`State::of_services`] read a plan
//! and its ledger: groups in the order they are filled, what each may be given now and what it has.
//! The proxy adds what its workers counted. [`State::measure_since`] compares it with an earlier
//! one and gives the rates.
//!
//! `headroom = limit - load` for each kind of limit, and `fullness` is the largest quotient of
//! load and limit: at 1 the group is at its load line. A limit of the servers counts for the group
//! where all of them have one and their sum is less.

mod acme;
mod cache;
mod certificate;
mod cluster;
mod counter;
mod forwarding;
mod listener;
mod measure;
mod standby;
pub mod words;

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::{ops::Range, sync::atomic::Ordering::Relaxed};

pub use acme::{AcmeCertificate, Asking};
pub use cache::{Cache, CacheShare, CachedObject, DiskCache, Purge, Purged};
pub use certificate::Certificate;
pub use cluster::{Cluster, ClusterFault, SharedChecks, SharedGroup, SharedService, Sharing};
pub use counter::{Counters, ServiceCounter};
pub use forwarding::{
    Flow, FlowFilter, ForwardedServer, Forwarding, ForwardingRates, Frontend, Traffic,
};
pub use listener::Listener;
pub use measure::Baseline;
use serde::{Deserialize, Serialize};
pub use standby::{PeerCounts, PeerLink, Role, Standby, StandbyPeer};

use crate::{
    decide::{
        census::{Condition, EnrolledGroup, EnrolledServer},
        ledger::ServerId,
        limits,
        plan::{self, GroupPlan, Plan, ServerPlan},
    },
    fleet::{self, WhenFull},
    time::{Duration, Instant},
    units::Ratio,
};

/// What an edge does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    /// The region the edge is in.
    pub region: String,
    /// Counts up with every plan: configuration, health, slow start.
    pub generation: u64,
    /// Seconds since the start of the process.
    pub uptime_s: f64,
    /// Whether the edge takes no more connections and lets requests end.
    pub draining: bool,
    /// Access log lines given up because the writer did not keep up.
    pub log_lines_dropped: u64,
    /// Spans that the collector has taken.
    #[serde(default)]
    pub spans_exported: u64,
    /// Spans given up because the collector did not keep up, or refused them.
    #[serde(default)]
    pub spans_dropped: u64,
    /// How hard responses are compressed by the busiest worker: 3 at the levels of the file, 2 and
    /// 1 at cheaper ones, 0 not at all; absent where no service compresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression_effort: Option<u8>,
    /// The most client connections at a time, over all listeners; absent where only the limits of
    /// the listeners apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// In the order of the file. Several with the same address are counted together, as the first.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Certificates that are shown to clients or to servers, by their files.
    #[serde(default)]
    pub certificates: Vec<Certificate>,
    /// Certificates by ACME, each with how that goes; none where no listener has `acme`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acme: Vec<AcmeCertificate>,
    /// What the cache holds; absent where no route has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// In the order of the file.
    pub services: Vec<Service>,
    /// Packet forwarding; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<Forwarding>,
    /// What balancers that stand by for each other tell each other; none where there is but one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<Standby>,
    /// The other edges and their store; none where this one is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
}

/// How much a state says of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its own figures and counts, and no groups.
    Service,
    /// Its groups without their servers, and no counts.
    Groups,
    /// Its groups with their servers, and no counts.
    Servers,
    /// Everything.
    Whole,
}

/// What a service does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Whether a server of any group may take traffic.
    pub ready: bool,
    /// Whether it is in maintenance: clients are turned away.
    #[serde(default)]
    pub maintenance: bool,
    /// How a server is chosen inside a group.
    pub policy: String,
    /// Requests that wait for capacity.
    pub queued: u32,
    /// The most that may wait; 0 where the service has no queue.
    pub queue_length: u32,
    /// What has been counted since the start.
    pub counts: Counts,
    /// What was measured between the last two looks.
    pub rates: Rates,
    /// In the order they are filled; those without a server that may take traffic come last.
    pub groups: Vec<Group>,
}

/// What has been counted of a service since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Requests by how they ended.
    pub endings: BTreeMap<String, u64>,
    /// Requests that failed, attempts that were repeated included, by the reason.
    #[serde(default)]
    pub reasons: BTreeMap<String, u64>,
    /// Requests by the class of the status their client was told, `1xx` (tunnels) to `5xx`.
    pub statuses: BTreeMap<String, u64>,
    /// Each says what it counts.
    #[serde(flatten)]
    pub counters: Counters,
    /// Copies of other services' requests by what became of them.
    #[serde(default)]
    pub copies: BTreeMap<String, u64>,
    /// How long requests took, from their head to the end of the response.
    pub duration: Histogram,
}

/// Times, counted in bins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// The longest time of each bin but the last, which is open, in seconds.
    pub bounds_s: Vec<f64>,
    /// How many are in each bin, one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all times, in seconds.
    pub sum_s: f64,
}

/// What was measured of a service between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// Requests that ended, per second.
    pub requests_per_s: f64,
    /// Of these, those that failed by fault of a server, of capacity or of loadline itself.
    pub errors_per_s: f64,
    /// Requests sent to a group other than the nearest, per second.
    pub overflow_per_s: f64,
    /// Further attempts, per second.
    pub retries_per_s: f64,
    /// Half of the requests took no longer, in milliseconds; none where none ended.
    pub p50_ms: Option<f64>,
    /// 99 of 100 requests took no longer, in milliseconds; none where none ended.
    pub p99_ms: Option<f64>,
    /// Requests per second by how they ended; those that occurred.
    pub endings_per_s: BTreeMap<String, f64>,
}

/// What a group does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// Round-trip time from this edge, in milliseconds; none while not measured.
    pub distance_ms: Option<f64>,
    /// Whether it may be given traffic.
    pub standing: GroupAvailability,
    /// The part of its capacity in use, 0 to 1.
    pub scaler: f64,
    /// What it may be given now: capacity times scaler and health.
    pub limits: Limits,
    /// Whether its limit of requests in flight was found, and holds: more bring no more responses.
    #[serde(default)]
    pub limit_found: bool,
    /// What it has.
    pub load: Load,
    /// The largest quotient of load and limit; none where nothing limits it.
    pub fullness: Option<f64>,
    /// What it may be given more; never less than zero.
    pub headroom: Limits,
    /// Requests it was given since the start.
    pub requests: u64,
    /// Of these, those that came because nearer groups were full or down.
    pub overflowed: u64,
    /// The latter per second, between the last two looks.
    pub overflow_per_s: f64,
    /// Where its servers come from; absent where the file says them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// In the order of the file, or of their addresses.
    pub servers: Vec<Server>,
}

/// A list of servers that is followed, and how well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Discovery {
    /// What is followed, in words.
    pub source: String,
    /// Servers on the list in force.
    pub servers: u64,
    /// Seconds since the list was last found to be so; none before it was known.
    pub age_s: Option<f64>,
    /// Whether what came last was not taken, so that the list is the one before.
    pub stale: bool,
    /// Why it was not; none where it was.
    pub trouble: Option<String>,
    /// Lists that were taken.
    pub taken: u64,
    /// Lists that were refused: empty ones, where none is allowed.
    pub refused: u64,
    /// Lists that could not be had or read.
    pub failed: u64,
}

/// Whether a group may be given traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GroupAvailability {
    /// In its turn.
    Open,
    /// After the others: too few of its servers are healthy.
    Yields,
    /// Not at all: none of its servers may take traffic.
    #[default]
    Closed,
}

/// Requests per second, requests in flight and utilization that are allowed or left; none where
/// not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Requests per second.
    pub rate_per_s: Option<f64>,
    /// Requests in flight.
    pub in_flight: Option<u32>,
    /// Utilization, 1 for all.
    pub utilization: Option<f64>,
}

/// Requests per second, requests in flight and utilization there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Requests per second it was given, between the last two looks.
    pub rate_per_s: f64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Mean utilization as servers report it; none where none did lately.
    pub utilization: Option<f64>,
}

/// What a server does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Server {
    /// Where it listens.
    pub address: String,
    /// How it is.
    pub condition: Condition,
    /// Why it is down or ejected; absent where it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its weight in the file, changes at run time included.
    pub weight: u32,
    /// The part of its weight it is given now: less than 1 in a slow start.
    pub share: f64,
    /// What it may be given now.
    pub limits: Limits,
    /// What it has.
    pub load: Load,
    /// Mean time from pick to the head of the response, in milliseconds; 0 before the first.
    pub latency_ms: f64,
    /// Open connections to it.
    pub connections: u32,
    /// Requests it was given since the start.
    pub requests: u64,
    /// Requests it failed since the start.
    pub failures: u64,
    /// How often its errors took it out.
    pub ejections: u32,
    /// The last request that it failed; absent where it has failed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// A request that a server failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastFailure {
    /// Why, in the words of the access log.
    pub reason: String,
    /// Seconds since then, give or take one.
    pub age_s: f64,
}

impl State {
    /// What a plan and its ledger say at `now`.
    #[must_use]
    pub fn of(plan: &Plan, now: Instant) -> Self {
        let all = 0..plan.services.len();
        let Self { services, .. } = Self::of_services(plan, all, Part::Whole, now);
        Self { services, ..Self::of_edge(plan, now) }
    }

    /// The same without any service.
    #[must_use]
    pub fn of_edge(plan: &Plan, now: Instant) -> Self {
        Self {
            region: plan.fleet.edge.region.clone(),
            generation: plan.generation,
            uptime_s: uptime_s(now),
            max_connections: plan.fleet.edge.max_connections,
            listeners: listeners(&plan.fleet.listeners),
            ..Self::default()
        }
    }

    /// This part of the services at these places in the file, and nothing else.
    #[must_use]
    pub fn of_services(plan: &Plan, places: Range<usize>, part: Part, now: Instant) -> Self {
        let services = places.filter_map(|place| {
            Some(service(plan.services.get(place)?, plan.fleet.services.get(place)?, part, now))
        });
        Self { uptime_s: uptime_s(now), services: services.collect(), ..Self::default() }
    }

    /// Every server, in the order of [`Plan::server_ids`].
    pub fn servers_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        let groups = self.services.iter_mut().flat_map(|service| &mut service.groups);
        groups.flat_map(|group| &mut group.servers)
    }

    /// Whether every service has a server that may take traffic, and the edge takes it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.draining && self.services.iter().all(|service| service.ready)
    }
}

fn uptime_s(now: Instant) -> f64 {
    now.since(Instant::ZERO).as_secs_f64()
}

fn listeners(of: &[fleet::Listener]) -> Vec<Listener> {
    let is_first = |index: usize| of[..index].iter().all(|other| other.bind != of[index].bind);
    let first = (0..of.len()).filter(|index| is_first(*index));
    first.map(|index| Listener::of(&of[index])).collect()
}

fn service(plan: &plan::ServicePlan, of: &fleet::Service, part: Part, now: Instant) -> Service {
    let plans = group_plans(plan, of.groups.len());
    let told = |index: usize| {
        let (plan, of, here) = (plans[index], &of.groups[index], &plan.census[index]);
        let servers = match part {
            Part::Servers | Part::Whole => servers(plan, of, here, now),
            Part::Service | Part::Groups => Vec::new(),
        };
        Group { servers, ..group(plan, of, here, now) }
    };
    let groups = if part == Part::Service { 0 } else { of.groups.len() };
    Service {
        name: of.name.clone(),
        ready: !plan.groups.is_empty(),
        maintenance: of.maintenance.as_ref().is_some_and(|it| it.enabled),
        policy: of.policy.name().to_string(),
        queued: plan.state().queued(),
        queue_length: match of.when_full {
            WhenFull::Queue { length, .. } => length,
            WhenFull::Spread | WhenFull::Shed => 0,
        },
        groups: filling_order(plan, of.groups.len()).take(groups).map(told).collect(),
        ..Service::default()
    }
}

/// Indices of the groups as they are filled, then of those that are not.
fn filling_order(plan: &plan::ServicePlan, groups: usize) -> impl Iterator<Item = usize> {
    let open = plan.groups.iter().map(|group| usize::from(group.index));
    let plans = group_plans(plan, groups);
    open.chain((0..groups).filter(move |index| plans[*index].is_none()))
}

/// The plan of each group that is filled, in the order of the file.
fn group_plans(plan: &plan::ServicePlan, groups: usize) -> Vec<Option<&GroupPlan>> {
    let mut plans = vec![None; groups];
    plan.groups.iter().for_each(|group| plans[usize::from(group.index)] = Some(group));
    plans
}

impl Plan {
    /// The number of every server, in the order of [`State::servers_mut`].
    pub fn server_ids(&self) -> impl Iterator<Item = ServerId> {
        self.server_ids_of(0..self.services.len())
    }

    /// The same of the services at these places in the file.
    pub fn server_ids_of(&self, places: Range<usize>) -> impl Iterator<Item = ServerId> {
        places.filter_map(|place| self.services.get(place)).flat_map(|service| {
            let census = &service.census;
            let groups = filling_order(service, census.len()).map(|index| &census[index]);
            groups.flat_map(|group| group.servers.iter().map(|it| it.state.id()))
        })
    }
}

fn servers(
    plan: Option<&GroupPlan>,
    of: &fleet::Group,
    here: &EnrolledGroup,
    now: Instant,
) -> Vec<Server> {
    let mut planned: Vec<Option<&ServerPlan>> = vec![None; of.servers.len()];
    for server in plan.iter().flat_map(|plan| &plan.servers) {
        planned[usize::from(server.index)] = Some(server);
    }
    let given = here.servers.iter().zip(&of.servers).enumerate();
    given
        .map(|(index, (enrolled, of_server))| {
            let drained = of_server.weight == 0 || of.scaler == Ratio::ZERO;
            server(planned[index], of_server, enrolled, drained, now)
        })
        .collect()
}

/// All of a group but its servers.
fn group(plan: Option<&GroupPlan>, of: &fleet::Group, here: &EnrolledGroup, now: Instant) -> Group {
    Group {
        name: of.name.clone(),
        region: of.region.clone(),
        distance_ms: (here.distance < Duration::MAX).then(|| here.distance.as_millis_f64()),
        standing: match plan {
            None => GroupAvailability::Closed,
            Some(plan) if plan.yields => GroupAvailability::Yields,
            Some(_) => GroupAvailability::Open,
        },
        scaler: of.scaler.as_f64(),
        limits: plan.map_or(Limits::NOTHING, GroupPlan::effective_limits),
        limit_found: plan.is_some_and(GroupPlan::limit_is_found),
        load: Load {
            rate_per_s: 0.0,
            in_flight: here.state.in_flight(),
            utilization: here.state.utilization(now).map(Ratio::as_f64),
        },
        requests: here.servers.iter().map(|it| it.state.requests.load(Relaxed)).sum(),
        overflowed: here.state.overflowed.load(Relaxed),
        ..Group::default()
    }
}

fn server(
    plan: Option<&ServerPlan>,
    of: &fleet::Server,
    enrolled: &EnrolledServer,
    drained: bool,
    now: Instant,
) -> Server {
    let state = &enrolled.state;
    let full = (of.weight * plan::WEIGHT_SCALE).max(1);
    Server {
        address: fleet::ServerAddress(of.address).to_string(),
        condition: if drained { Condition::Drained } else { enrolled.condition },
        reason: enrolled.reason.as_deref().map(ToString::to_string),
        weight: of.weight,
        share: plan.map_or(0.0, |plan| f64::from(plan.weight) / f64::from(full)),
        limits: plan.map_or(Limits::NOTHING, |plan| plan.limits.as_told()),
        load: Load {
            rate_per_s: 0.0,
            in_flight: state.in_flight(),
            utilization: state.admission.utilization.mean(now).map(Ratio::as_f64),
        },
        latency_ms: state.latency().as_millis_f64(),
        connections: 0,
        requests: state.requests.load(Relaxed),
        failures: state.failures.load(Relaxed),
        ejections: state.ejections.load(Relaxed),
        last_failure: None,
    }
}

impl Limits {
    /// What may be given to whoever is out.
    const NOTHING: Self = Self { rate_per_s: Some(0.0), in_flight: Some(0), utilization: None };
}

impl limits::Limits {
    fn as_told(&self) -> Limits {
        let per_s = |rate: &crate::decide::budget::Allowance| 1.0 / rate.interval().as_secs_f64();
        Limits {
            rate_per_s: self.rate.as_ref().map(per_s),
            in_flight: (self.in_flight < u32::MAX).then_some(self.in_flight),
            utilization: self.utilization.map(Ratio::as_f64),
        }
    }
}

impl GroupPlan {
    /// Whether a limit holds that was found.
    fn limit_is_found(&self) -> bool {
        self.auto.is_some() && self.state.auto.stage().limits()
    }

    /// The limits of the group, or the sums over its servers where those are less.
    fn effective_limits(&self) -> Limits {
        let own = self.limits.as_told();
        let found = self.limit_is_found().then(|| self.in_flight_limit());
        let of_group = found.or(own.in_flight);
        let servers = || self.servers.iter().map(|server| server.limits.as_told());
        let rates: Option<Vec<f64>> = servers().map(|limits| limits.rate_per_s).collect();
        let places: Option<Vec<u32>> = servers().map(|limits| limits.in_flight).collect();
        let rate = rates.map(|rates| rates.iter().sum::<f64>());
        let places =
            places.map(|places| places.iter().fold(0, |sum: u32, n| sum.saturating_add(*n)));
        Limits {
            rate_per_s: own.rate_per_s.into_iter().chain(rate).reduce(f64::min),
            in_flight: of_group.into_iter().chain(places).min(),
            utilization: own.utilization,
        }
    }
}
