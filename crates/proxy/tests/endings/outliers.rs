//! Servers that answer, but with 5xx.

use std::{
    net::TcpStream,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    decide::{census::Condition, ending::Ending, reason::Reason},
    fleet::{Ejection, Fleet, PolicyKind, Retry},
    state::{Server, ServiceCounter},
    time::Duration,
    units::{Rate, Ratio},
};

use crate::support::{OK, PATIENCE, Proxy, Scripted, fleet, head, until_closed};

const BROKEN: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 6\r\n\r\nbroken";
const ALSO: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nalso";

/// A server that answers well after a millisecond.
fn takes_a_millisecond() -> Scripted {
    Scripted::new(|mut stream, _| {
        while head(&mut stream).is_some() {
            thread::sleep(StdDuration::from_millis(1));
            if std::io::Write::write_all(&mut stream, OK).is_err() {
                return;
            }
        }
    })
}

/// A fleet of these servers, whose ejections outlast a test.
fn for_a_minute(servers: &[&Scripted], policy: PolicyKind) -> Fleet {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let mut fleet = fleet(&addresses);
    let time = Duration::from_secs(60);
    fleet.services[0].policy = policy;
    fleet.services[0].ejection = Some(Ejection { time, time_max: time, ..Ejection::default() });
    fleet
}

fn fails(proxy: &Proxy) -> bool {
    !proxy.get().starts_with("HTTP/1.1 200 ")
}

fn servers(proxy: &Proxy) -> Vec<Server> {
    proxy.runtime.handle().state().services.remove(0).groups.remove(0).servers
}

/// At 200/s they are one second: until then it may fail requests, but no more than its share. By
/// latency it may be given fewer, where a pause of the machine made its first response late: 5xx
/// never make a latency shorter. Then the evidence takes longer, and fewer requests fail.
#[test]
fn a_server_that_answers_500_at_once_leaves_within_two_hundred_requests() {
    for (policy, within) in [
        (PolicyKind::LeastRequests, 200),
        (PolicyKind::RoundRobin, 200),
        (PolicyKind::PeakEwma, 2000),
        (PolicyKind::LowestLatency, 2000),
        (PolicyKind::LatencyWeighted, 2000),
        (PolicyKind::PowerOfTwo, 200),
    ] {
        let broken = Scripted::answering(BROKEN);
        let well = [(); 3].map(|()| takes_a_millisecond());
        let proxy = Proxy::of(for_a_minute(&[&well[0], &broken, &well[1], &well[2]], policy));
        let paced = || {
            thread::sleep(StdDuration::from_millis(4));
            fails(&proxy)
        };
        let is_in = || servers(&proxy)[1].condition != Condition::Ejected;
        let failed = (0..within).take_while(|_| is_in()).filter(|_| paced()).count();
        assert!((1..=80).contains(&failed), "{policy:?}: {failed} requests failed");
        // By a pause of the machine the state tells of it before the worker has its new plan.
        let late = (0..25).filter(|_| paced()).count();
        assert!(late <= 10, "{policy:?}: it is told to be out, and gets requests: {late}");
        assert_eq!((0..50).filter(|_| paced()).count(), 0, "{policy:?}: it is out");
        let out = servers(&proxy).remove(1);
        assert_eq!((out.condition, out.ejections), (Condition::Ejected, 1), "{policy:?}");
        let reason = out.reason.unwrap();
        assert!(reason.contains("responses were 5xx, 0 of "), "{reason}");
    }
}

const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\
      Grpc-Status: 14\r\n\r\n";
const NOT_FOUND: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\
      Grpc-Status: 5\r\n\r\n";

