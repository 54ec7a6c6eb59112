//! What a request becomes for a server, and its response for the client.

use std::{
    future::poll_fn,
    io::Write as _,
    net::{Ipv4Addr, TcpStream},
    sync::Arc,
};

use bytes::Bytes;
use h2::{Reason, ext::Protocol};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use loadline_core::{
    decide::ending::Ending,
    fleet::{Forwarded, PolicyKind, ProxyVersion, Retry, Server, UnderscoreHeaders},
    units::Ratio,
};
use tokio::{sync::Notify, time::timeout};

use crate::{
    frames::{DATA, END_HEADERS, END_STREAM, GET, HEADERS, RST_STREAM, Raw},
    handshake::opening,
    support::{
        FullResponse, OK, PATIENCE, Proxy, SHORT, answering, fleet, get, head, post, server,
        showing, until,
    },
};

#[tokio::test]
async fn a_request_reaches_the_server_as_http1_without_what_ends_here() {
    let proxy = Proxy::to(showing("\r\n\r\n"));
    let mut request = get();
    for crumb in ["a=1", "b=2; c=3", "d=4"] {
        request.headers_mut().append("cookie", HeaderValue::from_static(crumb));
    }
    request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
    request.headers_mut().insert("x-mine", HeaderValue::from_static("kept"));
    let seen = proxy.client().await.ask(request).await.unwrap().text();
    assert!(seen.starts_with("GET /page?q HTTP/1.1\r\nhost: a.test\r\n"), "{seen}");
    let crumbs = "cookie: a=1; b=2; c=3; d=4";
    for line in [crumbs, "Connection: TE", "TE: trailers", "x-mine: kept"] {
        assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line} is not in {seen}");
    }
    for line in ["X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a.test", "Via: 2.0 loadline"] {
        assert!(seen.contains(&format!("\r\n{line}")), "{line} is not in {seen}");
    }
    for name in ["transfer-encoding:", "content-length:"] {
        assert!(!seen.to_ascii_lowercase().contains(name), "{name} is in {seen}");
    }
    proxy.expect(Ending::Complete, 1);
}

#[tokio::test]
async fn a_get_whose_end_comes_in_a_frame_of_its_own_has_no_body() {
    let proxy = Proxy::to(showing("\r\n\r\n"));
    let client = proxy.client().await;
    for moment in [0, 100] {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (answer, mut up) = requests.send_request(get(), false).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(moment)).await;
        up.send_data(Bytes::new(), true).unwrap();
        let seen = FullResponse::read(answer.await.unwrap()).await.unwrap().text();
        assert!(!seen.to_ascii_lowercase().contains("transfer-encoding"), "{seen}");
    }
}

#[tokio::test]
async fn trailers_of_a_get_without_data_reach_its_server() {
    let proxy = Proxy::to(showing("x-sum: 0\r\n\r\n"));
    let client = proxy.client().await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, mut up) = requests.send_request(get(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("0"));
    up.send_trailers(trailers).unwrap();
    let seen = FullResponse::read(answer.await.unwrap()).await.unwrap().text();
    assert!(seen.ends_with("\r\n\r\n0\r\nx-sum: 0\r\n\r\n"), "{seen}");
}

#[tokio::test]
async fn a_host_that_says_the_same_as_the_authority_in_other_letters_is_no_other_host() {
    let proxy = Proxy::to(showing("\r\n\r\n"));
    let client = proxy.client().await;
    for (authority, host, is_same) in [
        ("a.test", "A.Test", true),
        ("a.test:80", "a.test", true),
        ("A.test", "a.test:80", true),
        ("a.test", "a.test:443", false),
        ("a.test", "a.test:8080", false),
    ] {
        let request = Request::get(format!("http://{authority}/")).header("host", host);
        let answer = client.ask(request.body(()).unwrap()).await.unwrap();
        assert_eq!(answer.status, if is_same { 200 } else { 400 }, "{authority}, {host}");
        let seen = answer.text();
        assert_eq!(seen.contains(&format!("\r\nhost: {authority}\r\n")), is_same, "{seen}");
        assert_eq!(seen.matches("\r\nhost: ").count(), usize::from(is_same), "{seen}");
    }
}

