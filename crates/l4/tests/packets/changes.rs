//! Servers come, go and come back, and no flow moves: the promise of `ring`, kept by the program.

use std::{
    net::IpAddr,
    ops::Range,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    fleet::forwarding::{Affinity, Method},
    time::Duration,
};
use loadline_l4::{
    Action, Datapath, Server, Sizes, Unsettled,
    ring::{RING_SIZE, Ring},
};

use crate::{
    frame::frame,
    world::{SIZES, bare, frontends, maglev, named, serve},
};

const SERVERS: u16 = 5;

/// Room for all flows on each processor, between which the kernel divides it.
const MANY: Sizes = Sizes { flows: 1 << 17, nat: 1 << 15, ..SIZES };

/// A balancer with five servers of one method in one family, of which each has a link address that
/// ends in its number.
struct Group {
    datapath: Datapath,
    ring: Ring,
    method: Method,
    name: String,
    v6: bool,
}

impl Group {
    fn new(method: Method, v6: bool) -> Option<Self> {
        let mut datapath = bare(MANY, 60_000, &["return4", "return6"])?;
        let name = named(&method.to_string(), v6);
        serve(&mut datapath, &name, 0, method);
        let ring = Ring::new(&maglev(&[1, 2, 3]));
        let mut group = Self { datapath, ring, method, name, v6 };
        (1..=SERVERS).for_each(|number| group.set(number, true));
        group.publish();
        Some(group)
    }

    fn set(&mut self, number: u16, is_up: bool) {
        let address = match self.v6 {
            true => IpAddr::from([0xfd00, 0, 0, 1, 0, 0, 0, number]),
            false => IpAddr::from([10, 0, 1, number as u8]),
        };
        let mac = [2, 0, 0, 0, 1, number as u8];
        self.datapath
            .set_server(number, &Server { address, port: 0, service: None, mac, is_up })
            .unwrap();
    }

    /// From now on clients stay, not just connections.
    fn stick(&mut self) {
        let (client, frontends) = (Affinity::Client(Duration::ZERO), frontends(&self.name));
        self.datapath.add_service(0, self.method, client, &frontends).unwrap();
    }

    fn assign(&mut self, servers: &[u16]) {
        self.ring.assign(Datapath::now(), &maglev(servers));
        self.publish();
    }

    fn publish(&mut self) {
        self.datapath.publish(0, self.ring.entries()).unwrap();
    }

    /// A packet of this client.
    fn packet(&self, client: u16, flags: &str) -> Vec<u8> {
        let layer = if self.v6 { "ip6 client6" } else { "ip4 client4" };
        frame(&format!("eth C L {layer} {} tcp {client} 80 {flags}", self.name))
    }

    /// The servers that a hundred hosts are sent to with this segment.
    fn servers(&self, segment: &str) -> Vec<u16> {
        let net = if self.v6 { "ip6 fd00::5:" } else { "ip4 10.0.5." };
        let text = |host| format!("eth C L {net}{host} {} {segment}", self.name);
        (100..200).map(|host| self.server_of(&frame(&text(host)))).collect()
    }

    /// The server that a packet is sent to.
    fn server_of(&self, packet: &[u8]) -> u16 {
        let tried = self.datapath.try_packet(packet).unwrap();
        assert_eq!(tried.action, Action::Send, "{packet:02x?}");
        u16::from(tried.frame[5])
    }

    fn server(&self, client: u16, flags: &str) -> u16 {
        self.server_of(&self.packet(client, flags))
    }

    /// Opens connections: their next packets, and their servers.
    fn open(&self, clients: Range<u16>) -> Vec<(Vec<u8>, u16)> {
        clients.map(|client| (self.packet(client, "A"), self.server(client, "S"))).collect()
    }
}

fn groups() -> impl Iterator<Item = Group> {
    let methods = [Method::Mac, Method::Nat, Method::Ipip];
    methods.into_iter().flat_map(|method| [false, true].map(|v6| Group::new(method, v6))).flatten()
}

