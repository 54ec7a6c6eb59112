//! The trace of one request: its ids, the headers that carry them, its attempts.
//!
//! What is needed for a span alone is only kept where the request is sampled. Of the request that
//! is method, path, host and `User-Agent`: no query and no other header, for they hold secrets.

use std::net::SocketAddr;

use loadline_core::{
    decide::{ending::Ending, overflow_reason::OverflowReason},
    fleet::socket_path,
    rules::{
        self, Rule, normal,
        trace::{SpanId, TraceContext, TraceId},
    },
    time::Instant,
};
use loadline_http1::RequestHead;

use super::Spans;
use crate::{runtime::random::Random, telemetry::access_log::Times};

/// A request that is on its way.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Its own span.
    context: TraceContext,
    /// What its spans say; none where it is not sampled.
    told: Option<Box<RequestSpan>>,
    /// Whether it is that of a mirrored copy.
    is_copy: bool,
}

/// What the spans of a request say.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    pub(super) context: TraceContext,
    pub(super) parent: Option<SpanId>,
    /// The `tracestate` it came with.
    pub(super) state: String,
    pub(super) method: String,
    /// Without its query.
    pub(super) path: String,
    /// The pattern for the path, of the rule that decided.
    pub(super) route: Option<String>,
    pub(super) host: String,
    pub(super) agent: String,
    pub(super) scheme: &'static str,
    pub(super) tries: Vec<AttemptSpan>,
    pub(super) outcome: Outcome,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) client: SocketAddr,
    /// `HTTP/1.1` and so on.
    pub(crate) version: &'static str,
    pub(crate) service: String,
    /// 0 where the client was told nothing.
    pub(crate) status: u16,
    pub(crate) ending: Ending,
    pub(crate) retries: u32,
    pub(crate) times: Times,
}

/// The span of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptSpan {
    pub(super) span: SpanId,
    pub(super) group: String,
    /// Why it was not the nearest group.
    pub(super) overflow: Option<OverflowReason>,
    /// Without its query.
    pub(super) url: String,
    pub(super) server: SocketAddr,
    pub(super) begun: Instant,
    pub(super) sent: Option<Instant>,
    pub(super) answered: Option<Instant>,
    pub(super) ended: Instant,
    /// How it failed, where another followed.
    pub(super) failed: Option<Ending>,
    /// The status of its response, 0 where no head came.
    pub(super) status: u16,
    /// The client was not given its response, and another followed.
    pub(super) passed_over: bool,
}

