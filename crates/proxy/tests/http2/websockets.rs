//! WebSocket through the proxy: a real client and a real server, and where it cannot go.

use std::{
    future::poll_fn,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::mpsc::channel,
    time::Duration,
};

use bytes::Bytes;
use h2::{RecvStream, SendStream, ext::Protocol, server::Builder};
use http::{HeaderValue, Request, Response};
use loadline_core::{decide::ending::Ending, fleet::HttpVersion, state::ServiceCounter};
use tokio::time::timeout;

use crate::{
    grpc::{Script, run},
    handshake::{not_opening, opening},
    scripted::Scripted,
    support::{PATIENCE, Proxy, SHORT, answering, fleet, head, server},
};

fn extended_connect() -> Request<()> {
    let mut request = Request::connect("http://a.test/chat").body(()).unwrap();
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    request.headers_mut().insert("sec-websocket-version", HeaderValue::from_static("13"));
    request
}

#[test]
fn a_client_and_a_server_talk_over_http1() {
    let server = Script::serve("websocket_echo.py", &[]);
    let proxy = Proxy::to(server.address);
    run("websocket_echo.py", &[&proxy.address.to_string()]);
    proxy.expect(Ending::Tunnel, 1);
}

#[tokio::test]
async fn a_stream_of_http2_talks_to_a_server_of_http1() {
    let server = Script::serve("websocket_echo.py", &[]);
    let proxy = Proxy::to(server.address);
    let (answer, up) = connect(&proxy).await;
    assert_eq!(answer.status(), 200);
    echoes(up, answer.into_body()).await;
    let ended = tokio::task::spawn_blocking(move || proxy.expect(Ending::Tunnel, 1));
    ended.await.unwrap();
}

/// Says something and closes.
async fn echoes(mut up: SendStream<Bytes>, mut down: RecvStream) {
    // A text and a close (code 1000), masked with zeros (RFC 6455, 5.2); they come back unmasked.
    let frames: [(&[u8], &[u8]); 2] = [
        (b"\x81\x85\0\0\0\0hello", b"\x81\x05hello"),
        (b"\x88\x82\0\0\0\0\x03\xe8", b"\x88\x02\x03\xe8"),
    ];
    for (frame, echo) in frames {
        up.send_data(Bytes::from_static(frame), false).unwrap();
        let mut heard = Vec::new();
        while heard.len() < echo.len() {
            heard.extend_from_slice(&down.data().await.unwrap().unwrap());
        }
        assert_eq!(heard, echo);
    }
    // The server has closed; the tunnel ends when the client does as well.
    up.send_data(Bytes::new(), true).unwrap();
    while down.data().await.is_some_and(|more| more.is_ok()) {}
}

#[tokio::test]
async fn a_stream_of_http2_whose_server_breaks_is_reset() {
    let proxy = Proxy::to(server(|mut stream| {
        let asked = head(&mut stream).unwrap();
        stream.write_all(opening(&asked).as_bytes()).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }));
    let (answer, mut up) = connect(&proxy).await;
    up.send_data(Bytes::from_static(b"!"), false).unwrap();
    let error = answer.into_body().data().await.unwrap().unwrap_err();
    assert!(error.is_reset() && error.is_remote(), "{error}");
    let ended = tokio::task::spawn_blocking(move || proxy.expect(Ending::ServerCut, 1));
    ended.await.unwrap();
}

#[tokio::test]
async fn a_stream_that_its_client_resets_is_over_though_its_server_takes_no_more() {
    let (told, heard) = channel();
    let proxy = Proxy::to(server(move |mut stream| {
        let asked = head(&mut stream).unwrap();
        stream.write_all(opening(&asked).as_bytes()).unwrap();
        told.send(stream).unwrap();
    }));
    let (answer, mut up) = connect(&proxy).await;
    let _down = answer.into_body();
    let _open = heard.recv_timeout(PATIENCE).unwrap();
    let piece = Bytes::from_static(&[b'x'; 16 << 10]);
    loop {
        up.reserve_capacity(piece.len());
        // Room that is there already is not announced again.
        if up.capacity() == 0 {
            let room = poll_fn(|cx| up.poll_capacity(cx));
            let Ok(room) = timeout(SHORT.to_std(), room).await else { break };
            room.unwrap().unwrap();
        }
        let room = up.capacity().min(piece.len());
        up.send_data(piece.slice(..room), false).unwrap();
    }
    up.send_reset(h2::Reason::CANCEL);
    let ended = tokio::task::spawn_blocking(move || proxy.expect(Ending::Tunnel, 1));
    ended.await.unwrap();
}

/// A proxy to a server that speaks HTTP/2 by an implementation that shares no code with it.
fn before_hypercorn() -> (Script, Proxy) {
    let server = Script::serve("websocket_http2.py", &[]);
    let mut fleet = fleet(server.address);
    fleet.services[0].http_version = HttpVersion::Http2;
    (server, Proxy::of(fleet))
}

/// What a client of HTTP/1 is told that asks for `protocol` at `target`.
fn upgrade(proxy: &Proxy, target: &str, protocol: &str) -> String {
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    crate::support::head(&mut stream).unwrap()
}

