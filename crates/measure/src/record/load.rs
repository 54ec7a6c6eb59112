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

/// One load run, whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadRecord {
    /// What was asked: a URL, or several with their weights.
    pub target: String,
    /// What was spoken: `HTTP/1.1`, `HTTP/2`, `HTTP/1.1 over TLS 1.3`.
    pub protocol: String,
    /// When the plan began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// How requests were planned.
    pub model: LoadModel,
    /// What else was planned; none in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<LoadPlanRecord>>,
    /// Where requests went of hosts that were given by their names; none in records of older
    /// versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<HostAddress>,
    /// From the first planned instant to the last response, or to the last failure while the plan
    /// went on. An open loop that was not interrupted lasts to the end of its plan at least: to
    /// that of its duration, or at even distances to one after the last request.
    #[serde(rename = "elapsed_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub elapsed: Duration,
    /// Requests that were planned.
    pub planned: u64,
    /// What became of each of them; the sum is `planned`.
    pub outcomes: Outcomes,
    /// Successful requests per second of the run.
    #[serde(rename = "achieved_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub achieved: Rate,
    /// From the planned instant to the end of the response, successful requests only.
    pub response: Latency,
    /// As `response`, of all requests: what failed counts as infinitely late. None in records of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_of_all: Option<Percentiles>,
    /// From the send (on a new connection: its connect) to the end of the response, successful
    /// requests only.
    pub service: Latency,
    /// From the planned instant to the send: how late the generator was.
    pub lag: Latency,
    /// The parts of the service time; a phase counts only the requests that went through it.
    pub phases: Phases,
    /// The three latencies whole.
    pub spreads: Spreads,
    /// How the run went, one after another.
    pub moments: Vec<Moment>,
    /// Bytes of responses, heads included.
    pub bytes_read: u64,
    /// Answers by status.
    #[serde(with = "number::by_status")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, u64>"))]
    pub statuses: BTreeMap<u16, u64>,
    /// Answers by the value of the header that was asked for (for example which server answered).
    pub by_header: BTreeMap<String, u64>,
    /// Why TLS connections did not come about, in the words of the TLS library.
    #[serde(default)]
    pub reasons: BTreeMap<String, u64>,
    /// Connections that were opened.
    pub connections: u64,
    /// Kept connections found closed when a request was written to them, before a byte of an
    /// answer came. Each such request was sent once more on a new connection and is counted in
    /// `outcomes` by what became of it there.
    pub stale: u64,
    /// Whether the run was ended before its plan was; `planned` holds what was due until then.
    pub interrupted: bool,
    /// How the generator itself did.
    pub generator: Generator,
    /// The machines that sent it, where it was not this one alone. `generator` holds the worst of
    /// them, and their faults by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentRecord>,
    /// The objective of the run and whether it was met; none where none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveRecord>,
    /// What the machine's resources did meanwhile; none where nobody watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRecord>,
    /// Where requests went and why, where the run was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<Box<SimulationRecord>>,
}

impl LoadRecord {
    /// Successful requests per second of the run.
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
    /// interrupted run itself cut off is none of them.
    #[must_use]
    pub fn response_of_all(&self) -> Percentiles {
        let cut_off = if self.interrupted { self.outcomes.cut_off } else { 0 };
        let failed = self.outcomes.failed().saturating_sub(cut_off);
        Percentiles::of_all(&self.response, &self.spreads.response, failed)
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
        rest.response_of_all = rest.response_of_all.is_some().then(|| self.response_of_all());
        Cow::Owned(rest)
    }

    /// Whether the run was interrupted before anything came of a request: nothing can be judged.
    #[must_use]
    pub fn shows_nothing(&self) -> bool {
        self.interrupted && self.planned <= self.outcomes.cut_off
    }

    /// Whether the figures can be believed: nothing in the generator stood in their way.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.generator.faults.is_empty()
    }
}

/// How requests were planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "loop", rename_all = "snake_case")]
pub enum LoadModel {
    /// So many users, each sending its next request after the response to the last.
    Closed {
        /// Users at a time.
        users: u32,
        /// What a user waits between a response and its next request.
        #[serde(rename = "think_s", with = "number::secs")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
        think: Duration,
    },
    /// Requests at planned instants, whatever the responses do.
    Open {
        /// Mean planned rate of the whole plan.
        #[serde(rename = "rate_per_s", with = "number::per_s")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
        rate: Rate,
        /// How the instants lie.
        arrivals: Arrivals,
        /// Which of the plans with random arrivals.
        seed: u64,
        /// The stages of the plan; empty where the rate is the same throughout.
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

/// How planned instants lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At even distances.
    Constant,
    /// Independent of each other: exponential distances.
    Poisson,
    /// Distances uniform between zero and twice the mean.
    Uniform,
    /// At the instants that a file lists.
    Listed,
}

/// Part of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stage {
    /// The rate at its beginning.
    #[serde(rename = "from_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub from: Rate,
    /// The rate at its end; in between it changes evenly.
    #[serde(rename = "to_per_s", with = "number::per_s")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub to: Rate,
    /// How long it lasts.
    #[serde(rename = "lasts_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub lasts: Duration,
}

