//! Tracing: the collector of spans, and the share of requests that is sampled.

use alloc::string::String;

use crate::{time::Duration, units::Ratio};

/// Spans for a collector that speaks OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// Host (an IPv6 address in brackets) and port of the collector.
    pub collector: String,
    /// The path that takes spans.
    pub path: String,
    /// How this edge is called in them.
    pub service_name: String,
    /// The share of the traces beginning here that are sampled. Others go by their parent.
    pub sample: Ratio,
    /// How long the collector may take for a batch.
    pub timeout: Duration,
    /// Requests whose spans may wait for the collector, at least 1; those of further ones are
    /// given up.
    pub queue: u32,
}

impl Tracing {
    /// Tracing with the documented defaults, for the collector at `host:port`.
    ///
    /// A hundredth of the requests shows what is typical at little cost. 10 s and the path are
    /// those of the OTLP specification. 4096 requests are 200 ms of 20,000 sampled requests per
    /// second.
    #[must_use]
    pub fn to(collector: &str) -> Self {
        Self {
            collector: collector.into(),
            path: "/v1/traces".into(),
            service_name: "loadline".into(),
            sample: Ratio::percent(1),
            timeout: Duration::from_secs(10),
            queue: 4096,
        }
    }
}