/// What a client of HTTP/2 is told that asks for a WebSocket.
async fn connect(proxy: &Proxy) -> (Response<RecvStream>, SendStream<Bytes>) {
    connect_by(proxy, extended_connect()).await
}

/// What it is told to this request.
async fn connect_by(
    proxy: &Proxy,
    request: Request<()>,
) -> (Response<RecvStream>, SendStream<Bytes>) {
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    while !requests.is_extended_connect_protocol_enabled() {
        tokio::task::yield_now().await;
    }
    let (answer, up) = requests.send_request(request, false).unwrap();
    (answer.await.unwrap(), up)
}

#[test]
fn a_client_of_http1_talks_to_a_server_of_http2() {
    let (_server, proxy) = before_hypercorn();
    run("websocket_echo.py", &[&proxy.address.to_string()]);
    proxy.expect(Ending::Tunnel, 1);
    let told = upgrade(&proxy, "/chat", "websocket");
    assert!(told.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{told}");
    assert!(told.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{told}");
    assert!(upgrade(&proxy, "/no", "websocket").starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn a_stream_of_http2_talks_to_a_server_of_http2() {
    let (_server, proxy) = before_hypercorn();
    let (answer, up) = connect(&proxy).await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("sec-websocket-accept"));
    echoes(up, answer.into_body()).await;
    let ended = tokio::task::spawn_blocking(move || proxy.expect(Ending::Tunnel, 1));
    ended.await.unwrap();
}

#[tokio::test]
async fn a_client_of_http2_that_sends_a_key_gets_the_response_to_that_one() {
    let of_http1 = Script::serve("websocket_echo.py", &[]);
    let (_server, to_http2) = before_hypercorn();
    for proxy in [Proxy::to(of_http1.address), to_http2] {
        let mut request = extended_connect();
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        request.headers_mut().insert("sec-websocket-key", key);
        let (answer, up) = connect_by(&proxy, request).await;
        assert_eq!(answer.status(), 200);
        let told: Vec<_> = answer.headers().get_all("sec-websocket-accept").iter().collect();
        assert_eq!(told, ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]);
        echoes(up, answer.into_body()).await;
    }
}

#[tokio::test]
async fn what_the_server_does_not_offer_is_refused_with_a_name_of_its_own() {
    let server = Scripted::ok();
    let proxy = server.proxy();
    assert!(upgrade(&proxy, "/chat", "websocket").starts_with("HTTP/1.1 501 "));
    assert_eq!(connect(&proxy).await.0.status(), 501);
    let ended = tokio::task::spawn_blocking(move || proxy.expect(Ending::NoUpgrade, 2));
    ended.await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_switch_is_never_taken_for_one_that_has() {
    let server = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let proxy = Proxy::to(server);
    assert_eq!(connect(&proxy).await.0.status(), 501);
    let ended = tokio::task::spawn_blocking(move || {
        proxy.expect(Ending::NoUpgrade, 1);
        proxy.runtime.tallies().services["web"].counters[ServiceCounter::Retries]
    });
    assert_eq!(ended.await.unwrap(), 0, "it was sent again");
}

#[tokio::test]
async fn a_server_that_switches_without_having_read_the_key_has_opened_nothing() {
    for nth in 0..4 {
        let proxy = Proxy::to(server(move |mut stream| {
            let asked = head(&mut stream).unwrap();
            stream.write_all(not_opening(&asked)[nth].as_bytes()).unwrap();
            // Until the proxy ends it.
            let _ = stream.read(&mut [0]);
        }));
        // One that does not even say to what it switches is no response at all.
        let told = if nth == 0 { (502, Ending::ServerBad) } else { (501, Ending::NoUpgrade) };
        assert_eq!(connect(&proxy).await.0.status(), told.0, "{nth}");
        let ended = tokio::task::spawn_blocking(move || proxy.expect(told.1, 1));
        ended.await.unwrap();
    }
}

#[tokio::test]
async fn a_connect_that_says_how_long_it_is_is_refused_at_once() {
    let proxy = Proxy::to(server(|_| panic!("it is not sent on")));
    let mut request = extended_connect();
    request.headers_mut().insert("content-length", HeaderValue::from_static("5"));
    let answer = timeout(PATIENCE, connect_by(&proxy, request)).await;
    assert_eq!(answer.unwrap().0.status(), 400);
    let ended = tokio::task::spawn_blocking(move || proxy.expect(Ending::ClientBad, 1));
    ended.await.unwrap();
}

#[test]
fn a_request_with_a_body_goes_to_a_server_of_http2_without_its_upgrade() {
    let proxy = Scripted::ok().proxy();
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: tcp\r\n\
                    Content-Length: 2\r\n\r\nhi";
    stream.write_all(request).unwrap();
    assert!(head(&mut stream).unwrap().starts_with("HTTP/1.1 200 "));
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn no_other_protocol_is_asked_for_in_http2() {
    let mut builder = Builder::new();
    let server = Scripted::with(builder.enable_connect_protocol().clone(), async |asked| {
        asked.answer("never");
    });
    let proxy = server.proxy();
    assert!(upgrade(&proxy, "/", "chat/1").starts_with("HTTP/1.1 501 "));
    proxy.expect(Ending::NoUpgrade, 1);
}
