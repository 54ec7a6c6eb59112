//! What a simulation says beyond what a load run does: where requests went, and what was decided.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Latency, Outcomes, number};
use loadline_core::time::Duration;

/// What is known of a simulated run besides its load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulationRecord {
    /// Which of the runs of the scenario: the same number gives the same run.
    pub seed: u64,
    /// Regions of the edges.
    pub edges: Vec<String>,
    /// Where requests came from.
    pub sources: Vec<SimulatedSource>,
    /// Where they went, in the order of the file.
    pub groups: Vec<SimulatedGroup>,
    /// Why edges failed requests, attempts that clients repeated included.
    pub reasons: BTreeMap<String, u64>,
    /// Requests that waited for capacity.
    pub queued: u64,
    /// Further attempts of clients after a failure.
    pub client_retries: u64,
    /// What happened to servers and groups.
    pub notices: Vec<SimulatedNotice>,
    /// The caches of edges.
    #[serde(default)]
    pub caches: Vec<SimulatedCache>,
    /// Writes to the store through which edges share the capacity of groups; none where each has
    /// all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_writes: Option<u64>,
    /// Events that were simulated.
    pub events: u64,
}

/// What became of the requests of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedSource {
    /// Its name.
    pub name: String,
    /// Region of the edge where its requests come in.
    pub edge: String,
    /// The service that it asks.
    pub service: String,
    /// What became of its requests.
    pub outcomes: Outcomes,
    /// From the request to the end of the response, successful requests only.
    pub response: Latency,
}

/// What a group was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedGroup {
    /// The service.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// Requests that it was given.
    pub requests: u64,
    /// Of these, those that came because nearer groups were full or down.
    pub overflowed: u64,
    /// The most requests that it was given between two points of the timeline, per second.
    pub peak_per_s: f64,
    /// Requests of the server that was given most, over the mean of all its servers; 0 where it was
    /// given none.
    pub imbalance: f64,
    /// Requests that found every core of their server busy.
    #[serde(default)]
    pub found_busy: u64,
    /// Requests that came to a server while it took half as long again, or more, as the fastest of
    /// the group at its best.
    #[serde(default)]
    pub to_slow: u64,
    /// How it went, one point after another.
    pub moments: Vec<GroupMoment>,
}

/// What a group was given between one point of the timeline and the one before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupMoment {
    /// Since the start.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Requests per second.
    pub rate_per_s: f64,
    /// What it may be given, in requests per second; none where nothing limits its rate.
    pub max_rate_per_s: Option<f64>,
    /// Requests under way with its servers, over all edges.
    pub in_flight: u64,
    /// What may be under way; none where nothing limits it.
    pub max_in_flight: Option<u64>,
}

/// Something that an edge noticed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedNotice {
    /// When.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Region of the edge.
    pub edge: String,
    /// The service.
    pub service: String,
    /// The group.
    pub group: String,
    /// What happened.
    pub what: String,
}

/// What the cache of an edge did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedCache {
    /// Region of the edge.
    pub edge: String,
    /// What it may take, in bytes.
    pub size: u64,
    /// Requests for what could be in it.
    pub requests: u64,
    /// Of these, those that it answered at once.
    pub hits: u64,
    /// Of these, those that waited for what another one fetched.
    pub collapsed: u64,
    /// Of these, those that went on to the servers.
    pub fetches: u64,
    /// Of the fetches, those for what was in the cache and no longer fresh.
    pub revalidations: u64,
    /// Bytes of what was asked for.
    pub bytes: u64,
    /// Bytes that came from servers; none for what was still in the cache.
    pub bytes_fetched: u64,
    /// `hits / requests`.
    pub hit_ratio: f64,
    /// `1 - bytes_fetched / bytes`.
    pub byte_hit_ratio: f64,
    /// Objects in it at the end.
    pub objects: u64,
    /// How it went, one point after another.
    pub moments: Vec<CacheMoment>,
}

/// What a cache did between one point of the timeline and the one before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheMoment {
    /// Since the start.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Requests for what could be in it.
    pub requests: u64,
    /// Of these, those that it answered at once.
    pub hits: u64,
    /// Of these, those that went on to the servers.
    pub fetches: u64,
    /// The same per second.
    pub fetches_per_s: f64,
    /// Bytes of what was asked for.
    pub bytes: u64,
    /// Bytes that came from servers.
    pub bytes_fetched: u64,
    /// Bytes that are in it.
    pub stored: u64,
}
