//! The way of one request through a simulated run, decision by decision.

use serde::{Deserialize, Serialize};

use super::number;
use loadline_core::time::Duration;

/// What happened to a request, and what its edge knew when it decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplanationRecord {
    /// Its number: from 1, in the order in which clients first wanted them.
    pub request: u64,
    /// Which of the runs of the scenario.
    pub seed: u64,
    /// The source that it came from.
    pub source: String,
    /// The service that it asked.
    pub service: String,
    /// When its client first wanted it, since the start.
    #[serde(rename = "at_s", with = "number::secs")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Duration,
    /// How long until its client was done with it.
    #[serde(rename = "took_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub took: Duration,
    /// What happened, in order.
    pub steps: Vec<ExplainedStep>,
}

/// Something that happened to a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedStep {
    /// Since its client first wanted it.
    #[serde(rename = "after_ms", with = "number::ms")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub after: Duration,
    /// What.
    pub what: String,
    /// The groups of its service just before, in the order in which they are filled; none where
    /// nothing was decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ExplainedGroup>,
}

/// A group as an edge saw it when it decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedGroup {
    /// Its name.
    pub name: String,
    /// Round-trip time from the edge, in milliseconds; none if it is not known.
    pub distance_ms: Option<f64>,
    /// Its servers that may be given requests.
    pub ready: u32,
    /// Its servers.
    pub servers: u32,
    /// Requests under way with them, from this edge.
    pub in_flight: u32,
    /// The most that may be; none where nothing limits it.
    pub max_in_flight: Option<u32>,
    /// Requests that this edge gave it in the second before.
    pub last_second: u32,
    /// What it may be given, in requests per second; none where nothing limits it.
    pub max_rate_per_s: Option<f64>,
    /// Whether the request was sent to it.
    pub chosen: bool,
    /// Of the group that was chosen: requests under way with each server, by its address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<ExplainedServer>,
}

/// A server as an edge saw it when it decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedServer {
    /// Where it listens.
    pub address: String,
    /// Whether it may be given requests.
    pub ready: bool,
    /// Requests under way with it, from this edge.
    pub in_flight: u32,
    /// Whether the request was sent to it.
    pub chosen: bool,
}
