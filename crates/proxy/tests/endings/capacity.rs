//! Capacity: limits hold, the excess overflows, waits or is shed, and each has its name.

use std::{
    io::Write as _,
    net::TcpStream,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{
        AccessLog, Capacity, Fleet, HealthCheck, LogField, LogFormat, LogTarget, PolicyKind, Probe,
        Then, WhenFull,
    },
    state::ServiceCounter,
    time::Duration,
    units::Ratio,
};
use serde_json::Value;

use crate::{
    collector::Collector,
    support::{OK, Proxy, SHORT, Scripted, fleet, head, nobody, until_closed, wait_until},
};

/// A server that answers only when it is let, and knows how many requests it held at most.
struct Gate {
    server: Scripted,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    open: Mutex<bool>,
    opened: Condvar,
    held: AtomicUsize,
    held_most: AtomicUsize,
}

impl Gate {
    fn new() -> Self {
        let state = Arc::new(State::default());
        let inner = state.clone();
        let server = Scripted::new(move |mut stream, _| {
            while head(&mut stream).is_some() {
                let held = inner.held.fetch_add(1, Relaxed) + 1;
                inner.held_most.fetch_max(held, Relaxed);
                let closed = |open: &mut bool| !*open;
                drop(inner.opened.wait_while(inner.open.lock().unwrap(), closed).unwrap());
                inner.held.fetch_sub(1, Relaxed);
                stream.write_all(OK).unwrap();
            }
        });
        Self { server, state }
    }

    fn open(&self) {
        *self.state.open.lock().unwrap() = true;
        self.state.opened.notify_all();
    }

    fn holds(&self, count: usize) {
        wait_until(|| self.state.held.load(Relaxed) == count, "the server to hold requests");
    }
}

fn limited(gate: &Gate, when_full: WhenFull) -> Fleet {
    let mut fleet = fleet(&[gate.server.address]);
    fleet.services[0].when_full = when_full;
    fleet.services[0].groups[0].capacity =
        Capacity { max_in_flight: Some(2), ..Capacity::default() };
    fleet
}

/// The same with a second group of this server, farther away.
fn near_and_far(near: &Gate, far: &Scripted) -> Fleet {
    let mut fleet = limited(near, WhenFull::Shed);
    let mut next = fleet.services[0].groups[0].clone();
    next.name = "far".into();
    next.region = "far".into();
    next.rtt = Some(Duration::from_millis(30));
    next.servers[0].address = far.address;
    fleet.services[0].groups.push(next);
    fleet
}

fn queue(timeout: Duration, length: u32) -> WhenFull {
    WhenFull::Queue { timeout, length, then: Then::Shed }
}

/// A GET under way on a thread of its own.
fn asking(proxy: &Proxy) -> JoinHandle<String> {
    let mut stream = proxy.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    thread::spawn(move || until_closed(&mut stream))
}

