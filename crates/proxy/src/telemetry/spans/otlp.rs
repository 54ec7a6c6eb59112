//! Requests that have ended as OTLP: names and attributes by the semantic conventions for HTTP
//! spans of OpenTelemetry (1.23, stable).
//!
//! Ours are `loadline.service`, `.group`, `.overflow_reason`, `.ending`, `.retries` and, in
//! milliseconds as in the access log, `.queue`, `.connect` (failed attempts included) and
//! `.first_byte`. A client span has the events `request.sent` and `response.begun`.

use std::{
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use loadline_core::{
    decide::{
        ending::{Ending, Fault},
        overflow_reason::OverflowReason,
    },
    fleet::socket_path,
    rules::trace::SpanId,
    time::{Duration, Instant},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{
        ResourceSpans, ScopeSpans, Span, Status,
        span::{Event, SpanKind},
        status::StatusCode,
    },
};

use super::trace::{AttemptSpan, RequestSpan};
use crate::runtime::clock::Clock;

/// Makes batches.
#[derive(Debug)]
pub(super) struct Encoder {
    resource: Resource,
    clock: Clock,
}

impl Encoder {
    /// For spans of the edge that is called `service_name`.
    pub(super) fn new(service_name: &str, clock: Clock) -> Self {
        let mut attributes = Attributes::default();
        attributes.text("service.name", service_name);
        attributes.text("service.version", env!("CARGO_PKG_VERSION"));
        attributes.number("process.pid", std::process::id().into());
        Self { resource: Resource { attributes: attributes.0, ..Resource::default() }, clock }
    }

    /// All spans of these requests.
    pub(super) fn batch(&self, requests: &[Box<RequestSpan>]) -> ExportTraceServiceRequest {
        let wall = Wall::of(self.clock);
        let scope = InstrumentationScope {
            name: "loadline".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..InstrumentationScope::default()
        };
        let spans = requests.iter().flat_map(|told| spans(told, wall)).collect();
        let of_scope = ScopeSpans { scope: Some(scope), spans, schema_url: SCHEMA_URL.into() };
        let of_resource = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![of_scope],
            schema_url: SCHEMA_URL.into(),
        };
        ExportTraceServiceRequest { resource_spans: vec![of_resource] }
    }
}

/// The wall clock at [`Instant::ZERO`], in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Wall(u64);

impl Wall {
    fn of(clock: Clock) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Self(now.saturating_sub(clock.now().since(Instant::ZERO).as_nanos()))
    }

    const fn at(self, instant: Instant) -> u64 {
        self.0 + instant.since(Instant::ZERO).as_nanos()
    }
}

fn spans(told: &RequestSpan, wall: Wall) -> impl Iterator<Item = Span> {
    let tries = told.tries.iter().enumerate().map(move |(nth, it)| client(told, (nth, it), wall));
    [server(told, wall)].into_iter().chain(tries)
}

/// The span of the request as a whole.
fn server(told: &RequestSpan, wall: Wall) -> Span {
    let outcome = &told.outcome;
    let mut attributes = asked(told);
    attributes.text("url.path", &told.path);
    attributes.text("url.scheme", told.scheme);
    if let Some(route) = &told.route {
        attributes.text("http.route", route);
    }
    let (host, port) = split(&told.host);
    attributes.text("server.address", host);
    if let Some(port) = port {
        attributes.number("server.port", port.into());
    }
    attributes.address("client", outcome.client);
    attributes.text("user_agent.original", &told.agent);
    let version = outcome.version.trim_start_matches("HTTP/").trim_end_matches(".0");
    attributes.text("network.protocol.version", if version == "1" { "1.0" } else { version });
    attributes.text("loadline.service", &outcome.service);
    attributes.text("loadline.ending", outcome.ending.name());
    attributes.number("loadline.retries", outcome.retries.into());
    attributes.millis("loadline.queue", outcome.times.queue());
    attributes.millis("loadline.connect", outcome.times.connect());
    attributes.millis("loadline.first_byte", outcome.times.first_byte());
    let error = error(outcome.status, 500, failed(outcome.ending, outcome.status));
    attributes.end(outcome.status, error.as_deref());
    let remote = if told.parent.is_some() { PARENT_IS_REMOTE } else { 0 };
    Span {
        parent_span_id: told.parent.map(|it| it.bytes().to_vec()).unwrap_or_default(),
        flags: u32::from(told.context.flags()) | PARENT_IS_KNOWN | remote,
        kind: SpanKind::Server.into(),
        start_time_unix_nano: wall.at(outcome.times.received),
        end_time_unix_nano: wall.at(outcome.times.ended),
        attributes: attributes.0,
        status: Some(status(error.is_some())),
        ..named(told, told.context.span, told.route.as_deref())
    }
}

