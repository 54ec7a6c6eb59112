//! Every class of outcome, provoked.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use loadline_core::{time::Duration, units::Rate};
use loadline_load::{LoadPlan, Pattern, Until};
use loadline_measure::record::Outcomes;
use socket2::{Domain, SockRef, Socket, Type};

use crate::{
    one_user,
    ports::reserved,
    run,
    server::{Server, read_request, wait_closed},
};

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn outcomes(server: &Server, requests: u64) -> Outcomes {
    run(&one_user(&server.url(), requests)).outcomes
}

#[test]
fn answers_are_classed_by_status_and_counted_by_header() {
    const ANSWERS: [&str; 4] = [
        "HTTP/1.1 200 OK\r\nServed-By: a\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 304 Not Modified\r\nServed-By: b\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nServed-By: a\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    ];
    let server = Server::start(|_, mut stream| {
        for answer in ANSWERS {
            read_request(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
        }
        wait_closed(&mut stream);
    });
    let mut plan = one_user(&server.url(), 4);
    plan.count_by = Some("served-by".to_owned());
    let record = run(&plan);
    let expected = Outcomes { ok: 2, client_error: 1, server_error: 1, ..Outcomes::default() };
    assert_eq!(record.outcomes, expected);
    assert_eq!(Vec::from_iter(record.statuses), [(200, 1), (304, 1), (404, 1), (503, 1)]);
    let by_header = record.by_header;
    assert_eq!((by_header["a"], by_header["b"], by_header["(absent)"]), (2, 1, 1));
    assert_eq!(record.bytes_read, ANSWERS.concat().len() as u64);
    assert_eq!(server.connections(), 1);
}

#[test]
fn every_framing_of_a_body_is_read_to_its_end() {
    for (answer, bytes) in [
        (&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"[..], 60),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 52),
    ] {
        let server = Server::answering(answer);
        let record = run(&one_user(&server.url(), 3));
        assert_eq!((record.outcomes.ok, record.bytes_read), (3, 3 * bytes));
        assert_eq!(server.connections(), 1, "the connection was kept");
    }
    let closing = Server::start(|_, mut stream| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil I close").unwrap();
    });
    assert_eq!(outcomes(&closing, 3).ok, 3);
    assert_eq!(closing.connections(), 3);
}

#[test]
fn an_answer_to_head_has_no_body() {
    let server = Server::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    let mut plan = one_user(&server.url(), 2);
    plan.method = "HEAD".to_owned();
    assert_eq!(run(&plan).outcomes.ok, 2);
    assert_eq!(server.connections(), 1);
}

#[test]
fn an_answer_before_the_whole_request_was_taken_counts() {
    let server = Server::start(|_, mut stream| {
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let mut plan = one_user(&server.url(), 2);
    plan.method = "POST".to_owned();
    plan.body = vec![b'x'; 8 << 20];
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { client_error: 2, ..Outcomes::default() });
    assert_eq!(server.connections(), 2, "half a request cannot be followed by another");
}

#[test]
fn a_server_that_sends_back_what_it_reads_gets_the_whole_body() {
    const BODY: usize = 16 << 20;
    let server = Server::start(|_, mut stream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").unwrap();
        let mut piece = vec![0; 65_536];
        while let Ok(count @ 1..) = stream.read(&mut piece)
            && stream.write_all(&piece[..count]).is_ok()
        {}
    });
    let mut plan = one_user(&server.url(), 1);
    plan.method = "POST".to_owned();
    plan.body = vec![b'x'; BODY];
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { ok: 1, ..Outcomes::default() });
    assert!(record.bytes_read > BODY as u64);
}

/// As servers do that let what is left of the body come, lest a reset destroy the response.
#[test]
fn a_refusal_counts_when_it_comes_and_not_when_the_server_stops_lingering() {
    let server = Server::start(|_, mut stream| {
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(5));
        wait_closed(&mut stream);
    });
    let mut plan = one_user(&server.url(), 2);
    plan.method = "POST".to_owned();
    plan.body = vec![b'x'; 16 << 20];
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { client_error: 2, ..Outcomes::default() });
    assert!(record.elapsed < Duration::from_secs(5), "{}", record.elapsed);
    assert_eq!(server.connections(), 2, "half a request cannot be followed by another");
}

#[test]
fn a_closed_port_refuses() {
    let record = run(&one_user(&reserved().to_string(), 3));
    assert_eq!(record.outcomes, Outcomes { connect_refused: 3, ..Outcomes::default() });
}

#[test]
fn a_full_backlog_is_a_connect_timeout() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let patience = std::time::Duration::from_millis(300);
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, patience) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the backlog does not fill");
    }
    let mut plan = one_user(&address.to_string(), 2);
    plan.timeout = Duration::from_millis(100);
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { connect_timeout: 2, ..Outcomes::default() });
}

#[test]
fn a_server_that_hangs_is_a_timeout_before_and_within_the_answer() {
    for beginning in [&b""[..], b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]
    {
        let server = Server::start(move |_, mut stream| {
            read_request(&mut stream);
            stream.write_all(beginning).unwrap();
            wait_closed(&mut stream);
        });
        let mut plan = one_user(&server.url(), 2);
        plan.timeout = Duration::from_millis(300);
        let record = run(&plan);
        assert_eq!(record.outcomes, Outcomes { timeout: 2, ..Outcomes::default() });
        assert_eq!(server.connections(), 2, "a connection with half an answer is not used again");
    }
}