fn all_served(held: [JoinHandle<String>; 2]) {
    for answer in held {
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn what_does_not_fit_is_shed_with_a_time_to_come_back() {
    let gate = Gate::new();
    let proxy = Proxy::of(limited(&gate, WhenFull::Shed));
    let held = [asking(&proxy), asking(&proxy)];
    gate.holds(2);
    let shed = proxy.get();
    assert!(shed.starts_with("HTTP/1.1 503 ") && shed.contains("Retry-After: "), "{shed}");
    proxy.expect(Ending::Shed, 1);
    gate.open();
    all_served(held);
}

#[test]
fn what_waits_is_served_in_turn_and_never_more_than_the_limit_at_once() {
    let gate = Gate::new();
    let proxy = Proxy::of(limited(&gate, queue(Duration::from_secs(5), 100)));
    let asking: Vec<_> = (0..20).map(|_| asking(&proxy)).collect();
    gate.holds(2);
    gate.open();
    for answer in asking {
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(gate.state.held_most.load(Relaxed), 2);
    proxy.expect(Ending::Complete, 20);
}

/// How many requests have waited.
fn queued(proxy: &Proxy) -> u64 {
    let services = proxy.runtime.tallies().services;
    services.get("web").map_or(0, |it| it.counters[ServiceCounter::Queued])
}

#[test]
fn the_queue_has_a_length_and_a_time() {
    let gate = Gate::new();
    let proxy = Proxy::of(limited(&gate, queue(Duration::from_secs(1), 1)));
    let held = [asking(&proxy), asking(&proxy)];
    gate.holds(2);
    let rest: Vec<_> = (0..2).map(|_| asking(&proxy)).collect();
    for answer in rest {
        let answer = answer.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: "));
    }
    let tallies = proxy.runtime.tallies();
    assert_eq!((tallies.count(Ending::QueueFull), tallies.count(Ending::QueueTimeout)), (1, 1));
    gate.open();
    all_served(held);
}

#[test]
fn the_access_log_has_how_long_a_request_waited_that_never_got_out_of_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    for (ending, timeout) in [("queue-timeout", SHORT), ("drained", Duration::from_secs(30))] {
        let gate = Gate::new();
        let path = folder.path().join(ending);
        let target = LogTarget::File(path.display().to_string());
        let mut fleet = limited(&gate, queue(timeout, 1));
        fleet.edge.access_log =
            Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
        let proxy = Proxy::of(fleet);
        let mut clients = vec![asking(&proxy), asking(&proxy)];
        gate.holds(2);
        clients.push(asking(&proxy));
        wait_until(|| queued(&proxy) == 1, "the third to wait");
        if timeout == SHORT {
            proxy.expect(Ending::QueueTimeout, 1);
        }
        proxy.runtime.stop(SHORT);
        let log = std::fs::read_to_string(path).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let unsent: Vec<Value> = lines.filter(|it: &Value| it["server"].is_null()).collect();
        let [line] = &unsent[..] else { panic!("one line: {log}") };
        assert_eq!(line["ending"], ending, "{line}");
        let waited = line["queue_ms"].as_f64().unwrap_or_default();
        let total = line["total_ms"].as_f64().unwrap();
        assert!((SHORT.as_nanos() as f64 / 2e6..=total).contains(&waited), "{line}");
        gate.open();
    }
}

#[test]
fn a_client_that_leaves_the_queue_makes_room() {
    let gate = Gate::new();
    let proxy = Proxy::of(limited(&gate, queue(Duration::from_secs(5), 1)));
    let held = [asking(&proxy), asking(&proxy)];
    gate.holds(2);
    let mut leaving = TcpStream::connect(proxy.address).unwrap();
    leaving.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until(|| queued(&proxy) == 1, "the queue to be full");
    drop(leaving);
    let left = || proxy.runtime.tallies().count(Ending::ClientGone) == 1;
    wait_until(left, "the client to be missed");
    let next = asking(&proxy);
    gate.open();
    assert!(next.join().unwrap().starts_with("HTTP/1.1 200 "));
    all_served(held);
}

#[test]
fn what_overflows_for_want_of_a_connection_is_no_failure_of_the_full_server() {
    let (near, far) = (Gate::new(), Scripted::answering(OK));
    let (collector, log) = (Collector::answering(&[]), tempfile::NamedTempFile::new().unwrap());
    let mut fleet = near_and_far(&near, &far);
    fleet.services[0].groups[0].servers[0].max_connections = 1;
    fleet.edge.tracing = collector.fleet(&[], 100).edge.tracing;
    let target = LogTarget::File(log.path().display().to_string());
    fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, ..AccessLog::to(target) });
    let proxy = Proxy::of(fleet);
    let held = asking(&proxy);
    near.holds(1);
    assert!(proxy.get().starts_with("HTTP/1.1 200 "));
    let [requests, asked] = collector.expect(2);
    assert_eq!(asked[0].attribute("loadline.overflow_reason"), "max-connections");
    assert_eq!((asked[0].is_error, asked[0].attribute("http.request.resend_count")), (false, ""));
    assert_eq!(requests[0].attribute("loadline.retries"), "0");
    let tallies = proxy.runtime.tallies();
    assert_eq!(tallies.services["web"].reasons.iter().sum::<u64>(), 0);
    near.open();
    assert!(held.join().unwrap().starts_with("HTTP/1.1 200 "));
    proxy.runtime.stop(SHORT);
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
    for line in log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert!(line["ending"] == "complete" && line["reason"].is_null(), "{line}");
    }
}

#[test]
fn the_excess_goes_to_the_next_group_and_comes_back() {
    let (near, far) = (Gate::new(), Scripted::answering(OK));
    let proxy = Proxy::of(near_and_far(&near, &far));
    let held = [asking(&proxy), asking(&proxy)];
    near.holds(2);
    (0..5).for_each(|_| assert!(proxy.get().starts_with("HTTP/1.1 200 ")));
    assert_eq!(proxy.runtime.tallies().services["web"].counters[ServiceCounter::Overflowed], 5);
    near.open();
    all_served(held);
    (0..5).for_each(|_| assert!(proxy.get().starts_with("HTTP/1.1 200 ")));
    assert_eq!(
        proxy.runtime.tallies().services["web"].counters[ServiceCounter::Overflowed],
        5,
        "near again"
    );
}

#[test]
fn the_access_log_and_spans_say_why_a_request_went_past_the_nearest_group() {
    let (near, far) = (Gate::new(), Scripted::answering(OK));
    let (collector, folder) = (Collector::answering(&[]), tempfile::tempdir().unwrap());
    let path = folder.path().join("access.log");
    let log = AccessLog::to(LogTarget::File(path.display().to_string()));
    let fields = vec![LogField::OverflowReason];
    let mut fleet = near_and_far(&near, &far);
    fleet.edge.tracing = collector.fleet(&[], 100).edge.tracing;
    fleet.edge.access_log = Some(AccessLog { format: LogFormat::Json, fields, ..log });
    let proxy = Proxy::of(fleet);
    let held = [asking(&proxy), asking(&proxy)];
    near.holds(2);
    assert!(proxy.get().starts_with("HTTP/1.1 200 "));
    near.open();
    all_served(held);
    proxy.runtime.stop(SHORT);

    let log = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reason_of = |group: &str| match group {
        "far" => "max-in-flight",
        _ => "",
    };
    assert_eq!(lines.len(), 3, "{log}");
    for line in &lines {
        let reason = line["overflow_reason"].as_str().unwrap_or_default();
        assert_eq!(reason, reason_of(line["group"].as_str().unwrap()), "{line}");
    }
    let [_, asked] = collector.expect(6);
    for span in &asked {
        let reason = span.attribute("loadline.overflow_reason");
        assert_eq!(reason, reason_of(span.attribute("loadline.group")), "{span:?}");
    }
    assert!(asked.iter().any(|span| span.attribute("loadline.group") == "far"), "{asked:?}");
}

