//! Clients that speak HTTP/2, and what others have fetched.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{SendRequest, handshake};
use http::{Method, Request, Response};
use loadline_core::decide::ending::Ending;
use tokio::net::TcpStream;

use crate::support::{Origin, PATIENCE, Proxy, body, field, fresh, response, send};

type Client = SendRequest<Bytes>;

async fn client(proxy: &Proxy) -> Client {
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let (requests, connection) = handshake(stream).await.unwrap();
    // How it ends is seen by each stream.
    tokio::spawn(async move { connection.await.is_ok() });
    requests
}

/// Status, what the cache says and the body of the response to such a request.
async fn ask(
    client: Client,
    method: Method,
    path: &str,
    range: Option<&str>,
) -> (Response<()>, String) {
    let mut request = Request::builder().method(method).uri(format!("http://x{path}"));
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let mut client = client.ready().await.unwrap();
    let (answer, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
    let (parts, mut stream) = answer.await.unwrap().into_parts();
    let mut text = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece.unwrap();
        stream.flow_control().release_capacity(piece.len()).unwrap();
        text.extend_from_slice(&piece);
    }
    (Response::from_parts(parts, ()), String::from_utf8(text).unwrap())
}

fn told<'a>(answer: &'a Response<()>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn what_a_client_of_http1_has_fetched_is_there_for_one_of_http2_and_the_other_way_round() {
    let origin = Origin::new(|stream, asked, _| {
        let target = asked.split(' ').nth(1).unwrap();
        let fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\nConnection: keep-alive\r\n";
        send(stream, response(fields, &format!("{target} 0123456789")));
    });
    let proxy = Proxy::before(&origin);
    let client = client(&proxy).await;
    proxy.get("/a", "");
    let (answer, text) = ask(client.clone(), Method::GET, "/a", None).await;
    assert_eq!((answer.status().as_u16(), &*text), (200, "/a 0123456789"));
    assert!(told(&answer, "cache-status").starts_with("loadline; hit; ttl="), "{answer:?}");
    assert_eq!((told(&answer, "connection"), told(&answer, "age")), ("", "0"), "{answer:?}");
    let (answer, text) = ask(client.clone(), Method::HEAD, "/a", None).await;
    assert_eq!((told(&answer, "content-length"), &*text), ("13", ""));
    let (answer, text) = ask(client.clone(), Method::GET, "/a", Some("bytes=3-4")).await;
    assert_eq!((answer.status().as_u16(), &*text), (206, "01"));
    assert_eq!(told(&answer, "content-range"), "bytes 3-4/13");

    let (answer, _) = ask(client, Method::GET, "/b", None).await;
    assert_eq!(told(&answer, "cache-status"), "loadline; fwd=uri-miss; stored; ttl=60");
    let old = proxy.get("/b", "");
    assert!(field(&old, "cache-status").unwrap().starts_with("loadline; hit"), "{old}");
    assert_eq!(body(&old), "/b 0123456789");
    assert_eq!(origin.asked().len(), 2);
}

#[tokio::test]
async fn streams_of_one_connection_that_ask_for_the_same_have_one_fetch() {
    let long = "x".repeat(300_000);
    let origin = Origin::answering(fresh(&long));
    let proxy = Proxy::before(&origin);
    let client = client(&proxy).await;
    let asking = (0..50).map(|_| tokio::spawn(ask(client.clone(), Method::GET, "/a", None)));
    for answer in asking.collect::<Vec<_>>() {
        let (answer, text) = answer.await.unwrap();
        assert!(answer.status() == 200 && text == long);
    }
    assert_eq!(origin.asked().len(), 1);
}

#[tokio::test]
async fn a_stream_whose_client_does_not_read_holds_nobody_up_and_one_that_is_reset_is_gone() {
    let long = "x".repeat(4 << 20);
    let origin = Origin::answering(fresh(&long));
    let proxy = Proxy::before(&origin);
    let mut idle = client(&proxy).await.ready().await.unwrap();
    let request = || Request::get("http://x/a").body(()).unwrap();
    // Its windows are full soon.
    let (unread, _) = idle.send_request(request(), true).unwrap();
    let unread = unread.await.unwrap();
    let (answer, text) = ask(client(&proxy).await, Method::GET, "/a", None).await;
    assert!(answer.status() == 200 && text == long);
    drop(unread);
    let gone = async {
        while proxy.runtime.tallies().count(Ending::ClientGone) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    assert_eq!(origin.asked().len(), 1);
}
