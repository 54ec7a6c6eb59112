//! What the program tells is enough for another balancer, to which servers have other numbers, to
//! go on with every connection.

use std::net::SocketAddr;

use loadline_core::{
    fleet::forwarding::{Method, Protocol, Times},
    time::Duration,
};
use loadline_l4::{
    Connection, Datapath, Event, Frontend, Path, Server, Verdict,
    ports::Port,
    ring::{Entry, RING_SIZE, Ring},
};

use crate::{
    frame::{frame, ip, mac},
    world::{SIZES, bare, judge, maglev, named, serve},
};

const CLIENTS: std::ops::Range<u16> = 1_000..1_040;
const OVER: Times = Times { fin: Duration::ZERO, stale: Duration::from_secs(60) };

/// Servers by name; the second balancer counts them from the end.
const SERVERS: [&str; 3] = ["one", "two", "three"];

/// A balancer with services by NAT and by MAC in one family, numbers of servers shifted by `shift`.
pub(crate) fn balancer(v6: bool, shift: u16, events: u32) -> Option<Datapath> {
    let mut datapath = bare(loadline_l4::Sizes { events, ..SIZES }, 40, &["return4", "return6"])?;
    for (service, method) in [(0, Method::Nat), (1, Method::Mac)] {
        serve(&mut datapath, &named(&method.to_string(), v6), service, method);
        for name in 0..3 {
            let (number, address) = (number(name, service, shift), ip(&named(SERVERS[name], v6)));
            let (port, service) = if service == 0 { (8_080, None) } else { (0, Some(service)) };
            let mac = mac(["S1", "S2", "S3"][name]);
            let server = Server { address, port, service, mac, is_up: true };
            datapath.set_server(number, &server).unwrap();
        }
    }
    Some(datapath)
}

pub(crate) fn number(name: usize, service: u32, shift: u16) -> u16 {
    (name as u16 + shift) % 3 + 1 + 3 * service as u16
}

pub(crate) fn numbers(service: u32, shift: u16) -> [u16; 3] {
    [0, 1, 2].map(|name| number(name, service, shift))
}

pub(crate) fn packet(method: &str, v6: bool, client: u16, flags: &str) -> Vec<u8> {
    let family = if v6 { 6 } else { 4 };
    let text =
        format!("eth C L ip{family} client{family} {method}{family} tcp {client} 80 {flags}");
    frame(&text)
}

fn path(method: &str, v6: bool, client: u16) -> Path {
    let at = |name: &str, port| SocketAddr::new(ip(&named(name, v6)), port);
    let frontend = Frontend { address: at(method, 80), protocol: Protocol::Tcp };
    Path { client: at("client", client), frontend }
}

/// The number of a server of the first balancer at one whose numbers are shifted.
fn there(server: u16, shift: u16) -> u16 {
    (server + shift - 1) % 3 + 1 + if server > 3 { 3 } else { 0 }
}

