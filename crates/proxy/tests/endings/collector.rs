//! A collector of spans: takes batches of OTLP over HTTP, and keeps what they hold.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use loadline_core::{
    fleet::{Fleet, Tracing},
    units::Ratio,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{self, span::SpanKind, status::StatusCode},
};
use prost::Message as _;

use crate::support::{Scripted, fleet, head, wait_until};

/// A running collector.
pub(crate) struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

/// A span, in words that a test can compare.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty without a parent.
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) name: String,
    pub(crate) is_server: bool,
    pub(crate) is_error: bool,
    pub(crate) flags: u32,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) events: Vec<String>,
    /// In nanoseconds since 1970: its beginning, its events, its end.
    pub(crate) times: Vec<u64>,
}

impl Collector {
    /// One that answers its first batches with these statuses, and takes what comes then.
    pub(crate) fn answering(statuses: &'static [u16]) -> Self {
        let spans = Arc::new(Mutex::new(Vec::new()));
        let statuses = Mutex::new(statuses.iter().copied());
        let taken = spans.clone();
        let server = Scripted::new(move |mut stream, _| {
            while let Some(head) = head(&mut stream) {
                let head = head.to_ascii_lowercase();
                assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
                assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.unwrap().parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let status = statuses.lock().unwrap().next().unwrap_or(200);
                if status == 200 {
                    taken.lock().unwrap().extend(spans_of(&body));
                }
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { address: server.address, spans }
    }

    /// A fleet of these servers that sends it spans, of this share of the traces.
    pub(crate) fn fleet(&self, servers: &[SocketAddr], percent: u32) -> Fleet {
        let mut fleet = fleet(servers);
        fleet.edge.tracing = Some(tracing(self.address, percent));
        fleet
    }

    /// Waits for so many spans: those of requests, and those of servers asked, by time.
    pub(crate) fn expect(&self, count: usize) -> [Vec<Span>; 2] {
        wait_until(|| self.spans.lock().unwrap().len() >= count, "the spans");
        let mut spans = self.spans.lock().unwrap().clone();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans.sort_by_key(|span| span.times.clone());
        let (servers, clients) = spans.into_iter().partition(|span| span.is_server);
        [servers, clients]
    }
}

/// Tracing of this share of the traces, by the collector at this address.
pub(crate) fn tracing(collector: SocketAddr, percent: u32) -> Tracing {
    Tracing { sample: Ratio::percent(percent), ..Tracing::to(&collector.to_string()) }
}

impl Span {
    pub(crate) fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    fn of(span: v1::Span) -> Self {
        let events: Vec<(u64, String)> =
            span.events.into_iter().map(|event| (event.time_unix_nano, event.name)).collect();
        let begin_and_end = [span.start_time_unix_nano, span.end_time_unix_nano];
        let mut times = events.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        times.insert(0, begin_and_end[0]);
        times.push(begin_and_end[1]);
        let kind = SpanKind::try_from(span.kind).unwrap();
        assert!(matches!(kind, SpanKind::Server | SpanKind::Client));
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            state: span.trace_state,
            name: span.name,
            is_server: kind == SpanKind::Server,
            is_error: span.status.unwrap().code == i32::from(StatusCode::Error),
            flags: span.flags,
            attributes: words(span.attributes),
            events: events.into_iter().map(|(_, name)| name).collect(),
            times,
        }
    }
}

fn spans_of(batch: &[u8]) -> Vec<Span> {
    let batch = ExportTraceServiceRequest::decode(batch).unwrap();
    let of_resource = batch.resource_spans.into_iter().flat_map(|of_resource| {
        let resource = words(of_resource.resource.unwrap().attributes);
        assert_eq!(resource["service.name"], "loadline");
        of_resource.scope_spans
    });
    of_resource.flat_map(|of_scope| of_scope.spans).map(Span::of).collect()
}

fn words(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let word = |value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.into_iter().map(|it| (it.key, word(it.value.unwrap().value.unwrap()))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
