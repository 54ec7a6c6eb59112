//! HTTP/2 towards servers: what is said, how connections are shared, how they end.

use std::{
    future::{pending, poll_fn},
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use h2::{Reason, client, server::Builder};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use loadline_core::{
    decide::ending::Ending,
    fleet::{PolicyKind, Retry, Server},
    state::ServiceCounter,
    time::Duration,
    units::Ratio,
};
use tokio::sync::Notify;

use crate::{
    scripted::{Asked, Scripted},
    support::{
        FullResponse, OK, PATIENCE, Proxy, SHORT, answering, get, head, post, server, wait_until,
    },
};

/// What a client of HTTP/1 gets for these bytes, up to the end of the connection.
fn say(proxy: &Proxy, request: &str) -> String {
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A server that answers with what it was asked.
fn showing() -> Scripted {
    Scripted::new(async |mut asked| {
        let (body, trailers) = asked.read().await;
        let (method, uri) = (asked.request.method(), asked.request.uri());
        let seen = format!("{method} {uri} {:?} {body} {trailers:?}", asked.request.headers());
        asked.answer(&seen);
    })
}

#[test]
fn a_request_of_http1_becomes_a_stream_without_what_ends_here() {
    let server = showing();
    let proxy = server.proxy();
    let seen = say(
        &proxy,
        "GET /page?q HTTP/1.1\r\nHost: a.test\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\
         Keep-Alive: 5\r\nTE: trailers\r\nX-Mine: kept\r\n\r\n",
    );
    assert!(seen.contains("GET http://a.test/page?q "), "{seen}");
    for (name, value) in [("te", "trailers"), ("x-mine", "kept"), ("x-forwarded-for", "127.0.0.1")]
    {
        assert!(seen.contains(&format!("\"{name}\": \"{value}\"")), "{name} is not in {seen}");
    }
    for name in ["host", "connection", "x-hop", "keep-alive", "transfer-encoding"] {
        assert!(!seen.contains(&format!("\"{name}\"")), "{name} is in {seen}");
    }
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn what_a_target_may_have_in_http1_alone_is_escaped_in_http2() {
    let server = showing();
    let proxy = server.proxy();
    for (target, escaped) in [
        ("/a<b>`\"?q=\"<`>\"", "/a%3Cb%3E%60\"?q=%22%3C`%3E%22"),
        ("/a%3c{|}?a[]=^&b=%22", "/a%3c{|}?a[]=^&b=%22"),
    ] {
        let asked = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        let seen = say(&proxy, &asked);
        assert!(seen.contains(&format!("GET http://a.test{escaped} ")), "{target}: {seen}");
    }
    proxy.expect(Ending::Complete, 2);
}

#[test]
fn bodies_and_their_trailers_go_up() {
    let server = showing();
    let proxy = server.proxy();
    let seen = say(
        &proxy,
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\nab\r\n3\r\ncde\r\n0\r\nX-Sum: 5\r\n\r\n",
    );
    assert!(seen.contains(" abcde Some({\"x-sum\": \"5\"})"), "{seen}");
    let seen = say(
        &proxy,
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert!(seen.contains("\"content-length\": \"3\"") && seen.contains(" abc None"), "{seen}");
}

#[tokio::test]
async fn an_answer_and_its_trailers_come_down_to_either_version() {
    let server = Scripted::new(async |mut asked| {
        let mut stream = asked.begin();
        stream.send_data("abc".into(), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        stream.send_trailers(trailers).unwrap();
    });
    let proxy = server.proxy();
    let seen = say(&proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n3\r\nabc\r\n0\r\ngrpc-status: 0\r\n\r\n"), "{seen}");
    let answer = proxy.client().await.ask(get()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "abc"));
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
    let seen = say(&proxy, "GET / HTTP/1.0\r\n\r\n");
    assert!(seen.ends_with("\r\n\r\nabc"), "{seen}");
    proxy.expect(Ending::Complete, 3);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_answer_without_a_body_ends_with_its_head() {
    let server = Scripted::new(async |mut asked| {
        let mut response = Response::new(());
        let status = asked.request.uri().path()[1..].parse().unwrap();
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert("grpc-status", HeaderValue::from_static("12"));
        asked.respond.send_response(response, true).unwrap();
    });
    let proxy = server.proxy();
    let client = proxy.client().await;
    for status in [200, 204, 304] {
        let mut request = get();
        *request.uri_mut() = format!("http://a.test/{status}").parse().unwrap();
        let answer = client.ask(request).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (status, 0));
        assert_eq!(answer.headers["grpc-status"], "12");
        assert!(answer.trailers.is_none());
    }
    let seen = say(&proxy, "HEAD /200 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(!seen.contains("content-length"), "{seen}");
}

#[tokio::test]
async fn an_answer_that_ends_with_its_head_has_a_length_of_ours_for_clients_of_http1_alone() {
    let server = Scripted::new(async |mut asked| {
        let mut response = Response::new(());
        if asked.request.uri().path() == "/told" {
            response.headers_mut().insert("content-length", HeaderValue::from_static("0"));
        }
        asked.respond.send_response(response, true).unwrap();
    });
    let proxy = server.proxy();
    let client = proxy.client().await;
    for (path, is_told) in [("untold", false), ("told", true)] {
        let request = http::Request::get(format!("http://a.test/{path}")).body(()).unwrap();
        let answer = client.ask(request).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 0));
        assert_eq!(answer.headers.contains_key("content-length"), is_told, "{path}");
        let asked = format!("GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let seen = say(&proxy, &asked);
        assert!(seen.contains("\r\ncontent-length: 0\r\n"), "{path}: {seen}");
    }
}

#[tokio::test]
async fn interim_answers_go_before_the_answer() {
    let server = Scripted::new(async |mut asked| {
        for status in [100, 103] {
            let mut hints = Response::new(());
            *hints.status_mut() = StatusCode::from_u16(status).unwrap();
            asked.respond.send_informational(hints).unwrap();
        }
        asked.answer("ok");
    });
    let proxy = server.proxy();
    let seen = say(&proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(seen.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 "), "{seen}");
    assert!(seen.contains("\r\n\r\nHTTP/1.1 200 OK\r\n"), "{seen}");
}

#[tokio::test]
async fn both_sides_talk_at_the_same_time() {
    let server = Scripted::new(async |mut asked| {
        let mut stream = asked.begin();
        while let Some(data) = asked.request.body_mut().data().await {
            let data = data.unwrap();
            asked.request.body_mut().flow_control().release_capacity(data.len()).unwrap();
            stream.send_data(data, false).unwrap();
        }
        stream.send_data(Bytes::new(), true).unwrap();
    });
    let proxy = server.proxy();
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    let (answer, mut up) = requests.send_request(post(), false).unwrap();
    let mut down = answer.await.unwrap().into_body();
    for word in ["one", "two", "three"] {
        up.send_data(word.into(), false).unwrap();
        let heard = down.data().await.unwrap().unwrap();
        assert_eq!(heard, word);
    }
    up.send_data(Bytes::new(), true).unwrap();
    assert!(down.data().await.is_none_or(|end| end.unwrap().is_empty()));
    proxy.expect(Ending::Complete, 1);
}

/// Asks so many times at once; all have to be answered.
async fn ask_at_once(proxy: &Proxy, count: usize) {
    let client = proxy.client().await;
    let asked: Vec<_> = (0..count)
        .map(|_| {
            let requests = client.requests.clone();
            tokio::spawn(async move {
                let mut requests = requests.ready().await.unwrap();
                let (answer, _) = requests.send_request(get(), true).unwrap();
                FullResponse::read(answer.await.unwrap()).await.unwrap()
            })
        })
        .collect();
    for asked in asked {
        assert_eq!(asked.await.unwrap().text(), "ok");
    }
}

/// A server of so many streams a connection that answers when so many requests are there.
fn patient(streams: u32, all: usize) -> Scripted {
    let there = Arc::new(AtomicUsize::new(0));
    let mut builder = Builder::new();
    builder.max_concurrent_streams(streams);
    Scripted::with(builder, move |asked: Asked| {
        let there = there.clone();
        async move {
            there.fetch_add(1, Relaxed);
            while there.load(Relaxed) < all {
                tokio::task::yield_now().await;
            }
            asked.answer("ok");
        }
    })
}

#[tokio::test]
async fn requests_share_a_connection() {
    let server = patient(1_000, 60);
    let proxy = server.proxy();
    ask_at_once(&proxy, 60).await;
    assert_eq!(server.connections(), 1);
    proxy.expect(Ending::Complete, 60);
}

#[tokio::test]
async fn a_further_connection_is_opened_when_the_server_takes_no_more_streams() {
    let server = patient(5, 20);
    let proxy = server.proxy();
    // The first connection tells how many there may be; nothing has to be refused.
    ask_at_once(&proxy, 20).await;
    assert!(server.connections() >= 4, "{}", server.connections());
    proxy.expect(Ending::Complete, 20);
    assert_eq!(proxy.runtime.tallies().services["web"].counters[ServiceCounter::Retries], 0);
}

#[tokio::test]
async fn a_server_that_leaves_is_asked_over_another_connection() {
    let server = Scripted::ok();
    let proxy = server.proxy();
    let client = proxy.client().await;
    for round in 1..=3 {
        for _ in 0..3 {
            assert_eq!(client.send(post(), b"body", None).await.unwrap().text(), "ok");
        }
        assert_eq!(server.connections(), round);
        server.leave();
    }
    proxy.expect(Ending::Complete, 9);
}

#[tokio::test]
async fn a_refused_stream_is_sent_again_whatever_its_method() {
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let server = Scripted::new(move |mut asked: Asked| {
        let is_first = asked.request.uri().path() == "/page" && count.fetch_add(1, Relaxed) == 0;
        async move {
            if is_first {
                return asked.respond.send_reset(Reason::REFUSED_STREAM);
            }
            asked.answer("ok");
        }
    });
    let proxy = server.proxy();
    let client = proxy.client().await;
    let mut first = get();
    *first.uri_mut() = "http://a.test/other".parse().unwrap();
    assert_eq!(client.ask(first).await.unwrap().text(), "ok");
    assert_eq!(client.ask(post()).await.unwrap().text(), "ok");
    assert_eq!(refused.load(Relaxed), 2);
    proxy.expect(Ending::Complete, 2);
}

#[test]
fn a_refused_post_whose_short_body_comes_behind_its_head_is_sent_again() {
    let refused = Arc::new(AtomicUsize::new(0));
    let server = Scripted::new(move |mut asked| {
        let first = refused.fetch_add(1, Relaxed) == 0;
        async move {
            let (body, _) = asked.read().await;
            match first {
                true => asked.respond.send_reset(Reason::REFUSED_STREAM),
                false => asked.answer(&body),
            }
        }
    });
    let proxy = server.proxy();
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\n")
        .unwrap();
    // The head is looked at before the body is there.
    std::thread::sleep(SHORT.to_std() / 2);
    stream.write_all(b"hello").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("hello"), "{answer}");
    proxy.expect(Ending::Complete, 1);
}

#[tokio::test]
async fn a_response_that_comes_before_its_server_makes_room_for_the_request_is_passed_on() {
    let mut builder = Builder::new();
    builder.initial_window_size(0);
    let server = Scripted::with(builder, async |mut asked| {
        let mut answer = asked.begin();
        answer.send_data(Bytes::from_static(b"early"), true).unwrap();
        pending::<()>().await;
    });
    let mut fleet = server.fleet();
    fleet.services[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let opened = proxy.client().await.ask(get()).await.unwrap();
    assert_eq!(opened.text(), "early", "and the window is known");
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 20000\r\n\r\n";
    let answer = say(&proxy, &format!("{head}{}", "x".repeat(20_000)));
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("early"), "{answer}");
    proxy.expect(Ending::Complete, 2);
}

#[tokio::test]
async fn a_5xx_of_an_http2_server_is_answered_by_another_where_that_is_safe() {
    let broken = Scripted::new(async |mut asked: Asked| {
        let answer = Response::builder().status(StatusCode::INTERNAL_SERVER_ERROR).body(());
        let mut stream = asked.respond.send_response(answer.unwrap(), false).unwrap();
        stream.send_data(Bytes::from_static(b"broken"), true).unwrap();
    });
    let well = Scripted::ok();
    let mut fleet = broken.fleet();
    let service = &mut fleet.services[0];
    service.groups[0].servers.push(Server::at(well.address));
    service.policy = PolicyKind::RoundRobin;
    service.ejection = None;
    service.retry = Retry { on_5xx: true, budget: Ratio::percent(100), ..Retry::default() };
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    for _ in 0..10 {
        let answer = client.ask(get()).await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
    }
    proxy.expect(Ending::Complete, 10);
    // Each takes the turns of both.
    assert_eq!(proxy.runtime.tallies().services["web"].counters[ServiceCounter::Retries], 10);
    assert_eq!((broken.connections(), well.connections()), (1, 1), "a 5xx costs no connection");
    let mut statuses = [0; 2];
    for status in &mut statuses {
        *status = client.ask(post()).await.unwrap().status;
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 500], "a POST is not sent twice");
    proxy.expect(Ending::Complete, 12);
}

#[tokio::test]
async fn a_stream_that_is_reset_has_a_name_and_the_others_go_on() {
    let server = Scripted::new(async |mut asked| match asked.request.uri().path() {
        "/before" => asked.respond.send_reset(Reason::INTERNAL_ERROR),
        "/after" => {
            let mut stream = asked.begin();
            stream.send_data("half".into(), false).unwrap();
            // The client says when it has that.
            asked.read().await;
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
        _ => asked.answer("ok"),
    });
    let mut fleet = server.fleet();
    fleet.services[0].ejection = None;
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    let at = |path: &str| http::Request::post(format!("http://a.test/{path}")).body(()).unwrap();
    assert_eq!(client.ask(at("ok")).await.unwrap().text(), "ok");
    assert_eq!(client.ask(at("before")).await.unwrap().status, 502);
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, mut up) = requests.send_request(at("after"), false).unwrap();
    let mut down = answer.await.unwrap().into_body();
    assert_eq!(down.data().await.unwrap().unwrap(), "half");
    up.send_data(Bytes::new(), true).unwrap();
    let cut = down.data().await.unwrap().unwrap_err();
    assert!(cut.is_reset(), "{cut}");
    assert_eq!(client.ask(at("ok")).await.unwrap().text(), "ok");
    let counted = || {
        let tallies = proxy.runtime.tallies();
        [Ending::Complete, Ending::ServerReset, Ending::ServerCut].map(|it| tallies.count(it))
    };
    wait_until(|| counted() == [2, 1, 1], "each to be counted");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_request_taken_back_is_taken_from_its_server_too() {
    let (asked, reset) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (here, there) = (asked.clone(), reset.clone());
    let server = Scripted::new(move |mut asked: Asked| {
        let (here, there) = (here.clone(), there.clone());
        async move {
            tokio::task::spawn_blocking(move || here.wait()).await.unwrap();
            let reason = poll_fn(|cx| asked.respond.poll_reset(cx)).await;
            assert_eq!(reason.unwrap(), Reason::CANCEL);
            tokio::task::spawn_blocking(move || there.wait()).await.unwrap();
        }
    });
    let proxy = server.proxy();
    let client = proxy.client().await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (_answer, mut stream) = requests.send_request(get(), true).unwrap();
    tokio::task::spawn_blocking(move || asked.wait()).await.unwrap();
    stream.send_reset(Reason::CANCEL);
    tokio::task::spawn_blocking(move || reset.wait()).await.unwrap();
    proxy.expect(Ending::ClientGone, 1);
}

#[tokio::test]
async fn a_connection_that_let_a_request_time_out_gets_no_more() {
    let server = Scripted::new(async |asked| match asked.connection {
        0 => pending().await,
        _ => asked.answer("ok"),
    });
    let mut fleet = server.fleet();
    fleet.services[0].timeouts.head = SHORT;
    fleet.services[0].retry.attempts = 0;
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    assert_eq!(client.ask(get()).await.unwrap().status, 504);
    assert_eq!(client.ask(get()).await.unwrap().text(), "ok");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_without_streams_is_closed_in_time() {
    let server = Scripted::ok();
    let mut fleet = server.fleet();
    fleet.services[0].timeouts.keep_alive = SHORT;
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    assert_eq!(client.ask(get()).await.unwrap().text(), "ok");
    let seen = server.clone();
    let closed = move || wait_until(|| seen.ended() == 1, "the connection to be closed");
    tokio::task::spawn_blocking(closed).await.unwrap();
    assert_eq!(client.ask(get()).await.unwrap().text(), "ok");
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_that_speaks_http1_gets_no_request() {
    let proxy = {
        let mut fleet = crate::support::fleet(answering(OK));
        fleet.services[0].http_version = loadline_core::fleet::HttpVersion::Http2;
        fleet.services[0].timeouts.connect = Duration::from_secs(2);
        Proxy::of(fleet)
    };
    let seen = say(&proxy, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(seen.starts_with("HTTP/1.1 50"), "{seen}");
    assert_eq!(proxy.runtime.tallies().count(Ending::Complete), 0);
    // One that closes at once is another case.
    let closes = server(|mut stream| drop(head(&mut stream)));
    let mut fleet = crate::support::fleet(closes);
    fleet.services[0].http_version = loadline_core::fleet::HttpVersion::Http2;
    let proxy = Proxy::of(fleet);
    let seen = say(&proxy, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(seen.starts_with("HTTP/1.1 502 "), "{seen}");
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody_on_the_same_connection() {
    let server = Scripted::new(async |mut asked| {
        if asked.request.method() == "POST" {
            return asked.answer("ok");
        }
        let mut stream = asked.begin();
        // More than the proxy takes for one stream, and it goes only as far as the window.
        stream.send_data(vec![b'x'; 4 << 20].into(), true).unwrap();
    });
    let proxy = server.proxy();
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut builder = client::Builder::new();
        builder.initial_window_size(1_000);
        let client = proxy.client_with(&builder).await;
        let (answer, _) = client.requests.ready().await.unwrap().send_request(get(), true).unwrap();
        stalled.push(answer.await.unwrap());
    }
    assert_eq!(proxy.client().await.ask(post()).await.unwrap().text(), "ok");
    assert_eq!(server.connections(), 1);
    drop(stalled);
    let all_gone = move || proxy.runtime.tallies().count(Ending::ClientGone) == 8;
    let seen = tokio::task::spawn_blocking(move || wait_until(all_gone, "clients to be gone"));
    seen.await.unwrap();
}

#[test]
fn a_connection_that_is_kept_ready_carries_the_first_request() {
    let server = Scripted::new(async |asked| {
        let number = asked.connection.to_string();
        asked.answer(&number);
    });
    let mut fleet = server.fleet();
    fleet.services[0].prewarm = 4;
    let proxy = Proxy::of(fleet);
    wait_until(|| server.connections() == 1, "one is enough for many streams");
    let seen = say(&proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(seen.contains("\r\n1\r\n0\r\n"), "not on the first connection: {seen}");
    assert_eq!(server.connections(), 1);
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn the_answer_of_a_server_that_takes_no_more_of_the_body_is_not_a_502() {
    let mut builder = Builder::new();
    builder.initial_window_size(1_000);
    let server = Scripted::with(builder, async |mut asked: Asked| {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
        let mut answer = asked.respond.send_response(response, false).unwrap();
        answer.send_data("no".into(), true).unwrap();
    });
    let proxy = server.proxy();
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n";
    let request = format!("{head}Content-Length: 50000\r\n\r\n{}", "x".repeat(50_000));
    for _ in 0..20 {
        let answer = say(&proxy, &request);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("\r\nno\r\n"), "{answer}");
    }
    proxy.expect(Ending::Complete, 20);
}

#[tokio::test]
async fn a_client_that_does_not_read_small_messages_costs_no_other_its_response() {
    let (answer, sent) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (told, count) = (answer.clone(), sent.clone());
    let server = Scripted::new(move |mut asked| {
        let (told, count) = (told.clone(), count.clone());
        async move {
            if asked.request.method() == "POST" {
                told.notified().await;
                return asked.answer("ok");
            }
            let mut stream = asked.begin();
            // Not quite the window of the stream.
            for _ in 0..13_000 {
                stream.reserve_capacity(20);
                while stream.capacity() < 20 {
                    poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
                }
                stream.send_data(Bytes::from_static(&[b'x'; 20]), false).unwrap();
            }
            count.fetch_add(1, Relaxed);
            pending::<()>().await;
        }
    });
    let proxy = server.proxy();
    let other = proxy.client().await;
    let waiting = tokio::spawn(async move { other.ask(post()).await });
    let mut builder = client::Builder::new();
    builder.initial_window_size(0);
    let mut requests = proxy.client_with(&builder).await.requests;
    let mut unread = Vec::new();
    for _ in 0..6 {
        requests = requests.ready().await.unwrap();
        unread.push(requests.send_request(get(), true).unwrap().0.await.unwrap());
    }
    wait_until(|| sent.load(Relaxed) == 6, "the server to have sent what it may");
    answer.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().text(), "ok");
    assert_eq!(server.connections(), 1);
}

#[test]
fn an_empty_frame_with_each_response_never_ends_the_connection() {
    let server = Scripted::new(async |mut asked| {
        let mut stream = asked.begin();
        stream.send_data(Bytes::new(), false).unwrap();
        stream.send_data(Bytes::from_static(b"hello"), true).unwrap();
    });
    let proxy = server.proxy();
    for number in 0..250 {
        let told = say(&proxy, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        assert!(told.ends_with("hello\r\n0\r\n\r\n"), "{number}: {told}");
    }
    assert_eq!(server.connections(), 1);
    proxy.expect(Ending::Complete, 250);
}

#[test]
fn a_head_that_is_too_long_is_told_as_that() {
    let server = Scripted::new(async |mut asked| {
        let fields = asked.request.uri().path()[1..].parse().unwrap();
        let mut response = Response::new(());
        for _ in 0..fields {
            response.headers_mut().append("x-long", "v".repeat(900).parse().unwrap());
        }
        let _ = asked.respond.send_response(response, true);
    });
    let proxy = server.proxy();
    for fields in [20, 60, 220] {
        let asked = format!("GET /{fields} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        assert!(say(&proxy, &asked).starts_with("HTTP/1.1 502 "), "{fields}");
    }
    proxy.expect(Ending::ServerHeadTooLarge, 3);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_reload_that_changes_how_long_connections_are_kept_holds_for_the_next_request() {
    let server = showing();
    let (proxy, mut fleet) = (server.proxy(), server.fleet());
    let ask = || say(&proxy, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ask();
    proxy.runtime.reload(fleet.clone()).unwrap();
    (0..20).for_each(|_| assert!(ask().starts_with("HTTP/1.1 200 OK\r\n")));
    assert_eq!(server.connections(), 1, "nothing has changed");
    fleet.services[0].timeouts.keep_alive = SHORT;
    proxy.runtime.reload(fleet).unwrap();
    let is_answered = || ask().starts_with("HTTP/1.1 200 OK\r\n");
    wait_until(|| is_answered() && server.connections() > 1, "a new connection");
}