#[test]
fn a_connection_that_ends_early_is_a_reset() {
    for beginning in [&b""[..], b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]
    {
        for reset in [false, true] {
            let server = Server::start(move |_, mut stream| {
                read_request(&mut stream);
                stream.write_all(beginning).unwrap();
                if reset {
                    SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
                }
            });
            let expected = Outcomes { reset: 2, ..Outcomes::default() };
            assert_eq!(outcomes(&server, 2), expected, "{beginning:?}, reset {reset}");
        }
    }
}

#[test]
fn what_is_not_http_is_a_bad_answer() {
    for answer in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ] {
        let expected = Outcomes { bad_answer: 2, ..Outcomes::default() };
        let record = run(&one_user(&Server::answering(answer).url(), 2));
        assert_eq!(record.outcomes, expected);
        let reasons = record.reasons;
        assert!(reasons.len() == 1 && reasons.values().all(|count| *count == 2), "{reasons:?}");
    }
}

/// A response of 200 with so many fields of so many bytes.
fn with_fields(count: usize, bytes: usize) -> &'static [u8] {
    let field = format!("X: {}\r\n", "x".repeat(bytes));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n", field.repeat(count));
    head.into_bytes().leak()
}

#[test]
fn a_head_is_read_that_is_long_or_has_many_fields_and_one_beyond_the_limits_is_told_as_such() {
    for (count, bytes, why) in [
        (2, 100_000, ""),
        (990, 1, ""),
        (3, 100_000, "head exceeds its size limit"),
        (1_001, 1, "head has too many fields"),
    ] {
        let record = run(&one_user(&Server::answering(with_fields(count, bytes)).url(), 2));
        let reasons: Vec<_> = record.reasons.iter().collect();
        match why {
            "" => assert_eq!((record.outcomes.ok, &reasons[..]), (2, &[][..]), "{count} fields"),
            why => {
                let [(told, 2)] = &reasons[..] else { panic!("{count} fields: {reasons:?}") };
                assert!(told.contains(why) && record.outcomes.bad_answer == 2, "{told}");
            }
        }
    }
}

#[test]
fn a_head_without_end_is_a_bad_answer() {
    let server = Server::start(|_, mut stream| {
        read_request(&mut stream);
        let line = [b'x'; 1024];
        let endless = stream.write_all(b"HTTP/1.1 200 OK\r\nA: ");
        while endless.is_ok() && stream.write_all(&line).is_ok() {}
    });
    assert_eq!(outcomes(&server, 1).bad_answer, 1);
}

#[test]
fn beyond_the_limit_in_flight_requests_are_dropped() {
    let server = Server::start(|_, mut stream| wait_closed(&mut stream));
    let until = Until::Requests(10);
    let mut plan = LoadPlan::open(&server.url(), Rate::per_sec(1_000), until).unwrap();
    plan.timeout = Duration::from_secs(1);
    let Pattern::Open { max_in_flight, .. } = &mut plan.pattern else { unreachable!() };
    *max_in_flight = Some(3);
    let record = run(&plan);
    let expected = Outcomes { timeout: 3, dropped: 7, ..Outcomes::default() };
    assert_eq!(record.outcomes, expected);
}

/// As servers do that crash at a request, at once or after some work.
#[test]
fn a_request_that_was_read_on_a_kept_connection_and_not_answered_is_a_reset_and_sent_once() {
    for (method, works, reset) in
        [("GET", 0, true), ("GET", 0, false), ("GET", 50, true), ("POST", 50, true)]
    {
        let received = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&received);
        let server = Server::start(move |_, mut stream| {
            read_request(&mut stream);
            counted.fetch_add(1, Ordering::SeqCst);
            stream.write_all(EMPTY).unwrap();
            if read_request(&mut stream) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            std::thread::sleep(std::time::Duration::from_millis(works));
            if reset {
                SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            }
        });
        let mut plan = one_user(&server.url(), 4);
        plan.method = method.to_owned();
        let record = run(&plan);
        let expected = Outcomes { ok: 2, reset: 2, ..Outcomes::default() };
        assert_eq!(record.outcomes, expected, "{method}, {works} ms, reset {reset}");
        assert_eq!((record.stale, server.connections()), (0, 2));
        assert_eq!(received.load(Ordering::SeqCst), 4, "{method}, {works} ms, reset {reset}");
    }
}

#[test]
fn a_connection_that_ended_while_it_was_idle_is_replaced_before_a_post_is_sent() {
    let server = Server::start(|_, mut stream| {
        read_request(&mut stream);
        stream.write_all(EMPTY).unwrap();
    });
    let mut plan = one_user(&server.url(), 3);
    plan.method = "POST".to_owned();
    let Pattern::Closed { think, .. } = &mut plan.pattern else { unreachable!() };
    *think = Duration::from_millis(100);
    let record = run(&plan);
    assert_eq!(record.outcomes, Outcomes { ok: 3, ..Outcomes::default() });
    assert_eq!((record.stale, server.connections()), (0, 3));
}

#[test]
fn a_new_connection_closed_under_a_request_is_not_tried_again() {
    let server = Server::start(|_, mut stream| {
        read_request(&mut stream);
    });
    let measured = run(&one_user(&server.url(), 2));
    assert_eq!((measured.outcomes.reset, measured.stale), (2, 0));
    assert_eq!(server.connections(), 2);
}