/// Servers join, leave and come back 50 times; each time connections begin, and all that are open
/// stay.
#[test]
fn no_connection_moves_while_servers_come_and_go() {
    let sets: [&[u16]; 5] = [&[1, 2], &[1, 2, 3, 4, 5], &[4, 5], &[2, 3], &[1, 2, 3]];
    for mut group in groups() {
        let count = if group.v6 { 1_000 } else { 10_000 };
        let mut open = group.open(1_000..1_000 + count);
        for (step, servers) in (0_u16..).zip(sets.into_iter().cycle().take(50)) {
            group.assign(servers);
            for (packet, server) in &open {
                assert_eq!(group.server_of(packet), *server, "{} at step {step}", group.name);
            }
            let first = 20_000 + 20 * step;
            let begun = group.open(first..first + 20);
            assert!(begun.iter().all(|(_, server)| servers.contains(server)), "at step {step}");
            open.extend(begun);
        }
    }
}

#[test]
fn connections_of_a_server_that_is_gone_go_to_the_others_and_nobody_else_moves() {
    for mut group in groups() {
        let before: Vec<u16> = (0..300).map(|client| group.server(client, "S")).collect();
        group.set(2, false);
        group.assign(&[1, 3]);
        for (client, server) in before.iter().enumerate() {
            let now = group.server(client as u16, "A");
            assert!(now == *server || (*server == 2 && now != 2), "{server} to {now}");
        }
    }
}

/// The flow table is asked only for as long as it knows more than the ring.
#[test]
fn rings_come_to_rest_and_flows_stay() {
    let Some(mut group) = Group::new(Method::Mac, true) else { return };
    let before: Vec<u16> = (0..200).map(|client| group.server(client, "S")).collect();
    group.assign(&[1, 2, 3, 4]);
    let recorded = |group: &Group| group.ring.entries().iter().filter(|e| e.is_recorded()).count();
    let moved = recorded(&group);
    assert!(moved > RING_SIZE / 5, "{moved} entries have another server now");
    // Flows that send keep their entries in the table, all others settle.
    let begun = Instant::now();
    while recorded(&group) > 200 && begun.elapsed() < PATIENCE {
        for (client, server) in before.iter().enumerate() {
            assert_eq!(group.server(client as u16, "A"), *server);
        }
        group.datapath.settle(0, &mut group.ring, Duration::ZERO).unwrap();
    }
    let left = recorded(&group);
    assert!(left > 0 && left <= 200, "{left} entries are recorded for 200 flows");
    // They end, and their entries settle too.
    let begun = Instant::now();
    while group.datapath.settle(0, &mut group.ring, Duration::ZERO).unwrap() {
        assert!(begun.elapsed() < PATIENCE, "{} entries are recorded", recorded(&group));
    }
    assert_eq!(group.ring.entries(), Ring::new(&maglev(&[1, 2, 3, 4])).entries());
}

/// What an operator compares with `max_flows`.
#[test]
fn flows_are_counted_by_family_while_servers_change_and_none_are_left_at_rest() {
    let Some(mut group) = Group::new(Method::Mac, true) else { return };
    assert!((0..200).all(|client| group.server(client, "S") > 0));
    group.assign(&[4, 5]);
    assert!((0..200).all(|client| group.server(client, "A") < 4));
    group.datapath.settle(0, &mut group.ring, Duration::from_secs(600)).unwrap();
    assert_eq!(group.datapath.flow_counts(), [0, 200]);
    let begun = Instant::now();
    while group.datapath.settle(0, &mut group.ring, Duration::ZERO).unwrap() {
        assert!(begun.elapsed() < PATIENCE, "the ring has not come to rest");
    }
    assert_eq!(group.datapath.flow_counts(), [0, 0]);
}

