//! A proxy that ends while clients agree on TLS.

use std::{io::Write as _, net::TcpListener, thread};

use loadline_core::time::Duration;
use loadline_proxy::{listener::inherited::Inherited, runtime::Bound};
use rustls::version::TLS13;

use crate::{
    authority::Authority,
    support::{ask, connect, echo, fleet, with},
};

#[test]
fn who_is_in_the_accept_queue_when_it_stops_is_served() {
    let authority = Authority::new();
    let mut fleet = fleet(echo(None), with(vec![authority.sign(&["a.test"])]));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
