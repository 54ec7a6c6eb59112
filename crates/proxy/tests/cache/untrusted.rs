//! Clients that want others to get something else, and servers that contradict themselves: nothing
//! false is stored.

use crate::support::{Origin, Proxy, body, field, fresh, get, response, send};

#[test]
fn a_header_that_is_not_part_of_the_key_does_not_reach_the_server() {
    let origin = Origin::answering(fresh("hello"));
    let proxy = Proxy::before(&origin);
    for (number, name) in UNKEYED.iter().enumerate() {
        proxy.get(&format!("/{number}"), &format!("{name}: evil.example\r\n"));
        let asked = origin.asked();
        assert_eq!(asked.len(), number + 1, "{name}");
        assert!(!asked[number].contains("evil.example"), "{name}: {}", asked[number]);
    }
}

#[test]
fn a_get_with_content_is_neither_stored_nor_answered_from_the_store() {
    let origin = Origin::new(|stream, asked, number| {
        let length = field(asked, "content-length").map_or(0, |length| length.parse().unwrap());
        crate::support::exactly(stream, length);
        send(stream, fresh(&number.to_string()));
    });
    let proxy = Proxy::before(&origin);
    let fat = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\na=b";
    assert_eq!(body(&proxy.ask(fat)), "0");
    assert_eq!(body(&proxy.get("/a", "")), "1");
    assert_eq!(body(&proxy.ask(fat)), "2");
    assert_eq!(body(&proxy.get("/a", "")), "1");
}

#[test]
fn what_contradicts_itself_is_not_stored() {
    let part = |range: &str| {
        format!(
            "HTTP/1.1 206 Part\r\nCache-Control: max-age=60\r\nContent-Range: {range}\r\n\
             Content-Length: 3\r\n\r\nabc"
        )
    };
    let twice = |name: &str, one: &str, other: &str| {
        response(&format!("Cache-Control: max-age=60\r\n{name}: {one}\r\n{name}: {other}\r\n"), "a")
    };
    for (what, answer) in [
        ("two types", twice("Content-Type", "text/html", "text/plain")),
        ("two tags", twice("ETag", "\"a\"", "\"b\"")),
        ("a part that nobody wanted", part("bytes 0-2/9")),
        ("a part of another length", part("bytes 0-5/9")),
        ("a part beyond the end", part("bytes 7-9/9")),
        ("a part of no length", part("bytes 2-0/9")),
    ] {
        let origin = Origin::answering(answer);
        let proxy = Proxy::before(&origin);
        proxy.get("/a", "");
        proxy.get("/a", "Range: bytes=0-2\r\n");
        proxy.get("/a", "");
        assert_eq!(origin.asked().len(), 3, "{what}");
    }
}

#[test]
fn a_range_that_the_server_ignores_comes_from_the_whole() {
    let origin = Origin::answering(fresh("0123456789"));
    let proxy = Proxy::before(&origin);
    for range in ["0-2", "7-9"] {
        let part = proxy.get("/a", &format!("Range: bytes={range}\r\n"));
        assert!(part.starts_with("HTTP/1.1 206 "), "{part}");
        assert_eq!(field(&part, "content-range"), Some(&*format!("bytes {range}/10")), "{part}");
    }
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn less_than_was_promised_is_not_stored() {
    let origin = Origin::new(|stream, _, number| match number {
        0 => {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\n";
            send(stream, format!("{head}abc"));
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
        _ => send(stream, fresh("abcdefghi")),
    });
    let proxy = Proxy::before(&origin);
    assert_ne!(body(&proxy.get("/a", "")), "abcdefghi");
    assert_eq!(body(&proxy.get("/a", "")), "abcdefghi");
    assert_eq!(proxy.ask(&get("/a", "")).matches("abcdefghi").count(), 1);
    assert_eq!(origin.asked().len(), 2);
}

const UNKEYED: [&str; 8] = [
    "X-Forwarded-Host",
    "X-Forwarded-Scheme",
    "X-Forwarded-Prefix",
    "X-Host",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-HTTP-Method-Override",
    "X-Method-Override",
];
