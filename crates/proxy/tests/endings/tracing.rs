//! Trace context passed on, and spans as a collector gets them.

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    process::Command,
    sync::{Arc, Mutex},
};

use loadline_core::{
    fleet::{AccessLog, Fleet, LogFormat, LogTarget, Tracing},
    rules::{Action, Conditions, Mirror, Path, Routes, Rule, Split},
    units::{Bytes, Ratio},
};

use crate::{
    collector::{Collector, tracing},
    support::{OK, Proxy, SHORT, Scripted, fleet, head, wait_until},
};

/// The example of the Recommendation.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A server that answers everything and keeps the heads.
struct Keeping {
    server: Scripted,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Keeping {
    fn new() -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = heads.clone();
        let server = Scripted::new(move |mut stream, _| {
            while let Some(head) = head(&mut stream) {
                kept.lock().unwrap().push(head);
                stream.write_all(OK).unwrap();
            }
        });
        Self { server, heads }
    }

    /// The values of a field in the last head.
    fn last(&self, name: &str) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        let named = |line: &str| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        };
        heads.last().unwrap().lines().filter_map(named).collect()
    }

    /// Trace, span and flags that the last head names.
    fn parent(&self) -> [String; 3] {
        let [parent] = &self.last("traceparent")[..] else { panic!("one traceparent") };
        let parts: Vec<&str> = parent.split('-').collect();
        let ["00", trace, span, flags] = parts[..] else { panic!("{parent}") };
        [trace, span, flags].map(str::to_owned)
    }
}

fn get(fields: &str) -> Vec<u8> {
    format!(
        "GET /a?token=hush HTTP/1.1\r\nHost: web.test:8080\r\nConnection: close\r\n{fields}\r\n"
    )
    .into_bytes()
}

fn with_parent(flags: &str) -> Vec<u8> {
    get(&format!(
        "TraceParent: 00-{TRACE}-{SPAN}-{flags}\r\ntracestate: a=1\r\nTracestate: b=2\r\n"
    ))
}

/// A fleet before this server whose access log is JSON, and that log.
fn logged(collector: &Collector, server: &Keeping) -> (tempfile::NamedTempFile, Fleet) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut fleet = collector.fleet(&[server.server.address], 0);
    let target = LogTarget::File(log.path().display().to_string());
    fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
    (log, fleet)
}

#[test]
fn a_request_is_a_child_of_who_asks_and_its_server_is_told_of_the_span_that_asks_it() {
    let (server, collector) = (Keeping::new(), Collector::answering(&[]));
    let (log, fleet) = logged(&collector, &server);
    let proxy = Proxy::of(fleet);
    proxy.ask(&with_parent("01"));
    proxy.runtime.stop(SHORT);

    let [requests, asked] = collector.expect(2);
    let (request, asked) = (&requests[0], &asked[0]);
    assert_eq!([&*request.trace, &*request.parent, &*request.state], [TRACE, SPAN, "a=1,b=2"]);
    assert_eq!([&*asked.trace, &asked.parent], [TRACE, &request.id]);
    assert_eq!(server.parent(), [TRACE, &asked.id, "01"]);
    assert_ne!(asked.id, request.id);
    assert_eq!(server.last("tracestate"), ["a=1", "b=2"]);
    assert_eq!([request.flags, asked.flags], [0x301, 0x101], "sampled; whose parent is remote");
    let line: serde_json::Value =
        serde_json::from_str(fs::read_to_string(log.path()).unwrap().trim()).unwrap();
    assert_eq!(line["trace_id"], TRACE);
}