#[test]
fn a_server_that_fails_calls_of_grpc_at_once_is_ejected_and_one_that_finds_nothing_is_not() {
    for (answer, ejections) in [(UNAVAILABLE, 1), (NOT_FOUND, 0)] {
        let odd = Scripted::answering(answer);
        let well = [(); 3].map(|()| takes_a_millisecond());
        let servers_of = [&well[0], &odd, &well[1], &well[2]];
        let proxy = Proxy::of(for_a_minute(&servers_of, PolicyKind::LeastRequests));
        let is_odd = || {
            thread::sleep(StdDuration::from_millis(4));
            proxy.get().to_ascii_lowercase().contains("application/grpc")
        };
        let is_in = || servers(&proxy)[1].condition != Condition::Ejected;
        let failed = (0..200).take_while(|_| is_in()).filter(|_| is_odd()).count();
        assert_eq!(servers(&proxy)[1].ejections, ejections, "{failed} of its answers");
        assert!(failed > 0 && (ejections == 0 || failed <= 80), "{failed} of its answers");
    }
}

#[test]
fn where_all_servers_answer_500_none_is_ejected_and_two_errors_eject_nobody() {
    let broken = [(); 3].map(|()| Scripted::answering(BROKEN));
    let fleet = for_a_minute(&[&broken[0], &broken[1], &broken[2]], PolicyKind::LeastRequests);
    let proxy = Proxy::of(fleet);
    assert_eq!((0..200).filter(|_| fails(&proxy)).count(), 200);
    assert!(servers(&proxy).iter().all(|server| server.ejections == 0));

    let twice = Scripted::new(|mut stream, number| {
        while head(&mut stream).is_some() {
            let answer = if number < 2 { BROKEN } else { OK };
            let both = [answer, b""].concat();
            if std::io::Write::write_all(&mut stream, &both).is_err() || number < 2 {
                return;
            }
        }
    });
    let well = Scripted::answering(OK);
    let proxy = Proxy::of(for_a_minute(&[&twice, &well], PolicyKind::RoundRobin));
    assert_eq!((0..100).filter(|_| fails(&proxy)).count(), 2);
    assert!(servers(&proxy).iter().all(|server| server.ejections == 0));
}

#[test]
fn a_server_that_answers_500_keeps_its_share_where_comparing_is_switched_off() {
    let (broken, well) = (Scripted::answering(BROKEN), Scripted::answering(OK));
    let mut fleet = for_a_minute(&[&broken, &well], PolicyKind::RoundRobin);
    fleet.services[0].ejection = Some(Ejection { excess_5xx: None, ..Ejection::default() });
    let proxy = Proxy::of(fleet);
    assert_eq!((0..100).filter(|_| fails(&proxy)).count(), 50);
}

/// A proxy that sends requests elsewhere that met a 5xx, by turns and without ejection.
fn repeating(servers: &[&Scripted], retry: Retry) -> Proxy {
    let mut fleet = for_a_minute(servers, PolicyKind::RoundRobin);
    fleet.services[0].ejection = None;
    fleet.services[0].retry = Retry { on_5xx: true, ..retry };
    Proxy::of(fleet)
}

#[test]
fn a_request_that_met_a_5xx_is_answered_by_another_server_where_that_is_safe() {
    let (broken, well) = (Scripted::answering(BROKEN), Scripted::answering(OK));
    let budget = Ratio::percent(100);
    let proxy = repeating(&[&broken, &well], Retry { budget, ..Retry::default() });
    for _ in 0..10 {
        assert!(!fails(&proxy));
    }
    // Each takes the turns of both.
    let tallies = proxy.runtime.tallies();
    assert_eq!(tallies.services["web"].counters[ServiceCounter::Retries], 10);
    assert_eq!(tallies.services["web"].reasons[Reason::Answered500 as usize], 10);
    let known = servers(&proxy);
    assert_eq!((known[0].failures, known[1].failures), (10, 0));
    let last = known[0].last_failure.as_ref().unwrap();
    assert_eq!(last.reason, "answered 500 Internal Server Error");
    assert_eq!(broken.connections(), 1, "an answer that came whole leaves its connection usable");
    let post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    let answers: Vec<String> = (0..2).map(|_| proxy.ask(post)).collect();
    let failed = answers.iter().filter(|it| it.starts_with("HTTP/1.1 500 ")).count();
    assert_eq!(failed, 1, "a POST is not sent twice");
    let put = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    for _ in 0..4 {
        assert!(proxy.ask(put).starts_with("HTTP/1.1 200 "), "its body is at hand");
    }
    proxy.expect(Ending::Complete, 16);
}