/// The flow tables are read once for all of them.
#[test]
fn rings_of_several_services_come_to_rest_together_and_flows_of_each_stay() {
    let Some(mut group) = Group::new(Method::Mac, false) else { return };
    serve(&mut group.datapath, "ipip4", 1, Method::Ipip);
    let mut other = Ring::new(&maglev(&[1, 2, 3]));
    group.datapath.publish(1, other.entries()).unwrap();
    let to_other = |client: u16, flags: &str| {
        frame(&format!("eth C L ip4 client4 ipip4 tcp {client} 80 {flags}"))
    };
    let before: Vec<u16> = (0..200).map(|it| group.server_of(&to_other(it, "S"))).collect();
    assert!((0..200).all(|client| group.server(client, "S") > 0));
    group.assign(&[1, 2, 3, 4]);
    other.assign(Datapath::now(), &maglev(&[4, 5]));
    group.datapath.publish(1, other.entries()).unwrap();
    let settle = |group: &mut Group, other: &mut Ring| {
        let stale = Duration::ZERO;
        let left = group.datapath.settle_all(&mut [
            Unsettled { service: 0, ring: &mut group.ring, stale },
            Unsettled { service: 1, ring: other, stale },
        ]);
        left.unwrap().into_iter().collect::<Vec<u32>>()
    };
    let begun = Instant::now();
    // Only those of the second service go on.
    while settle(&mut group, &mut other) != [1] {
        for (client, server) in (0..).zip(&before) {
            assert_eq!(group.server_of(&to_other(client, "A")), *server);
        }
        assert!(begun.elapsed() < PATIENCE, "the first has not come to rest");
    }
    while !settle(&mut group, &mut other).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "the second has not come to rest");
    }
    assert_eq!(group.ring.entries(), Ring::new(&maglev(&[1, 2, 3, 4])).entries());
    assert_eq!(other.entries(), Ring::new(&maglev(&[4, 5])).entries());
}

/// One that is known by its address alone stays while servers change, with what it has and with
/// what it opens, at every port of the service.
#[test]
fn a_client_stays_on_its_server_whatever_it_opens() {
    for mut group in groups() {
        group.stick();
        let before = group.servers("tcp 1000 80 S");
        assert!([1, 2, 3].iter().all(|server| before.contains(server)), "{before:?}");
        let stay = |group: &Group, segment| {
            assert_eq!(group.servers(segment), before, "{} {segment}", group.name);
        };
        stay(&group, "tcp 2000 80 S");
        stay(&group, "udp 2000 53");
        group.assign(&[4, 5]);
        stay(&group, "tcp 3000 80 S");
        stay(&group, "udp 3000 53");
        stay(&group, "tcp 1000 80 A");
        group.assign(&[1, 4]);
        stay(&group, "tcp 4000 80 S");
    }
}

/// It stays for as long as it is heard of, or a connection of it by NAT is.
#[test]
fn a_client_that_is_silent_for_long_begins_anew() {
    for method in [Method::Mac, Method::Nat] {
        let Some(mut group) = Group::new(method, false) else { return };
        group.stick();
        let before = group.servers("tcp 1000 80 S");
        group.assign(&[4, 5]);
        let (stale, sends) = (Duration::from_secs(1), Duration::from_secs(3));
        let begun = Instant::now();
        while begun.elapsed() < sends.to_std() {
            assert_eq!(group.servers("tcp 1000 80 A"), before);
            group.datapath.settle(0, &mut group.ring, stale).unwrap();
        }
        assert_eq!(group.servers("tcp 2000 80 S"), before);
        let begun = Instant::now();
        while group.datapath.settle(0, &mut group.ring, stale).unwrap() {
            assert!(begun.elapsed() < PATIENCE, "clients are still known");
        }
        let after = group.servers("tcp 3000 80 S");
        assert!(after.iter().all(|server| [4, 5].contains(server)), "{after:?}");
    }
}

/// Longer than any of this takes on a busy machine.
const PATIENCE: StdDuration = StdDuration::from_secs(60);
