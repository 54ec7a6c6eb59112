//! What becomes of what is under way with a server that is given nothing more.

use std::net::SocketAddr;

use loadline_core::{
    decide::ending::Ending,
    fleet::{Fleet, Listener},
    time::Duration,
};
use loadline_proxy::runtime::Runtime;

use crate::support::{Client, anywhere, becomes, fleet, listener, server, tcp};

/// A fleet of one service with these servers, whose drains have this long.
fn drained_after(limit: Option<Duration>, listener: &Listener, servers: &[SocketAddr]) -> Fleet {
    let mut fleet = fleet(std::slice::from_ref(listener), &servers[..1]);
    let service = &mut fleet.services[0];
    service.drain_timeout = limit;
    let one = service.groups[0].servers[0].clone();
    let all = servers
        .iter()
        .map(|address| loadline_core::fleet::Server { address: *address, ..one.clone() });
    service.groups[0].servers = all.collect();
    fleet
}

fn wait_for(proxy: &Runtime, name: &str) {
    let address = proxy.local_addrs()[0];
    assert!(becomes(|| Client::to(address).ask() == name), "{name} never answers");
}

#[test]
fn a_tunnel_to_a_server_that_left_is_cut_at_its_deadline_and_its_client_connections_stay() {
    let (one, two) = (server("one"), server("two"));
    let bound = listener(anywhere(), 0);
    let limit = Some(Duration::from_secs(2));
    let proxy = Runtime::start(drained_after(limit, &bound, &[one])).unwrap();
    let mut kept = Client::to(proxy.local_addrs()[0]);
    assert_eq!(kept.ask(), "one");
    let mut tunnel = Client::to(proxy.local_addrs()[0]);
    tunnel.upgrade();
    tunnel.echo("before");
    proxy.reload(drained_after(limit, &bound, &[two])).unwrap();
    tunnel.echo("after");
    wait_for(&proxy, "two");
    assert_eq!(kept.ask(), "two", "its own connection is not the server's");
    assert!(tunnel.is_closed());
    let tallies = proxy.stop(Duration::ZERO);
    assert_eq!(tallies.count(Ending::Drained), 1);
}

#[test]
fn a_stream_is_cut_when_its_weight_has_been_zero_for_long_enough() {
    let (one, two) = (server("one"), server("two"));
    let bound = tcp(anywhere(), 0);
    let limit = Some(Duration::from_millis(300));
    let proxy = Runtime::start(drained_after(limit, &bound, &[one])).unwrap();
    let mut stream = Client::to(proxy.local_addrs()[0]);
    stream.upgrade();
    stream.echo("before");
    let mut drained = drained_after(limit, &bound, &[one, two]);
    drained.services[0].groups[0].servers[0].weight = 0;
    proxy.reload(drained).unwrap();
    assert!(stream.is_closed());
    let tallies = proxy.stop(Duration::ZERO);
    assert_eq!(tallies.count(Ending::Drained), 1);
}

#[test]
fn without_a_limit_a_tunnel_goes_on_after_its_server_left() {
    let (one, two) = (server("one"), server("two"));
    let bound = listener(anywhere(), 0);
    let proxy = Runtime::start(drained_after(None, &bound, &[one])).unwrap();
    let mut tunnel = Client::to(proxy.local_addrs()[0]);
    tunnel.upgrade();
    proxy.reload(drained_after(None, &bound, &[two])).unwrap();
    wait_for(&proxy, "two");
    tunnel.echo("still there");
    proxy.stop(Duration::ZERO);
}
