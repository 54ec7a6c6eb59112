//! Servers that refuse, hang, reset, answer garbage, answer too much or close early.

use std::{
    io::Write as _,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc::channel,
    thread,
    time::Duration as StdDuration,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Ejection, PolicyKind, Retry, ServerTimeouts},
    time::Duration,
    units::{Bytes, Rate, Ratio},
};
use socket2::{Domain, SockRef, Socket, Type};

use crate::support::{
    OK, PATIENCE, Proxy, SHORT, Scripted, ejected, exactly, fleet, head, nobody, wait_until,
};

const POST: &[u8] =
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

/// A proxy to one server that may take only a short time for anything.
fn hurried(server: SocketAddr) -> Proxy {
    let mut fleet = fleet(&[server]);
    fleet.services[0].timeouts =
        ServerTimeouts { connect: SHORT, head: SHORT, idle: SHORT, keep_alive: SHORT };
    Proxy::of(fleet)
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(StdDuration::ZERO)).unwrap();
    drop(stream);
}

#[test]
fn a_server_that_refuses_gives_502_and_another_takes_over() {
    let proxy = Proxy::to(&[nobody()]);
    assert!(proxy.get().starts_with("HTTP/1.1 502 "));
    proxy.expect(Ending::ConnectRefused, 1);

    let server = Scripted::answering(OK);
    let proxy = Proxy::to(&[nobody(), server.address]);
    for _ in 0..20 {
        assert!(proxy.get().starts_with("HTTP/1.1 200 "));
    }
    proxy.expect(Ending::Complete, 20);
}

#[test]
fn a_backup_answers_what_the_dead_primary_cannot() {
    let backup = Scripted::answering(OK);
    let mut fleet = fleet(&[nobody(), backup.address]);
    fleet.services[0].groups[0].servers[1].priority = 1;
    let proxy = Proxy::of(fleet);
    for _ in 0..5 {
        assert!(proxy.get().starts_with("HTTP/1.1 200 "));
    }
    proxy.expect(Ending::Complete, 5);
}

/// A backlog that is full: the kernel drops what knocks.
fn full_backlog() -> (SocketAddr, Socket, Vec<TcpStream>) {
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let limit = StdDuration::from_millis(200);
    let waiting: Vec<_> =
        (0..16).map_while(|_| TcpStream::connect_timeout(&address, limit).ok()).collect();
    assert!(waiting.len() < 16, "the backlog is never full");
    (address, full, waiting)
}

#[test]
fn a_server_that_does_not_accept_gives_504() {
    let (address, ..) = &full_backlog();
    let proxy = hurried(*address);
    assert!(proxy.get().starts_with("HTTP/1.1 504 "));
    proxy.expect(Ending::ConnectTimeout, 1);
}

#[test]
fn a_request_that_could_not_connect_goes_elsewhere_whatever_the_retry_budget() {
    let (address, ..) = &full_backlog();
    let healthy = Scripted::answering(OK);
    let mut fleet = fleet(&[*address, healthy.address]);
    let service = &mut fleet.services[0];
    service.timeouts.connect = SHORT;
    service.ejection = None;
    service.retry = Retry { budget: Ratio::ZERO, min_rate: Rate::default(), ..Retry::default() };
    service.policy = PolicyKind::RoundRobin;
    let proxy = Proxy::of(fleet);
    for _ in 0..4 {
        let answer = proxy.ask(POST);
        assert!(answer.starts_with("HTTP/1.1 200 "), "nobody has seen the POST: {answer}");
    }
    proxy.expect(Ending::Complete, 4);
}

#[test]
fn a_server_that_hangs_gives_504() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        head(&mut stream);
    });
    let proxy = hurried(server.address);
    assert!(proxy.get().starts_with("HTTP/1.1 504 "));
    proxy.expect(Ending::ServerTimeout, 1);
}

#[test]
fn a_reset_is_repeated_elsewhere_only_if_that_is_safe() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        reset(stream);
    });
    let proxy = Proxy::to(&[server.address]);
    assert!(proxy.ask(POST).starts_with("HTTP/1.1 502 "), "a POST is not sent twice");
    proxy.expect(Ending::ServerReset, 1);
    assert_eq!(server.connections(), 1);

    let healthy = Scripted::answering(OK);
    let proxy = Proxy::to(&[server.address, healthy.address]);
    for _ in 0..10 {
        assert!(proxy.get().starts_with("HTTP/1.1 200 "), "a GET is");
    }
    proxy.expect(Ending::Complete, 10);
}

