//! WebSocket through the proxy: a real client and a real server, and where it cannot go.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use bytes::Bytes;
use h2::ext::Protocol;
use http::{HeaderValue, Request};
use loadline_core::ending::Ending;

use crate::{
    grpc::{Script, run},
    scripted::Scripted,
    support::{PATIENCE, Proxy},
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
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    while !requests.is_extended_connect_protocol_enabled() {
        tokio::task::yield_now().await;
    }
    let (answer, mut up) = requests.send_request(extended_connect(), false).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut down = answer.into_body();
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
    let ended = tokio::task::spawn_blocking(move || proxy.expect(Ending::Tunnel, 1));
    ended.await.unwrap();
}

#[tokio::test]
async fn a_server_of_http2_is_asked_for_none() {
    let server = Scripted::ok();
    let proxy = server.proxy();
    let mut stream = TcpStream::connect(proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let upgrade = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(upgrade.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
    let mut requests = proxy.client().await.requests.ready().await.unwrap();
    while !requests.is_extended_connect_protocol_enabled() {
        tokio::task::yield_now().await;
    }
    let (answer, _up) = requests.send_request(extended_connect(), false).unwrap();
    assert_eq!(answer.await.unwrap().status(), 501);
    proxy.expect(Ending::ClientBad, 2);
    assert_eq!(server.connections(), 0);
}
