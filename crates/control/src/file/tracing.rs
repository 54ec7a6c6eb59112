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

/// Tracing: spans of requests, sent to an OTLP collector; see `docs/operation.md`. A change needs a
/// restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["endpoint"]))]
pub(crate) struct Tracing {
    /// URL of the collector (OTLP over HTTP, without TLS). `/v1/traces` is appended to the path.
    pub(crate) endpoint: Key<Text<Collector>>,
    /// Name of this edge in its spans (`service.name`).
    #[schemars(extend("default" = "loadline"))]
    pub(crate) service_name: Key<Text<Name>>,
    /// Share of traces beginning here that are sampled, by trace id. A request with a `traceparent`
    /// is sampled if that says so.
    #[schemars(extend("default" = "1%"))]
    pub(crate) sample: Key<Share<0, { 100 * PERCENT }>>,
    /// Timeout of sending a batch of spans to the collector.
    #[schemars(extend("default" = "10s"))]
    pub(crate) timeout: Key<Time>,
    /// Maximum number of requests whose spans wait to be sent; further spans are dropped and
    /// counted. Requests never wait.
    #[schemars(extend("default" = 4096))]
    pub(crate) queue: Key<Whole<1, 1_000_000>>,
}
