//! A process that follows another on the same sockets; here both are in one.

use std::{
    net::{SocketAddr, TcpStream},
    os::fd::AsFd as _,
    thread,
};

use loadline_core::{fleet::Fleet, time::Duration};
use loadline_proxy::{
    listener::inherited::Inherited,
    runtime::{Bound, Runtime},
};

use crate::support::{Client, PATIENCE, anywhere, becomes, fleet, listener, server};

/// A proxy on the sockets of another.
fn successor(of: &Runtime, fleet: Fleet) -> Runtime {
    let mut inherited = Inherited::default();
    for listener in of.handle().sockets() {
        for socket in listener.sockets {
            let socket = socket.as_fd().try_clone_to_owned().unwrap();
            inherited.add_for(socket, (listener.bind, listener.nth)).unwrap();
        }
    }
    let bound = Bound::new(fleet, &mut inherited).unwrap();
    assert!(inherited.addresses().is_empty(), "each has found its listener");
    bound.start().unwrap()
}

#[test]
fn the_successor_takes_connections_and_the_kept_ones_of_the_old_are_answered_once_more() {
    let servers = [server("one"), server("two")];
    let listeners = [listener(anywhere(), 0)];
    let old = Runtime::start(fleet(&listeners, &servers)).unwrap();
    let address = old.local_addrs()[0];
    let mut kept = Client::to(address);
    assert_eq!(kept.ask(), "one");
    let mut tunnel = Client::to(address);
    tunnel.upgrade();
    let new = successor(&old, fleet(&[listener(anywhere(), 1)], &servers));
    assert_eq!(new.local_addrs(), [address]);
    let leaving = thread::spawn(move || old.leave(Duration::from_secs(20)));
    // Who comes now is the successor's, sooner or later; nobody is refused meanwhile.
    assert!(becomes(|| Client::to(address).ask() == "two"));
    tunnel.echo("on the old one");
    // Its worker hears of the end with its next tick; each response before that leaves it open.
    let is_last = |kept: &mut Client| {
        kept.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = kept.answer();
        assert_eq!(body, "one");
        head.contains("connection: close")
    };
    assert!(becomes(|| is_last(&mut kept)));
    assert!(kept.is_closed());
    drop(tunnel);
    leaving.join().unwrap();
    assert_eq!(Client::to(address).ask(), "two");
    new.stop(Duration::ZERO);
}

#[test]
fn connections_that_wait_while_nobody_accepts_are_not_lost() {
    let servers = [server("one")];
    let listeners = [listener(anywhere(), 0)];
    let old = Runtime::start(fleet(&listeners, &servers)).unwrap();
    let address = old.local_addrs()[0];
    // Bound, but nobody accepts from it yet: this is what a slow start looks like.
    let mut inherited = Inherited::default();
    for socket in old.handle().sockets().remove(0).sockets {
        inherited.add(socket.as_fd().try_clone_to_owned().unwrap()).unwrap();
    }
    let bound = Bound::new(fleet(&[listener(address, 0)], &servers), &mut inherited).unwrap();
    old.leave(Duration::ZERO);
    let mut waiting: Vec<Client> = (0..20).map(|_| Client::to(address)).collect();
    waiting.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    let new = bound.start().unwrap();
    waiting.iter_mut().for_each(|client| assert_eq!(client.answer().1, "one"));
    new.stop(Duration::ZERO);
}

#[test]
fn fewer_sockets_than_threads_are_shared_and_more_are_all_served() {
    for (before, after) in [(1, 3), (3, 1)] {
        let servers = [server("one")];
        let with = |threads| {
            let mut fleet = fleet(&[listener(anywhere(), 0)], &servers);
            fleet.edge.threads = threads;
            fleet
        };
        let old = Runtime::start(with(before)).unwrap();
        let address = old.local_addrs()[0];
        let new = successor(&old, with(after));
        old.leave(Duration::ZERO);
        // By its port each connection falls to another socket.
        for _ in 0..50 {
            assert_eq!(ask_within(address), "one", "{before} threads before, {after} after");
        }
        new.stop(Duration::ZERO);
    }
}

fn ask_within(address: SocketAddr) -> String {
    TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    Client::to(address).ask()
}
