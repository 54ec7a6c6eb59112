//! Connections by NAT outlive what they began with: a client uses its port again, servers go down
//! or are drained, routers and network cards are replaced.

use std::{
    thread,
    time::{Duration as StdDuration, Instant},
};

use loadline_core::{
    fleet::forwarding::{Method, Times},
    time::Duration,
};
use loadline_l4::{
    Datapath, Server, Verdict,
    ring::{Entry, RING_SIZE, Ring},
};

use crate::{
    frame::{frame, ip, mac},
    world::{SIZES, bare, judge, maglev, named, serve},
};

const PORTS: u16 = 40;
const NOW: Times = Times { fin: Duration::ZERO, stale: Duration::from_secs(60) };
const LATER: Times = Times { fin: Duration::from_secs(60), stale: Duration::from_secs(60) };

const CLIENTS: std::ops::Range<u16> = 40_000..40_020;

/// A balancer with two servers of NAT in one family, whose link addresses end in their numbers.
struct Pair {
    datapath: Datapath,
    ring: Ring,
    v6: bool,
}

impl Pair {
    fn new(v6: bool) -> Option<Self> {
        let mut datapath = bare(SIZES, PORTS, &["return4", "return6"])?;
        serve(&mut datapath, &named("nat", v6), 0, Method::Nat);
        let mut pair = Self { datapath, ring: Ring::new(&maglev(&[1, 2])), v6 };
        [1, 2].into_iter().for_each(|number| pair.set(number, true));
        pair.publish();
        Some(pair)
    }

    fn set(&mut self, number: u16, is_up: bool) {
        self.set_link(number, is_up, [2, 0, 0, 0, 1, number as u8]);
    }

    fn set_link(&mut self, number: u16, is_up: bool, mac: [u8; 6]) {
        let address = ip(&named(["one", "two"][usize::from(number) - 1], self.v6));
        self.datapath
            .set_server(number, &Server { address, port: 8_080, service: None, mac, is_up })
            .unwrap();
    }

    fn assign(&mut self, servers: &[u16]) {
        self.ring.assign(Datapath::now(), &maglev(servers));
        self.publish();
    }

    fn publish(&mut self) {
        self.datapath.publish(0, self.ring.entries()).unwrap();
    }

    fn send(&self, segment: &str) -> (Verdict, Vec<u8>) {
        self.send_from("C", segment)
    }

    /// A packet that comes by the router with this link address.
    fn send_from(&self, router: &str, segment: &str) -> (Verdict, Vec<u8>) {
        let family = if self.v6 { 6 } else { 4 };
        let text = format!("eth {router} L ip{family} client{family} nat{family} {segment}");
        let (verdict, tried) = judge(&self.datapath, &frame(&text));
        (verdict, tried.frame)
    }

    /// The server that a segment goes to, and from which port.
    fn way(&self, segment: &str) -> (u16, u16) {
        let (verdict, sent) = self.send(segment);
        assert_eq!(verdict, Verdict::SendNat, "{segment}");
        (u16::from(sent[5]), self.lent(&sent))
    }

    fn server(&self, segment: &str) -> u16 {
        self.way(segment).0
    }

    fn lent(&self, sent: &[u8]) -> u16 {
        let at = if self.v6 { 54 } else { 34 };
        u16::from_be_bytes([sent[at], sent[at + 1]])
    }

    /// What a server answers to what comes from a port.
    fn answer(&self, (server, port): (u16, u16), flags: &str) -> (Verdict, Vec<u8>) {
        let family = if self.v6 { 6 } else { 4 };
        let name = ["one", "two"][usize::from(server) - 1];
        let text = format!(
            "eth S{server} L ip{family} {name}{family} return{family} tcp 8080 {port} {flags}"
        );
        let (verdict, tried) = judge(&self.datapath, &frame(&text));
        (verdict, tried.frame)
    }

    /// Opens connections and closes them; what went to server 1.
    fn open_and_close(&self) -> Vec<u16> {
        let mut of_first = Vec::new();
        for client in CLIENTS {
            let way = self.way(&format!("tcp {client} 80 S"));
            assert_eq!(self.answer(way, "SA").0, Verdict::SendNatReturn);
            // Processors remember what packets between the first and the last come upon.
            assert_eq!(self.way(&format!("tcp {client} 80 A")), way);
            assert_eq!(self.way(&format!("tcp {client} 80 FA")), way);
            assert_eq!(self.answer(way, "FA").0, Verdict::SendNatReturn);
            if way.0 == 1 {
                of_first.push(client);
            }
        }
        assert!(!of_first.is_empty() && of_first.len() < CLIENTS.len(), "{of_first:?}");
        of_first
    }

