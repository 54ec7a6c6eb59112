//! What clients get of a bucket's responses that are no objects.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::Arc,
    thread,
};

use loadline_core::fleet::{Bucket, Server, Store, StorePlace};

use crate::support::Proxy;

/// A proxy before a bucket that answers each request, by its path, with this head and body.
fn before(answer: fn(&str) -> (&'static str, &'static str)) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
            let first = lines.next().expect("a request").expect("a line");
            lines.map_while(Result::ok).find(String::is_empty);
            let (head, body) = answer(first.split(' ').nth(1).expect("a path"));
            let length = body.len();
            let framing = format!("Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            // A client that has left sees nothing of it.
            let _ = stream.write_all(format!("HTTP/1.1 {head}{framing}").as_bytes());
        }
    });
    let (authority, base) = (address.to_string(), "/bucket".to_owned());
    let bucket = Bucket { authority, base, ..Bucket::default() };
    let mut store = Store::at(StorePlace::Bucket(bucket));
    store.error_page = Some("/404.html".into());
    Proxy::to(Server { store: Some(Arc::new(store)), ..Server::at(address) })
}

#[test]
fn an_error_page_of_a_bucket_keeps_its_coding() {
    let proxy = before(|path| match path {
        "/bucket/404.html" => (
            "200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n",
            "as it is in the bucket",
        ),
        _ => ("404 No\r\n", "<Error><Code>NoSuchKey</Code></Error>"),
    });
    for _ in 0..2 {
        let told = proxy.get("/a", "");
        assert_eq!((told.status(), &*told.text()), (404, "as it is in the bucket"));
        assert_eq!(told.field("Content-Encoding"), Some("gzip"), "{}", told.head);
        assert_eq!(told.field("Content-Type"), Some("text/html"), "{}", told.head);
    }
}

#[test]
fn a_range_behind_the_end_of_an_object_of_a_bucket_is_told_its_length() {
    let proxy = before(|_| {
        ("416 No\r\nContent-Range: bytes */10\r\n", "<Error><Code>InvalidRange</Code></Error>")
    });
    let told = proxy.get("/a", "Range: bytes=10-\r\n");
    assert_eq!((told.status(), told.field("Content-Range")), (416, Some("bytes */10")));
    assert!(!told.text().contains("InvalidRange"), "{}", told.text());
}