#[test]
fn the_line_of_a_mirrored_copy_has_the_trace_and_its_server_is_told_of_the_span_of_the_request() {
    let (server, collector) = (Keeping::new(), Collector::answering(&[]));
    let (log, mut fleet) = logged(&collector, &server);
    let mirror =
        Mirror { service: 0, share: Ratio::ONE, body_max: Bytes::new(0), in_flight_max: 9 };
    let all = Conditions { paths: vec![Path::prefix("/").unwrap()], ..Conditions::default() };
    let rule = Rule::new(all, Action::Service(Split::all(0)));
    fleet.listeners[0].routes = Routes::new(vec![Rule { mirror: Some(mirror), ..rule }]);
    let proxy = Proxy::of(fleet);
    proxy.ask(&with_parent("01"));
    let lines = || fs::read_to_string(log.path()).unwrap();
    wait_until(|| lines().lines().count() == 2, "the lines of the request and of its copy");
    for line in lines().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["trace_id"], TRACE, "{line}");
    }
    let [requests, asked] = collector.expect(2);
    let told = |span: &str| format!("traceparent: 00-{TRACE}-{span}-01\r\n");
    let heads = server.heads.lock().unwrap();
    for span in [&requests[0].id, &asked[0].id] {
        assert!(heads.iter().any(|head| head.contains(&told(span))), "{span} in {heads:?}");
    }
}

#[test]
fn spans_say_what_was_asked_and_when_but_no_query() {
    let (server, collector) = (Keeping::new(), Collector::answering(&[]));
    let proxy = Proxy::of(collector.fleet(&[server.server.address], 100));
    proxy.ask(&get("User-Agent: curl/8\r\nCookie: id=hush\r\nAuthorization: Bearer hush\r\n"));
    let [requests, asked] = collector.expect(2);
    let (request, asked) = (&requests[0], &asked[0]);
    let port = server.server.address.port().to_string();
    for (span, key, value) in [
        (request, "http.request.method", "GET"),
        (request, "url.path", "/a"),
        (request, "url.scheme", "http"),
        (request, "server.address", "web.test"),
        (request, "server.port", "8080"),
        (request, "client.address", "127.0.0.1"),
        (request, "user_agent.original", "curl/8"),
        (request, "network.protocol.version", "1.1"),
        (request, "http.response.status_code", "200"),
        (request, "loadline.service", "web"),
        (request, "loadline.ending", "complete"),
        (request, "loadline.retries", "0"),
        (request, "error.type", ""),
        (asked, "http.request.method", "GET"),
        (asked, "url.full", &format!("http://127.0.0.1:{port}/a")),
        (asked, "server.address", "127.0.0.1"),
        (asked, "server.port", &port),
        (asked, "http.response.status_code", "200"),
        (asked, "http.request.resend_count", ""),
        (asked, "loadline.group", "here"),
    ] {
        assert_eq!(span.attribute(key), value, "{key}");
    }
    assert_eq!([&*request.name, &*asked.name], ["GET", "GET"]);
    assert_eq!(asked.events, ["request.sent", "response.begun"]);
    assert!(asked.times.is_sorted(), "{asked:?}");
    assert!(request.times[0] <= asked.times[0] && asked.times.last() <= request.times.last());
    for timer in ["loadline.queue", "loadline.connect", "loadline.first_byte"] {
        assert!(request.attribute(timer).parse::<f64>().is_ok(), "{timer}: {request:?}");
    }
    assert!(!format!("{request:?}{asked:?}").contains("hush"));
}