    fn free(&self) -> [usize; 2] {
        [1, 2].map(|server| self.datapath.free_ports(server))
    }

    /// Every port is free, and none of them twice.
    fn assert_all_free(&mut self) {
        self.datapath.give_back(|_| NOW).unwrap();
        assert_eq!(self.free(), [usize::from(PORTS); 2]);
    }
}

fn pairs() -> impl Iterator<Item = Pair> {
    [false, true].into_iter().filter_map(Pair::new)
}

#[test]
fn a_client_port_that_is_used_again_does_not_go_to_a_server_that_is_down() {
    for mut pair in pairs() {
        let of_first = pair.open_and_close();
        pair.set(1, false);
        pair.assign(&[2]);
        for client in &of_first {
            let way = pair.way(&format!("tcp {client} 80 S"));
            assert_eq!(way.0, 2);
            assert_eq!(pair.way(&format!("tcp {client} 80 S")), way, "sent once more");
            let (verdict, frame) = pair.answer(way, "SA");
            assert_eq!((verdict, &frame[..6]), (Verdict::SendNatReturn, &mac("C")[..]));
            assert_eq!(pair.way(&format!("tcp {client} 80 A")), way);
            assert_eq!(pair.way(&format!("tcp {client} 80 R")), way);
        }
        pair.datapath.give_back(|_| LATER).unwrap();
        assert_eq!(pair.free()[0], usize::from(PORTS), "nothing more is to come from it");
        pair.set(1, true);
        pair.assign(&[1, 2]);
        pair.assert_all_free();
    }
}

#[test]
fn a_client_port_that_is_used_again_does_not_go_to_a_drained_server() {
    for mut pair in pairs() {
        let of_first = pair.open_and_close();
        pair.assign(&[2]);
        for client in &of_first {
            // At once, while processors still remember the connection before.
            assert_eq!(pair.way(&format!("tcp {client} 80 PA")).0, 1);
            let way = pair.way(&format!("tcp {client} 80 S"));
            assert_eq!(way.0, 2);
            assert_eq!(pair.way(&format!("tcp {client} 80 A")), way);
            assert_eq!(pair.answer(way, "SA").0, Verdict::SendNatReturn);
            assert_eq!(pair.way(&format!("tcp {client} 80 R")), way);
        }
        pair.datapath.give_back(|_| LATER).unwrap();
        let rest = usize::from(PORTS) - of_first.len();
        assert_eq!(pair.free()[0], rest, "ports rest after what they were lent to");
        pair.assign(&[1, 2]);
        pair.assert_all_free();
    }
}

#[test]
fn a_client_port_that_is_used_again_keeps_its_nat_port_where_its_server_stays() {
    for pair in pairs() {
        let way = pair.way("tcp 40000 80 S");
        for end in ["FA", "R"] {
            pair.way(&format!("tcp 40000 80 {end}"));
            assert_eq!(pair.way("tcp 40000 80 S"), way, "after {end}");
        }
        assert_eq!(pair.answer(way, "R").0, Verdict::SendNatReturn);
        assert_eq!(pair.way("tcp 40000 80 S"), way, "after the server refused");
    }
}

/// The client has not closed what its server broke off.
#[test]
fn a_connection_that_a_drained_server_broke_off_is_opened_at_another() {
    for mut pair in pairs() {
        let client = pair.open_and_close()[0];
        let way = pair.way(&format!("tcp {client} 80 S"));
        assert_eq!(way.0, 1);
        assert_eq!(pair.answer(way, "R").0, Verdict::SendNatReturn);
        pair.assign(&[2]);
        assert_eq!(pair.server(&format!("tcp {client} 80 S")), 2);
    }
}

#[test]
fn datagrams_from_a_port_go_on_at_another_server_when_theirs_is_down() {
    for mut pair in pairs() {
        let datagram = |client: u16| format!("udp {client} 53 data 33");
        let of_first: Vec<u16> =
            CLIENTS.filter(|client| pair.server(&datagram(*client)) == 1).collect();
        assert!(!of_first.is_empty());
        // A drained server keeps what it has.
        pair.assign(&[2]);
        assert!(of_first.iter().all(|client| pair.server(&datagram(*client)) == 1));
        pair.set(1, false);
        for client in of_first {
            let way = pair.way(&datagram(client));
            assert_eq!(way.0, 2);
            assert_eq!(pair.way(&datagram(client)), way);
        }
    }
}

