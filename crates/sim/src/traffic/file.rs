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
    /// Which of the runs: the same number gives the same run; 1 if omitted.
    pub(crate) seed: Option<u64>,
    /// How long requests come; `1m` if omitted.
    pub(crate) duration: Option<At<Duration>>,
    /// From when on requests are counted; from the start if omitted.
    pub(crate) warm_up: Option<At<Duration>>,
    /// How far apart the points of the timeline are; a sixtieth of the duration if omitted, and at
    /// least 1 ms.
    pub(crate) step: Option<At<Duration>>,
    /// Where requests come from.
    pub(crate) source: Vec<At<SourceEntry>>,
    /// What servers are like; the last entry that selects a server holds.
    pub(crate) server: Vec<At<ServerEntry>>,
    /// The ways between regions that are not as the configuration says.
    pub(crate) link: Vec<At<LinkEntry>>,
    /// What goes wrong, and when.
    pub(crate) fault: Vec<At<FaultEntry>>,
    /// What the requests of services are for, where caches may store it.
    pub(crate) objects: Vec<At<ObjectsEntry>>,
    /// The caches of edges.
    pub(crate) cache: Vec<At<CacheEntry>>,
    /// The store through which edges share, where the configuration has `[cluster]`.
    pub(crate) store: Option<At<StoreEntry>>,
}

/// Clients of one kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SourceEntry {
    /// What results call it; the region of its edge if omitted.
    pub(crate) name: Option<String>,
    /// The region of the edge where its requests come in; that of the configuration if omitted.
    pub(crate) edge: Option<At<String>>,
    /// The service that it asks; may be omitted where there is but one.
    pub(crate) service: Option<At<String>>,
    /// How requests lie: `constant`, `poisson` (if omitted) or `bursts`.
    pub(crate) arrivals: Option<At<String>>,
    /// Requests at the same instant, for `bursts`.
    pub(crate) burst: Option<At<u32>>,
    /// How many come.
    pub(crate) rate: Option<At<Rate>>,
    /// The rate over time; the last stage goes on.
    pub(crate) stages: Vec<At<StageEntry>>,
    /// Users, each of whom sends a request after the response to the last.
    pub(crate) users: Option<At<u32>>,
    /// What a user waits from a response to the next request; nothing if omitted.
    pub(crate) think: Option<At<Duration>>,
    /// The times since the start at which requests come, in order.
    pub(crate) times: Option<At<Vec<Duration>>>,
    /// An access log whose requests come again, from this file's folder.
    pub(crate) log: Option<At<String>>,
    /// What the log calls the service, if not by its name.
    pub(crate) log_service: Option<At<String>>,
    /// How much its requests matter: `high`, `normal` or `low`; as the service says if omitted.
    pub(crate) class: Option<At<String>>,
    /// How many clients there are, for policies that hash; 1000 if omitted.
    pub(crate) clients: Option<At<u32>>,
    /// From a client to the edge and back; nothing if omitted.
    pub(crate) distance: Option<Duration>,
    /// How long a client waits for a response; for ever if omitted.
    pub(crate) give_up: Option<At<Duration>>,
    /// Further attempts of a request that failed; none if omitted.
    pub(crate) retries: Option<At<u32>>,
    /// What a client waits before the first of them; `100ms` if omitted.
    pub(crate) retry_after: Option<At<Duration>>,
}

/// A part of the time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageEntry {
    /// The rate at its beginning.
    pub(crate) rate: Rate,
    /// The rate at its end; the same if omitted. In between it changes evenly.
    pub(crate) to: Option<Rate>,
    /// How long it lasts.
    #[serde(rename = "for")]
    pub(crate) lasts: Duration,
}

