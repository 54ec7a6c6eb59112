//! A load run: the plan, what became of every request, three latencies, and how they went in time.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::{
    Latency, ObjectiveRecord, Percentiles, ResourceRecord, SimulationRecord, Spread, number,
};
use loadline_core::{
    time::Duration,
    units::{Count, Rate},
};

/// A load run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadRecord {
    /// Target: a URL, or several with their weights.
    pub target: String,
    /// Protocol: `HTTP/1.1`, `HTTP/2`, `HTTP/1.1 over TLS 1.3`.
    pub protocol: String,
    /// Start of the plan, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// Load model: closed loop or open loop.
    pub model: LoadModel,
    /// Other settings of the run; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<LoadPlanRecord>>,
    /// Addresses to which requests for host names went; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<HostAddress>,
    /// Duration of the run in seconds: from the first planned send time to the last response, or to
    /// the last failure while the plan went on. A run that is not interrupted lasts at least to the
    /// end of its plan: that of its duration, or with even distances one distance after the last
    /// request. The plan of users who send a number of requests goes on until the last has ended,
    /// and they think after it as well.
    #[serde(rename = "elapsed_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub elapsed: Duration,
    /// Number of planned requests.
    pub planned: u64,
    /// Planned requests by outcome; the sum is `planned`.
    pub outcomes: Outcomes,
    /// Successful requests per second of the run, over `elapsed_s`.
    #[serde(rename = "achieved_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub achieved: Rate,
    /// Response time: from the planned send time to the end of the response, successful requests
    /// only.
    pub response: Latency,
    /// Response time of all requests, with failed ones counted as infinitely late. Absent if no
    /// request was answered or failed, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_of_all: Option<Percentiles>,
    /// Service time: from sending (on a new connection: from connecting) to the end of the
    /// response, successful requests only.
    pub service: Latency,
    /// Lag of the generator: from the planned send time to sending.
    pub lag: Latency,
    /// Phases of the service time; each counts only the requests that went through it.
    pub phases: Phases,
    /// Histograms of response time, service time and lag.
    pub spreads: Spreads,
    /// Timeline of the run, interval by interval.
    pub moments: Vec<Moment>,
    /// Bytes of whole responses, headers included; not what was read of responses that failed.
    pub bytes_read: u64,
    /// Of `bytes_read`: status lines and headers; 0 in records of older versions.
    #[serde(default)]
    pub head_bytes: u64,
    /// Responses by status code.
    #[serde(with = "number::by_status")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u64>"))]
    pub statuses: BTreeMap<u16, u64>,
    /// Responses by the value of the header given with `--count-by`.
    pub by_header: BTreeMap<String, u64>,
    /// Failed TLS handshakes, in the words of the TLS library, and HTTP/1.1 responses that were not
    /// valid or had too long a head, by reason.
    #[serde(default)]
    pub reasons: BTreeMap<String, u64>,
    /// Number of connections opened.
    pub connections: u64,
    /// How often a request was sent again on another connection, because the server had closed the
    /// keep-alive connection or, over HTTP/2 and HTTP/3, refused the request before it processed
    /// it. `outcomes` counts the result of the last time.
    pub stale: u64,
    /// Whether the run was interrupted before the end of its plan; `planned` then counts the
    /// requests due until that moment.
    pub interrupted: bool,
    /// Health of the load generator.
    pub generator: Generator,
    /// Agents that sent the load from other machines; absent if there were none. `generator` has
    /// the worst values of all agents, and faults with the agent's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentRecord>,
    /// Objective of the run and whether it was met; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveRecord>,
    /// Use of the machine's resources during the run; absent without `--watch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRecord>,
    /// Details of a simulated run: where requests went and why; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Box<SimulationRecord>>,
}

impl LoadRecord {
    /// Successful requests per second of the run, over `elapsed_s`.
    #[must_use]
    pub fn achieved_rate(&self) -> Rate {
        Count::new(self.outcomes.ok) / self.elapsed
    }

    /// The moments up to the end of the run, as `elapsed` has it. Those after it have nothing but
    /// time-outs of requests that were under way then.
    #[must_use]
    pub fn moments_until_end(&self) -> &[Moment] {
        let last = self.moments.iter().position(|moment| moment.at >= self.elapsed);
        last.map_or(&self.moments, |last| &self.moments[..=last])
    }