/// Which breaks it off: it knows nothing of the connection.
#[test]
fn open_connections_stay_on_a_drained_server_and_leave_one_that_is_down() {
    for mut pair in pairs() {
        let open: Vec<(u16, u16)> =
            CLIENTS.map(|client| (client, pair.server(&format!("tcp {client} 80 S")))).collect();
        pair.assign(&[2]);
        for (client, server) in &open {
            assert_eq!(pair.server(&format!("tcp {client} 80 A")), *server);
            assert_eq!(pair.server(&format!("tcp {client} 80 S")), *server, "the SYN once more");
        }
        pair.set(1, false);
        for (client, _) in &open {
            let way = pair.way(&format!("tcp {client} 80 A"));
            assert_eq!(way.0, 2);
            assert_eq!(pair.answer(way, "R").0, Verdict::SendNatReturn);
        }
    }
}

#[test]
fn connections_wait_for_their_server_while_no_other_is_up() {
    for mut pair in pairs() {
        let way = pair.way("tcp 40000 80 S");
        [1, 2].into_iter().for_each(|number| pair.set(number, false));
        assert_eq!(pair.send("tcp 40000 80 A").0, Verdict::DropNoServer);
        [1, 2].into_iter().for_each(|number| pair.set(number, true));
        assert_eq!(pair.way("tcp 40000 80 A"), way);
    }
}

#[test]
fn connections_that_find_no_port_elsewhere_stay_until_there_is_one() {
    for mut pair in pairs() {
        pair.datapath.publish(0, &[Entry::settled(2); RING_SIZE]).unwrap();
        for client in 0..PORTS {
            assert_eq!(pair.server(&format!("tcp {client} 80 S")), 2);
        }
        pair.datapath.publish(0, &[Entry::settled(1); RING_SIZE]).unwrap();
        let way = pair.way("tcp 40000 80 S");
        pair.datapath.publish(0, &[Entry::settled(2); RING_SIZE]).unwrap();
        pair.set(1, false);
        assert_eq!(pair.send("tcp 40000 80 A").0, Verdict::DropNatPorts);
        pair.set(1, true);
        assert_eq!(pair.way("tcp 40000 80 A"), way);
        pair.set(1, false);
        pair.way("tcp 7 80 R");
        assert_eq!(pair.datapath.give_back(|_| NOW).unwrap(), 1);
        assert_eq!(pair.server("tcp 40000 80 A"), 2);
    }
}

#[test]
fn answers_go_to_the_router_that_the_clients_packets_come_from_now() {
    for pair in pairs() {
        let way = pair.way("tcp 40000 80 S");
        let to = |pair: &Pair| pair.answer(way, "A").1[..6].to_vec();
        assert_eq!(to(&pair), mac("C"));
        for router in ["S9", "C"] {
            let begun = Instant::now();
            while to(&pair) != mac(router) {
                let (verdict, sent) = pair.send_from(router, "tcp 40000 80 A");
                assert_eq!((verdict, u16::from(sent[5])), (Verdict::SendNat, way.0));
                assert!(begun.elapsed() < PATIENCE, "answers go to the router before");
                thread::sleep(StdDuration::from_millis(20));
            }
        }
    }
}

#[test]
fn packets_of_open_connections_go_to_the_new_link_address_of_their_server() {
    for mut pair in pairs() {
        let (server, port) = pair.way("tcp 40000 80 S");
        assert_eq!(pair.way("tcp 40000 80 A"), (server, port));
        let new = [6, 7, 8, 9, 10, 11];
        pair.set_link(server, true, new);
        for flags in ["A", "PA", "A", "FA"] {
            let (verdict, sent) = pair.send(&format!("tcp 40000 80 {flags}"));
            assert_eq!((verdict, &sent[..6]), (Verdict::SendNat, &new[..]));
            assert_eq!(pair.lent(&sent), port);
        }
    }
}

/// What is remembered of a connection is looked up again within a second.
const PATIENCE: StdDuration = StdDuration::from_secs(10);