/// What servers are like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerEntry {
    /// Those in this region.
    pub(crate) region: Option<At<String>>,
    /// Those of this service.
    pub(crate) service: Option<At<String>>,
    /// Those of the group of this name.
    pub(crate) group: Option<At<String>>,
    /// The one at this address.
    pub(crate) address: Option<At<String>>,
    /// The mean time that it works on a request; `10ms` if omitted.
    pub(crate) time: Option<At<Duration>>,
    /// How times lie: `constant`, `exponential` (if omitted), `lognormal`, `pareto`, `two-kinds` or
    /// `measured`.
    pub(crate) distribution: Option<At<String>>,
    /// Standard deviation over mean, for `lognormal`; 1 if omitted.
    pub(crate) variation: Option<At<f64>>,
    /// For `pareto`, above 1; 2.5 if omitted.
    pub(crate) shape: Option<At<f64>>,
    /// The mean time of long requests, for `two-kinds`; `time` is that of the short ones.
    pub(crate) long: Option<At<Duration>>,
    /// Which share of requests is long, for `two-kinds`.
    pub(crate) long_share: Option<At<Ratio>>,
    /// Times that are equally likely, for `measured`.
    pub(crate) times: Option<At<Vec<Duration>>>,
    /// An access log that has such times, for `measured`: from sending a request to the first byte
    /// of the response.
    pub(crate) log: Option<At<String>>,
    /// What the log calls the service, if not by its name.
    pub(crate) log_service: Option<At<String>>,
    /// The record of a run that has such times, for `measured`: what `bench --json` prints.
    pub(crate) run: Option<At<String>>,
    /// On how many requests it works at a time; 1 if omitted.
    pub(crate) cores: Option<At<u32>>,
    /// Who is worked on: `first-come` (if omitted) or `processor-sharing`.
    pub(crate) discipline: Option<At<String>>,
    /// How many requests may wait for a core; it responds with 503 to further ones. Without limit
    /// if omitted.
    pub(crate) queue: Option<At<u32>>,
    /// How long it stands still, again and again.
    pub(crate) pause: Option<At<Duration>>,
    /// From the end of one pause to the end of the next.
    pub(crate) pause_every: Option<At<Duration>>,
    /// The largest share of its speed that another program on its machine takes; how much it is
    /// changes at random, and each share up to this one is equally likely.
    pub(crate) antagonist: Option<At<Ratio>>,
    /// How long that share stays, on average; `1s` if omitted.
    pub(crate) antagonist_every: Option<At<Duration>>,
    /// How long it takes to become as fast as it is after it has started, from a third of that.
    pub(crate) warm_up: Option<At<Duration>>,
}

/// The way between two regions, in both directions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkEntry {
    /// The two regions.
    pub(crate) between: At<[String; 2]>,
    /// There and back; as the configuration says if omitted.
    pub(crate) rtt: Option<Duration>,
    /// The mean of what comes on top of each way, exponential; nothing if omitted. One of both is
    /// said.
    pub(crate) jitter: Option<Duration>,
}

/// Something that goes wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultEntry {
    /// When it begins.
    pub(crate) at: At<Duration>,
    /// How long it lasts; to the end if omitted.
    #[serde(rename = "for")]
    pub(crate) lasts: Option<At<Duration>>,
    /// `down`, `unreachable`, `slow`, `stall`, `errors`, `traffic`, `cache`, `store-away` or
    /// `cut-off` (edges from the store).
    pub(crate) what: At<String>,
    /// So many times as slow, or so many times as much traffic.
    pub(crate) factor: Option<At<f64>>,
    /// Which share of responses is an error.
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

/// The ways between edges and the store through which they share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreEntry {
    /// From an edge to the store and back; `1ms` if omitted.
    pub(crate) rtt: Option<Duration>,
    /// The same of the edges in these regions.
    pub(crate) rtts: Option<At<BTreeMap<String, Duration>>>,
    /// The mean of what comes on top of each way, exponential; nothing if omitted.
    pub(crate) jitter: Option<Duration>,
    /// The share of messages that are lost; none if omitted.
    pub(crate) loss: Option<At<Ratio>>,
}

/// What the requests of a service are for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ObjectsEntry {
    /// The service; may be omitted where there is but one.
    pub(crate) service: Option<At<String>>,
    /// How many there are.
    pub(crate) count: Option<At<u32>>,
    /// How unlike their popularity is: the n-th is asked for in proportion to `1 / n^zipf`; 1 if
    /// omitted, 0 if all are asked for alike.
    pub(crate) zipf: Option<At<f64>>,
    /// The mean size; `10kB` if omitted.
    pub(crate) size: Option<At<Bytes>>,
    /// Standard deviation over mean of the sizes, which are lognormal; all alike if omitted.
    pub(crate) variation: Option<At<f64>>,
    /// How long one is fresh after it was fetched; for ever if omitted.
    pub(crate) ttl: Option<At<Duration>>,
}

/// A cache at an edge.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CacheEntry {
    /// The region of the edge; every edge has one if omitted.
    pub(crate) edge: Option<At<String>>,
    /// What it may take.
    pub(crate) size: Option<At<Bytes>>,
    /// How long what is not fresh any more is used where servers fail or have no capacity; `1h` if
    /// omitted.
    pub(crate) stale_if_error: Option<At<Duration>>,
    /// How many requests it has seen when the run begins; 5 for each object if omitted, and at most
    /// 500,000. With 0 it begins empty.
    pub(crate) warm: Option<At<u64>>,
}
