//! Bodies large enough to be spliced: every byte in its place, both ways, again and again.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use loadline_core::decide::ending::Ending;
use socket2::SockRef;

use crate::support::{Proxy, Scripted, head};

const SIZE: usize = 3_000_001;

/// So much is spliced.
const PIECE: usize = 128 << 10;

/// Bytes of which no two neighbourhoods are alike.
fn pattern() -> Vec<u8> {
    (0..SIZE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn body(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn large_bodies_arrive_as_they_were_sent_and_the_connections_go_on() {
    let server = Scripted::new(|mut stream, _| {
        while head(&mut stream).is_some() {
            let bytes = body(&mut stream);
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
            stream.write_all(&bytes).unwrap();
        }
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    for _ in 0..3 {
        let mut upload = client.try_clone().unwrap();
        let sender = thread::spawn(move || {
            let ask = format!("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {SIZE}\r\n\r\n");
            upload.write_all(ask.as_bytes()).unwrap();
            upload.write_all(&pattern()).unwrap();
        });
        assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 200 "));
        assert!(body(&mut client) == pattern());
        sender.join().unwrap();
    }
    proxy.expect(Ending::Complete, 3);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_large_answer_that_breaks_off_is_cut_after_what_came() {
    let server = Scripted::new(|mut stream, _| {
        head(&mut stream);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").unwrap();
        stream.write_all(&pattern()[..1_000_000]).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    head(&mut client).unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert!(bytes == pattern()[..1_000_000]);
    proxy.expect(Ending::ServerCut, 1);
}

/// The kernel tells of a reset once: to whoever moves bytes past the proxy, or to whoever reads.
#[test]
fn a_large_answer_without_a_length_is_cut_where_its_server_resets_the_connection() {
    let (went, goes) = mpsc::channel();
    let goes = Mutex::new(goes);
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        for _ in 0..3 {
            stream.write_all(&pattern()[..PIECE]).unwrap();
            goes.lock().unwrap().recv().unwrap();
        }
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    for _ in 0..5 {
        let mut client = proxy.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        head(&mut client).unwrap();
        for _ in 0..3 {
            client.read_exact(&mut vec![0; PIECE]).unwrap();
            went.send(()).unwrap();
        }
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    proxy.expect(Ending::ServerCut, 5);
}

/// A client that takes nothing has the kernel of the proxy hold little for it: a thousand of them
/// would else hold all the memory that the machine gives to TCP.
#[test]
fn a_server_cannot_send_what_the_client_does_not_take() {
    let (stopped, stops) = mpsc::channel();
    let server = Scripted::new(move |mut stream, _| {
        head(&mut stream);
        // What this side holds is not the proxy's.
        SockRef::from(&stream).set_send_buffer_size(32 << 10).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let size = 64 << 20;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").unwrap();
        let mut sent = 0;
        while let Ok(count @ 1..) = stream.write(&[b'x'; 16 << 10]) {
            sent += count;
        }
        stopped.send(sent).unwrap();
    });
    let proxy = Proxy::to(&[server.address]);
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let sent = stops.recv().unwrap();
    // Up to 2.1 MB on a busy machine; 4.6 MB and more where its kernel may hold what it likes.
    assert!(sent < 3_500_000, "the proxy and the client took {sent} bytes");
}
