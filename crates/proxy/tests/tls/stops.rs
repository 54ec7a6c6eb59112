//! A proxy that ends while clients agree on TLS.

use std::{io::Write as _, net::TcpStream, thread, time::Instant};

use loadline_core::{fleet::Protocol, time::Duration};
use loadline_proxy::{listener::inherited::Inherited, runtime::Bound};
use rustls::version::TLS13;

use crate::{
    authority::Authority,
    ports::reserved,
    support::{ask, connect, echo, fleet, start, with},
};

#[test]
fn who_is_in_the_accept_queue_when_it_stops_is_served() {
    let authority = Authority::new();
    let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    let free = reserved();
    fleet.listeners[0].bind = free;
    let bound = Bound::new(fleet, &mut Inherited::default()).unwrap();
    let config = authority.client(&[&TLS13], None);
    let mut waiting: Vec<_> = (0..10).map(|_| connect(free, &config, "a.test")).collect();
    for client in &mut waiting {
        // The first message of the handshake alone: a read would wait for the response.
        client.conn.write_tls(&mut client.sock).unwrap();
        client.sock.flush().unwrap();
    }
    let proxy = bound.start().unwrap();
    let stopping = thread::spawn(move || proxy.stop(Duration::from_secs(60)));
    for client in &mut waiting {
        let answer = ask(client, b"hello").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    stopping.join().unwrap();
}

/// Browsers open connections in advance, on which they may never say anything.
#[test]
fn a_client_that_has_said_nothing_holds_up_a_stop_for_a_second_alone() {
    let authority = Authority::new();
    let mut https = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    https.listeners[0].timeouts.head = Duration::from_secs(60);
    let mut told = fleet(echo(None), None);
    told.listeners[0].accept_proxy = true;
    told.listeners[0].timeouts.head = Duration::from_secs(60);
    let (mut tls, mut passed) = (https.clone(), told.clone());
    tls.listeners[0].protocol = Protocol::Tls;
    passed.listeners[0].protocol = Protocol::TlsPassthrough;
    passed.listeners[0].accept_proxy = false;
    for fleet in [https, told, tls, passed] {
        let (proxy, address) = start(fleet);
        let _silent = TcpStream::connect(address).unwrap();
        let taken_in = || proxy.tallies().listeners.values().any(|it| it.accepted > 0);
        while !taken_in() {
            thread::yield_now();
        }
        let begin = Instant::now();
        proxy.stop(Duration::from_secs(60));
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    }
}
