//! Trailers of servers: behind answers that say how long they are, and long ones.

use std::io::Write as _;

use http::{HeaderMap, HeaderValue, Response};
use loadline_core::{decide::ending::Ending, units::Bytes};

use crate::{
    scripted::{Asked, Scripted},
    support::{Proxy, fleet, get, head, server},
};

#[tokio::test]
async fn announced_trailers_come_behind_an_answer_of_known_length_and_others_do_not() {
    let server = Scripted::new(async |mut asked: Asked| {
        let mut response = Response::new(());
        response.headers_mut().insert("content-length", HeaderValue::from_static("3"));
        if asked.request.uri().path() == "/announced" {
            response.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
        }
        let mut stream = asked.respond.send_response(response, false).unwrap();
        stream.send_data("abc".into(), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("3"));
        stream.send_trailers(trailers).unwrap();
    });
    let proxy = server.proxy();
    let client = proxy.client().await;
    for (path, announced) in [("announced", true), ("not", false)] {
        let mut request = get();
        *request.uri_mut() = format!("http://a.test/{path}").parse().unwrap();
        let answer = client.ask(request).await.unwrap();
        assert_eq!(answer.text(), "abc");
        assert_eq!(answer.headers.contains_key("content-length"), !announced);
        let sum = answer.trailers.map(|trailers| trailers["x-sum"].clone());
        assert_eq!(sum, announced.then(|| HeaderValue::from_static("3")), "{path}");
    }
}

/// What a client gets of a server of HTTP/2 that sends these trailers behind its response.
async fn passed(trailers: HeaderMap) -> Option<HeaderMap> {
    let server = Scripted::new(move |mut asked: Asked| {
        let trailers = trailers.clone();
        async move {
            let mut stream = asked.begin();
            stream.send_data("abc".into(), false).unwrap();
            stream.send_trailers(trailers).unwrap();
        }
    });
    let answer = server.proxy().client().await.ask(get()).await.unwrap();
    assert_eq!(answer.text(), "abc");
    answer.trailers
}

#[tokio::test]
async fn a_status_comes_through_beside_trailers_that_say_nothing_there() {
    let mut trailers = HeaderMap::new();
    for name in ["date", "expect", "forwarded", "x-forwarded-for", "alt-svc", "max-forwards"] {
        trailers.insert(name, HeaderValue::from_static("x"));
    }
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let passed = passed(trailers).await.unwrap();
    assert_eq!((passed.len(), &passed["grpc-status"]), (1, &HeaderValue::from_static("0")));
}

#[tokio::test]
async fn a_host_in_the_trailers_of_a_server_is_told_as_a_bad_body() {
    let server = Scripted::new(async |mut asked: Asked| {
        let mut stream = asked.begin();
        stream.send_data("abc".into(), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("host", HeaderValue::from_static("b.test"));
        stream.send_trailers(trailers).unwrap();
    });
    let proxy = server.proxy();
    let told = proxy.client().await.ask(get()).await;
    // If all of it was there at once, nothing has gone out yet.
    assert!(!told.as_ref().is_ok_and(|answer| answer.status != 502), "{told:?}");
    proxy.expect(Ending::ServerBodyBad, 1);
}

#[tokio::test]
async fn trailers_as_long_as_a_head_may_be_come_through() {
    let mut trailers = HeaderMap::new();
    for _ in 0..90 {
        trailers.append("x-detail", "v".repeat(160).parse().unwrap());
    }
    trailers.insert("grpc-status", HeaderValue::from_static("3"));
    let passed = passed(trailers).await.unwrap();
    assert_eq!((passed.len(), &passed["grpc-status"]), (91, &HeaderValue::from_static("3")));
}

#[tokio::test]
async fn trailers_that_are_longer_than_a_buffer_come_through_in_pieces() {
    const LONG: usize = 200 << 10;
    let mut fleet = fleet(server(|mut stream| {
        while head(&mut stream).is_some() {
            let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n";
            stream.write_all(answer).unwrap();
            let line = format!("X-Detail: {}\r\n", "v".repeat(990));
            (0..LONG / 1_000).for_each(|_| stream.write_all(line.as_bytes()).unwrap());
            stream.write_all(b"Date: x\r\nX-Last: 1\r\n\r\n").unwrap();
        }
    }));
    fleet.listeners[0].limits.size = Bytes::new(1 << 20);
    fleet.listeners[0].limits.fields = 1_000;
    let proxy = Proxy::of(fleet);
    let mut builder = h2::client::Builder::new();
    builder.max_header_list_size(1 << 20);
    let client = proxy.client_with(&builder).await;
    for _ in 0..3 {
        let answer = client.ask(get()).await.unwrap();
        let trailers = answer.trailers.unwrap();
        assert_eq!((trailers.len(), &trailers["x-last"]), (205, &HeaderValue::from_static("1")));
    }
}
