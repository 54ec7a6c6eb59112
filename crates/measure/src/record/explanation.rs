//! The way of one request through a simulated run, decision by decision.

use serde::{Deserialize, Serialize};

use super::number;
use loadline_core::time::Duration;

/// One simulated request: what happened to it, and what its edge knew at each decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplanationRecord {
    /// Number of the request, from 1, in the order in which clients first sent them.
    pub request: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Source of the request in the traffic file.
    pub source: String,
    /// Service that the request was for.
    pub service: String,
    /// Time at which the client first sent it, in seconds since the start of the run.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// Time until the client had the response or gave up, retries included, in milliseconds.
    #[serde(rename = "took_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub took: Duration,
    /// Events in order.
    pub steps: Vec<ExplainedStep>,
}

/// An event of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedStep {
    /// Time since the client first sent the request, in milliseconds.
    #[serde(rename = "after_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub after: Duration,
    /// Description of the event.
    pub what: String,
    /// Groups of the service just before the decision, in the order in which they are filled; empty
    /// if nothing was decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ExplainedGroup>,
}

/// A group as the edge saw it at a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedGroup {
    /// Name of the group.
    pub name: String,
    /// Round-trip time from the edge, in milliseconds; null if it is not known.
    pub distance_ms: Option<f64>,
    /// Number of servers that can take requests.
    pub ready: u32,
    /// Number of servers.
    pub servers: u32,
    /// Requests in flight to the group from this edge.
    pub in_flight: u32,
    /// Limit of requests in flight; null if there is none.
    pub max_in_flight: Option<u32>,
    /// Requests that this edge sent to the group in the last second.
    pub last_second: u32,
    /// Rate limit of the group in requests per second; null if there is none.
    pub max_rate_per_s: Option<f64>,
    /// Whether the request was sent there.
    pub chosen: bool,
    /// Servers of the chosen group, by address; absent for other groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<ExplainedServer>,
}

/// A server as the edge saw it at a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedServer {
    /// Address of the server.
    pub address: String,
    /// Whether the server can take requests.
    pub ready: bool,
    /// Requests in flight to the server from this edge.
    pub in_flight: u32,
    /// Whether the request was sent there.
    pub chosen: bool,
}