#[tokio::test]
async fn a_put_whose_body_comes_in_a_frame_of_its_own_is_answered_by_another_server() {
    let broken = answering(b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n");
    let mut fleet = fleet(broken);
    let service = &mut fleet.services[0];
    service.groups[0].servers.push(Server::at(answering(OK)));
    (service.policy, service.ejection) = (PolicyKind::RoundRobin, None);
    service.retry = Retry { on_5xx: true, budget: Ratio::percent(100), ..Retry::default() };
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    for _ in 0..20 {
        let mut requests = client.requests.clone().ready().await.unwrap();
        let put = Request::put("http://a.test/").header("content-length", "2").body(()).unwrap();
        let (answer, mut up) = requests.send_request(put, false).unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        up.send_data(Bytes::from_static(b"hi"), true).unwrap();
        let told = FullResponse::read(answer.await.unwrap()).await.unwrap();
        assert_eq!((told.status, told.text().as_str()), (200, "ok"));
    }
    proxy.expect(Ending::Complete, 20);
}

#[tokio::test]
async fn a_get_with_a_body_of_unknown_length_has_all_of_it() {
    let first = Arc::new(Notify::new());
    let came = first.clone();
    let proxy = Proxy::to(server(move |mut stream| {
        let begun = until(&mut stream, "one\r\n").unwrap();
        came.notify_one();
        let seen = begun + &until(&mut stream, "0\r\n\r\n").unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{seen}", seen.len()).unwrap();
    }));
    let client = proxy.client().await;
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, mut up) = requests.send_request(get(), false).unwrap();
    up.send_data(Bytes::from_static(b"one"), false).unwrap();
    first.notified().await;
    up.send_data(Bytes::from_static(b"two"), false).unwrap();
    up.send_data(Bytes::new(), true).unwrap();
    let seen = FullResponse::read(answer.await.unwrap()).await.unwrap().text();
    assert!(seen.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"), "{seen}");
}

#[tokio::test]
async fn a_body_of_unknown_length_goes_in_chunks_and_its_trailers_behind_it() {
    let proxy = Proxy::to(showing("grpc-timeout: 1S\r\n\r\n"));
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-timeout", HeaderValue::from_static("1S"));
    let answer = proxy.client().await.send(post(), b"hello", Some(trailers)).await.unwrap();
    let seen = answer.text();
    assert!(seen.contains("\r\ntransfer-encoding: chunked\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\n5\r\nhello\r\n0\r\ngrpc-timeout: 1S\r\n\r\n"), "{seen}");
}

#[tokio::test]
async fn announced_trailers_go_behind_a_body_of_known_length_and_others_do_not() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("5"));
    for (announced, end) in [(true, "x-sum: 5\r\n\r\n"), (false, "\r\n\r\nhello")] {
        let proxy = Proxy::to(showing(end));
        let mut request = post();
        request.headers_mut().insert("content-length", HeaderValue::from_static("5"));
        if announced {
            request.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
        }
        let client = proxy.client().await;
        let seen = client.send(request, b"hello", Some(trailers.clone())).await.unwrap().text();
        assert_eq!(seen.contains("\r\ncontent-length: 5\r\n"), !announced, "{seen}");
        assert_eq!(seen.contains("\r\n5\r\nhello\r\n0\r\nx-sum: 5\r\n"), announced, "{seen}");
    }
}

#[tokio::test]
async fn a_body_of_known_length_goes_as_it_is_and_none_is_said_to_be_none() {
    let proxy = Proxy::to(showing("hello"));
    let mut request = post();
    request.headers_mut().insert("content-length", HeaderValue::from_static("5"));
    let seen = proxy.client().await.send(request, b"hello", None).await.unwrap().text();
    assert!(seen.contains("\r\ncontent-length: 5\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\nhello"), "{seen}");
    let proxy = Proxy::to(showing("\r\n\r\n"));
    let seen = proxy.client().await.ask(post()).await.unwrap().text();
    assert!(seen.contains("\r\ncontent-length: 0\r\n"), "{seen}");
}