    /// Percentiles of the response time of all requests, one that failed infinitely late. What an
    /// interrupted run itself cut off is none of them. None where there are none.
    #[must_use]
    pub fn response_of_all(&self) -> Option<Percentiles> {
        let cut_off = if self.interrupted { self.outcomes.cut_off } else { 0 };
        let failed = self.outcomes.failed().saturating_sub(cut_off);
        let of_all = || Percentiles::of_all(&self.response, &self.spreads.response, failed);
        (self.response.count > 0 || failed > 0).then(of_all)
    }

    /// The record of an interrupted run without what the run itself cut off: nobody knows what
    /// would have become of it.
    #[must_use]
    pub fn without_cut_off(&self) -> Cow<'_, Self> {
        let cut_off = self.outcomes.cut_off;
        if !self.interrupted || cut_off == 0 {
            return Cow::Borrowed(self);
        }
        let mut rest = self.clone();
        rest.outcomes.cut_off = 0;
        rest.planned = rest.planned.saturating_sub(cut_off);
        rest.moments.iter_mut().for_each(|moment| moment.outcomes.cut_off = 0);
        rest.response_of_all = rest.response_of_all.and_then(|_| self.response_of_all());
        Cow::Owned(rest)
    }

    /// Whether the run was interrupted before anything came of a request: nothing can be judged.
    #[must_use]
    pub fn shows_nothing(&self) -> bool {
        self.interrupted && self.planned <= self.outcomes.cut_off
    }

    /// Whether the figures can be trusted: nothing in the generator stood in their way.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.generator.faults.is_empty()
    }
}

/// Load model: closed loop or open loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum LoadModel {
    /// Closed loop: each user sends its next request after the response to the last.
    Closed {
        /// Concurrent users.
        users: u32,
        /// Think time between a response and the user's next request, in seconds.
        #[serde(rename = "think_s", with = "number::secs")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
        think: Duration,
    },
    /// Open loop: requests are sent at planned times, whatever the responses do.
    Open {
        /// Mean planned rate of the whole plan, in requests per second.
        #[serde(rename = "rate_per_s", with = "number::per_s")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
        rate: Rate,
        /// Distribution of the planned send times.
        arrivals: Arrivals,
        /// Seed of random arrivals.
        seed: u64,
        /// Stages of the plan; absent if the rate is constant.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        stages: Vec<Stage>,
    },
}

impl Default for LoadModel {
    /// One user who does not think.
    fn default() -> Self {
        Self::Closed { users: 1, think: Duration::ZERO }
    }
}

/// Distribution of planned send times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Even distances.
    Constant,
    /// Poisson arrivals: exponential distances.
    Poisson,
    /// Distances uniformly distributed between zero and twice the mean.
    Uniform,
    /// Times listed in a file; of a simulation also bursts and sources of several kinds.
    Listed,
}

/// A stage of an open-loop plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stage {
    /// Rate at the start of the stage, in requests per second.
    #[serde(rename = "from_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub from: Rate,
    /// Rate at the end of the stage, in requests per second; it changes linearly in between.
    #[serde(rename = "to_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub to: Rate,
    /// Duration of the stage in seconds.
    #[serde(rename = "lasts_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub lasts: Duration,
}

/// Phases of the service time, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phases {
    /// DNS lookup of the host name.
    pub dns: Latency,
    /// TCP connect; for HTTP/3 the QUIC handshake, TLS included.
    pub connect: Latency,
    /// TLS handshake over TCP.
    pub tls: Latency,
    /// From the last byte of the request sent to the first byte of the response.
    pub first_byte: Latency,
    /// From the first to the last byte of the response.
    pub body: Latency,
}

/// Histograms of the times of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spreads {
    /// As [`LoadRecord::response`].
    pub response: Spread,
    /// As [`LoadRecord::service`].
    pub service: Spread,
    /// As [`LoadRecord::lag`].
    pub lag: Spread,
}

