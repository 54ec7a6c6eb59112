//! The traffic file as it is written: every key and its meaning.
//!
//! These types know nothing of what keys mean together; `meaning` does.

use std::collections::BTreeMap;

use loadline_core::{
    time::Duration,
    units::{Bytes, Rate, Ratio},
};
use loadline_spanned::At;
use serde::Deserialize;

/// A traffic file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    /// Seed: the same number gives the same run; 1 if omitted.
    pub(crate) seed: Option<u64>,
    /// Duration of the traffic; if omitted, that of the longest stages, `times` or log, or `1m`.
    pub(crate) duration: Option<At<Duration>>,
    /// Time at the start in which requests are not counted; none if omitted.
    pub(crate) warm_up: Option<At<Duration>>,
    /// Interval of the timeline, at least 1 ms; a sixtieth of the duration if omitted.
    pub(crate) step: Option<At<Duration>>,
    /// Traffic sources.
    pub(crate) source: Vec<At<SourceEntry>>,
    /// Models of servers; of several entries that select a server, the last applies.
    pub(crate) server: Vec<At<ServerEntry>>,
    /// Network between regions, where it differs from the configuration.
    pub(crate) link: Vec<At<LinkEntry>>,
    /// Faults and their times.
    pub(crate) fault: Vec<At<FaultEntry>>,
    /// Objects that requests are for, where caches may store them.
    pub(crate) objects: Vec<At<ObjectsEntry>>,
    /// Caches of edges.
    pub(crate) cache: Vec<At<CacheEntry>>,
    /// Network to the store of the cluster, if the configuration has `[cluster]`.
    pub(crate) store: Option<At<StoreEntry>>,
}

/// A traffic source: clients of one kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SourceEntry {
    /// Name in results; the region of its edge if omitted.
    pub(crate) name: Option<String>,
    /// Region of the edge that takes its requests; that of the configuration if omitted.
    pub(crate) edge: Option<At<String>>,
    /// Service that its requests are for; may be omitted if there is only one.
    pub(crate) service: Option<At<String>>,
    /// Arrivals: `constant`, `poisson` (if omitted) or `bursts`.
    pub(crate) arrivals: Option<At<String>>,
    /// Number of simultaneous requests, for `bursts`.
    pub(crate) burst: Option<At<u32>>,
    /// Rate of requests.
    pub(crate) rate: Option<At<Rate>>,
    /// Rate over time; the last stage goes on to the end.
    pub(crate) stages: Vec<At<StageEntry>>,
    /// Closed loop: number of users, each of whom sends its next request after a response.
    pub(crate) users: Option<At<u32>>,
    /// Think time from a response to the user's next request; none if omitted.
    pub(crate) think: Option<At<Duration>>,
    /// Times of the requests since the start, in order.
    pub(crate) times: Option<At<Vec<Duration>>>,
    /// Access log whose requests are replayed; the path is relative to this file.
    pub(crate) log: Option<At<String>>,
    /// Name of the service in the log, if it differs.
    pub(crate) log_service: Option<At<String>>,
    /// Priority class of its requests: `high`, `normal` or `low`; that of the service if omitted.
    pub(crate) class: Option<At<String>>,
    /// Number of different clients, for policies that hash; 1000 if omitted.
    pub(crate) clients: Option<At<u32>>,
    /// Round-trip time from a client to the edge; 0 if omitted.
    pub(crate) distance: Option<Duration>,
    /// Timeout of clients; none if omitted.
    pub(crate) give_up: Option<At<Duration>>,
    /// Maximum number of retries of a failed request by the client; none if omitted.
    pub(crate) retries: Option<At<u32>>,
    /// Wait of a client before its first retry; `100ms` if omitted.
    pub(crate) retry_after: Option<At<Duration>>,
}

/// A stage of the traffic.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageEntry {
    /// Rate at the start.
    pub(crate) rate: Rate,
    /// Rate at the end, changing linearly; `rate` if omitted.
    pub(crate) to: Option<Rate>,
    /// Duration.
    #[serde(rename = "for")]
    pub(crate) lasts: Duration,
}