#[tokio::test]
async fn an_answer_in_chunks_loses_them_and_keeps_its_trailers() {
    let proxy = Proxy::to(answering(
        b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\
          Keep-Alive: timeout=5\r\nX-Mine: Kept\r\n\r\n\
          3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nGrpc-Status: 0\r\n\r\n",
    ));
    let answer = proxy.client().await.ask(get()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "abcde"));
    assert_eq!(answer.headers.len(), 2, "{:?}", answer.headers);
    assert_eq!(answer.headers["x-mine"], "Kept");
    assert!(answer.headers.contains_key("date"));
    assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_ends_its_stream() {
    let proxy = Proxy::to(server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it").unwrap();
    }));
    let client = proxy.client().await;
    for _ in 0..2 {
        assert_eq!(client.ask(get()).await.unwrap().text(), "all of it");
    }
    proxy.expect(Ending::Complete, 2);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_the_whole() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let proxy = Proxy::to(server(move |mut stream| {
            head(&mut stream);
            stream.write_all(answer).unwrap();
        }));
        let client = proxy.client().await;
        let broken = client.ask(get()).await.unwrap_err();
        assert_eq!(broken.reason(), Some(Reason::INTERNAL_ERROR), "{broken}");
        proxy.expect(Ending::ServerCut, 1);
    }
}

#[test]
fn what_has_come_of_an_answer_that_breaks_off_at_once_goes_before_the_reset() {
    let mut fleet = fleet(server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nhalf").unwrap();
    }));
    fleet.services[0].ejection = None;
    let proxy = Proxy::of(fleet);
    let mut client = Raw::connect(proxy.address);
    for stream in (1..80).step_by(2) {
        client.send(HEADERS, END_STREAM | END_HEADERS, stream, GET).unwrap();
        let (mut kinds, mut body) = (Vec::new(), Vec::<u8>::new());
        while kinds.last() != Some(&RST_STREAM) {
            let frame = client.receive().unwrap();
            if frame.stream == stream {
                kinds.push(frame.kind);
                body.extend(frame.payload.iter().filter(|_| frame.kind == DATA));
            }
        }
        assert_eq!((kinds, &*body), (vec![HEADERS, DATA, RST_STREAM], &b"half"[..]), "{stream}");
    }
    proxy.expect(Ending::ServerCut, 40);
}

#[tokio::test]
async fn answers_without_a_body_end_with_their_head() {
    let answers: [(Method, u16, &[u8]); 3] = [
        (Method::HEAD, 200, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        (Method::GET, 204, b"HTTP/1.1 204 No Content\r\n\r\n"),
        (Method::GET, 304, b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
    ];
    for (method, status, bytes) in answers {
        let proxy = Proxy::to(answering(bytes));
        let mut request = get();
        *request.method_mut() = method;
        let answer = proxy.client().await.ask(request).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (status, 0));
    }
}

#[tokio::test]
async fn interim_answers_go_before_the_answer() {
    let proxy = Proxy::to(server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n").unwrap();
        stream.write_all(OK).unwrap();
    }));
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    let (mut answer, _) = requests.send_request(get(), true).unwrap();
    let hint: Response<()> = poll_fn(|cx| answer.poll_informational(cx)).await.unwrap().unwrap();
    assert_eq!(
        (hint.status().as_u16(), &hint.headers()["link"]),
        (103, &"</a.css>".parse().unwrap())
    );
    assert_eq!(FullResponse::read(answer.await.unwrap()).await.unwrap().text(), "ok");
}