#[test]
fn each_server_that_is_asked_has_a_span() {
    let collector = Collector::answering(&[]);
    let heads = Arc::new(Mutex::new(Vec::new()));
    // Whichever is asked first says nothing.
    let servers = [(); 2].map(|()| {
        let heads = heads.clone();
        Scripted::new(move |mut stream, _| {
            while let Some(head) = head(&mut stream) {
                heads.lock().unwrap().push(head);
                if heads.lock().unwrap().len() == 1 {
                    return;
                }
                stream.write_all(OK).unwrap();
            }
        })
    });
    let proxy = Proxy::of(collector.fleet(&servers.map(|server| server.address), 100));
    proxy.ask(&get(""));
    let [requests, asked] = collector.expect(3);
    let [first, second] = &asked[..] else { panic!("two: {asked:?}") };
    assert_eq!(requests[0].attribute("loadline.retries"), "1");
    assert_eq!(first.attribute("error.type"), "server-reset");
    let statuses = [first, second].map(|span| span.attribute("http.response.status_code"));
    assert_eq!(statuses, ["", "200"]);
    assert_eq!(second.attribute("http.request.resend_count"), "1");
    assert_eq!([requests[0].is_error, first.is_error, second.is_error], [false, true, false]);
    let heads = heads.lock().unwrap();
    for (span, head) in asked.iter().zip(heads.iter()) {
        assert_eq!(span.parent, requests[0].id);
        assert!(head.contains(&format!("traceparent: 00-{}-{}-01\r\n", span.trace, span.id)));
    }
}

#[test]
fn the_span_of_a_server_whose_response_is_cut_has_the_status_that_it_began_with() {
    let collector = Collector::answering(&[]);
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this";
    let server = Scripted::answering_once(cut);
    let proxy = Proxy::of(collector.fleet(&[server.address], 100));
    proxy.ask(&get(""));
    let [requests, asked] = collector.expect(2);
    for span in [&requests[0], &asked[0]] {
        assert_eq!(span.attribute("http.response.status_code"), "200", "{span:?}");
        assert_eq!((span.attribute("error.type"), span.is_error), ("server-cut", true));
    }
}

#[test]
fn what_cannot_be_read_begins_a_trace_anew() {
    let (server, collector) = (Keeping::new(), Collector::answering(&[]));
    let proxy = Proxy::of(collector.fleet(&[server.server.address], 100));
    let good = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    let (zero, upper) =
        (good.replace(TRACE, &"0".repeat(32)), good.replace(TRACE, &"A".repeat(32)));
    for fields in ["", &zero, &upper, &good.replace("00-4", "ff-4"), &format!("{good}{good}")] {
        proxy.ask(&get(&format!("{fields}tracestate: a=1\r\n")));
        let [trace, _, flags] = server.parent();
        assert_ne!(trace, TRACE, "{fields}");
        assert_eq!((flags.as_str(), server.last("tracestate").len()), ("01", 0), "{fields}");
    }
    let [requests, _] = collector.expect(10);
    assert!(requests.iter().all(|it| it.parent.is_empty() && it.state.is_empty()));
    assert!(requests.iter().all(|it| it.flags == 0x101));
    // One of a version to come is read, and answered in ours.
    proxy.ask(&get(&good.replace("00-4", "cc-4").replace("-01", "-01-later")));
    assert_eq!(server.parent()[0], TRACE);
}

#[test]
fn whether_a_request_is_sampled_is_decided_once_and_for_all_behind() {
    let (server, collector) = (Keeping::new(), Collector::answering(&[]));
    let none = Proxy::of(collector.fleet(&[server.server.address], 0));
    none.ask(&get(""));
    assert_eq!(server.parent()[2], "00");
    let all = Proxy::of(collector.fleet(&[server.server.address], 100));
    all.ask(&with_parent("00"));
    let [trace, span, flags] = server.parent();
    assert_eq!([&*trace, &*flags], [TRACE, "00"]);
    assert_ne!(span, SPAN);
    all.ask(&with_parent("03"));
    assert_eq!(server.parent()[2], "03", "the flag `random` goes with the id");
    let [requests, _] = collector.expect(2);
    assert_eq!(requests[0].trace, TRACE);
}

