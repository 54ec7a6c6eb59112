//! The state of a running edge as plain data, for metrics, API and dashboard.
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
mod jwt;
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
    Flow, FlowEnd, FlowEndError, FlowFilter, FlowTable, ForwardedServer, Forwarding,
    ForwardingRates, Frontend, Traffic,
};
pub use jwt::JwtKeys;
pub use listener::Listener;
pub use measure::Baseline;
use serde::{Deserialize, Serialize};
pub use standby::{PeerCounts, PeerLink, Role, Standby, StandbyPeer};

use crate::{
    decide::{
        census::{Condition, GroupSnapshot, ServerSnapshot},
        ledger::ServerId,
        limits,
        plan::{self, GroupPlan, Plan, ServerPlan},
    },
    fleet::{self, WhenFull},
    time::{Duration, Instant},
    units::Ratio,
};

/// State of an edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    /// Region of the edge.
    pub region: String,
    /// Number of the plan; it grows with every change of configuration, health or slow start.
    pub generation: u64,
    /// Seconds since the start of the process.
    pub uptime_s: f64,
    /// Whether the edge drains: it takes no new connections and lets requests end.
    pub draining: bool,
    /// Access log lines dropped because the writer did not keep up.
    pub log_lines_dropped: u64,
    /// Lines of the process log dropped because the standard error was not read.
    #[serde(default)]
    pub process_log_lines_dropped: u64,
    /// Spans that the collector accepted.
    #[serde(default)]
    pub spans_exported: u64,
    /// Spans dropped because the collector did not keep up or refused them.
    #[serde(default)]
    pub spans_dropped: u64,
    /// Compression effort of the busiest worker: 3 for the levels of the file, 2 and 1 for cheaper
    /// ones, 0 for no compression; absent if no service compresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression_effort: Option<u8>,
    /// Maximum number of client connections over all listeners; absent if only the limits of the
    /// listeners apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Listeners, in the order of the file. Several with the same address are counted together, as
    /// the first.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Certificates used towards clients or servers, by file.
    #[serde(default)]
    pub certificates: Vec<Certificate>,
    /// Certificates by ACME, with the state of their renewal; absent if no listener has `acme`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acme: Vec<AcmeCertificate>,
    /// Keys of JSON Web Tokens that are fetched; absent if no `jwt` has a URL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jwt: Vec<JwtKeys>,
    /// The cache; absent if no route has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Services, in the order of the file.
    pub services: Vec<Service>,
    /// Packet forwarding; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<Forwarding>,
    /// Standby: replication between balancers; absent if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<Standby>,
    /// The cluster: other edges and their store; absent if this edge is alone.
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

/// State of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Service {
    /// Name of the service.
    pub name: String,
    /// Whether any server of the service can take traffic.
    pub ready: bool,
    /// Whether the service is in maintenance: clients get 503.
    #[serde(default)]
    pub maintenance: bool,
    /// Load-balancing policy; `maglev` if all traffic to the service is forwarded packets.
    pub policy: String,
    /// Requests in the queue, waiting for capacity.
    pub queued: u32,
    /// Maximum length of the queue; 0 if the service has none.
    pub queue_length: u32,
    /// Counters since the start of the process.
    pub counts: Counts,
    /// Rates and times between the last two measurements, a second apart.
    pub rates: Rates,
    /// Groups, in the order in which they are filled; those without a server that can take traffic
    /// come last.
    pub groups: Vec<Group>,
}

/// Counters of a service since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Requests by ending, as in the access log.
    pub endings: BTreeMap<String, u64>,
    /// Failed requests by reason, failed attempts that were retried included.
    #[serde(default)]
    pub reasons: BTreeMap<String, u64>,
    /// Requests by class of the status sent to the client, `1xx` (tunnels) to `5xx` or `other`.
    pub statuses: BTreeMap<String, u64>,
    /// Further counters.
    #[serde(flatten)]
    pub counters: Counters,
    /// Mirrored requests that the service got, by outcome.
    #[serde(default)]
    pub copies: BTreeMap<String, u64>,
    /// Duration of requests, from the request header to the end of the response.
    pub duration: Histogram,
}