#[tokio::test]
async fn a_client_may_wait_for_leave_to_send_its_body() {
    let proxy = Proxy::to(server(|mut stream: TcpStream| {
        let request = head(&mut stream).unwrap();
        assert!(request.contains("\r\nexpect: 100-continue\r\n"), "{request}");
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let body = head(&mut stream).unwrap();
        assert_eq!(body, "4\r\nbody\r\n0\r\n\r\n");
        stream.write_all(OK).unwrap();
    }));
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    let mut request = post();
    request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
    let (mut answer, mut body) = requests.send_request(request, false).unwrap();
    let leave = poll_fn(|cx| answer.poll_informational(cx)).await.unwrap().unwrap();
    assert_eq!(leave.status().as_u16(), 100);
    body.send_data(Bytes::from_static(b"body"), true).unwrap();
    assert_eq!(answer.await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn a_websocket_goes_over_one_stream() {
    let proxy = Proxy::to(server(|mut stream| {
        let asked = head(&mut stream).unwrap();
        let request = asked.to_ascii_lowercase();
        for line in ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"] {
            assert!(request.contains(&format!("\r\n{line}\r\n")), "{line} is not in {request}");
        }
        assert!(request.contains("\r\nsec-websocket-key: "), "{request}");
        stream.write_all(opening(&asked).as_bytes()).unwrap();
        let mut back = stream.try_clone().unwrap();
        std::io::copy(&mut stream, &mut back).unwrap();
    }));
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    while !requests.is_extended_connect_protocol_enabled() {
        tokio::task::yield_now().await;
    }
    let mut request = Request::connect("http://a.test/chat").body(()).unwrap();
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    request.headers_mut().insert("sec-websocket-version", HeaderValue::from_static("13"));
    let (answer, mut up) = requests.send_request(request, false).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let mut down = answer.into_body();
    for word in ["one", "two"] {
        up.send_data(Bytes::from_static(word.as_bytes()), false).unwrap();
        assert_eq!(down.data().await.unwrap().unwrap(), word);
    }
    up.send_data(Bytes::new(), true).unwrap();
    let end = down.data().await;
    assert!(end.as_ref().is_none_or(|end| end.as_ref().is_ok_and(Bytes::is_empty)), "{end:?}");
    proxy.expect(Ending::Tunnel, 1);
}

#[tokio::test]
async fn an_answer_that_does_not_wait_for_the_body_ends_the_stream_for_both() {
    let mut fleet = fleet(server(|mut stream| {
        head(&mut stream);
        let answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno";
        stream.write_all(answer).unwrap();
    }));
    fleet.listeners[0].timeouts.idle = SHORT;
    let proxy = Proxy::of(fleet);
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    let (answer, mut body) = requests.send_request(post(), false).unwrap();
    body.send_data(Bytes::from_static(b"some"), false).unwrap();
    let answer = FullResponse::read(answer.await.unwrap()).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (413, "no"));
    let reset = poll_fn(|cx| body.poll_reset(cx)).await.unwrap();
    assert_eq!(reset, Reason::NO_ERROR);
    proxy.expect(Ending::Complete, 1);
}