#[test]
fn a_put_that_waits_for_100_continue_goes_elsewhere_and_a_post_does_not() {
    let asking = |method: &str| {
        format!(
            "{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\
             Connection: close\r\n\r\n"
        )
    };
    let dying = || {
        Scripted::new(|mut stream, _| {
            head(&mut stream);
            reset(stream);
        })
    };
    for server in [Scripted::new(|stream, _| reset(stream)), dying()] {
        let well = Scripted::new(|mut stream, _| {
            while head(&mut stream).is_some() {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                assert_eq!(exactly(&mut stream, 5), "hello");
                stream.write_all(OK).unwrap();
            }
        });
        let proxy = Proxy::to(&[server.address, well.address]);
        for _ in 0..10 {
            let mut client = proxy.connect();
            client.write_all(asking("PUT").as_bytes()).unwrap();
            let told = head(&mut client).unwrap();
            assert!(told.starts_with("HTTP/1.1 100 "), "{told}");
            client.write_all(b"hello").unwrap();
            assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 200 "));
        }
        proxy.expect(Ending::Complete, 10);
    }
    let servers = [dying(), dying()];
    let proxy = Proxy::to(&servers.each_ref().map(|it| it.address));
    assert!(proxy.ask(asking("POST").as_bytes()).starts_with("HTTP/1.1 502 "));
    let connections: usize = servers.iter().map(Scripted::connections).sum();
    assert_eq!(connections, 1, "a POST is not sent twice");
}

#[test]
fn a_put_whose_trailers_have_begun_is_not_sent_again_without_their_beginning() {
    let (told, asked) = channel();
    let dying = || {
        let told = told.clone();
        Scripted::new(move |mut stream, _| {
            head(&mut stream);
            assert_eq!(exactly(&mut stream, 3), "0\r\n");
            told.send(()).unwrap();
            // So that the proxy has read what the client says meanwhile.
            thread::sleep(SHORT.to_std());
            reset(stream);
        })
    };
    let servers = [dying(), dying()];
    let proxy = Proxy::to(&servers.each_ref().map(|it| it.address));
    let mut client = proxy.connect();
    let begin = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\
                 Expect: 100-continue\r\nConnection: close\r\n\r\n0\r\n";
    client.write_all(begin.as_bytes()).unwrap();
    asked.recv_timeout(PATIENCE).unwrap();
    client.write_all(b"X-A: 1\r\nX-B").unwrap();
    assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 502 "));
    let connections: usize = servers.iter().map(Scripted::connections).sum();
    assert_eq!(connections, 1);
    proxy.expect(Ending::ServerReset, 1);
}

#[test]
fn garbage_gives_502() {
    for garbage in [
        &b"SSH-2.0-OpenSSH_9.2\r\n\r\n"[..],
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad name: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded\r\n\r\n",
    ] {
        let server = Scripted::answering_once(garbage);
        let proxy = Proxy::to(&[server.address]);
        let answer = proxy.get();
        assert!(answer.starts_with("HTTP/1.1 502 "), "{}: {answer}", garbage.escape_ascii());
        proxy.expect(Ending::ServerBad, 1);
    }
}

#[test]
fn a_head_over_the_limit_gives_502() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        let field = format!("X: {}\r\n", "y".repeat(1_000));
        let answer = format!("HTTP/1.1 200 OK\r\n{}\r\n", field.repeat(40));
        // The proxy may close before it has read everything.
        let _ = stream.write_all(answer.as_bytes());
    });
    let proxy = Proxy::to(&[server.address]);
    assert!(proxy.get().starts_with("HTTP/1.1 502 "));
    proxy.expect(Ending::ServerHeadTooLarge, 1);
}

