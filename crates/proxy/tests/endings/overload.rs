//! Who goes first when there is too little, who stays where, and who leaves a server that hangs.

use std::{
    io::Write as _,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration as StdDuration,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Capacity, Class, Cookie, Ejection, HashKey, SameSite, Secret, Sticky, Then, WhenFull},
    rules::{Action, Conditions, Path, Routes, Rule, Split},
    state::ServiceCounter,
    time::Duration,
};

use crate::support::{
    OK, PATIENCE, Proxy, Scripted, ejected, fleet, head, nobody, until_closed, wait_until,
};

/// Requests for `/high` and `/low` are of that class.
fn classes() -> Routes {
    let rule = |(path, class): (&str, Class)| Rule {
        class: Some(class),
        ..Rule::new(
            Conditions { paths: vec![Path::Prefix(path.into())], ..Conditions::default() },
            Action::Service(Split::all(0)),
        )
    };
    Routes::new([("/high", Class::High), ("/low", Class::Low)].map(rule).into())
}

/// A request under way on a thread of its own.
fn asking(proxy: &Proxy, path: &str) -> thread::JoinHandle<String> {
    let mut stream = proxy.connect();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    thread::spawn(move || until_closed(&mut stream))
}

#[test]
fn a_full_queue_gives_the_place_of_the_lowest_class_to_a_higher_one() {
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let server = Scripted::new(move |mut stream, _| {
        while head(&mut stream).is_some() {
            wait_until(|| gate.load(Relaxed), "the gate to open");
            stream.write_all(OK).unwrap();
        }
    });
    let mut fleet = fleet(&[server.address]);
    fleet.listeners[0].routes = classes();
    fleet.services[0].when_full =
        WhenFull::Queue { timeout: Duration::from_secs(30), length: 2, then: Then::Shed };
    fleet.services[0].groups[0].capacity =
        Capacity { max_in_flight: Some(1), ..Capacity::default() };
    let proxy = Proxy::of(fleet);
    let queued = || {
        proxy
            .runtime
            .tallies()
            .services
            .get("web")
            .map_or(0, |it| it.counters[ServiceCounter::Queued])
    };
    let held = asking(&proxy, "/low/held");
    wait_until(|| server.connections() == 1, "the server to be busy");
    let low = asking(&proxy, "/low/first");
    wait_until(|| queued() == 1, "the first to wait");
    let normal = asking(&proxy, "/normal");
    wait_until(|| queued() == 2, "the second to wait");
    let high = asking(&proxy, "/high");
    let low = low.join().unwrap();
    assert!(low.starts_with("HTTP/1.1 503 ") && low.contains("Retry-After: "), "{low}");
    let equal = asking(&proxy, "/low/late").join().unwrap();
    assert!(equal.starts_with("HTTP/1.1 503 "), "nobody gives way to a lower class: {equal}");
    open.store(true, Relaxed);
    for answer in [held, normal, high] {
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 200 "));
    }
    let tallies = proxy.runtime.tallies();
    assert_eq!(
        (
            tallies.count(Ending::QueueFull),
            tallies.services["web"].counters[ServiceCounter::Displaced]
        ),
        (2, 1)
    );
}

const ONE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
const TWO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo";

/// A session that the proxy was asked for with this cookie.
fn with_cookie(proxy: &Proxy, cookie: &str) -> String {
    let text =
        format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    proxy.ask(text.as_bytes())
}

fn cookie() -> Sticky {
    Sticky::Cookie(Cookie {
        name: "lb".into(),
        key: Secret::new("0123456789abcdef".into()),
        ttl: None,
        path: "/".into(),
        secure: false,
        same_site: SameSite::Lax,
    })
}

#[test]
fn a_cookie_keeps_a_session_on_its_server_and_another_takes_it_over_when_that_is_gone() {
    let (one, two) = (Scripted::answering(ONE), Scripted::answering(TWO));
    let mut fleet = fleet(&[one.address, two.address]);
    fleet.services[0].sticky = Some(cookie());
    let mut without = fleet.clone();
    let proxy = Proxy::of(fleet);
    let first = proxy.get();
    let (_, cookie) = first.split_once("Set-Cookie: ").unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();
    // Three digits alone stand in every hundredth cookie by chance.
    for address in ["127.0.0.1", "7f000001"] {
        assert!(!cookie.contains(address), "the address is not told: {cookie}");
    }
    let home = &first[first.len() - 3..];
    for _ in 0..20 {
        let answer = with_cookie(&proxy, &format!("a=b; {cookie}"));
        assert!(answer.ends_with(home) && !answer.contains("Set-Cookie"), "{answer}");
    }
    assert_eq!(proxy.runtime.tallies().services["web"].counters[ServiceCounter::SessionsKept], 20);

    // Another edge with the same key, which does not have that server.
    without.services[0].groups[0].servers.remove(usize::from(home == "two"));
    let other = Proxy::of(without);
    let answer = with_cookie(&other, cookie);
    assert!(!answer.ends_with(home) && answer.contains("Set-Cookie: lb="), "{answer}");
    assert_eq!(other.runtime.tallies().services["web"].counters[ServiceCounter::SessionsMoved], 1);
}