#[test]
fn with_every_server_down_requests_are_refused_by_name() {
    let mut fleet = fleet(&[nobody()]);
    fleet.services[0].health = Some(HealthCheck {
        probe: Probe::Tcp,
        interval: Duration::from_secs(60),
        fast_interval: Duration::from_secs(60),
        timeout: SHORT,
        rise: 1,
        fall: 1,
        lenient: false,
    });
    let proxy = Proxy::of(fleet);
    let down = || {
        proxy.get();
        proxy.runtime.tallies().count(Ending::NoServer) > 0
    };
    wait_until(down, "the check to fail");
    assert!(proxy.get().starts_with("HTTP/1.1 503 "));
}

#[test]
fn a_group_over_its_utilization_keeps_its_excess_out() {
    const LOADED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\
        endpoint-load-metrics: TEXT cpu_utilization=2.0\r\n\r\nok";
    let (near, far) = (Scripted::answering(LOADED), Scripted::answering(OK));
    let mut fleet = fleet(&[near.address]);
    let group = &mut fleet.services[0].groups[0];
    group.capacity.max_utilization = Some(Ratio::percent(50));
    let mut next = group.clone();
    next.name = "far".into();
    next.rtt = Some(Duration::from_millis(30));
    next.servers[0].address = far.address;
    fleet.services[0].groups.push(next);
    let proxy = Proxy::of(fleet);
    let overflowed = || {
        proxy.get();
        proxy.runtime.tallies().services["web"].counters[ServiceCounter::Overflowed] > 5
    };
    wait_until(overflowed, "the report to be heeded");
}

/// Nothing limits the load of the servers, and one says that it has much.
#[test]
fn managed_weights_go_by_what_servers_report() {
    const BUSY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\
        endpoint-load-metrics: TEXT cpu_utilization=0.9\r\n\r\nbusy";
    const IDLE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\
        endpoint-load-metrics: TEXT cpu_utilization=0.1\r\n\r\nidle";
    let (busy, idle) = (Scripted::answering(BUSY), Scripted::answering(IDLE));
    let mut fleet = fleet(&[busy.address, idle.address]);
    let service = &mut fleet.services[0];
    service.policy = PolicyKind::Managed;
    let manager = &mut service.manager;
    (manager.interval, manager.smoothing) = (Duration::from_millis(50), 1.0);
    (manager.proportions.active, manager.proportions.new) = (Ratio::ZERO, Ratio::ZERO);
    manager.proportions.reported = Ratio::ONE;
    let proxy = Proxy::of(fleet);
    let spares = || {
        let answers = (0..20).map(|_| proxy.get());
        answers.filter(|answer| answer.ends_with("busy")).count() <= 6
    };
    wait_until(spares, "the reports to be heeded");
}

/// A report holds for a second: a server with many requests of others is passed over meanwhile.
#[test]
fn prequal_counts_the_requests_of_others_that_servers_report() {
    const BUSY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\
        endpoint-load-metrics: TEXT named_metrics.rif=50\r\n\r\nbusy";
    let (busy, idle) = (Scripted::answering(BUSY), Scripted::answering(OK));
    let mut fleet = fleet(&[busy.address, idle.address]);
    fleet.services[0].policy = PolicyKind::Prequal;
    let proxy = Proxy::of(fleet);
    let answers = (0..40).map(|_| proxy.get());
    let by_busy = answers.filter(|answer| answer.ends_with("busy")).count();
    assert!((1..=12).contains(&by_busy), "{by_busy} of 40");
}

#[test]
fn the_same_key_goes_to_the_same_server() {
    let servers: Vec<Scripted> = (0..5).map(|_| Scripted::answering(OK)).collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let mut fleet = fleet(&addresses);
    fleet.services[0].policy = PolicyKind::Maglev;
    fleet.services[0].hash = loadline_core::fleet::HashKey::Path;
    let proxy = Proxy::of(fleet);
    (0..10).for_each(|_| assert!(proxy.get().ends_with("ok")));
    let used = servers.iter().filter(|server| server.connections() > 0).count();
    assert_eq!(used, 1);
    for path in 0..40 {
        let request = format!("GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert!(proxy.ask(request.as_bytes()).ends_with("ok"));
    }
    let used = servers.iter().filter(|server| server.connections() > 0).count();
    assert_eq!(used, 5, "other keys go elsewhere");
}