/// The parts of a service time, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phases {
    /// Looking the host's name up.
    pub dns: Latency,
    /// Opening the TCP connection; over HTTP/3 the QUIC handshake, of which TLS is a part.
    pub connect: Latency,
    /// The TLS handshake over TCP.
    pub tls: Latency,
    /// From the request's last byte sent to the response's first byte read.
    pub first_byte: Latency,
    /// From the response's first byte to its last.
    pub body: Latency,
}

/// The latencies of a run, whole.
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

/// What happened between one moment of a run and the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// Since the start of the plan.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Requests that became due.
    pub planned: u64,
    /// What became of those that ended.
    pub outcomes: Outcomes,
    /// Requests under way at this moment.
    pub in_flight: u64,
    /// Bytes of responses read.
    pub bytes_read: u64,
    /// Response times of successful requests that ended: the mean.
    #[serde(rename = "mean_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub mean: Duration,
    /// Half of them are at most this.
    #[serde(rename = "p50_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p50: Duration,
    /// 99 % of them are at most this.
    #[serde(rename = "p99_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub p99: Duration,
    /// The longest of them.
    #[serde(rename = "max_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub max: Duration,
    /// How many of them took as long as the shortest limit of the objective or longer, to 1 % of
    /// that; none without such a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
}

/// How the generator of a run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Generator {
    /// The generator's own CPU time as a share of one core over the run; 1 is saturated.
    pub cpu_share: f64,
    /// Requests that went out in time, as a share of those planned; 1 in a closed loop.
    pub sent_share: f64,
    /// What makes the run invalid; empty in a valid one.
    pub faults: Vec<Fault>,
}

/// A machine that sent a part of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRecord {
    /// As it was called on the command line.
    pub name: String,
    /// Requests that were planned for it; with those of the others they sum to the run's.
    pub planned: u64,
    /// Requests that it sent.
    pub sent: u64,
    /// Requests that went out in time, as a share of those planned; 1 in a closed loop.
    pub sent_share: f64,
    /// Its CPU time as a share of one core over its part of the run.
    pub cpu_share: f64,
    /// From the planned instant to the send: how late it was.
    pub lag: Latency,
    /// How far its beginning may have been from that of the run, to either side.
    #[serde(rename = "clock_error_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub clock_error: Duration,
    /// Why it has no figures; none where it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// Why a run cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fault {
    /// What was seen, with its figures.
    pub what: String,
    /// What to change.
    pub advice: String,
}

/// What was planned of a run beside its model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadPlanRecord {
    /// The method of each request.
    pub method: String,
    /// Bytes of the body of each request.
    pub body_bytes: u64,
    /// How long one request might take, connecting included.
    #[serde(rename = "timeout_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub timeout: Duration,
    /// Whether connections were kept from one request to the next.
    pub keepalive: bool,
    /// The most connections to each address; none without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Of an open loop the most requests under way at a time; none without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
}

/// The address that requests to a host went to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostAddress {
    /// The host by its name, with its port.
    pub host: String,
    /// The only one of its addresses that was connected to, with its port. Each agent chooses one.
    pub address: String,
    /// How many addresses the name has.
    pub known: u64,
}

/// What became of the requests: each is in exactly one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcomes {
    /// Answered with 1xx to 3xx.
    pub ok: u64,
    /// Answered with 4xx.
    pub client_error: u64,
    /// Answered with 5xx.
    pub server_error: u64,
    /// The connection was refused or the address was not reachable.
    pub connect_refused: u64,
    /// The connection did not open in time.
    pub connect_timeout: u64,
    /// No whole response in time.
    pub timeout: u64,
    /// The connection was reset or closed before the response was whole.
    pub reset: u64,
    /// The response was not valid HTTP.
    pub bad_answer: u64,
    /// Not sent: the generator was out of descriptors, ports or its in-flight limit.
    pub dropped: u64,
    /// Under way when the run was ended.
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
        self.classes().iter().map(|(_, count)| count).sum()
    }

    /// All that are not ok.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.total() - self.ok
    }
}