/// Model of servers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerEntry {
    /// Selects servers in this region.
    pub(crate) region: Option<At<String>>,
    /// Selects servers of this service.
    pub(crate) service: Option<At<String>>,
    /// Selects servers of the group of this name.
    pub(crate) group: Option<At<String>>,
    /// Selects the server at this address.
    pub(crate) address: Option<At<String>>,
    /// Mean service time of a request; `10ms` if omitted.
    pub(crate) time: Option<At<Duration>>,
    /// Distribution of service times: `constant`, `exponential` (if omitted), `lognormal`,
    /// `pareto`, `two-kinds` or `measured`.
    pub(crate) distribution: Option<At<String>>,
    /// Coefficient of variation (standard deviation over mean), for `lognormal`; 1 if omitted.
    pub(crate) variation: Option<At<f64>>,
    /// Shape parameter of `pareto`, above 1; 2.5 if omitted.
    pub(crate) shape: Option<At<f64>>,
    /// Mean service time of long requests, for `two-kinds`; `time` is that of short ones.
    pub(crate) long: Option<At<Duration>>,
    /// Share of long requests, for `two-kinds`.
    pub(crate) long_share: Option<At<Ratio>>,
    /// Service times, all equally likely, for `measured`.
    pub(crate) times: Option<At<Vec<Duration>>>,
    /// Access log with service times, for `measured`: from sending a request to the first byte of
    /// the response.
    pub(crate) log: Option<At<String>>,
    /// Name of the service in the log, if it differs.
    pub(crate) log_service: Option<At<String>>,
    /// Record of a run with service times, for `measured`: what `bench --json` prints.
    pub(crate) run: Option<At<String>>,
    /// Number of cores: requests worked on at a time; 1 if omitted.
    pub(crate) cores: Option<At<u32>>,
    /// Scheduling: `first-come` (if omitted) or `processor-sharing`.
    pub(crate) discipline: Option<At<String>>,
    /// Maximum number of requests waiting for a core; further ones get 503. No limit if omitted.
    pub(crate) queue: Option<At<u32>>,
    /// Duration of a pause in which the server stands still, again and again.
    pub(crate) pause: Option<At<Duration>>,
    /// Period of pauses: from the end of one to the end of the next.
    pub(crate) pause_every: Option<At<Duration>>,
    /// Maximum share of its speed that another program on its machine takes; the share changes at
    /// random, uniformly up to this one.
    pub(crate) antagonist: Option<At<Ratio>>,
    /// Mean time for which that share stays the same; `1s` if omitted.
    pub(crate) antagonist_every: Option<At<Duration>>,
    /// Time after its start in which its speed rises from a third to the full one.
    pub(crate) warm_up: Option<At<Duration>>,
}

/// Network between two regions, in both directions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkEntry {
    /// The two regions; one twice for the way between an edge and a group within it.
    pub(crate) between: At<[String; 2]>,
    /// Round-trip time; that of the configuration if omitted.
    pub(crate) rtt: Option<Duration>,
    /// Jitter: mean of the exponential additional delay in each direction; none if omitted. A link
    /// needs `rtt` or `jitter`.
    pub(crate) jitter: Option<Duration>,
}

/// A fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultEntry {
    /// Start time.
    pub(crate) at: At<Duration>,
    /// Duration; to the end if omitted.
    #[serde(rename = "for")]
    pub(crate) lasts: Option<At<Duration>>,
    /// Kind of fault: `down`, `unreachable`, `slow`, `stall`, `errors`, `traffic`, `cache`,
    /// `store-away` or `cut-off` (edges from the store).
    pub(crate) what: At<String>,
    /// Factor of `slow` or `traffic`.
    pub(crate) factor: Option<At<f64>>,
    /// Share of responses that are errors.
    pub(crate) share: Option<At<Ratio>>,
    /// The servers in this region; for `traffic`, `cache` and `cut-off` the edge in it.
    pub(crate) region: Option<At<String>>,
    /// The servers of this service.
    pub(crate) service: Option<At<String>>,
    /// The servers of the group of this name.
    pub(crate) group: Option<At<String>>,
    /// The server at this address.
    pub(crate) server: Option<At<String>>,
}

/// Network between edges and the store of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreEntry {
    /// Round-trip time from an edge to the store; `1ms` if omitted.
    pub(crate) rtt: Option<Duration>,
    /// Round-trip times of the edges in these regions.
    pub(crate) rtts: Option<At<BTreeMap<String, Duration>>>,
    /// Jitter: mean of the exponential additional delay in each direction; none if omitted.
    pub(crate) jitter: Option<Duration>,
    /// Share of messages that are lost; none if omitted.
    pub(crate) loss: Option<At<Ratio>>,
}

/// Objects that the requests of a service are for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ObjectsEntry {
    /// The service; may be omitted if there is only one.
    pub(crate) service: Option<At<String>>,
    /// Number of objects.
    pub(crate) count: Option<At<u32>>,
    /// Zipf exponent of the popularity: the n-th object is requested in proportion to `1 / n^zipf`.
    /// 1 if omitted; with 0 all are equally popular.
    pub(crate) zipf: Option<At<f64>>,
    /// Mean size; `10kB` if omitted.
    pub(crate) size: Option<At<Bytes>>,
    /// Coefficient of variation of the sizes, which are lognormal; all the same if omitted.
    pub(crate) variation: Option<At<f64>>,
    /// Time for which an object is fresh after a fetch; without end if omitted.
    pub(crate) ttl: Option<At<Duration>>,
}

/// A cache at an edge.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CacheEntry {
    /// Region of the edge; every edge has a cache if omitted.
    pub(crate) edge: Option<At<String>>,
    /// Maximum size.
    pub(crate) size: Option<At<Bytes>>,
    /// Time for which stale objects are served if servers fail or have no capacity; `1h` if
    /// omitted.
    pub(crate) stale_if_error: Option<At<Duration>>,
    /// Number of requests that the cache has seen before the run begins; 5 for each object if
    /// omitted, and at most 500,000. With 0 it begins empty.
    pub(crate) warm: Option<At<u64>>,
}
