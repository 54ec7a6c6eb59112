//! Requests that no server sees.

use std::{fs, net::SocketAddr};

use h2::ext::Protocol;
use http::{HeaderMap, HeaderValue, Request, Version};
use loadline_core::{
    decide::ending::Ending,
    fleet::{AccessLog, HeadLimits, LogTarget},
    units::Bytes,
};

use crate::{
    frames::{END_HEADERS, END_STREAM, GET, HEADERS, POST, RST_STREAM, Raw, SETTINGS},
    support::{OK, Proxy, SHORT, answering, fleet, get, head, post, server, wait_until},
};

/// The code of an RST_STREAM (RFC 9113, 7).
const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];

/// The code of a GOAWAY.
const COMPRESSION_ERROR: u32 = 9;

/// A proxy in front of nobody.
fn alone() -> Proxy {
    Proxy::to(SocketAddr::from(([127, 0, 0, 1], 1)))
}

#[tokio::test]
async fn two_hosts_that_differ_are_refused() {
    let proxy = alone();
    let mut request = get();
    request.headers_mut().insert("host", HeaderValue::from_static("b.test"));
    let answer = proxy.client().await.ask(request).await.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (400, "Bad Request\n"));
    proxy.expect(Ending::ClientBad, 1);
}

#[tokio::test]
async fn two_hosts_that_are_alike_are_refused_with_and_without_an_authority() {
    let proxy = alone();
    let client = proxy.client().await;
    let without = Request::get("/page").version(Version::HTTP_11).body(()).unwrap();
    for mut request in [get(), without] {
        for _ in 0..2 {
            request.headers_mut().append("host", HeaderValue::from_static("a.test"));
        }
        assert_eq!(client.ask(request).await.unwrap().status, 400);
    }
    proxy.expect(Ending::ClientBad, 2);
}

#[tokio::test]
async fn a_host_in_trailers_is_refused() {
    let proxy = Proxy::to(server(|mut stream| while head(&mut stream).is_some() {}));
    let mut trailers = HeaderMap::new();
    trailers.insert("host", HeaderValue::from_static("b.test"));
    let answer = proxy.client().await.send(post(), b"hello", Some(trailers)).await.unwrap();
    assert_eq!(answer.status, 400);
    proxy.expect(Ending::ClientBad, 1);
}

#[tokio::test]
async fn a_head_beyond_the_limit_is_refused_and_the_connection_lives_on() {
    let mut fleet = fleet(answering(OK));
    fleet.listeners[0].limits = HeadLimits { size: Bytes::new(2_000), fields: 20 };
    let proxy = Proxy::of(fleet);
    let client = proxy.client().await;
    let mut long = get();
    long.headers_mut().insert("x-long", "x".repeat(2_100).parse().unwrap());
    assert_eq!(client.ask(long).await.unwrap().status, 431);
    let mut many = get();
    for number in 0..21 {
        many.headers_mut().append("x-many", number.into());
    }
    assert_eq!(client.ask(many).await.unwrap().status, 431);
    let mut longer = get();
    longer.headers_mut().insert("x-long", "x".repeat(9_000).parse().unwrap());
    assert_eq!(client.ask(longer).await.unwrap().status, 431);
    proxy.expect(Ending::ClientBad, 3);
    // Far beyond it, the head is not even unpacked.
    let mut bomb = get();
    bomb.headers_mut().insert("x-long", "x".repeat(12_000).parse().unwrap());
    assert_eq!(client.ask(bomb).await.unwrap().status, 431);
    assert_eq!(client.ask(get()).await.unwrap().status, 200);
}

#[tokio::test]
async fn clients_are_told_of_the_longest_head_that_is_taken() {
    let mut fleet = fleet(answering(OK));
    fleet.listeners[0].limits = HeadLimits { size: Bytes::new(2_000), fields: 20 };
    let proxy = Proxy::of(fleet);
    let settings = Raw::connect(proxy.address).until(SETTINGS).payload;
    let size = settings.chunks(6).find(|it| it[..2] == [0, 6]).unwrap();
    // As HTTP/2 counts it: 32 bytes more for each field, and no colon, space or end of line.
    assert_eq!(u32::from_be_bytes(size[2..].try_into().unwrap()), 2_000 + 20 * 34);
    let client = proxy.client().await;
    for (length, status) in [(1_800, 200), (2_000, 431)] {
        let mut request = get();
        request.headers_mut().insert("x-long", "x".repeat(length).parse().unwrap());
        assert_eq!(client.ask(request).await.unwrap().status, status, "{length}");
    }
}

#[tokio::test]
async fn a_plain_connect_is_refused() {
    let proxy = alone();
    let request = Request::connect("a.test:443").body(()).unwrap();
    assert_eq!(proxy.client().await.ask(request).await.unwrap().status, 501);
}

#[tokio::test]
async fn a_connect_that_goes_on_is_refused_as_one_of_http1_is() {
    let proxy = alone();
    let mut requests = proxy.client().await.requests;
    let plain = Request::connect("a.test:443").body(()).unwrap();
    let mut extended = Request::connect("http://a.test/masque").body(()).unwrap();
    extended.extensions_mut().insert(Protocol::from_static("connect-udp"));
    for request in [plain, extended] {
        requests = requests.ready().await.unwrap();
        let (answer, _up) = requests.send_request(request, false).unwrap();
        assert_eq!(answer.await.unwrap().status(), 501);
    }
    proxy.expect(Ending::ClientBad, 2);
}

