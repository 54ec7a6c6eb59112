//! What clients meet while a proxy ends.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::AsFd as _,
    thread::{self, JoinHandle},
};

use loadline_core::{
    decide::ending::Ending,
    fleet::{Fleet, Listener},
    time::Duration,
};
use loadline_proxy::{
    listener::inherited::Inherited,
    runtime::{Bound, Runtime},
    telemetry::tally::Tallies,
};

use crate::{
    ports::reserved,
    support::{
        Client, PATIENCE, anywhere, fleet, listener, occupied, server, tcp, wait_until_refused,
    },
};

/// Longer than any test takes.
const DRAIN: Duration = Duration::from_secs(60);

fn stop(proxy: Runtime) -> JoinHandle<Tallies> {
    thread::spawn(move || proxy.stop(DRAIN))
}

fn with_listeners(listeners: &[Listener]) -> Fleet {
    fleet(listeners, &[server("one")])
}

#[test]
fn clients_are_refused_at_once_while_what_is_under_way_ends() {
    let listeners = [listener(anywhere(), 0), tcp(anywhere(), 0)];
    let proxy = Runtime::start(with_listeners(&listeners)).unwrap();
    let addresses = proxy.local_addrs();
    let mut tunnel = Client::to(addresses[0]);
    tunnel.upgrade();
    let stopping = stop(proxy);
    addresses.into_iter().for_each(wait_until_refused);
    tunnel.echo("still there");
    assert!(!stopping.is_finished());
    drop(tunnel);
    stopping.join().unwrap();
}

#[test]
fn clients_are_refused_where_the_listener_was_full_when_it_stopped() {
    let full = Listener { max_connections: 1, ..listener(anywhere(), 0) };
    let mut fleet = with_listeners(&[full]);
    fleet.edge.threads = 1;
    let proxy = Runtime::start(fleet).unwrap();
    let address = proxy.local_addrs()[0];
    let (tunnel, mut next) = occupied(&proxy);
    let stopping = stop(proxy);
    wait_until_refused(address);
    assert_eq!(next.answer().1, "one", "it was in the queue before");
    drop(tunnel);
    stopping.join().unwrap();
}

#[test]
fn who_is_in_the_accept_queue_when_it_stops_is_served() {
    for door in [listener(reserved(), 0), tcp(reserved(), 0)] {
        let address = door.bind;
        let bound = Bound::new(with_listeners(&[door]), &mut Inherited::default()).unwrap();
        let mut waiting: Vec<Client> = (0..40).map(|_| Client::to(address)).collect();
        waiting.iter_mut().for_each(|it| it.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        let stopping = stop(bound.start().unwrap());
        waiting.iter_mut().for_each(|client| assert_eq!(client.answer().1, "one"));
        drop(waiting);
        stopping.join().unwrap();
    }
}

#[test]
fn the_process_that_was_followed_keeps_no_socket_open_that_its_successor_closes() {
    let listeners = [listener(anywhere(), 0)];
    let old = Runtime::start(with_listeners(&listeners)).unwrap();
    let address = old.local_addrs()[0];
    let mut tunnel = Client::to(address);
    tunnel.upgrade();
    let mut inherited = Inherited::default();
    for socket in old.handle().sockets().remove(0).sockets {
        inherited.add(socket.as_fd().try_clone_to_owned().unwrap()).unwrap();
    }
    let new = Bound::new(with_listeners(&[listener(address, 0)]), &mut inherited).unwrap();
    let new = new.start().unwrap();
    let leaving = thread::spawn(move || old.leave(DRAIN));
    let stopping = stop(new);
    wait_until_refused(address);
    tunnel.echo("still there");
    drop(tunnel);
    stopping.join().unwrap();
    leaving.join().unwrap();
}

#[test]
fn a_response_without_a_length_that_is_cut_when_it_stops_does_not_look_whole() {
    let bound = TcpListener::bind(anywhere()).unwrap();
    let address = bound.local_addr().unwrap();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in bound.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1_000]);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").unwrap();
            kept.push(stream);
        }
    });
    let proxy = Runtime::start(fleet(&[listener(anywhere(), 0)], &[address])).unwrap();
    let at = proxy.local_addrs()[0];
    let mut clients: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(at).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut told = Vec::new();
            while !told.ends_with(b"half") {
                let mut bytes = [0; 1_000];
                let count = stream.read(&mut bytes).unwrap();
                assert_ne!(count, 0, "closed");
                told.extend_from_slice(&bytes[..count]);
            }
            stream
        })
        .collect();
    let tallies = proxy.stop(Duration::from_millis(50));
    assert_eq!(tallies.count(Ending::Drained), 20);
    for client in &mut clients {
        let end = client.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset));
    }
}