impl Trace {
    /// The trace of a request with this head, for which `rule` has decided; its ids replace those
    /// in `text`, the head as it goes to a server.
    pub(crate) fn begin(
        spans: &Spans,
        random: &Random,
        (head, bytes): (&RequestHead, &[u8]),
        (scheme, rule): (&'static str, Option<&Rule>),
        text: &mut Vec<u8>,
    ) -> Box<Self> {
        let parent = parent(head, bytes);
        let draws = [random.draw(), random.draw(), random.draw()];
        let context = TraceContext::begin(parent.as_ref(), spans.sampler, draws);
        let has_parent = parent.is_some();
        drop_fields(text, |name| is(name, PARENT) || (!has_parent && is(name, STATE)));
        write(text, &context);
        let parent = parent.map(|parent| parent.span);
        let told = || Box::new(RequestSpan::of((head, bytes), (scheme, rule), context, parent));
        Box::new(Self { context, told: context.is_sampled().then(told), is_copy: false })
    }

    /// The same for a mirrored copy, which has no spans: its server is told of the request's.
    pub(crate) fn of_copy(&self) -> Box<Self> {
        Box::new(Self { context: self.context, told: None, is_copy: true })
    }

    /// Which trace it is.
    pub(crate) const fn id(&self) -> TraceId {
        self.context.trace
    }

    /// Whether times are to be measured for its spans.
    pub(crate) const fn is_sampled(&self) -> bool {
        self.told.is_some()
    }

    /// Begins the span of a server that is asked, which is told of it by `text`.
    pub(crate) fn ask(
        &mut self,
        text: &mut [u8],
        draw: u64,
        (group, overflow, scheme): (&str, Option<OverflowReason>, &'static str),
        (server, begun): (SocketAddr, Instant),
    ) {
        if self.is_copy {
            return;
        }
        let span = self.context.child(draw).span;
        tell(text, span);
        let Some(told) = &mut self.told else { return };
        told.tries.push(AttemptSpan {
            span,
            group: group.to_owned(),
            overflow,
            url: url((scheme, server, &told.host), path(text)),
            server,
            begun,
            sent: None,
            answered: None,
            ended: Instant::ZERO,
            failed: None,
            status: 0,
            passed_over: false,
        });
    }

    /// Ends the span of a server that failed, so that another is asked or the client is told.
    pub(crate) fn fail(&mut self, ending: Ending, now: Instant, times: &Times) {
        let Some(last) = self.told.as_mut().and_then(|told| told.tries.last_mut()) else { return };
        last.end(now, times);
        last.failed = Some(ending);
    }

    /// Keeps the status of the server that is asked, now that the head of its response has come.
    pub(crate) fn hear(&mut self, status: u16) {
        let Some(last) = self.told.as_mut().and_then(|told| told.tries.last_mut()) else { return };
        last.status = status;
    }

    /// Takes back the span of a server to which nothing was sent.
    pub(crate) fn forget(&mut self) {
        if let Some(told) = &mut self.told {
            told.tries.pop();
        }
    }

    /// Ends the span of a server whose response the client is not given.
    pub(crate) fn pass_over(&mut self, now: Instant, times: &Times) {
        let Some(last) = self.told.as_mut().and_then(|told| told.tries.last_mut()) else { return };
        last.end(now, times);
        last.passed_over = true;
    }

    /// Hands the spans over, now that the request has ended.
    pub(crate) fn end(self, spans: &Spans, outcome: impl FnOnce() -> Outcome) {
        let Some(mut told) = self.told else { return };
        told.outcome = outcome();
        let times = told.outcome.times;
        for open in told.tries.iter_mut().filter(|open| open.ended == Instant::ZERO) {
            open.end(times.ended, &times);
        }
        spans.hand_over(told);
    }
}

impl AttemptSpan {
    fn end(&mut self, now: Instant, times: &Times) {
        let of_this = |at: &Instant| *at >= self.begun;
        self.sent = times.sent.filter(of_this);
        self.answered = times.answered.filter(of_this);
        self.ended = now;
    }
}

impl RequestSpan {
    fn of(
        (head, bytes): (&RequestHead, &[u8]),
        (scheme, rule): (&'static str, Option<&Rule>),
        context: TraceContext,
        parent: Option<SpanId>,
    ) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let field = |name| head.fields().get(bytes, name).map(text).unwrap_or_default();
        let path = without_query(head.path(bytes));
        let states = head.fields().iter(bytes).filter(|field| is(field.0, STATE));
        let states: Vec<&[u8]> = states.map(|field| field.1).collect();
        Self {
            context,
            parent,
            state: if parent.is_some() { text(&states.join(&b","[..])) } else { String::new() },
            method: text(head.method_text(bytes)),
            path: text(if path.is_empty() { b"/" } else { path }),
            route: rule.and_then(|rule| route(rule, path)),
            host: text(head.host(bytes).unwrap_or_default()),
            agent: field("user-agent"),
            scheme,
            tries: Vec::new(),
            outcome: Outcome::unknown(),
        }
    }

    /// How many spans it makes.
    pub(super) fn spans(&self) -> u64 {
        1 + self.tries.len() as u64
    }
}

/// The URL of `path` at a server; of a Unix socket, with the requested host.
fn url((scheme, server, host): (&str, SocketAddr, &str), path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    match socket_path(server) {
        Some(_) if host.is_empty() => format!("{scheme}://localhost{path}"),
        Some(_) => format!("{scheme}://{host}{path}"),
        None => format!("{scheme}://{server}{path}"),
    }
}

impl Outcome {
    /// The values before the end.
    fn unknown() -> Self {
        Self {
            client: SocketAddr::from(([0; 4], 0)),
            version: "",
            service: String::new(),
            status: 0,
            ending: Ending::Drained,
            retries: 0,
            times: Times::default(),
        }
    }
}

/// The span of whoever asks. Of two nobody knows which is right (W3C Trace Context, 3.2).
fn parent(head: &RequestHead, bytes: &[u8]) -> Option<TraceContext> {
    let mut parents = head.fields().iter(bytes).filter(|field| is(field.0, PARENT));
    let (_, value) = parents.next()?;
    if parents.next().is_some() {
        return None;
    }
    TraceContext::parse(value)
}

/// The pattern of the rule that is for this path, as the file has it.
fn route(rule: &Rule, path: &[u8]) -> Option<String> {
    let mut scratch = Vec::new();
    let path = normal::path(path, &mut scratch);
    let pattern = rule.when.paths.iter().find(|pattern| pattern.matches(path))?;
    Some(match pattern {
        rules::Path::Exact(text) => text.clone(),
        rules::Path::Prefix(text) => format!("{text}/"),
        rules::Path::Regex(regex) => format!("~{}", regex.as_str()),
    })
}

fn without_query(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr(b'?', target).unwrap_or(target.len())]
}

/// The path in the request line of a head for a server.
fn path(head: &[u8]) -> &[u8] {
    without_query(head.split(|byte| *byte == b' ').nth(1).unwrap_or_default())
}

/// Takes the fields whose names are to be dropped out of a head.
fn drop_fields(head: &mut Vec<u8>, is_dropped: impl Fn(&[u8]) -> bool) {
    let (mut kept, mut start) = (0, 0);
    while let Some(length) = memchr::memchr(b'\n', &head[start..]) {
        let end = start + length + 1;
        let name = memchr::memchr(b':', &head[start..end]).unwrap_or(0);
        if !is_dropped(&head[start..start + name]) {
            head.copy_within(start..end, kept);
            kept += end - start;
        }
        start = end;
    }
    head.truncate(kept);
}

/// Writes the field into a head.
fn write(head: &mut Vec<u8>, context: &TraceContext) {
    head.truncate(head.len() - b"\r\n".len());
    head.extend_from_slice(b"traceparent: ");
    head.extend_from_slice(context.to_string().as_bytes());
    head.extend_from_slice(b"\r\n\r\n");
}

/// Names the span that asks in a head with the field. Where that stands may have changed since it
/// was written: other fields come and go, and a rule or an auth service may have set it.
fn tell(head: &mut [u8], span: SpanId) {
    let Some(line) = memchr::memmem::find(head, WRITTEN) else { return };
    let value = &mut head[line + WRITTEN.len()..];
    if memchr::memchr(b'\r', value) == Some(VALUE) {
        let id = span.to_string();
        value[BEFORE_SPAN..BEFORE_SPAN + id.len()].copy_from_slice(id.as_bytes());
    }
}

fn is(name: &[u8], other: &str) -> bool {
    name.eq_ignore_ascii_case(other.as_bytes())
}

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// What stands before its value, the end of the line before included.
const WRITTEN: &[u8] = b"\ntraceparent: ";

/// Version, trace, span and flags, with the dashes between them.
const VALUE: usize = 55;

/// Version, trace and their dashes.
const BEFORE_SPAN: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_dropped_from_a_head_by_their_names_in_any_case() {
        let head = "GET /tracestate:x HTTP/1.1\r\nTraceParent: 1\r\nHost: a:1\r\n\
                    traceparent:2\r\ntracestate: a=traceparent:\r\n\r\n";
        let mut text = head.as_bytes().to_vec();
        drop_fields(&mut text, |name| is(name, PARENT));
        let expected =
            "GET /tracestate:x HTTP/1.1\r\nHost: a:1\r\ntracestate: a=traceparent:\r\n\r\n";
        assert_eq!(str::from_utf8(&text), Ok(expected));
    }

