//! Stored responses for clients that accept them compressed.

use std::{
    io::Read as _,
    net::Shutdown,
    sync::{Mutex, mpsc::channel},
};

use flate2::read::GzDecoder;
use loadline_core::{
    decide::ending::Ending,
    fleet::{CacheLimits, Compression, Fleet},
    state::ServiceCounter,
    units::Bytes,
};

use crate::support::{Origin, Proxy, body, field, fleet, get, head, response, send, status};

const TAGGED: &str = "Cache-Control: max-age=60\r\nETag: \"1\"\r\nContent-Type: text/plain\r\n";

fn text() -> String {
    (0..5_000).map(|number| format!("line {number}\n")).collect()
}

fn compressing(origin: &Origin) -> Fleet {
    let mut fleet = fleet(origin.address);
    fleet.services[0].compression = Some(Compression::default());
    fleet
}

/// Head and body of a response.
fn ask(proxy: &Proxy, fields: &str) -> (String, Vec<u8>) {
    whole(proxy, &get("/a", fields))
}

fn whole(proxy: &Proxy, request: &str) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    proxy.begin(request).read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let body = bytes.split_off(end);
    (String::from_utf8(bytes).unwrap(), body)
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

fn counted(proxy: &Proxy, counter: ServiceCounter) -> u64 {
    proxy.runtime.handle().state().services[0].counts.counters[counter]
}

