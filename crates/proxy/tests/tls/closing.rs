//! How connections with TLS on them end, and who sees it.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Fleet, Then, WhenFull},
    state::ServiceCounter,
    time::Duration,
};
use rustls::version::{TLS12, TLS13};

use crate::{
    authority::Authority,
    support::{connect, echo, fleet, message, start, with},
};

#[test]
fn a_client_is_told_that_a_connection_ends_and_was_not_cut() {
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    for version in [&TLS12, &TLS13] {
        for request in
            ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"]
        {
            let mut client = connect(address, &authority.client(&[version], None), "a.test");
            client.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            // Without a close_notify this is an unexpected end.
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        }
    }
}

#[test]
fn a_client_that_offers_http_1_0_alone_is_served() {
    let authority = Authority::new();
    let (_proxy, address) = start(fleet(echo(None), with(vec![authority.sign(&["a.test"])])));
    let mut config = (*authority.client(&[&TLS13], None)).clone();
    config.alpn_protocols = vec![b"http/1.0".to_vec()];
    let mut client = connect(address, &config.into(), "a.test");
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(client.conn.alpn_protocol(), Some(&b"http/1.0"[..]));
}

/// A server that says when a request has come, and answers when it is told to.
fn holding() -> (SocketAddr, Receiver<()>, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((came, comes), (go, goes)) = (mpsc::channel(), mpsc::channel());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while message(&mut stream).is_ok() && came.send(()).is_ok() && goes.recv().is_ok() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    (address, comes, go)
}

/// One request at a time; others wait.
fn one_at_a_time(fleet: &mut Fleet) {
    let service = &mut fleet.services[0];
    service.groups[0].capacity.max_in_flight = Some(1);
    let timeout = Duration::from_secs(60);
    service.when_full = WhenFull::Queue { timeout, length: 5, then: Then::Shed };
}

#[test]
fn a_client_that_says_by_tls_that_it_leaves_the_queue_is_not_served() {
    let authority = Authority::new();
    let (server, came, go) = holding();
    let mut fleet = fleet(server, with(vec![authority.sign(&["a.test"])]));
    one_at_a_time(&mut fleet);
    let (proxy, address) = start(fleet);
    let config = authority.client(&[&TLS13], None);
    let mut first = connect(address, &config, "a.test");
    first.write_all(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    came.recv_timeout(PATIENCE).unwrap();
    let mut second = connect(address, &config, "a.test");
    second.write_all(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let counted = |of: &dyn Fn() -> u64| {
        let begin = std::time::Instant::now();
        while of() == 0 {
            assert!(begin.elapsed() < PATIENCE, "nothing is counted");
            thread::yield_now();
        }
    };
    counted(&|| proxy.tallies().services["web"].counters[ServiceCounter::Queued]);
    second.conn.send_close_notify();
    second.conn.write_tls(&mut second.sock).unwrap();
    counted(&|| proxy.tallies().count(Ending::ClientGone));
    go.send(()).unwrap();
    assert!(message(&mut first).is_ok());
    assert!(came.try_recv().is_err(), "the second request reached the server");
}

#[test]
fn a_websocket_whose_client_ends_without_close_notify_loses_nothing() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        message(&mut stream).unwrap();
        let yes = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\n\r\n";
        stream.write_all(yes).unwrap();
        // So that much is still on its way when the client ends.
        thread::sleep(Duration::from_millis(200).to_std());
        told.send(stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind())).unwrap();
        stream.write_all(b"bye").unwrap();
    });
    let (_proxy, address) = start(fleet(server, with(vec![authority.sign(&["a.test"])])));
    let mut client = connect(address, &authority.client(&[&TLS13], None), "a.test");
    let ask = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    client.write_all(ask).unwrap();
    message(&mut client).unwrap();
    client.write_all(&vec![b'x'; 1_000_000]).unwrap();
    client.flush().unwrap();
    client.sock.shutdown(Shutdown::Write).unwrap();
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), Ok(1_000_000));
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "bye");
}

/// Longer than anything takes that goes right.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
