//! What the floor relays, and what it refuses.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::Duration;

use super::*;
use crate::backend;

/// A floor before two servers; the threads last as long as the test process.
fn start(tuned: bool) -> TcpStream {
    let servers = [backend::start(), backend::start()];
    let relay = Relay::bind(0, &servers, tuned).unwrap();
    let port = relay.listener.local_addr().unwrap().port();
    thread::spawn(move || relay.run());
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Asks and reads a response with so long a body; its head.
fn ask(stream: &mut TcpStream, path: &str, header: &str, length: usize) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "closed after {} bytes", got.len());
        got.extend_from_slice(&piece[..count]);
        let end = got.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end.filter(|end| got.len() >= end + 4 + length) {
            break end;
        }
    };
    assert_eq!(got.len(), end + 4 + length);
    String::from_utf8(got[..end].to_vec()).unwrap()
}

#[test]
fn a_connection_gets_one_answer_after_another_from_servers_by_turns() {
    for tuned in [false, true] {
        let mut stream = start(tuned);
        for (path, length) in [("/s", 100), ("/m", 50_000), ("/l", 10_000_000), ("/s", 100)] {
            let head = ask(&mut stream, path, "", length);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("close"), "{head}");
        }
    }
}

#[test]
fn a_client_that_wants_to_leave_is_told_so_and_let_go() {
    for tuned in [false, true] {
        let mut stream = start(tuned);
        let head = ask(&mut stream, "/s", "Connection: close\r\n", 100);
        assert!(head.ends_with("\r\nConnection: close"), "{head}");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_head_in_pieces_is_put_together() {
    let mut stream = start(true);
    stream.set_nodelay(true).unwrap();
    for piece in ["GET /s HT", "TP/1.1\r\nHost: ", "a\r\n", "\r\n"] {
        stream.write_all(piece.as_bytes()).unwrap();
    }
    let mut status = [0; 15];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200 OK");
}

#[test]
fn what_it_does_not_know_ends_the_connection() {
    let mut stream = start(false);
    stream.write_all(b"POST /s HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn the_server_does_not_hear_of_connection() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept: b\r\n\r\n";
    let Status::Complete(request) = head::request(bytes).unwrap() else { panic!("partial") };
    assert!(request.closes);
    let expected = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n";
    assert_eq!(request.forwarded(bytes).as_ref(), expected);
}

#[test]
fn clients_that_leave_amid_long_answers_take_nothing_from_those_that_stay() {
    for tuned in [false, true] {
        let mut stream = start(tuned);
        let proxy = stream.peer_addr().unwrap();
        for _ in 0..20 {
            let mut leaving = TcpStream::connect(proxy).unwrap();
            leaving.write_all(b"GET /l HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            leaving.read_exact(&mut [0; 1024]).unwrap();
        }
        let head = ask(&mut stream, "/m", "", 50_000);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    }
}
