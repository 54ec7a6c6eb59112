//! QUIC connections stay with the server that their connection ids say, whatever the client's
//! address.

use loadline_core::fleet::forwarding::{Affinity, Method};
use loadline_l4::{
    Action, Datapath, Hook, Server, Verdict,
    ring::{Entry, RING_SIZE},
};
use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    frame::frame,
    world::{SIZES, bare, frontends, judge, named},
};

const METHODS: [(&str, Method); 3] =
    [("nat", Method::Nat), ("mac", Method::Mac), ("ipip", Method::Ipip)];

/// The numbers of two servers, and of a third that no ring leads to.
const SERVERS: [u16; 3] = [1, 2, 3];

/// A packet with the number 0x0107 in the connection id.
const OF_SEVEN: &str = "41 a1a2a3a4a5a6 0107";

struct World {
    datapath: Datapath,
    name: String,
    method: Method,
    v6: bool,
}

fn server(number: u16, method: Method, v6: bool) -> Server {
    let address: IpAddr = match v6 {
        true => [0xfd00, 0, 0, 1, 0, 0, 0, number].into(),
        false => [10, 0, 1, number as u8].into(),
    };
    let port = if method == Method::Nat { 53 } else { 0 };
    Server { address, port, service: None, mac: [2, 0, 0, 0, 1, number as u8], is_up: true }
}

impl World {
    /// A service whose ring leads all packets to server 1, and whose connection ids say others.
    fn new(hook: Hook, (name, method): (&str, Method), v6: bool) -> Option<Self> {
        let mut datapath = bare(SIZES, 400, &["return4", "return6"])?;
        datapath.try_at(hook).unwrap();
        for number in SERVERS {
            datapath.set_server(number, &server(number, method, v6)).unwrap();
        }
        let name = named(name, v6);
        datapath.add_service(0, method, Affinity::Connection, &frontends(&name)).unwrap();
        datapath.publish(0, &vec![Entry::settled(1); RING_SIZE]).unwrap();
        Some(Self { datapath, name, method, v6 })
    }

    fn say(&mut self, ids: &[(u16, u16)]) {
        let ids: BTreeMap<u16, u16> = ids.iter().copied().collect();
        self.datapath.set_quic_ids(0, &ids).unwrap();
    }

    /// The server of a datagram of a client at this port.
    fn server_of(&self, port: u16, payload: &str) -> u16 {
        let (family, client) = if self.v6 { ("ip6", "client6") } else { ("ip4", "client4") };
        let payload = payload.replace(' ', "");
        let payload = if payload.is_empty() { payload } else { format!("hex {payload}") };
        let text = format!("eth C L {family} {client} {} udp {port} 53 {payload}", self.name);
        let (verdict, tried) = judge(&self.datapath, &frame(&text));
        assert_eq!(tried.action, Action::Send, "{verdict:?}");
        tried.frame[5].into()
    }
}

fn worlds() -> impl Iterator<Item = World> {
    let all = METHODS.into_iter().flat_map(|method| [(method, false), (method, true)]);
    let hooks = |(method, v6)| [Hook::Xdp, Hook::TrafficControl].map(|hook| (hook, method, v6));
    all.flat_map(hooks).filter_map(|(hook, method, v6)| World::new(hook, method, v6))
}

#[test]
fn a_packet_goes_to_the_server_that_its_connection_id_says_from_any_port() {
    for mut world in worlds() {
        world.say(&[(0x0107, 2), (9, 3)]);
        for port in 1_000..1_020 {
            assert_eq!(world.server_of(port, OF_SEVEN), 2, "{}", world.name);
        }
        assert_eq!(world.server_of(1_100, "7f 000000000000 0009 ffffff"), 3);
    }
}

#[test]
fn what_says_no_server_goes_where_the_ring_leads() {
    for mut world in worlds() {
        assert_eq!(world.server_of(1_000, OF_SEVEN), 1, "no ids were told");
        world.say(&[(0x0107, 2)]);
        // An Initial has an id of the client's; another number; one byte too short; nothing.
        let first = "c3 00000001 08 a1a2a3a4a5a60107 00 00";
        for (port, payload) in
            [first, "41 a1a2a3a4a5a6 0108", "41 a1a2a3a4a5a6 01", ""].iter().enumerate()
        {
            assert_eq!(world.server_of(1_001 + port as u16, payload), 1, "{payload}");
        }
    }
}

#[test]
fn a_number_that_is_another_servers_now_or_nobodys_is_followed_at_once() {
    for mut world in worlds() {
        world.say(&[(0x0107, 2)]);
        assert_eq!(world.server_of(1_000, OF_SEVEN), 2);
        world.say(&[(0x0107, 3)]);
        assert_eq!(world.server_of(1_001, OF_SEVEN), 3);
        world.say(&[]);
        assert_eq!(world.server_of(1_002, OF_SEVEN), 1);
    }
}

#[test]
fn a_server_that_is_down_is_passed_over() {
    for mut world in worlds() {
        world.say(&[(0x0107, 2)]);
        let down = Server { is_up: false, ..server(2, world.method, world.v6) };
        world.datapath.set_server(2, &down).unwrap();
        assert_eq!(world.server_of(1_000, OF_SEVEN), 1);
    }
}

/// What an error quotes is a packet of the server, whose connection id is the client's.
#[test]
fn an_error_about_a_connection_goes_where_its_ports_say() {
    for (name, v6) in [("mac", false), ("mac", true)] {
        let Some(mut world) = World::new(Hook::Xdp, (name, Method::Mac), v6) else { return };
        world.say(&[(0x4500, 2), (0, 2)]);
        let error = match v6 {
            false => "ip4 router4 mac4 icmp4 3 4 mtu=1400 ip4 mac4 client4 proto=17 ports 53 999",
            true => "ip6 router6 mac6 icmp6 2 0 mtu=1400 ip6 mac6 client6 proto=17 ports 53 999",
        };
        let (verdict, tried) = judge(&world.datapath, &frame(&format!("eth C L {error}")));
        assert_eq!((verdict, tried.frame[5]), (Verdict::SendIcmp, 1));
    }
}

#[test]
fn a_service_that_is_gone_leaves_no_numbers_for_the_next_of_its_place() {
    for mut world in worlds().take(1) {
        world.say(&[(0x0107, 2)]);
        world.datapath.remove_service(0).unwrap();
        let at = frontends(&world.name);
        world.datapath.add_service(0, Method::Nat, Affinity::Connection, &at).unwrap();
        world.datapath.publish(0, &vec![Entry::settled(1); RING_SIZE]).unwrap();
        world.say(&[(1, 3)]);
        assert_eq!(world.server_of(1_000, OF_SEVEN), 1);
    }
}