/// One interval of the timeline, since the moment before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// End of the interval, in seconds since the start of the plan; of the last interval: its last
    /// event. The rate of that interval is over the time until `elapsed_s`.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Requests that were due.
    pub planned: u64,
    /// Requests that ended, by outcome.
    pub outcomes: Outcomes,
    /// Requests in flight at the end of the interval.
    pub in_flight: u64,
    /// Most requests in flight at once in the interval; over several agents the sum of theirs,
    /// which is an upper bound. Absent in a simulation and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_in_flight: Option<u64>,
    /// Bytes of the whole responses that ended in it, headers included.
    pub bytes_read: u64,
    /// Mean response time of successful requests that ended.
    #[serde(rename = "mean_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub mean: Duration,
    /// Median of these response times.
    #[serde(rename = "p50_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p50: Duration,
    /// 99th percentile of these response times.
    #[serde(rename = "p99_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99: Duration,
    /// Maximum of these response times.
    #[serde(rename = "max_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max: Duration,
    /// Number of these requests that took at least as long as the shortest time limit of the
    /// objective, to 1 % of it; absent without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
}

impl Moment {
    /// The most requests in flight at once, as far as it is known.
    #[must_use]
    pub fn most_in_flight(&self) -> u64 {
        self.most_in_flight.unwrap_or_default().max(self.in_flight)
    }
}

/// Health of the load generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Generator {
    /// CPU time of the generator as a share of one core; 1 is saturated.
    pub cpu_share: f64,
    /// Share of the planned rate that was sent; 1 in a closed loop. `lag` tells how late.
    pub sent_share: f64,
    /// Reasons why the run is invalid; empty if it is valid.
    pub faults: Vec<Fault>,
}

/// An agent on another machine that sent a part of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRecord {
    /// Name of the agent on the command line.
    pub name: String,
    /// Requests planned for this agent; the sum over all agents is `planned` of the run.
    pub planned: u64,
    /// Requests that the agent sent.
    pub sent: u64,
    /// Share of the planned rate that was sent; 1 in a closed loop. `lag` tells how late.
    pub sent_share: f64,
    /// CPU time of the agent as a share of one core.
    pub cpu_share: f64,
    /// Lag of the agent: from the planned send time to sending.
    pub lag: Latency,
    /// Maximum difference of its start from that of the run, in either direction, in milliseconds.
    #[serde(rename = "clock_error_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub clock_error: Duration,
    /// Why the agent has no results; absent if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// A reason why a run is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fault {
    /// What was observed, with figures.
    pub what: String,
    /// What to change for a valid run.
    pub advice: String,
}

/// Settings of a run besides its load model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadPlanRecord {
    /// HTTP method of each request.
    pub method: String,
    /// Size of the body of each request, in bytes.
    pub body_bytes: u64,
    /// Timeout of one request in milliseconds, connecting included.
    #[serde(rename = "timeout_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub timeout: Duration,
    /// Whether connections were reused (keep-alive).
    pub keepalive: bool,
    /// Maximum number of connections to each address; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Open loop: maximum number of requests in flight; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
}

/// The address to which requests for a host name went.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostAddress {
    /// Host name with port.
    pub host: String,
    /// The address that was used, with port; only one of the name's addresses is. Each agent
    /// chooses one.
    pub address: String,
    /// Number of addresses of the name.
    pub known: u64,
}

/// Requests by outcome; each is counted in exactly one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcomes {
    /// Success: a response with status 1xx to 3xx.
    pub ok: u64,
    /// A response with status 4xx.
    pub client_error: u64,
    /// A response with status 5xx.
    pub server_error: u64,
    /// Connection refused, by a TLS alert too, or address unreachable.
    pub connect_refused: u64,
    /// Timeout of the connect.
    pub connect_timeout: u64,
    /// Timeout before the response was complete.
    pub timeout: u64,
    /// Connection reset or closed before the response was complete.
    pub reset: u64,
    /// Invalid HTTP response.
    pub bad_answer: u64,
    /// Not sent: the generator had no file descriptor or port left, or reached its in-flight limit.
    pub dropped: u64,
    /// In flight when the run was interrupted.
    pub cut_off: u64,
}

impl Outcomes {
    /// Every class with its name, in the order of the documentation.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 10] {
        [
            ("ok", self.ok),
            ("4xx", self.client_error),
            ("5xx", self.server_error),
            ("connect refused", self.connect_refused),
            ("connect timeout", self.connect_timeout),
            ("timeout", self.timeout),
            ("reset", self.reset),
            ("bad answer", self.bad_answer),
            ("dropped", self.dropped),
            ("cut off", self.cut_off),
        ]
    }

    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.classes().iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// All that are not ok.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.total() - self.ok
    }
}