/// The span of one server that was asked.
fn client(told: &RequestSpan, (nth, asked_server): (usize, &AttemptSpan), wall: Wall) -> Span {
    let AttemptSpan { group, url, server, begun, sent, answered, ended, failed, .. } = asked_server;
    let mut attributes = asked(told);
    attributes.text("url.full", url);
    attributes.address("server", *server);
    attributes.text("loadline.group", group);
    let overflow = asked_server.overflow.map_or("", OverflowReason::name);
    attributes.text("loadline.overflow_reason", overflow);
    if nth > 0 {
        attributes.number("http.request.resend_count", nth as i64);
    }
    // The last one ends as the request does.
    let last = Some(told.outcome.ending).filter(|it| it.fault() != Fault::None);
    let ending = last.filter(|_| !asked_server.passed_over);
    let failed = failed.map(|ending| ending.name().to_owned());
    let error = failed.or_else(|| error(asked_server.status, 400, ending));
    attributes.end(asked_server.status, error.as_deref());
    let event = |name: &str, at: Option<Instant>| {
        let time_unix_nano = wall.at(at?);
        Some(Event { time_unix_nano, name: name.into(), ..Event::default() })
    };
    let events = [event("request.sent", *sent), event("response.begun", *answered)];
    Span {
        parent_span_id: told.context.span.bytes().to_vec(),
        flags: u32::from(told.context.flags()) | PARENT_IS_KNOWN,
        kind: SpanKind::Client.into(),
        start_time_unix_nano: wall.at(*begun),
        end_time_unix_nano: wall.at(*ended),
        attributes: attributes.0,
        events: events.into_iter().flatten().collect(),
        status: Some(status(error.is_some())),
        ..named(told, asked_server.span, None)
    }
}

/// A span with its ids and its name.
fn named(told: &RequestSpan, span: SpanId, route: Option<&str>) -> Span {
    let method = known(&told.method).unwrap_or("HTTP");
    Span {
        trace_id: told.context.trace.bytes().to_vec(),
        span_id: span.bytes().to_vec(),
        trace_state: told.state.clone(),
        name: route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}")),
        ..Span::default()
    }
}

/// What both kinds of spans say of a request.
fn asked(told: &RequestSpan) -> Attributes {
    let mut attributes = Attributes::default();
    match known(&told.method) {
        Some(method) => attributes.text("http.request.method", method),
        None => {
            attributes.text("http.request.method", "_OTHER");
            attributes.text("http.request.method_original", &told.method);
        }
    }
    attributes
}

/// A method that the conventions know; others could be made up by anybody.
fn known(method: &str) -> Option<&str> {
    METHODS.contains(&method).then_some(method)
}

/// The ending of a request, where that is an error of this side: a client that was told what it
/// did wrong is none, by the conventions for HTTP spans.
fn failed(ending: Ending, status: u16) -> Option<Ending> {
    match ending.fault() {
        Fault::None => None,
        Fault::Client if ending == Ending::Unauthorized || status / 100 == 4 => None,
        _ => Some(ending),
    }
}

