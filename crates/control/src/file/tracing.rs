//! Tracing in the file: where spans go, which requests have some.

use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    collector::Collector,
    label::Name,
    number::Whole,
    quantity::{PERCENT, Share, Time},
};

/// Spans of requests, which `docs/operation.md` explains. A change needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["endpoint"]))]
pub(crate) struct Tracing {
    /// The collector, by OTLP over HTTP without TLS. `/v1/traces` is appended to the path.
    pub(crate) endpoint: Key<Text<Collector>>,
    /// Name of this edge in its spans (`service.name`).
    #[schemars(extend("default" = "loadline"))]
    pub(crate) service_name: Key<Text<Name>>,
    /// Share, by trace id, of the traces that begin here that are sampled. A request with a
    /// `traceparent` is sampled if that says so.
    #[schemars(extend("default" = "1%"))]
    pub(crate) sample: Key<Share<0, { 100 * PERCENT }>>,
    /// Timeout of a batch to the collector.
    #[schemars(extend("default" = "10s"))]
    pub(crate) timeout: Key<Time>,
    /// Maximum number of requests whose spans wait for the collector; further spans are dropped and
    /// counted. Traffic never waits.
    #[schemars(extend("default" = 4096))]
    pub(crate) queue: Key<Whole<1, 1_000_000>>,
}