#[tokio::test]
async fn what_is_said_of_clients_is_believed_of_trusted_proxies_alone() {
    let mut request = get();
    for (name, value) in [
        ("x-forwarded-for", "192.0.2.7, 198.51.100.1"),
        ("x-forwarded-proto", "https"),
        ("forwarded", "for=192.0.2.7"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let seen = async |fleet| {
        let answer = Proxy::of(fleet).client().await.ask(request.clone()).await.unwrap();
        answer.text().to_ascii_lowercase()
    };
    let mut fleet = fleet(showing("\r\n\r\n"));
    let strange = seen(fleet.clone()).await;
    assert!(strange.contains("x-forwarded-for: 127.0.0.1\r\n"), "{strange}");
    assert!(!strange.contains("192.0.2.7") && !strange.contains("https"), "{strange}");
    fleet.listeners[0].trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    let trusted = seen(fleet).await;
    let list = "x-forwarded-for: 192.0.2.7, 198.51.100.1, 127.0.0.1\r\n";
    assert!(trusted.contains(list), "{trusted}");
    assert!(trusted.contains("x-forwarded-proto: https\r\n"), "{trusted}");
    assert!(trusted.contains("forwarded: for=192.0.2.7\r\n"), "{trusted}");
}

#[tokio::test]
async fn names_with_an_underscore_are_dropped_refused_or_kept_in_heads_and_trailers() {
    for (setting, expected) in [
        (UnderscoreHeaders::Drop, Some((false, "0\r\nx-sum: 4\r\n\r\n"))),
        (UnderscoreHeaders::Keep, Some((true, "0\r\nx_sum: 5\r\nx-sum: 4\r\n\r\n"))),
        (UnderscoreHeaders::Refuse, None),
    ] {
        let mut fleet = fleet(showing("4\r\n\r\n"));
        fleet.listeners[0].underscore_headers = setting;
        let proxy = Proxy::of(fleet);
        let mut trailers = HeaderMap::new();
        trailers.insert("x_sum", HeaderValue::from_static("5"));
        trailers.insert("x-sum", HeaderValue::from_static("4"));
        let mut request = post();
        if expected.is_some() {
            request.headers_mut().insert("content_length", HeaderValue::from_static("9"));
        }
        let answer = proxy.client().await.send(request, b"some", Some(trailers)).await.unwrap();
        let Some((has_header, body)) = expected else {
            assert_eq!(answer.status, 400, "for its trailers");
            continue;
        };
        let seen = answer.text();
        assert_eq!(seen.contains("content_length: 9\r\n"), has_header, "{seen}");
        assert!(seen.ends_with(body), "{seen}");
    }
}

#[tokio::test]
async fn a_proxy_header_names_the_address_that_the_client_asked() {
    let mut fleet = fleet(showing("\r\n\r\n"));
    fleet.listeners[0].bind = (Ipv4Addr::UNSPECIFIED, 0).into();
    fleet.services[0].send_proxy = Some(ProxyVersion::V1);
    let proxy = Proxy::of(fleet);
    let seen = proxy.client().await.ask(get()).await.unwrap().text();
    let (line, _) = seen.split_once("\r\n").unwrap();
    assert!(line.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{line}");
    assert!(line.ends_with(&format!(" {}", proxy.address.port())), "{line}");
}

#[tokio::test]
async fn a_proxy_header_that_comes_by_a_reload_names_the_address_that_an_open_connection_asked() {
    let mut fleet = fleet(showing("\r\n\r\n"));
    fleet.listeners[0].bind = (Ipv4Addr::UNSPECIFIED, 0).into();
    let proxy = Proxy::of(fleet.clone());
    let kept = proxy.client().await;
    assert!(kept.ask(get()).await.unwrap().text().starts_with("GET "));
    fleet.services[0].send_proxy = Some(ProxyVersion::V1);
    proxy.runtime.reload(fleet).unwrap();
    let asked = async {
        loop {
            let seen = kept.ask(get()).await.unwrap().text();
            if seen.starts_with("PROXY ") {
                break seen;
            }
        }
    };
    let seen = timeout(PATIENCE, asked).await.expect("the reload to be in force");
    assert!(seen.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{seen}");
}

#[tokio::test]
async fn an_open_connection_follows_a_reload_of_forwarded_headers() {
    let server = showing("\r\n\r\n");
    let (proxy, mut standard) = (Proxy::to(server), fleet(server));
    let kept = proxy.client().await;
    assert!(kept.ask(get()).await.unwrap().text().contains("\r\nX-Forwarded-For: 127.0.0.1\r\n"));
    standard.listeners[0].forwarded = Forwarded::Rfc7239;
    proxy.runtime.reload(standard).unwrap();
    let others = async || proxy.client().await.ask(get()).await.unwrap().text();
    let in_force = async { while !others().await.contains("\r\nForwarded: ") {} };
    timeout(PATIENCE, in_force).await.expect("new connections to follow it");
    let seen = kept.ask(get()).await.unwrap().text();
    for line in ["Forwarded: for=127.0.0.1;proto=http", "Via: 2.0 loadline"] {
        assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line} is not in {seen}");
    }
    assert!(!seen.contains("X-Forwarded-"), "{seen}");
}
