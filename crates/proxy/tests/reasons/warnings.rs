//! What the log, the counters and the state say of failures.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    sync::{Arc, Mutex},
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::{census::Condition, reason::Reason},
    fleet::{HealthCheck, Probe},
    state::State,
    time::Duration,
};
use loadline_proxy::runtime::Runtime;

use crate::{
    connecting::nobody,
    support::{GET, SHORT, fleet, head, say, scripted},
};

/// The log of this process.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ask(proxy: &Runtime) {
    expect(proxy, GET, "HTTP/1.1 50");
}

/// Sends a request on a connection of its own, to which the response begins like this.
fn expect(proxy: &Runtime, request: &[u8], beginning: &str) {
    let mut client = TcpStream::connect(proxy.local_addrs()[0]).unwrap();
    client.write_all(request).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(beginning.as_bytes()), "{}", answer.escape_ascii());
}

fn until(proxy: &Runtime, condition: impl Fn(&State) -> bool) -> State {
    let start = Instant::now();
    loop {
        let state = proxy.handle().state();
        if condition(&state) {
            return state;
        }
        assert!(start.elapsed() < StdDuration::from_secs(10), "waited in vain: {state:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_hundred_requests_that_fail_alike_are_one_warning_and_another_at_the_end() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    subscriber.init();
    let server = nobody();
    let proxy = Runtime::start(fleet(server)).unwrap();
    (0..100).for_each(|_| ask(&proxy));

    let all = 100;
    let reason = Reason::ConnectionRefused.text();
    let state =
        until(&proxy, |state| state.services[0].counts.reasons.get(reason).copied() == Some(all));
    let told = state.services[0].groups[0].servers[0].last_failure.as_ref().unwrap();
    assert_eq!(told.reason, reason);
    // The requests of each warning.
    let warned = || {
        let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let of_server = log.lines().filter(|line| line.contains(&server.to_string()));
        let warnings = of_server.filter(|line| line.contains("server fails"));
        let requests = warnings.map(|line| {
            assert!(line.contains("WARN") && line.contains(reason), "{log}");
            let (_, requests) = line.split_once("requests=").unwrap();
            requests.split(' ').next().unwrap().parse::<u64>().unwrap()
        });
        requests.collect::<Vec<_>>()
    };
    assert_eq!(warned(), [1]);
    proxy.stop(SHORT);
    assert_eq!(warned(), [1, all - 1], "the rest is told at the end");
}

#[test]
fn a_502_over_a_kept_connection_that_its_server_closes_is_counted_and_told_of() {
    // Each connection is closed when its second request has been read.
    let server = scripted(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        head(&mut stream);
    });
    let proxy = Runtime::start(fleet(server)).unwrap();
    let post = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for _ in 0..5 {
        expect(&proxy, GET, "HTTP/1.1 200 ");
        expect(&proxy, post, "HTTP/1.1 502 ");
    }
    let reason = Reason::EmptyReply.text();
    let state =
        until(&proxy, |state| state.services[0].counts.reasons.get(reason).copied() == Some(5));
    let server = &state.services[0].groups[0].servers[0];
    assert_eq!(server.last_failure.as_ref().unwrap().reason, reason);
    assert_eq!(server.failures, 5);
    assert_eq!(server.condition, Condition::Unchecked, "it may close what it keeps");
}

#[test]
fn a_server_that_is_down_tells_why() {
    let missing = scripted(|mut stream| {
        head(&mut stream);
        say(stream, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    });
    for (server, why) in [(missing, "answered 404"), (nobody(), "connection refused")] {
        let mut fleet = fleet(server);
        fleet.services[0].health = Some(HealthCheck {
            probe: Probe::Http { path: "/".into(), host: None },
            interval: Duration::from_millis(50),
            fast_interval: Duration::from_millis(50),
            timeout: Duration::from_secs(10),
            rise: 1,
            fall: 1,
            lenient: false,
        });
        let proxy = Runtime::start(fleet).unwrap();
        let told = |state: &State| state.services[0].groups[0].servers[0].clone();
        let state = until(&proxy, |state| told(state).condition == Condition::Down);
        assert_eq!(told(&state).reason.as_deref(), Some(why));
    }
}