/// A histogram of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Upper bounds of the bins in seconds; the last bin has none.
    pub bounds_s: Vec<f64>,
    /// Number of times in each bin, one more than `bounds_s`.
    pub counts: Vec<u64>,
    /// Sum of all times in seconds.
    pub sum_s: f64,
}

/// Rates and times of a service between two measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// Requests that ended, per second.
    pub requests_per_s: f64,
    /// Requests that failed by fault of a server, of capacity or of loadline itself, per second.
    pub errors_per_s: f64,
    /// Requests sent past the nearest group, which was full or down, per second.
    pub overflow_per_s: f64,
    /// Retries per second.
    pub retries_per_s: f64,
    /// Median duration of requests in milliseconds; null if none ended.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the duration of requests in milliseconds; null if none ended.
    pub p99_ms: Option<f64>,
    /// Requests per second by ending; only endings that occurred.
    pub endings_per_s: BTreeMap<String, f64>,
}

/// State of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Region of the group.
    pub region: String,
    /// Round-trip time from this edge in milliseconds; null until it is measured.
    pub distance_ms: Option<f64>,
    /// Availability of the group.
    pub standing: GroupAvailability,
    /// Scaler: factor of the group's capacity, 0 to 1.
    pub scaler: f64,
    /// Current limits: capacity times scaler times the share of healthy servers.
    pub limits: Limits,
    /// Whether the limit of requests in flight was found by loadline (`capacity = "auto"`) and
    /// applies.
    #[serde(default)]
    pub limit_found: bool,
    /// Current load.
    pub load: Load,
    /// Load divided by limit, of the limit that is nearest; null without limits.
    pub fullness: Option<f64>,
    /// Headroom: limit minus load, at least zero.
    pub headroom: Limits,
    /// Requests sent to it since the start, with those to servers that it no longer has.
    pub requests: u64,
    /// Of `requests`: those that came because nearer groups were full or down.
    pub overflowed: u64,
    /// Of `requests`: those that were sent beyond its capacity since all groups were full, with
    /// `when_full` or its `then` at `spread`.
    #[serde(default)]
    pub over_capacity: u64,
    /// `overflowed` per second, between the last two measurements.
    pub overflow_per_s: f64,
    /// Service discovery; absent if the file lists the servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// Servers, in the order of the file, or of addresses with discovery.
    pub servers: Vec<Server>,
}

/// Service discovery of a group: its list of servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Discovery {
    /// Source of the list, in words.
    pub source: String,
    /// Number of servers on the current list.
    pub servers: u64,
    /// Seconds since the list was last confirmed; null before the first list.
    pub age_s: Option<f64>,
    /// Whether the last update was not accepted, so that an older list is in use.
    pub stale: bool,
    /// Why the last update was not accepted; null if it was.
    pub trouble: Option<String>,
    /// Number of accepted lists.
    pub taken: u64,
    /// Number of refused lists: empty ones without `allow_empty`.
    pub refused: u64,
    /// Number of lists that could not be fetched or read.
    pub failed: u64,
}

/// Availability of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GroupAvailability {
    /// Takes traffic in its order of distance.
    Open,
    /// Takes traffic after the other groups: too few of its servers are healthy.
    Yields,
    /// Takes no traffic: none of its servers can.
    #[default]
    Closed,
}

/// Limits, or what is left of them; null if there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Requests per second.
    pub rate_per_s: Option<f64>,
    /// Requests in flight.
    pub in_flight: Option<u32>,
    /// Utilization, 0 to 1.
    pub utilization: Option<f64>,
}

/// Load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Requests per second sent to it, between the last two measurements.
    pub rate_per_s: f64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Mean utilization that servers report; null if none did lately.
    pub utilization: Option<f64>,
}