#[test]
fn a_put_whose_body_comes_behind_its_head_is_answered_by_another_server_too() {
    let broken = Scripted::answering(BROKEN);
    let resets = Scripted::new(|mut stream, _| drop(head(&mut stream)));
    for failing in [&broken, &resets] {
        let well = Scripted::answering(OK);
        let budget = Ratio::percent(100);
        let proxy = repeating(&[failing, &well], Retry { budget, ..Retry::default() });
        for _ in 0..20 {
            let mut client = put_of_1_kb(&proxy);
            thread::sleep(StdDuration::from_millis(5));
            std::io::Write::write_all(&mut client, &[b'x'; 1_000]).unwrap();
            let told = until_closed(&mut client);
            assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
        }
        proxy.expect(Ending::Complete, 20);
    }
}

#[test]
fn a_put_whose_body_is_late_is_passed_on_without_it() {
    let well = Scripted::answering(OK);
    let proxy = Proxy::to(&[well.address]);
    let mut client = put_of_1_kb(&proxy);
    assert!(until_closed(&mut client).starts_with("HTTP/1.1 200 "));
}

/// A client that has sent the head of a PUT.
fn put_of_1_kb(proxy: &Proxy) -> TcpStream {
    let mut client = proxy.connect();
    let put = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n";
    std::io::Write::write_all(&mut client, put).unwrap();
    client
}

#[test]
fn where_every_server_answers_5xx_the_client_is_given_the_last_answer() {
    let (one, other) = (Scripted::answering(BROKEN), Scripted::answering(ALSO));
    let proxy = repeating(&[&one, &other], Retry::default());
    for _ in 0..2 {
        let answer = proxy.get();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("also"), "{answer}");
    }
    assert_eq!(proxy.runtime.tallies().services["web"].counters[ServiceCounter::Retries], 2);
    proxy.expect(Ending::Complete, 2);

    // Without a budget it is the first.
    let none = Retry { budget: Ratio::ZERO, min_rate: Rate::default(), ..Retry::default() };
    let proxy = repeating(&[&one, &other], none);
    (0..4).for_each(|_| assert!(fails(&proxy)));
    assert_eq!(proxy.runtime.tallies().services["web"].counters[ServiceCounter::Retries], 0);
}

#[test]
fn a_5xx_is_not_repeated_at_a_server_that_was_removed_meanwhile() {
    let (reached, answer) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (at, go) = (reached.clone(), answer.clone());
    let slow = Scripted::new(move |mut stream, number| {
        while head(&mut stream).is_some() {
            if number == 0 {
                at.wait();
                go.wait();
            }
            let text = if number == 0 { BROKEN } else { OK };
            if std::io::Write::write_all(&mut stream, text).is_err() {
                return;
            }
        }
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let removed = Scripted::new(move |mut stream, _| {
        while head(&mut stream).is_some() {
            count.fetch_add(1, Relaxed);
            std::io::Write::write_all(&mut stream, OK).unwrap();
        }
    });
    let added = Scripted::answering(OK);
    let of = |servers: &[&Scripted]| {
        let mut fleet = for_a_minute(servers, PolicyKind::RoundRobin);
        let retry = Retry { on_5xx: true, budget: Ratio::percent(100), ..Retry::default() };
        (fleet.services[0].ejection, fleet.services[0].retry) = (None, retry);
        fleet
    };
    let proxy = Proxy::of(of(&[&slow, &removed]));
    thread::scope(|scope| {
        // One of them is given the server that waits.
        let asking = [(); 2].map(|()| scope.spawn(|| fails(&proxy)));
        reached.wait();
        proxy.runtime.reload(of(&[&slow, &added])).unwrap();
        let start = Instant::now();
        while added.connections() == 0 {
            assert!(start.elapsed() < PATIENCE);
            assert!(!fails(&proxy));
        }
        let before = asked.load(Relaxed);
        answer.wait();
        assert!(asking.into_iter().all(|it| !it.join().unwrap()));
        assert_eq!(asked.load(Relaxed), before, "it is asked no more");
    });
}