/// Does at `to` what `events` say, in the numbers of `to`.
fn follow(to: &mut Datapath, v6: bool, shift: u16, events: &[Event]) {
    let there = |server| there(server, shift);
    let lent = |port: Port| SocketAddr::new(ip(&named("return", v6)), port.port);
    for event in events {
        match *event {
            Event::Flow { path, service, server, position } => {
                to.put_flow(&path, service, there(server), position).unwrap();
            }
            Event::Open { path, service, server, port, link } => {
                let (server, lent) = (there(server), lent(port));
                let open = Connection { path, service, server, lent, link, is_closed: false };
                to.put_connection(&open).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn another_balancer_goes_on_with_every_connection() {
    for v6 in [false, true] {
        let Some(mut active) = balancer(v6, 0, 1 << 16) else { return };
        let Some(mut standby) = balancer(v6, 1, 1 << 16) else { return };
        let mut ring = Ring::new(&maglev(&numbers(1, 0)));
        active.publish(0, Ring::new(&maglev(&numbers(0, 0))).entries()).unwrap();
        active.publish(1, ring.entries()).unwrap();
        ring.assign(Datapath::now(), &[number(0, 1, 0); RING_SIZE]);
        active.publish(1, ring.entries()).unwrap();
        let send = |datapath: &Datapath, method, flags: &str| {
            let one = |client| datapath.try_packet(&packet(method, v6, client, flags)).unwrap();
            CLIENTS.map(one).collect::<Vec<_>>()
        };
        // Half of those of MAC are elsewhere than the base says.
        send(&active, "nat", "S");
        send(&active, "mac", "S");
        let events = active.events().unwrap();
        assert_eq!(events.iter().filter(|it| matches!(it, Event::Open { .. })).count(), 40);
        assert!(!events.contains(&Event::Missed));
        follow(&mut standby, v6, 1, &events);
        // For NAT its own ring says something else; for MAC it has the active's.
        standby.publish(0, &[Entry::settled(number(2, 0, 1)); RING_SIZE]).unwrap();
        let entries = ring.entries().iter().map(|it| it.renumbered(|server| there(server, 1)));
        let entries: Vec<Entry> = entries.collect();
        standby.publish(1, Ring::resume(Datapath::now(), &entries).entries()).unwrap();
        standby.take_over().unwrap();
        for method in ["nat", "mac"] {
            let same = send(&standby, method, "A") == send(&active, method, "A");
            assert!(same, "{method}, IPv6: {v6}");
        }
    }
}

#[test]
fn a_port_of_another_balancer_is_lent_again_only_when_its_connection_is_over() {
    let Some(mut active) = balancer(false, 0, 1 << 16) else { return };
    let Some(mut standby) = balancer(false, 1, 1 << 16) else { return };
    active.publish(0, &[Entry::settled(number(0, 0, 0)); RING_SIZE]).unwrap();
    standby.publish(0, &[Entry::settled(number(0, 0, 1)); RING_SIZE]).unwrap();
    for client in 1..=39 {
        assert_eq!(judge(&active, &packet("nat", false, client, "S")).0, Verdict::SendNat);
    }
    follow(&mut standby, false, 1, &active.events().unwrap());
    standby.take_over().unwrap();
    assert_eq!(standby.free_ports(number(0, 0, 1)), 1);
    assert_eq!(judge(&standby, &packet("nat", false, 40, "S")).0, Verdict::SendNat);
    assert_eq!(judge(&standby, &packet("nat", false, 41, "S")).0, Verdict::DropNatPorts);
    // Nobody has heard of them here, and still they are not stale.
    assert_eq!(standby.give_back(|_| OVER).unwrap(), 0);
    assert_eq!(judge(&standby, &packet("nat", false, 7, "R")).0, Verdict::SendNat);
    assert_eq!(standby.give_back(|_| OVER).unwrap(), 1);
    assert_eq!(judge(&standby, &packet("nat", false, 41, "S")).0, Verdict::SendNat);
}

#[test]
fn the_end_of_a_connection_is_told_and_what_was_copied_is_forgotten_again() {
    let Some(mut active) = balancer(false, 0, 1 << 16) else { return };
    active.publish(0, &[Entry::settled(1); RING_SIZE]).unwrap();
    active.events().unwrap();
    let port = Port { address: 0, port: 5_000 };
    judge(&active, &packet("nat", false, 7, "S"));
    let open =
        Event::Open { path: path("nat", false, 7), service: 0, server: 1, port, link: mac("C") };
    assert_eq!(active.events().unwrap(), [open]);
    judge(&active, &packet("nat", false, 7, "FA"));
    assert_eq!(active.events().unwrap(), [], "the server may have more to say");
    judge(&active, &packet("nat", false, 7, "R"));
    assert_eq!(active.events().unwrap(), [Event::Closed { server: 1, port }]);
    judge(&active, &packet("nat", false, 7, "S"));
    assert_eq!(active.events().unwrap(), [open], "the client uses its port again");
    judge(&active, &packet("nat", false, 7, "R"));
    active.give_back(|_| OVER).unwrap();
    let told = active.events().unwrap();
    assert_eq!(told, [Event::Closed { server: 1, port }, Event::Over { server: 1, port }]);

    let lent = SocketAddr::new(ip("return4"), 5_000);
    let path = path("nat", false, 8);
    let copy = Connection { path, service: 0, server: 1, lent, link: mac("C"), is_closed: true };
    let known = |active: &Datapath| judge(active, &packet("nat", false, 8, "A")).0;
    active.put_connection(&copy).unwrap();
    assert_eq!(known(&active), Verdict::SendNat);
    let other = SocketAddr::new(ip("return4"), 5_001);
    active.put_connection(&Connection { lent: other, ..copy }).unwrap();
    active.remove_connection(&copy).unwrap();
    assert_eq!(known(&active), Verdict::SendNat, "its client has another one by now");
    active.remove_connection(&Connection { lent: other, ..copy }).unwrap();
    assert_eq!(known(&active), Verdict::DropNatUnknown);
    active.put_connection(&copy).unwrap();
    active.forget_all().unwrap();
    assert_eq!(known(&active), Verdict::DropNatUnknown);
}

/// Whichever of the two a standby hears of first.
#[test]
fn a_standby_knows_which_server_a_client_port_that_is_used_again_is_on() {
    for is_turned in [false, true] {
        let Some(mut active) = balancer(false, 0, 1 << 16) else { return };
        let Some(mut standby) = balancer(false, 1, 1 << 16) else { return };
        let [old, new] = [number(0, 0, 0), number(1, 0, 0)];
        active.publish(0, &[Entry::settled(old); RING_SIZE]).unwrap();
        judge(&active, &packet("nat", false, 7, "S"));
        judge(&active, &packet("nat", false, 7, "R"));
        follow(&mut standby, false, 1, &active.events().unwrap());
        active.publish(0, &[Entry::settled(new); RING_SIZE]).unwrap();
        judge(&active, &packet("nat", false, 7, "S"));
        let events = active.events().unwrap();
        let [Event::Closed { server, port }, Event::Open { server: at, port: lent, .. }] =
            events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((server, at), (old, new));
        let connection = |server, port: Port, is_closed| Connection {
            path: path("nat", false, 7),
            service: 0,
            server: there(server, 1),
            lent: SocketAddr::new(ip("return4"), port.port),
            link: mac("C"),
            is_closed,
        };
        let closed = connection(old, port, true);
        let mut told = [closed, connection(new, lent, false)];
        if is_turned {
            told.reverse();
        }
        told.iter().for_each(|one| standby.put_connection(one).unwrap());
        let sent =
            |datapath: &Datapath| datapath.try_packet(&packet("nat", false, 7, "A")).unwrap().frame;
        assert_eq!(sent(&standby), sent(&active));
        active.give_back(|_| OVER).unwrap();
        let over = Event::Over { server: old, port };
        assert_eq!(active.events().unwrap(), [over]);
        standby.remove_connection(&closed).unwrap();
        assert_eq!(sent(&standby), sent(&active));
    }
}

#[test]
fn flows_are_told_while_their_entries_are_recorded_and_when_they_are_forgotten() {
    let Some(mut active) = balancer(true, 0, 1 << 16) else { return };
    let mut ring = Ring::new(&[4; RING_SIZE]);
    active.publish(1, ring.entries()).unwrap();
    judge(&active, &packet("mac", true, 7, "S"));
    assert_eq!(active.events().unwrap(), [], "the ring alone says where it is");
    ring.assign(Datapath::now(), &[5; RING_SIZE]);
    active.publish(1, ring.entries()).unwrap();
    judge(&active, &packet("mac", true, 7, "A"));
    judge(&active, &packet("mac", true, 7, "A"));
    let told = active.events().unwrap();
    let [Event::Flow { path: told, service: 1, server: 4, .. }] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(told, path("mac", true, 7));
    active.remove_flow(&told).unwrap();
    judge(&active, &packet("mac", true, 7, "S"));
    assert!(matches!(active.events().unwrap()[..], [Event::Flow { server: 5, .. }]));
    while active.settle(1, &mut ring, Duration::ZERO).unwrap() {}
    assert_eq!(active.events().unwrap(), [Event::FlowGone(told)]);
}

#[test]
fn what_finds_no_room_is_missed_and_who_does_not_listen_is_told_nothing() {
    let Some(mut active) = balancer(false, 0, 1) else { return };
    let mut ring = Ring::new(&[4; RING_SIZE]);
    ring.assign(Datapath::now(), &[5; RING_SIZE]);
    active.publish(1, ring.entries()).unwrap();
    let send = |datapath: &Datapath, clients: std::ops::Range<u16>| {
        clients.for_each(|client| drop(judge(datapath, &packet("mac", false, client, "S"))));
    };
    send(&active, 1_000..2_000);
    let told = active.events().unwrap();
    assert!(told.len() > 500 && told.len() < 1_000, "{}", told.len());
    assert_eq!(told.last(), Some(&Event::Missed));
    assert_eq!(active.events().unwrap(), []);
    let Some(mut silent) = balancer(false, 0, 0) else { return };
    silent.publish(1, ring.entries()).unwrap();
    send(&silent, 1_000..1_010);
    assert_eq!(silent.events().unwrap(), []);
}
