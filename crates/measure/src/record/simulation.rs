//! What a simulation says beyond what a load run does: where requests went, and what was decided.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Latency, Outcomes, number};
use loadline_core::time::Duration;

/// Details of a simulated run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulationRecord {
    /// Seed: the same number gives the same run.
    pub seed: u64,
    /// Regions of the edges.
    pub edges: Vec<String>,
    /// Traffic sources.
    pub sources: Vec<SimulatedSource>,
    /// Groups that requests went to, in the order of the file.
    pub groups: Vec<SimulatedGroup>,
    /// Requests that edges failed, by reason; attempts that clients repeated are included.
    pub reasons: BTreeMap<String, u64>,
    /// Requests that waited in a queue for capacity.
    pub queued: u64,
    /// Retries of clients after a failure.
    pub client_retries: u64,
    /// Events of servers and groups.
    pub notices: Vec<SimulatedNotice>,
    /// Caches of the edges.
    #[serde(default)]
    pub caches: Vec<SimulatedCache>,
    /// Writes to the store through which edges share capacity; absent if capacity is not shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_writes: Option<u64>,
    /// Number of simulated events.
    pub events: u64,
}

/// Results of one traffic source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedSource {
    /// Its name.
    pub name: String,
    /// Region of the edge that takes its requests.
    pub edge: String,
    /// Service that its requests are for.
    pub service: String,
    /// Its requests by outcome.
    pub outcomes: Outcomes,
    /// Response time: from the request to the end of the response, successful requests only.
    pub response: Latency,
}

/// Results of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedGroup {
    /// The service.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: String,
    /// Requests sent to the group.
    pub requests: u64,
    /// Of `requests`: those that came because nearer groups were full or down.
    pub overflowed: u64,
    /// Highest rate of requests between two points of the timeline, per second.
    pub peak_per_s: f64,
    /// Requests of the busiest server divided by the mean of all servers; 0 without requests.
    pub imbalance: f64,
    /// Requests that found every core of their server busy.
    #[serde(default)]
    pub found_busy: u64,
    /// Requests sent to a server while it was at least 1.5 times as slow as the fastest of the
    /// group at its best.
    #[serde(default)]
    pub to_slow: u64,
    /// Timeline.
    pub moments: Vec<GroupMoment>,
}

/// A point of a group's timeline: values since the point before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupMoment {
    /// Time in seconds since the start.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Requests per second.
    pub rate_per_s: f64,
    /// Rate limit in requests per second; null if there is none.
    pub max_rate_per_s: Option<f64>,
    /// Requests in flight to its servers, from all edges.
    pub in_flight: u64,
    /// Limit of requests in flight; null if there is none.
    pub max_in_flight: Option<u64>,
}

/// An event that an edge noticed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedNotice {
    /// Time in seconds since the start.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Region of the edge.
    pub edge: String,
    /// The service.
    pub service: String,
    /// The group.
    pub group: String,
    /// Description of the event.
    pub what: String,
}

/// Results of the cache of an edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedCache {
    /// Region of the edge.
    pub edge: String,
    /// Size limit of the cache, in bytes.
    pub size: u64,
    /// Cacheable requests.
    pub requests: u64,
    /// Of `requests`: cache hits, answered at once.
    pub hits: u64,
    /// Of `requests`: those that waited for another request's fetch (collapsed).
    pub collapsed: u64,
    /// Of `requests`: those that were sent to servers (misses and revalidations).
    pub fetches: u64,
    /// Of `fetches`: revalidations of stale objects.
    pub revalidations: u64,
    /// Of `requests`: those answered with a stale object, since servers failed or had no capacity.
    #[serde(default)]
    pub stale: u64,
    /// Bytes of all requested objects.
    pub bytes: u64,
    /// Bytes fetched from servers; a revalidated object counts none.
    pub bytes_fetched: u64,
    /// `hits / requests`.
    pub hit_ratio: f64,
    /// `1 - bytes_fetched / bytes`.
    pub byte_hit_ratio: f64,
    /// Objects in the cache at the end.
    pub objects: u64,
    /// Timeline.
    pub moments: Vec<CacheMoment>,
}

/// A point of a cache's timeline: values since the point before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheMoment {
    /// Time in seconds since the start.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Cacheable requests.
    pub requests: u64,
    /// Of `requests`: cache hits, answered at once.
    pub hits: u64,
    /// Of `requests`: those that were sent to servers (misses and revalidations).
    pub fetches: u64,
    /// `fetches` per second.
    pub fetches_per_s: f64,
    /// Bytes of all requested objects.
    pub bytes: u64,
    /// Bytes fetched from servers.
    pub bytes_fetched: u64,
    /// Bytes in the cache at this moment.
    pub stored: u64,
}
