//! Large bodies, which are sent from where they are stored, without a copy.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use loadline_core::{decide::ending::Ending, state::Purge};

use crate::support::{Origin, Proxy, field, get, until_closed};

const LENGTH: usize = 4 << 20;

/// The body of a path: bytes of which each tells its place, and of which path it is.
fn body(path: &str) -> Vec<u8> {
    let of_path = path.bytes().fold(0_u8, u8::wrapping_add);
    (0..LENGTH).map(|n| b'a' + ((n / 7 + usize::from(of_path)) % 26) as u8).collect()
}

fn origin() -> Origin {
    Origin::new(|stream: &mut TcpStream, head, _| {
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let fields = format!("Cache-Control: max-age=60\r\nContent-Length: {LENGTH}\r\n");
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).unwrap();
        stream.write_all(&body(&path)).unwrap();
    })
}

fn body_of(response: &str) -> &[u8] {
    response.split_once("\r\n\r\n").expect("a head").1.as_bytes()
}

#[test]
fn a_large_body_comes_whole_and_in_parts_from_the_cache() {
    let (origin, path) = (origin(), "/large");
    let proxy = Proxy::before(&origin);
    for _ in 0..3 {
        assert!(body_of(&proxy.get(path, "")) == body(path));
    }
    assert_eq!(origin.asked().len(), 1);
    let part = proxy.get(path, "Range: bytes=1000001-3000000\r\n");
    assert_eq!(field(&part, "content-range"), Some("bytes 1000001-3000000/4194304"));
    assert!(body_of(&part) == &body(path)[1_000_001..=3_000_000]);
}

#[test]
fn who_reads_slowly_gets_a_body_whole_that_was_purged_and_whose_memory_others_want() {
    let (origin, path) = (origin(), "/slow");
    let proxy = Proxy::before(&origin);
    proxy.get(path, "");
    let mut slow = proxy.begin(&get(path, ""));
    let mut first = [0; 2_000];
    slow.read_exact(&mut first).unwrap();
    let everything = Purge { prefix: Some("http://x/".into()), url: None, tag: None, soft: false };
    assert_eq!(proxy.runtime.handle().purge(&everything).objects, 1);
    for other in ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"] {
        assert!(body_of(&proxy.get(other, "")) == body(other));
    }
    let rest = until_closed(&mut slow);
    let all = String::from_utf8(first.to_vec()).unwrap() + &rest;
    assert!(body_of(&all) == body(path));
    proxy.expect(Ending::Cached, 1);
}
