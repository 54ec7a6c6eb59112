//! HTTP as it should be: bodies both ways, interim responses, upgrades, old versions, what is told
//! about the client.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::mpsc::channel,
};

use loadline_core::{decide::ending::Ending, fleet::Forwarded};

use crate::support::{OK, Proxy, Scripted, exactly, fleet, head, until_closed, wait_until};

/// A server that answers with the head it was sent, as its body.
fn mirror() -> Scripted {
    Scripted::new(|mut stream, _| {
        while let Some(seen) = head(&mut stream) {
            let length = seen.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{seen}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    })
}

#[test]
fn the_server_is_told_about_the_client_and_nothing_that_was_for_the_proxy() {
    let server = mirror();
    let proxy = Proxy::to(&[server.address]);
    let seen = proxy.ask(
        b"GET /a?b HTTP/1.1\r\nHost: example.org\r\nConnection: close, X-Private\r\n\
          X-Private: secret\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n\
          X-Forwarded-For: 192.0.2.7\r\nAccept: */*\r\n\r\n",
    );
    let body = seen.split_once("\r\n\r\n").unwrap().1.to_lowercase();
    assert!(body.starts_with("get /a?b http/1.1\r\n"), "{body}");
    for told in [
        "host: example.org\r\n",
        "accept: */*\r\n",
        "x-forwarded-for: 127.0.0.1\r\n",
        "x-forwarded-proto: http\r\n",
        "x-forwarded-host: example.org\r\n",
        "via: 1.1 loadline\r\n",
    ] {
        assert!(body.contains(told), "{told} in {body}");
    }
    for kept in ["x-private", "keep-alive", "proxy-connection", "connection: close"] {
        assert!(!body.contains(kept), "{kept} in {body}");
    }
}

#[test]
fn the_context_of_a_trace_is_passed_on_as_it_came() {
    let proxy = Proxy::to(&[mirror().address]);
    let context = concat!(
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
        "tracestate: rojo=00f067aa0ba902b7,congo=t61rcWkgMzE\r\n",
    );
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{context}Connection: close\r\n\r\n");
    let seen = proxy.ask(request.as_bytes());
    assert!(seen.contains(context), "{seen}");
    assert!(!proxy.get().contains("trace"), "and none is made up");
}

#[test]
fn forwarded_headers_follow_the_listener() {
    let server = mirror();
    let mut standard = fleet(&[server.address]);
    standard.listeners[0].forwarded = Forwarded::Rfc7239;
    let seen = Proxy::of(standard).get().to_lowercase();
    assert!(seen.contains("forwarded: for=127.0.0.1;proto=http"), "{seen}");
    assert!(!seen.contains("x-forwarded"), "{seen}");
    let mut none = fleet(&[server.address]);
    none.listeners[0].forwarded = Forwarded::Off;
    assert!(!Proxy::of(none).get().to_lowercase().contains("forwarded"));
}

/// What a server sees of a request on a connection that stays.
fn seen_over(client: &mut TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let answer = head(client).unwrap().to_lowercase();
    let length = answer.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    exactly(client, length.unwrap().parse().unwrap())
}

#[test]
fn a_connection_that_is_open_follows_a_reload_of_forwarded_headers() {
    let server = mirror();
    let proxy = Proxy::to(&[server.address]);
    let about_client = |seen: &str| -> Vec<String> {
        let seen = seen.to_lowercase();
        seen.lines().filter(|line| line.contains("forwarded")).map(str::to_owned).collect()
    };
    let mut kept = proxy.connect();
    assert!(about_client(&seen_over(&mut kept)).contains(&"x-forwarded-proto: http".to_owned()));
    let settings: [(Forwarded, &[&str]); 3] = [
        (Forwarded::Rfc7239, &["forwarded: for=127.0.0.1;proto=http"]),
        (Forwarded::Off, &[]),
        (
            Forwarded::XForwarded,
            &["x-forwarded-host: x", "x-forwarded-for: 127.0.0.1", "x-forwarded-proto: http"],
        ),
    ];
    for (forwarded, told) in settings {
        let mut fleet = fleet(&[server.address]);
        fleet.listeners[0].forwarded = forwarded;
        proxy.runtime.reload(fleet).unwrap();
        wait_until(|| about_client(&proxy.get()) == told, "the reload to be in force");
        assert_eq!(about_client(&seen_over(&mut kept)), told, "{forwarded:?}");
    }
}

#[test]
fn bodies_stream_through_in_both_framings_and_trailers_arrive() {
    let server = Scripted::new(|mut stream, _| {
        let request = head(&mut stream).unwrap();
        let body = if request.contains("chunked") {
            exactly(&mut stream, b"5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n".len())
        } else {
            exactly(&mut stream, 5)
        };
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).unwrap();
        let chunk = format!("{:x}\r\n{body}\r\n0\r\nX-Load: 7\r\n\r\n", body.len());
        stream.write_all(chunk.as_bytes()).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let chunked = proxy.ask(
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
          5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n",
    );
    assert!(chunked.contains("X-Sum: 5\r\n"), "{chunked}");
    assert!(chunked.ends_with("0\r\nX-Load: 7\r\n\r\n"), "{chunked}");
    let sized = proxy
        .ask(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    assert!(sized.contains("5\r\nhello\r\n0\r\n"), "{sized}");
    proxy.expect(Ending::Complete, 2);
}

#[test]
fn a_large_answer_meets_a_slow_reader_and_arrives_whole() {
    const SIZE: usize = 8 << 20;
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
        let block = [b'z'; 64 << 10];
        (0..SIZE / block.len()).for_each(|_| stream.write_all(&block).unwrap());
        head(&mut stream);
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    head(&mut client).unwrap();
    let mut received = 0;
    let mut small = [0; 3_000];
    loop {
        match client.read(&mut small).unwrap() {
            0 => break,
            count => {
                assert!(small[..count].iter().all(|byte| *byte == b'z'));
                received += count;
            }
        }
    }
    assert_eq!(received, SIZE);
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn a_server_may_answer_before_the_body_is_through() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        let refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(refusal).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        until_closed(&mut stream);
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nxx").unwrap();
    assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 413 "));
}

#[test]
fn continue_is_asked_of_the_server_and_its_word_passed_on() {
    let server = Scripted::new(|mut stream, _| {
        assert!(head(&mut stream).unwrap().to_lowercase().contains("expect: 100-continue"));
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        assert_eq!(exactly(&mut stream, 5), "hello");
        stream.write_all(OK).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    let asking = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(asking).unwrap();
    assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 100 "));
    client.write_all(b"hello").unwrap();
    assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 200 "));
}

#[test]
fn an_upgrade_becomes_a_tunnel_that_ends_with_either_side() {
    let server = Scripted::new(|mut stream, _| {
        let asked = head(&mut stream).unwrap().to_lowercase();
        assert!(asked.contains("upgrade: websocket\r\n") && asked.contains("connection: upgrade"));
        let yes = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\n\r\nhi";
        stream.write_all(yes).unwrap();
        let echo = exactly(&mut stream, 4);
        stream.write_all(echo.as_bytes()).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    let ask = b"GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    client.write_all(ask).unwrap();
    let accepted = head(&mut client).unwrap();
    assert!(accepted.starts_with("HTTP/1.1 101 ") && accepted.contains("Upgrade: websocket"));
    assert_eq!(exactly(&mut client, 2), "hi");
    client.write_all(b"ping").unwrap();
    assert_eq!(until_closed(&mut client), "ping");
    drop(client);
    proxy.expect(Ending::Tunnel, 1);
}

/// As `docker exec` does it.
#[test]
fn a_connection_switches_behind_the_body_of_the_request_that_asked_for_it() {
    let (switched, knows) = channel();
    let server = Scripted::new(move |mut stream, _| {
        let asked = head(&mut stream).unwrap().to_lowercase();
        assert!(asked.contains("upgrade: tcp\r\n") && asked.contains("connection: upgrade"));
        assert!(asked.contains("content-length: 5\r\n"), "{asked}");
        let yes = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n";
        stream.write_all(yes).unwrap();
        switched.send(()).unwrap();
        let came = exactly(&mut stream, 9);
        stream.write_all(came.as_bytes()).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    let ask = b"POST /exec HTTP/1.1\r\nHost: x\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\
                Content-Length: 5\r\n\r\nhe";
    client.write_all(ask).unwrap();
    knows.recv().unwrap();
    client.write_all(b"llo").unwrap();
    assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 101 "));
    client.write_all(b"ping").unwrap();
    assert_eq!(until_closed(&mut client), "helloping");
    drop(client);
    proxy.expect(Ending::Tunnel, 1);
}

#[test]
fn a_switch_of_protocols_that_nobody_asked_for_is_a_bad_answer() {
    let server = Scripted::answering_once(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    );
    let proxy = Proxy::to(&[server.address]);
    assert!(proxy.get().starts_with("HTTP/1.1 502 "));
    proxy.expect(Ending::ServerBad, 1);
}

#[test]
fn a_switch_of_protocols_that_does_not_say_to_what_is_a_bad_answer() {
    let server = Scripted::answering_once(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n",
    );
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        .unwrap();
    assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 502 "));
    proxy.expect(Ending::ServerBad, 1);
}

#[test]
fn early_hints_are_passed_on() {
    let server = Scripted::answering(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
          HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    );
    let proxy = Proxy::to(&[server.address]);
    let answer = proxy.get();
    assert!(answer.starts_with("HTTP/1.1 103 ") && answer.contains("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn an_old_server_may_end_its_answer_by_closing() {
    let server = Scripted::answering_once(b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nto the end");
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let answer = until_closed(&mut client);
    assert!(answer.ends_with("to the end"), "{answer}");
    assert!(answer.contains("Connection: close\r\n"), "the client is told: {answer}");
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn an_old_client_gets_no_chunks_and_no_interim_answers() {
    let server = Scripted::answering(
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
          5\r\nhello\r\n0\r\n\r\n",
    );
    let proxy = Proxy::to(&[server.address]);
    let answer = proxy.ask(b"GET / HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.0 200 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(!answer.to_lowercase().contains("chunked"), "{answer}");
}

#[test]
fn head_has_the_length_but_not_the_body() {
    let server =
        Scripted::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-Last: y\r\n\r\n");
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(head(&mut client).unwrap().contains("Content-Length: 1000\r\n"));
    }
    assert_eq!(server.connections(), 1);
    proxy.expect(Ending::Complete, 2);
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let server = mirror();
    let proxy = Proxy::to(&[server.address]);
    let mut requests = String::new();
    for n in 0..20 {
        requests += &format!("GET /{n} HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    let last = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = proxy.ask((requests + last).as_bytes());
    let places: Vec<usize> =
        (0..20).map(|n| answers.find(&format!("GET /{n} HTTP")).unwrap()).collect();
    assert!(places.is_sorted());
    assert!(answers.contains("GET /last"));
    proxy.expect(Ending::Complete, 21);
}

#[test]
fn a_head_in_single_bytes_is_a_head() {
    let server = Scripted::answering(OK);
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client.set_nodelay(true).unwrap();
    for byte in b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" {
        client.write_all(&[*byte]).unwrap();
    }
    assert!(until_closed(&mut client).starts_with("HTTP/1.1 200 "));
}

#[test]
fn connections_to_servers_are_kept_and_used_again() {
    let (closed, ended) = channel();
    let server = Scripted::new(move |mut stream, _| {
        while head(&mut stream).is_some() {
            stream.write_all(OK).unwrap();
        }
        let _ = closed.send(());
    });
    let proxy = Proxy::to(&[server.address]);
    (0..10).for_each(|_| assert!(proxy.get().ends_with("ok")));
    assert_eq!(server.connections(), 1);
    assert!(ended.try_recv().is_err(), "and still open");
}

#[test]
fn a_head_that_is_refused_gets_no_body() {
    let proxy = Proxy::to(&[mirror().address]);
    let answer = proxy.ask(b"HEAD / HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[test]
fn options_and_trace_go_as_far_as_max_forwards_lets_them() {
    let server = mirror();
    let proxy = Proxy::to(&[server.address]);
    let ask = |method: &str, left: &str| {
        let text = format!(
            "{method} / HTTP/1.1\r\nHost: x\r\nMax-Forwards: {left}\r\nConnection: close\r\n\r\n"
        );
        proxy.ask(text.as_bytes())
    };
    for (method, left, told) in [
        ("OPTIONS", "2", "Max-Forwards: 1\r\n"),
        ("TRACE", "1", "Max-Forwards: 0\r\n"),
        ("OPTIONS", "+1", "Max-Forwards: +1\r\n"),
        ("GET", "0", "Max-Forwards: 0\r\n"),
    ] {
        let answer = ask(method, left);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert_eq!(answer.matches("Max-Forwards: ").count(), 1, "{answer}");
        assert!(answer.contains(told), "{answer}");
    }
    let here = ask("OPTIONS", "0");
    assert!(here.starts_with("HTTP/1.1 200 ") && here.contains("Content-Length: 0\r\n"), "{here}");
    let untraced = ask("TRACE", "00");
    assert!(untraced.starts_with("HTTP/1.1 405 ") && untraced.contains("Allow: "), "{untraced}");
}

#[test]
fn every_final_response_has_one_date_and_that_of_the_server_stays() {
    let server = Scripted::new(|mut stream, _| {
        while let Some(asked) = head(&mut stream) {
            let date = if asked.contains("/dated") { "date: then\r\n" } else { "" };
            let text = format!(
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                 HTTP/1.1 200 OK\r\n{date}Content-Length: 0\r\n\r\n"
            );
            stream.write_all(text.as_bytes()).unwrap();
        }
    });
    let proxy = Proxy::to(&[server.address]);
    let ask = |target: &str| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        proxy.ask(text.as_bytes())
    };
    let is_dated = |head: &str| {
        let lines: Vec<_> = head.lines().filter(|line| line.starts_with("Date: ")).collect();
        assert!(lines.len() == 1 && lines[0].ends_with(" GMT") && lines[0].len() == 35, "{head}");
    };
    let undated = ask("/");
    let (interim, last) = undated.split_once("\r\n\r\n").unwrap();
    assert!(!interim.contains("Date: "), "{interim}");
    is_dated(last);
    let dated = ask("/dated");
    assert_eq!(dated.to_lowercase().matches("date: ").count(), 1, "{dated}");
    assert!(dated.contains("date: then\r\n"), "{dated}");
    is_dated(&proxy.ask(b"bad\r\n\r\n"));
    let alone = Proxy::to(&[crate::support::nobody()]);
    is_dated(&alone.get());
}