#[test]
fn a_response_body_over_the_limit_of_the_service_is_refused_or_cut() {
    let limited = |answer: &'static [u8]| {
        let server = Scripted::answering_once(answer);
        let mut fleet = fleet(&[server.address]);
        fleet.services[0].max_response_body = Some(Bytes::new(4));
        (Proxy::of(fleet), server)
    };
    let fits: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfou\r\n1\r\nr\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfour",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    ];
    for answer in fits {
        let (proxy, _server) = limited(answer);
        assert!(!proxy.get().starts_with("HTTP/1.1 502 "), "{}", answer.escape_ascii());
        proxy.expect(Ending::Complete, 1);
    }
    let exceeds: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfives",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfiv\r\n2\r\nes\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfives",
    ];
    for answer in exceeds {
        let (proxy, _server) = limited(answer);
        assert!(!proxy.get().ends_with("fives"), "{}", answer.escape_ascii());
        proxy.expect(Ending::ServerBodyTooLarge, 1);
    }
}

#[test]
fn a_response_without_a_length_is_cut_where_it_exceeds_the_limit() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").unwrap();
        // The proxy closes before it has read everything.
        let _ = stream.write_all(&[b'x'; 2 << 20]);
    });
    let mut fleet = fleet(&[server.address]);
    fleet.services[0].max_response_body = Some(Bytes::new(300_000));
    let proxy = Proxy::of(fleet);
    let answer = proxy.get();
    assert!(answer.len() < 300_200, "{}", answer.len());
    proxy.expect(Ending::ServerBodyTooLarge, 1);
}

#[test]
fn what_a_server_sends_beyond_its_answer_reaches_no_client() {
    let server = Scripted::answering(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nX: evil\r\n\r\n",
    );
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let answer = head(&mut client).unwrap();
        assert!(!answer.contains("evil"));
        assert_eq!(exactly(&mut client, 2), "ok");
    }
    assert_eq!(server.connections(), 3, "such a connection is not used again");
}

#[test]
fn an_answer_that_breaks_off_is_not_passed_off_as_whole() {
    let server =
        Scripted::answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    let proxy = Proxy::to(&[server.address]);
    let answer = proxy.get();
    assert!(answer.contains("Content-Length: 100") || answer.is_empty(), "{answer}");
    assert!(!answer.contains("502"), "it is too late to say anything");
    proxy.expect(Ending::ServerCut, 1);

    let server = Scripted::answering_once(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    );
    let proxy = Proxy::to(&[server.address]);
    assert!(!proxy.get().ends_with("0\r\n\r\n"));
    proxy.expect(Ending::ServerCut, 1);
}

#[test]
fn an_answer_that_pauses_too_long_is_cut() {
    let (done, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this").unwrap();
        let _ = wait.lock().unwrap().recv();
    });
    let proxy = hurried(server.address);
    assert!(proxy.get().ends_with("only this"));
    proxy.expect(Ending::ServerStalled, 1);
    drop(done);
}

#[test]
fn a_bad_chunk_ends_the_answer() {
    let server = Scripted::answering_once(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n\r\n0\r\n\r\n",
    );
    let proxy = Proxy::to(&[server.address]);
    assert!(!proxy.get().ends_with("0\r\n\r\n"));
    let bad_or_cut = || {
        let tallies = proxy.runtime.tallies();
        tallies.count(Ending::ServerBodyBad) + tallies.count(Ending::ServerCut) == 1
    };
    wait_until(bad_or_cut, "the request to end");
}

#[test]
fn a_kept_connection_that_died_meanwhile_is_no_failure() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        stream.write_all(OK).unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    for _ in 0..10 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 200 "));
        assert_eq!(exactly(&mut client, 2), "ok");
    }
    proxy.expect(Ending::Complete, 10);
}

#[test]
fn a_server_that_keeps_failing_is_ejected_and_asked_no_more() {
    let server = Scripted::answering_once(b"garbage\r\n\r\n");
    let healthy = Scripted::answering(OK);
    let mut fleet = fleet(&[server.address, healthy.address]);
    let time = Duration::from_secs(60);
    fleet.services[0].ejection = Some(Ejection { time, time_max: time, ..Ejection::default() });
    let proxy = Proxy::of(fleet);
    wait_until(
        || {
            proxy.get();
            server.connections() >= 3
        },
        "three failures",
    );
    // The third failure ejects.
    ejected(&proxy, 0);
    (0..20).for_each(|_| assert!(proxy.get().starts_with("HTTP/1.1 200 ")));
    assert_eq!(server.connections(), 3);
}