    #[test]
    fn a_value_that_is_no_trace_is_left_as_it_is_with_the_lines_behind_it() {
        let span = TraceContext::parse(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let span = span.unwrap().span;
        for value in ["none".to_owned(), "x".repeat(54), "x".repeat(56)] {
            let head = format!(
                "GET / HTTP/1.1\r\nHost: a\r\ntraceparent: {value}\r\n\
                 Remote-User: alice\r\nX-Long: 0123456789012345678901234567890123456789\r\n\r\n"
            );
            let mut told = head.clone().into_bytes();
            tell(&mut told, span);
            assert_eq!(str::from_utf8(&told), Ok(&*head));
        }
    }

    #[test]
    fn the_span_of_the_one_who_asks_is_told_also_where_fields_have_come_and_gone_since() {
        let value = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::parse(value).unwrap();
        let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        write(&mut text, &context);
        assert!(text.ends_with(
            b"Host: a\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-\
            00f067aa0ba902b7-01\r\n\r\n"
        ));
        let asking = context.child(7).span;
        let text = String::from_utf8(text).unwrap();
        for (before, after) in [("", ""), ("X-User: mallory\r\n", ""), ("", "X-User: alice\r\n")] {
            let changed = text.replace("Host: a\r\n", before);
            let changed = changed.replace("\r\n\r\n", &format!("\r\n{after}\r\n"));
            let mut told = changed.clone().into_bytes();
            tell(&mut told, asking);
            let expected = changed.replace("00f067aa0ba902b7", &asking.to_string());
            assert_eq!(str::from_utf8(&told), Ok(&*expected));
        }
    }
}
