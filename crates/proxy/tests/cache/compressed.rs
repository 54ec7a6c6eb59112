//! Stored responses for clients that accept them compressed.

use std::io::Read as _;

use loadline_core::{
    fleet::{CacheLimits, Compression, Fleet},
    state::ServiceCounter,
    units::Bytes,
};

use crate::support::{Origin, Proxy, body, field, fleet, get, response, send, status};

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
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
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