#[test]
fn a_stored_response_is_compressed_once_for_each_coding() {
    let origin = Origin::answering(response(TAGGED, &text()));
    let proxy = Proxy::of(compressing(&origin));
    let (plain, first) = ask(&proxy, "");
    assert!(first == text().as_bytes(), "{plain}");
    assert_eq!(field(&plain, "vary"), Some("Accept-Encoding"), "{plain}");
    assert_eq!(field(&plain, "etag"), Some("\"1\""), "{plain}");
    let before = proxy.cache().bytes;
    let mut gzipped = Vec::new();
    for _ in 0..3 {
        let (head, body) = ask(&proxy, "Accept-Encoding: gzip\r\n");
        assert_eq!(field(&head, "content-encoding"), Some("gzip"), "{head}");
        assert_eq!(field(&head, "content-length"), Some(&*body.len().to_string()), "{head}");
        assert_eq!(field(&head, "etag"), Some("W/\"1\""), "{head}");
        assert_eq!(field(&head, "vary"), Some("Accept-Encoding"), "{head}");
        assert!(status(&head).starts_with("loadline; hit"), "{head}");
        assert!(gunzip(&body) == text() && body.len() < text().len() / 2);
        gzipped.push(body);
    }
    assert!(gzipped.windows(2).all(|two| two[0] == two[1]), "the same bytes each time");
    assert_eq!(counted(&proxy, ServiceCounter::CompressedGzip), 1);
    let (head, _) = ask(&proxy, "Accept-Encoding: zstd, gzip\r\n");
    assert_eq!(field(&head, "content-encoding"), Some("zstd"), "{head}");
    assert_eq!(counted(&proxy, ServiceCounter::CompressedZstd), 1);
    let (head, body) = ask(&proxy, "Accept-Encoding: identity\r\n");
    assert!(field(&head, "content-encoding").is_none() && body == first, "{head}");
    assert!(proxy.cache().bytes > before + gzipped[0].len() as u64, "it counts as stored");
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn conditions_and_ranges_are_about_the_form_that_they_name() {
    let origin = Origin::answering(response(TAGGED, &text()));
    let proxy = Proxy::of(compressing(&origin));
    ask(&proxy, "");
    ask(&proxy, "Accept-Encoding: gzip\r\n");
    for (tag, told) in [("W/\"1\"", "W/\"1\""), ("\"1\"", "\"1\"")] {
        let fields = format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n");
        let (head, body) = ask(&proxy, &fields);
        assert!(head.starts_with("HTTP/1.1 304 ") && body.is_empty(), "{tag}: {head}");
        assert_eq!(field(&head, "etag"), Some(told), "{head}");
    }
    let (head, body) = ask(&proxy, "Accept-Encoding: gzip\r\nRange: bytes=5-5\r\n");
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    assert_eq!((field(&head, "content-encoding"), &*body), (None, &b"0"[..]), "{head}");
    assert_eq!(field(&head, "etag"), Some("\"1\""), "a part of the plain form: {head}");
    // A weak tag never is the same byte for byte.
    let (head, _) = ask(&proxy, "Range: bytes=5-5\r\nIf-Range: W/\"1\"\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let request = get("/a", "Accept-Encoding: gzip\r\n");
    let (get_head, _) = whole(&proxy, &request);
    let (head, body) = whole(&proxy, &request.replace("GET", "HEAD"));
    assert!(body.is_empty(), "{head}");
    for name in ["content-encoding", "content-length", "etag", "vary"] {
        assert_eq!(field(&head, name), field(&get_head, name), "{name}: {head}");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn what_must_not_be_changed_or_is_for_somebody_alone_stays_as_it_is() {
    let origin = Origin::new(|stream, asked, _| {
        let target = asked.split(' ').nth(1).unwrap();
        let fields = match target {
            "/coded" => "Content-Encoding: br\r\n",
            "/fixed" => "Cache-Control: no-transform\r\n",
            "/image" => "Content-Type: image/png\r\n",
            _ => "",
        };
        let kind = if target == "/image" { "" } else { "Content-Type: text/html\r\n" };
        let fields = format!("Cache-Control: max-age=60\r\n{kind}{fields}");
        let body = if target == "/short" { "short".to_owned() } else { form() };
        send(stream, response(&fields, &body));
    });
    let proxy = Proxy::of(compressing(&origin));
    for target in ["/coded", "/fixed", "/image", "/short"] {
        for _ in 0..2 {
            let (head, _) = whole(&proxy, &get(target, "Accept-Encoding: gzip\r\n"));
            let coding = Some("br").filter(|_| target == "/coded");
            assert_eq!(field(&head, "content-encoding"), coding, "{head}");
        }
    }
    // The length of a page with a secret in it would tell of the secret.
    for _ in 0..2 {
        let cookie = get("/page", "Accept-Encoding: gzip\r\nCookie: session=1\r\n");
        let (head, _) = whole(&proxy, &cookie);
        assert_eq!(field(&head, "content-encoding"), None, "{head}");
        assert_eq!(field(&head, "vary"), Some("Accept-Encoding"), "{head}");
    }
    let (head, _) = whole(&proxy, &get("/page", "Accept-Encoding: gzip\r\n"));
    assert_eq!(field(&head, "content-encoding"), Some("gzip"), "{head}");
}

#[test]
fn compressed_forms_leave_with_their_object_and_stay_over_a_validation() {
    let origin = Origin::new(|stream, asked, _| {
        let fields = "Cache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Type: text/plain\r\n";
        match field(asked, "if-none-match") {
            Some(_) => send(stream, format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n")),
            None => send(stream, response(fields, &text())),
        }
    });
    let mut fleet = compressing(&origin);
    fleet.edge.cache = CacheLimits { memory: Bytes::new(700_000), ..fleet.edge.cache };
    let proxy = Proxy::of(fleet);
    ask(&proxy, "");
    for _ in 0..3 {
        let (head, body) = ask(&proxy, "Accept-Encoding: gzip\r\n");
        assert_eq!(field(&head, "content-encoding"), Some("gzip"), "{head}");
        assert!(gunzip(&body) == text(), "{head}");
    }
    assert_eq!(counted(&proxy, ServiceCounter::CompressedGzip), 1);
    for number in 0..50 {
        for coding in ["", "Accept-Encoding: gzip\r\n", "Accept-Encoding: zstd\r\n"] {
            proxy.begin(&get(&format!("/{number}"), coding)).read_to_end(&mut Vec::new()).unwrap();
            let cache = proxy.cache();
            assert!(cache.bytes <= 700_000, "{cache:?}");
        }
    }
    assert!(body(&proxy.get("/a", "")) == text());
}

/// A page with a secret in it.
fn form() -> String {
    let words = ["text"; 16].join(" ");
    let secret = "<form><input name=token value=0123456789abcdef0123456789abcdef></form>\n";
    secret.to_owned() + &format!("<p>{words}</p>\n").repeat(12)
}

#[test]
fn a_304_varies_by_the_coding_as_the_whole_does() {
    let origin = Origin::answering(response(TAGGED, &text()));
    let proxy = Proxy::of(compressing(&origin));
    ask(&proxy, "");
    for fields in ["If-None-Match: \"1\"\r\n", "If-None-Match: W/\"1\"\r\n"] {
        let (head, _) = ask(&proxy, &format!("{fields}Accept-Encoding: gzip\r\n"));
        assert!(head.starts_with("HTTP/1.1 304 "), "{head}");
        assert_eq!(head.matches("Vary: Accept-Encoding\r\n").count(), 1, "{head}");
    }
}

/// The payload of a body in chunks.
fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    loop {
        let end = body.windows(2).position(|it| it == b"\r\n").unwrap();
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let (chunk, rest) = body[end + 2..].split_at(size);
        payload.extend_from_slice(chunk);
        body = &rest[2..];
        if size == 0 {
            assert!(body.is_empty(), "something behind the last chunk");
            return payload;
        }
    }
}

#[test]
fn what_is_not_stored_is_compressed_for_the_client_that_it_is_fetched_for() {
    let kinds = [
        "",
        "Cache-Control: no-store\r\n",
        "Cache-Control: private, max-age=60\r\n",
        "Cache-Control: no-cache\r\n",
        // Of use after a validation only, which fails each time for a page that is made anew.
        "Cache-Control: no-cache\r\nETag: \"1\"\r\n",
    ];
    let origin = Origin::new(move |stream, asked, _| {
        let number: usize = asked.split(' ').nth(1).unwrap()[1..].parse().unwrap();
        let fields = format!("{}Content-Type: text/plain\r\n", kinds[number]);
        send(stream, response(&fields, &text()));
    });
    let proxy = Proxy::of(compressing(&origin));
    for (number, kind) in kinds.iter().enumerate() {
        let target = format!("/{number}");
        let (head, body) = whole(&proxy, &get(&target, "Accept-Encoding: gzip\r\n"));
        assert_eq!(field(&head, "content-encoding"), Some("gzip"), "{kind}: {head}");
        assert_eq!(field(&head, "content-length"), None, "{head}");
        assert_eq!(field(&head, "vary"), Some("Accept-Encoding"), "{head}");
        assert!(gunzip(&dechunked(&body)) == text() && body.len() < text().len() / 2, "{kind}");
    }
    assert_eq!(counted(&proxy, ServiceCounter::CompressedGzip), kinds.len() as u64);
    let (head, plain) = whole(&proxy, &get("/1", ""));
    assert_eq!(field(&head, "content-encoding"), None, "{head}");
    assert!(plain == text().as_bytes(), "{head}");
}

#[test]
fn events_on_a_route_with_a_cache_are_compressed_and_arrive_at_once() {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let origin = Origin::new(move |stream, _, _| {
        send(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        for number in 0..2 {
            send(stream, format!("data: {number}\n\n"));
            // The client has it, or is gone.
            let _ = told.lock().unwrap().recv();
        }
        drop(stream.shutdown(Shutdown::Both));
    });
    let proxy = Proxy::of(compressing(&origin));
    // Such a client gets the bytes of the encoder as they are.
    let request = get("/a", "Accept-Encoding: gzip\r\n").replace("HTTP/1.1", "HTTP/1.0");
    let mut stream = proxy.begin(&request);
    let head = head(&mut stream).unwrap();
    assert_eq!(field(&head, "content-encoding"), Some("gzip"), "{head}");
    let mut events = GzDecoder::new(&stream);
    for number in 0..2 {
        let mut event = [0; 9];
        events.read_exact(&mut event).unwrap();
        assert_eq!(&event[..], format!("data: {number}\n\n").as_bytes());
        tell.send(()).unwrap();
    }
    assert_eq!(events.read(&mut [0]).unwrap(), 0, "and the end");
    proxy.expect(Ending::Complete, 1);
}

#[test]
fn what_is_compressed_as_it_comes_and_breaks_off_does_not_look_whole() {
    for kind in ["", "Cache-Control: no-store\r\n"] {
        let origin = Origin::new(move |stream, _, _| {
            let fields = format!("{kind}Content-Type: text/plain\r\nContent-Length: 90000\r\n");
            send(stream, format!("HTTP/1.1 200 OK\r\n{fields}\r\n{}", text()));
            drop(stream.shutdown(Shutdown::Both));
        });
        let proxy = Proxy::of(compressing(&origin));
        // The first is fetched for the cache, and the second passes it.
        for count in 1..=2 {
            let (head, body) = ask(&proxy, "Accept-Encoding: gzip\r\n");
            assert_eq!(field(&head, "content-encoding"), Some("gzip"), "{head}");
            assert!(!body.ends_with(b"0\r\n\r\n"));
            // All that has come is there but for the end, which nobody knows.
            let payload = dechunked(&[&body[..], b"0\r\n\r\n"].concat());
            let mut came = Vec::new();
            assert!(GzDecoder::new(&payload[..]).read_to_end(&mut came).is_err());
            assert!(came == text().as_bytes(), "{kind}: {} bytes", came.len());
            proxy.expect(Ending::ServerCut, count);
        }
    }
}