#[test]
fn a_request_that_is_retried_counts_once_among_those_of_its_session() {
    const BAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n";
    let breaks = Arc::new(AtomicBool::new(false));
    let is_broken = breaks.clone();
    let one = Scripted::new(move |mut stream, _| {
        while head(&mut stream).is_some() {
            stream.write_all(if is_broken.load(Relaxed) { BAD } else { ONE }).unwrap();
        }
    });
    let two = Scripted::answering(TWO);
    let of = |servers: &[_]| {
        let mut fleet = fleet(servers);
        fleet.services[0].sticky = Some(cookie());
        Proxy::of(fleet)
    };
    let first = of(&[one.address]).get();
    let (_, cookie) = first.split_once("Set-Cookie: ").unwrap();
    let (cookie, _) = cookie.split_once(';').unwrap();

    breaks.store(true, Relaxed);
    let proxy = of(&[one.address, two.address]);
    let answer = with_cookie(&proxy, cookie);
    assert!(answer.ends_with("two") && answer.contains("Set-Cookie: lb="), "{answer}");
    let tallies = proxy.runtime.tallies();
    let counters = &tallies.services["web"].counters;
    let [kept, moved] = [ServiceCounter::SessionsKept, ServiceCounter::SessionsMoved];
    assert_eq!((counters[kept], counters[moved]), (0, 1));
}

#[test]
fn a_websocket_begins_a_session_as_any_other_request_does() {
    let server = Scripted::answering_once(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    );
    let mut fleet = fleet(&[server.address]);
    fleet.services[0].sticky = Some(cookie());
    let proxy = Proxy::of(fleet);
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
    let answer = proxy.ask(ask);
    assert!(
        answer.starts_with("HTTP/1.1 101 ") && answer.contains("\r\nSet-Cookie: lb="),
        "{answer}"
    );
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn sessions_by_hash_stay_while_the_policy_would_spread_them() {
    let (one, two) = (Scripted::answering(ONE), Scripted::answering(TWO));
    let mut fleet = fleet(&[one.address, two.address]);
    fleet.services[0].sticky = Some(Sticky::Hash(HashKey::ClientAddress));
    let proxy = Proxy::of(fleet);
    (0..20).for_each(|_| assert!(proxy.get().starts_with("HTTP/1.1 200 ")));
    let used = [one, two].iter().filter(|server| server.connections() > 0).count();
    assert_eq!(used, 1);
}

#[test]
fn one_refused_connection_takes_a_server_out() {
    let healthy = Scripted::answering(OK);
    let mut fleet = fleet(&[nobody(), healthy.address]);
    let time = Duration::from_secs(60);
    fleet.services[0].ejection = Some(Ejection { time, time_max: time, ..Ejection::default() });
    let proxy = Proxy::of(fleet);
    let retries = || {
        assert!(proxy.get().starts_with("HTTP/1.1 200 "));
        proxy.runtime.tallies().services["web"].counters[ServiceCounter::Retries]
    };
    wait_until(|| retries() == 1, "the connection that is refused");
    ejected(&proxy, 0);
    (0..50).for_each(|_| assert_eq!(retries(), 1));
}

#[test]
fn requests_that_may_be_repeated_leave_a_server_that_answers_nobody() {
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    let hanging = Scripted::new(move |mut stream, _| {
        while head(&mut stream).is_some() {
            if stop.load(Relaxed) {
                thread::sleep(PATIENCE * 2);
            }
            stream.write_all(OK).unwrap();
        }
    });
    let healthy = Scripted::answering(OK);
    let mut fleet = fleet(&[hanging.address, healthy.address]);
    let silence = Duration::from_millis(100);
    let time = Duration::from_secs(60);
    fleet.services[0].ejection =
        Some(Ejection { silence, time, time_max: time, ..Ejection::default() });
    fleet.services[0].policy = loadline_core::fleet::PolicyKind::RoundRobin;
    let proxy = Proxy::of(fleet);
    // Until its latency is known nobody can tell that it is late.
    (0..20).for_each(|_| assert!(proxy.get().starts_with("HTTP/1.1 200 ")));
    stopped.store(true, Relaxed);
    let asking: Vec<_> = (0..20).map(|_| asking(&proxy, "/")).collect();
    for answer in asking {
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 200 "));
    }
    let before = hanging.connections();
    (0..20).for_each(|_| assert!(proxy.get().starts_with("HTTP/1.1 200 ")));
    assert_eq!(hanging.connections(), before, "it is out of rotation");
    proxy.expect(Ending::Complete, 60);
}

#[test]
fn a_server_that_streams_events_is_not_taken_for_one_that_hangs() {
    let streaming = |mut stream: TcpStream, _: usize| {
        while let Some(asked) = head(&mut stream) {
            if asked.starts_with("GET /events ") {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                while stream.write_all(b"data: x\n\n").is_ok() {
                    thread::sleep(StdDuration::from_millis(10));
                }
                return;
            }
            if asked.starts_with("GET /slow ") {
                thread::sleep(StdDuration::from_millis(1_500));
            }
            stream.write_all(OK).unwrap();
        }
    };
    let servers = [Scripted::new(streaming), Scripted::new(streaming)];
    let mut fleet = fleet(&[servers[0].address, servers[1].address]);
    let time = Duration::from_secs(60);
    fleet.services[0].ejection = Some(Ejection { time, time_max: time, ..Ejection::default() });
    fleet.services[0].policy = loadline_core::fleet::PolicyKind::RoundRobin;
    let proxy = Proxy::of(fleet);
    // Until its latency is known nobody can tell that it is late.
    (0..20).for_each(|_| assert!(proxy.get().starts_with("HTTP/1.1 200 ")));
    let mut streams = [proxy.connect(), proxy.connect()];
    for stream in &mut streams {
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        head(stream).unwrap();
    }
    thread::sleep(StdDuration::from_millis(1_200));
    let asking: Vec<_> = (0..12).map(|_| asking(&proxy, "/slow")).collect();
    for answer in asking {
        assert!(answer.join().unwrap().starts_with("HTTP/1.1 200 "));
    }
    let state = proxy.runtime.handle().state();
    let servers = &state.services[0].groups[0].servers;
    assert!(servers.iter().all(|server| server.ejections == 0), "it sends all the time");
}