/// The kind of an error, where it is one: a status from `worst` on, or an ending.
fn error(status: u16, worst: u16, ending: Option<Ending>) -> Option<String> {
    match ending {
        Some(ending) if status < worst => Some(ending.name().to_owned()),
        _ if status >= worst => Some(status.to_string()),
        _ => None,
    }
}

fn status(is_error: bool) -> Status {
    let code = if is_error { StatusCode::Error } else { StatusCode::Unset };
    Status { code: code.into(), ..Status::default() }
}

/// Host and port of a `Host`; an IPv6 address without its brackets.
fn split(host: &str) -> (&str, Option<u16>) {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
        _ => (host, None),
    };
    (name.trim_start_matches('[').trim_end_matches(']'), port)
}

/// Attributes of a span; what is empty is left out.
#[derive(Debug, Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, key: &str, value: Value) {
        let value = Some(AnyValue { value: Some(value) });
        self.0.push(KeyValue { key: key.into(), value, ..KeyValue::default() });
    }

    fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.add(key, Value::StringValue(value.into()));
        }
    }

    fn number(&mut self, key: &str, value: i64) {
        self.add(key, Value::IntValue(value));
    }

    fn millis(&mut self, key: &str, value: Option<Duration>) {
        if let Some(value) = value {
            self.add(key, Value::DoubleValue(value.as_nanos() as f64 / 1e6));
        }
    }

    fn address(&mut self, whose: &str, address: SocketAddr) {
        if let Some(path) = socket_path(address) {
            return self.text(&format!("{whose}.address"), &path);
        }
        self.text(&format!("{whose}.address"), &address.ip().to_string());
        self.number(&format!("{whose}.port"), address.port().into());
    }

    /// The status, 0 for none, and the error, if it was one.
    fn end(&mut self, status: u16, error: Option<&str>) {
        if status > 0 {
            self.number("http.response.status_code", status.into());
        }
        self.text("error.type", error.unwrap_or_default());
    }
}

/// By which version of the conventions the names are.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.23.0";

/// Those of RFC 9110 and PATCH, which the conventions know.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Flags of a span beyond those of the trace context (`SpanFlags` of OTLP).
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_split_from_its_port() {
        assert_eq!(split("a.example:8080"), ("a.example", Some(8080)));
        assert_eq!(split("a.example"), ("a.example", None));
        assert_eq!(split("[2001:db8::1]:80"), ("2001:db8::1", Some(80)));
        assert_eq!(split("[2001:db8::1]"), ("2001:db8::1", None));
    }

    #[test]
    fn an_error_is_a_status_or_an_ending() {
        assert_eq!(error(200, 500, None), None);
        assert_eq!(error(404, 400, None).as_deref(), Some("404"));
        assert_eq!(error(404, 500, None), None);
        assert_eq!(error(502, 500, Some(Ending::ServerReset)).as_deref(), Some("502"));
        assert_eq!(error(0, 500, Some(Ending::ClientGone)).as_deref(), Some("client-gone"));
        assert_eq!(error(200, 500, Some(Ending::ServerCut)).as_deref(), Some("server-cut"));
    }

    #[test]
    fn what_a_client_is_told_that_it_did_wrong_is_no_error_of_a_server_span() {
        for (ending, status, expected) in [
            (Ending::Unauthorized, 401, None),
            (Ending::Unauthorized, 403, None),
            // Where a login page stands is a matter of the service that lets clients in.
            (Ending::Unauthorized, 302, None),
            (Ending::Unauthorized, 503, Some("503")),
            (Ending::ClientTimeout, 408, None),
            (Ending::ClientBad, 413, None),
            (Ending::ClientBad, 501, Some("501")),
            (Ending::ClientGone, 0, Some("client-gone")),
            (Ending::ClientGone, 200, Some("client-gone")),
            (Ending::ServerCut, 404, Some("server-cut")),
            (Ending::Complete, 404, None),
        ] {
            let told = error(status, 500, failed(ending, status));
            assert_eq!(told.as_deref(), expected, "{ending:?} {status}");
        }
    }
}