#[test]
fn a_rule_names_the_route_and_its_answer_is_a_span_without_a_server() {
    let (server, collector) = (Keeping::new(), Collector::answering(&[]));
    let mut fleet = collector.fleet(&[server.server.address], 100);
    let rule = |path: &str, action| {
        Rule::new(
            Conditions { paths: vec![Path::prefix(path).unwrap()], ..Conditions::default() },
            action,
        )
    };
    let gone =
        loadline_core::rules::DirectResponse { status: 410, headers: vec![], body: String::new() };
    fleet.listeners[0].routes = Routes::new(vec![
        rule("/gone/", Action::Respond(gone)),
        rule("/a/", Action::Service(Split::all(0))),
        rule("/", Action::Service(Split::all(0))),
    ]);
    let proxy = Proxy::of(fleet);
    proxy.ask(&get(""));
    proxy.ask(b"BREW /gone/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    proxy.ask(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let [requests, asked] = collector.expect(5);
    let names: Vec<&str> = requests.iter().map(|request| &*request.name).collect();
    assert_eq!(names, ["GET /a/", "HTTP /gone/", "GET /"]);
    let [answered, ruled] = [&requests[0], &requests[1]];
    let routes = [answered.attribute("http.route"), ruled.attribute("http.route")];
    assert_eq!(routes, ["/a/", "/gone/"], "as the file has them");
    assert_eq!(ruled.attribute("http.request.method"), "_OTHER");
    assert_eq!(ruled.attribute("http.request.method_original"), "BREW");
    assert_eq!(ruled.attribute("http.response.status_code"), "410");
    assert_eq!((ruled.is_error, ruled.attribute("loadline.ending")), (false, "ruled"));
    assert_eq!(asked[0].parent, answered.id);
}

#[test]
fn a_stream_of_http2_has_spans_of_its_own() {
    let (server, collector) = (Keeping::new(), Collector::answering(&[]));
    let proxy = Proxy::of(collector.fleet(&[server.server.address], 0));
    let url = format!("http://{}/a", proxy.address);
    let parent = format!("traceparent: 00-{TRACE}-{SPAN}-01");
    let args = ["-sS", "--http2-prior-knowledge", "-H", &parent, &url];
    let curl = Command::new("curl").args(args).output().unwrap();
    assert_eq!(curl.stdout, b"ok", "{}", String::from_utf8_lossy(&curl.stderr));
    let [requests, asked] = collector.expect(2);
    assert_eq!([&*requests[0].trace, &*requests[0].parent], [TRACE, SPAN]);
    assert_eq!(requests[0].attribute("network.protocol.version"), "2");
    assert_eq!(server.parent(), [TRACE, &asked[0].id, "01"]);
}

#[test]
fn a_collector_that_hangs_costs_spans_and_nothing_else() {
    let server = Scripted::answering(OK);
    // It is connected to, and never answers.
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut fleet = fleet(&[server.address]);
    let tracing = tracing(hanging.local_addr().unwrap(), 100);
    fleet.edge.tracing = Some(Tracing { queue: 4, ..tracing });
    let proxy = Proxy::of(fleet);
    for _ in 0..50 {
        assert!(proxy.get().ends_with("ok"));
    }
    // One batch is under way, the queue is full, and each request has two spans.
    let dropped = || proxy.runtime.tallies().spans_dropped;
    wait_until(|| dropped() >= 2 * (50 - 4 - 4), "spans are given up");
    assert_eq!((dropped() % 2, proxy.runtime.tallies().spans_exported), (0, 0));
}

#[test]
fn spans_wait_for_a_collector_that_has_no_time_and_are_given_up_where_it_refuses_them() {
    let server = Scripted::answering(OK);
    let busy = Collector::answering(&[503]);
    let proxy = Proxy::of(busy.fleet(&[server.address], 100));
    proxy.get();
    busy.expect(2);
    wait_until(|| proxy.runtime.tallies().spans_exported == 2, "they are counted");
    assert_eq!(proxy.runtime.tallies().spans_dropped, 0);

    let refusing = Collector::answering(&[400]);
    let proxy = Proxy::of(refusing.fleet(&[server.address], 100));
    proxy.get();
    wait_until(|| proxy.runtime.tallies().spans_dropped == 2, "they are given up");
    proxy.get();
    refusing.expect(2);
}