/// State of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Server {
    /// Address of the server.
    pub address: String,
    /// Condition of the server.
    pub condition: Condition,
    /// Why the server is down or ejected; absent if it is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Weight from the file, or as changed at run time.
    pub weight: u32,
    /// Factor of the weight now, 0 to 1: below 1 during slow start.
    pub share: f64,
    /// Current limits of the server.
    pub limits: Limits,
    /// Current load.
    pub load: Load,
    /// Mean time from choosing the server to the response header, in milliseconds; 0 before the
    /// first response.
    pub latency_ms: f64,
    /// Open connections to the server.
    pub connections: u32,
    /// Requests sent to it since the start.
    pub requests: u64,
    /// Requests that failed at the server since the start.
    pub failures: u64,
    /// Number of ejections.
    pub ejections: u32,
    /// The last failed request; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// A request that failed at a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastFailure {
    /// Reason of the failure, as in the access log.
    pub reason: String,
    /// Seconds since the failure, to about a second.
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
            listeners: Listener::all(&plan.fleet.listeners),
            ..Self::default()
        }
    }

    /// This part of the services at these places in the file, and nothing else.
    #[must_use]
    pub fn of_services(plan: &Plan, places: Range<usize>, part: Part, now: Instant) -> Self {
        let services = places.filter_map(|place| {
            let of = plan.fleet.services.get(place)?;
            let policy = forwarding::policy_of(&plan.fleet, place).name().to_string();
            Some(Service { policy, ..service(plan.services.get(place)?, of, part, now) })
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
    here: &GroupSnapshot,
    now: Instant,
) -> Vec<Server> {
    let mut planned: Vec<Option<&ServerPlan>> = vec![None; of.servers.len()];
    for server in plan.iter().flat_map(|plan| &plan.servers) {
        planned[usize::from(server.index)] = Some(server);
    }
    let given = here.servers.iter().zip(&of.servers).enumerate();
    given
        .map(|(index, (known, of_server))| {
            let drained = of_server.weight == 0 || of.scaler == Ratio::ZERO;
            server(planned[index], of_server, known, drained, now)
        })
        .collect()
}

/// All of a group but its servers.
fn group(plan: Option<&GroupPlan>, of: &fleet::Group, here: &GroupSnapshot, now: Instant) -> Group {
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
        requests: here.requests(),
        overflowed: here.state.overflowed.get(),
        over_capacity: here.state.over_capacity.get(),
        ..Group::default()
    }
}

fn server(
    plan: Option<&ServerPlan>,
    of: &fleet::Server,
    here: &ServerSnapshot,
    drained: bool,
    now: Instant,
) -> Server {
    let state = &here.state;
    let full = (of.weight * plan::WEIGHT_SCALE).max(1);
    Server {
        address: fleet::ServerAddress(of.address).to_string(),
        condition: if drained { Condition::Drained } else { here.condition },
        reason: here.reason.as_deref().map(ToString::to_string),
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
        requests: state.requests.get(),
        failures: state.failures.load(Relaxed),
        ejections: state.ejections.load(Relaxed),
        last_failure: None,
    }
}

impl Limits {
    /// What may be given to whoever is out.
    const NOTHING: Self = Self { rate_per_s: Some(0.0), in_flight: Some(0), utilization: None };
}

/// Rates are whole thousandths of a request per second; the interval in a budget is rounded.
fn to_thousandths(per_s: f64) -> f64 {
    libm::round(per_s * 1e3) / 1e3
}

impl limits::Limits {
    fn as_told(&self) -> Limits {
        let per_s = |rate: &crate::decide::budget::Allowance| {
            to_thousandths(1.0 / rate.interval().as_secs_f64())
        };
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
        let rate = rates.map(|rates| to_thousandths(rates.iter().sum()));
        let places =
            places.map(|places| places.iter().fold(0, |sum: u32, n| sum.saturating_add(*n)));
        Limits {
            rate_per_s: own.rate_per_s.into_iter().chain(rate).reduce(f64::min),
            in_flight: of_group.into_iter().chain(places).min(),
            utilization: own.utilization,
        }
    }
}
