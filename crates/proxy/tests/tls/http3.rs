//! HTTP/3 beside HTTPS, with quinn and h3 as the client.

use std::{
    future::poll_fn,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration as StdDuration,
};

use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use http::{Request, StatusCode};
use loadline_core::decide::ending::Ending;
use quinn::{ClientConfig, Endpoint, crypto::rustls::QuicClientConfig};
use rustls::version::TLS13;
use tokio::task::JoinSet;

use crate::{
    authority::Authority,
    support::{ask, connect, echo, fleet, start, with},
};

type Requests = SendRequest<h3_quinn::OpenStreams, Bytes>;

/// A client's end, and its connection.
struct Client {
    endpoint: Endpoint,
    connection: quinn::Connection,
    requests: Requests,
}

/// Connects as soon as HTTP/3 is served.
async fn client(authority: &Authority, address: SocketAddr) -> Client {
    let mut tls = (*authority.client(&[&TLS13], None)).clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(address, "a.test").unwrap().await.unwrap();
    let (mut driver, requests) =
        h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
    tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    Client { endpoint, connection, requests }
}

/// The response to a POST of `body`, of which the server sends back all it got.
async fn post(mut requests: Requests, body: Bytes) -> (StatusCode, Vec<u8>) {
    let request = Request::post("https://a.test/up").header("content-length", body.len());
    let mut stream = requests.send_request(request.body(()).unwrap()).await.unwrap();
    stream.send_data(body).await.unwrap();
    stream.finish().await.unwrap();
    let status = stream.recv_response().await.unwrap().status();
    let mut all = Vec::new();
    while let Some(mut data) = stream.recv_data().await.unwrap() {
        all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    (status, all)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_and_without_bodies_are_answered_a_hundred_at_a_time() {
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    let client = client(&authority, address).await;
    let mut all = JoinSet::new();
    for index in 0..100_usize {
        let body = Bytes::from(vec![b'a' + (index % 20) as u8; index * 1_000]);
        let requests = client.requests.clone();
        all.spawn(async move { (body.clone(), post(requests, body).await) });
    }
    while let Some(done) = all.join_next().await {
        let (body, (status, answer)) = done.unwrap();
        assert_eq!(status, 200);
        assert!(answer.ends_with(&body), "{} of {}", answer.len(), body.len());
        assert!(String::from_utf8_lossy(&answer).contains("Via: 3.0 loadline\r\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_goes_on_while_the_port_of_its_client_changes() {
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    let client = client(&authority, address).await;
    let body = Bytes::from(vec![b'x'; 8 << 20]);
    let answer = tokio::spawn(post(client.requests.clone(), body.clone()));
    while client.connection.stats().udp_tx.bytes < 1 << 20 {
        tokio::task::yield_now().await;
    }
    client.endpoint.rebind(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
    let (status, answer) = answer.await.unwrap();
    assert_eq!(status, 200);
    assert!(answer.ends_with(&body));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_its_request_back_ends_it_as_in_http2() {
    let authority = Authority::new();
    let silent = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = silent.local_addr().unwrap();
    let (proxy, address) = start(fleet(server, with(vec![authority.sign(&["a.test"])])));
    let mut client = client(&authority, address).await;
    let request = Request::get("https://a.test/").body(()).unwrap();
    let mut stream = client.requests.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    let (_asked, _) = silent.accept().unwrap();
    stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
    let ended = || proxy.tallies().count(Ending::ClientGone);
    while ended() == 0 {
        tokio::time::sleep(StdDuration::from_millis(10)).await;
    }
}

#[test]
fn clients_of_other_versions_are_offered_it_unless_it_is_off() {
    let authority = Authority::new();
    for on in [true, false] {
        let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
        fleet.listeners[0].http3 = on;
        let (_proxy, address) = start(fleet);
        let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
        let answer = ask(&mut client, b"hello").unwrap();
        let offer = format!("Alt-Svc: h3=\":{}\"; ma=86400\r\n", address.port());
        assert_eq!(answer.contains(&offer), on, "{answer}");
    }
}
