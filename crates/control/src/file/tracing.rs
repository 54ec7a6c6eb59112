//! Tracing in the file: where spans go, which requests have some.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::Key,
    value::{
        collector::Collector,
        label::Name,
        number::Whole,
        quantity::{PERCENT, Share, Time},
        text::Text,
    },
};

/// Spans of requests, which `docs/operation.md` explains. A change needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["endpoint"]))]
pub(crate) struct Tracing {
    /// The collector, which speaks OTLP over HTTP in clear. `/v1/traces` is added to the path.
    pub(crate) endpoint: Key<Text<Collector>>,
    /// How this edge is called in its spans (`service.name`).
    #[schemars(extend("default" = "loadline"))]
    pub(crate) service_name: Key<Text<Name>>,
    /// The share, by the id, of the traces that begin here for which spans are made. A request that
    /// comes with a `traceparent` has them if that says so.
    #[schemars(extend("default" = "1%"))]
    pub(crate) sample: Key<Share<0, { 100 * PERCENT }>>,
    /// How long the collector may take for a batch.
    #[schemars(extend("default" = "10s"))]
    pub(crate) timeout: Key<Time>,
    /// Requests whose spans may wait for the collector; those of further ones are given up and
    /// counted. Traffic never waits.
    #[schemars(extend("default" = 4096))]
    pub(crate) queue: Key<Whole<1, 1_000_000>>,
}