#[tokio::test]
async fn a_client_that_breaks_a_rule_of_http2_has_not_left() {
    let proxy = Proxy::to(server(|mut stream| while head(&mut stream).is_some() {}));
    let client = proxy.client().await;
    for length in ["4", "6"] {
        let mut request = post();
        request.headers_mut().insert("content-length", HeaderValue::from_static(length));
        client.send(request, b"hello", None).await.unwrap_err();
    }
    let mut raw = Raw::connect(proxy.address);
    raw.send(HEADERS, END_HEADERS, 1, POST).unwrap();
    raw.send(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x0aconnection\x05close").unwrap();
    assert_eq!(raw.until(RST_STREAM).stream, 1);
    proxy.expect(Ending::ClientBad, 3);
}

/// What the access log has of clients that `say` these things.
fn logged(server: SocketAddr, say: impl FnOnce(&Proxy)) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut fleet = fleet(server);
    fleet.edge.access_log = Some(AccessLog::to(LogTarget::File(path.display().to_string())));
    let proxy = Proxy::of(fleet);
    say(&proxy);
    proxy.runtime.stop(SHORT);
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_malformed_request_that_nobody_sees_is_counted_and_logged_and_the_connection_lives_on() {
    let log = logged(answering(OK), |proxy| {
        let mut client = Raw::connect(proxy.address);
        // `x: 1` before the pseudo-header fields, and no `:path`.
        let late = &b"\x00\x01x\x011\x82\x86\x84\x41\x01a"[..];
        for (stream, head) in [(1, late), (3, b"\x82\x86\x41\x01a")] {
            client.send(HEADERS, END_HEADERS | END_STREAM, stream, head).unwrap();
            assert_eq!(client.until(RST_STREAM).payload, PROTOCOL_ERROR);
        }
        client.send(HEADERS, END_HEADERS | END_STREAM, 5, GET).unwrap();
        assert_eq!(client.until(HEADERS).stream, 5);
        let counted = |ending| proxy.runtime.tallies().count(ending);
        let all = || counted(Ending::ClientBad) == 2 && counted(Ending::Complete) == 1;
        wait_until(all, "two bad requests and a good one");
    });
    let bad = "HTTP/2 violated by the client: PROTOCOL_ERROR";
    assert_eq!(log.matches(bad).count(), 2, "{log}");
}

#[test]
fn a_malformed_request_is_refused_and_those_beside_it_are_answered() {
    let log = logged(answering(OK), |proxy| {
        let mut client = Raw::connect(proxy.address);
        // A name in upper case, a field of a connection, no `:path`, two of `:method`.
        for (number, bad) in [
            [GET, b"\x00\x01X\x011"].concat(),
            [GET, b"\x00\x0aconnection\x011"].concat(),
            GET[..2].to_vec(),
            [b"\x82", GET].concat(),
        ]
        .iter()
        .enumerate()
        {
            let stream = 4 * number as u32 + 1;
            client.send(HEADERS, END_HEADERS | END_STREAM, stream, bad).unwrap();
            client.send(HEADERS, END_HEADERS | END_STREAM, stream + 2, GET).unwrap();
            let refused = client.until(RST_STREAM);
            assert_eq!((refused.stream, &refused.payload[..]), (stream, &PROTOCOL_ERROR[..]));
            assert_eq!(client.until(HEADERS).stream, stream + 2);
        }
        let counted = |ending| proxy.runtime.tallies().count(ending);
        let all = || counted(Ending::Complete) == 4 && counted(Ending::ClientBad) == 4;
        wait_until(all, "four bad requests and four that were answered");
    });
    let told = log.matches("HTTP/2 violated by the client: PROTOCOL_ERROR").count();
    assert_eq!(told, 4, "{log}");
}

#[test]
fn requests_beside_one_that_ends_the_connection_are_not_told_as_bad() {
    let silent = server(|mut stream| while head(&mut stream).is_some() {});
    let log = logged(silent, |proxy| {
        let mut client = Raw::connect(proxy.address);
        for number in 0..3 {
            client.send(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, GET).unwrap();
        }
        assert!(client.is_there());
        // There is no field 0 (RFC 7541, 6.1).
        client.send(HEADERS, END_HEADERS | END_STREAM, 7, b"\x80").unwrap();
        assert_eq!(client.reason(), COMPRESSION_ERROR);
        let counted = |ending| proxy.runtime.tallies().count(ending);
        let all = || counted(Ending::ClientBad) == 1 && counted(Ending::ClientGone) == 3;
        wait_until(all, "one bad request and three that were cut");
    });
    let told = [
        ("HTTP/2 violated by the client: COMPRESSION_ERROR", 1),
        ("HTTP/2 connection closed: the client violated HTTP/2", 3),
    ];
    for (reason, times) in told {
        assert_eq!(log.matches(reason).count(), times, "{reason}: {log}");
    }
}

#[test]
fn a_plain_connect_is_logged_as_what_is_not_supported() {
    let log = logged(answering(OK), |proxy| {
        let mut client = Raw::connect(proxy.address);
        // `:method: CONNECT` and `:authority: a:1`.
        let connect = b"\x02\x07CONNECT\x41\x03a:1";
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, connect).unwrap();
        assert_eq!(client.until(HEADERS).stream, 1);
        proxy.expect(Ending::ClientBad, 1);
    });
    assert!(log.contains("CONNECT is not supported"), "{log}");
}

#[tokio::test]
async fn a_body_that_is_not_as_long_as_it_said_is_refused() {
    let proxy = Proxy::to(answering(OK));
    let client = proxy.client().await;
    for length in ["4", "6"] {
        let mut request = post();
        request.headers_mut().insert("content-length", HeaderValue::from_static(length));
        let refused = client.send(request, b"hello", None).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told_in_http2() {
    let proxy = alone();
    let answer = proxy.client().await.ask(get()).await.unwrap();
    assert_eq!(answer.status, 502);
    assert!(!answer.headers.contains_key("connection"));
    proxy.expect(Ending::ConnectRefused, 1);
}
