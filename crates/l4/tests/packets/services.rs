//! Processors remember services that they have looked up, and are never wrong about them.

use loadline_core::fleet::forwarding::{Affinity, Method, Protocol};
use loadline_l4::{
    Action, Datapath, Frontend, Server, Sizes,
    ring::{Entry, RING_SIZE},
};
use std::net::{Ipv4Addr, SocketAddr};

use crate::{
    frame::{frame, ip},
    world::{SIZES, bare, named},
};

/// More than a processor has places for.
const SERVICES: u16 = 100;

struct World {
    datapath: Datapath,
    v6: bool,
}

impl World {
    /// A hundred services, each at a port of its own and with a server of the same number.
    fn new(v6: bool) -> Option<Self> {
        let many = SERVICES + 2;
        let frontends = u32::from(many) + 4;
        let sizes = Sizes { services: many.into(), frontends, servers: many, ..SIZES };
        let mut world = Self { datapath: bare(sizes, 4, &[])?, v6 };
        for number in 1..=SERVICES {
            let address = Ipv4Addr::new(10, 0, 1, number as u8).into();
            let mac = [2, 0, 0, 0, 1, number as u8];
            let server = Server { address, port: 0, service: None, mac, is_up: true };
            world.datapath.set_server(number, &server).unwrap();
            world.serve(number, number, number);
        }
        Some(world)
    }

    fn serve(&mut self, service: u16, at: u16, server: u16) {
        self.serve_at(service, SocketAddr::new(ip(&named("mac", self.v6)), at), server);
    }

    fn serve_at(&mut self, service: u16, address: SocketAddr, server: u16) {
        let frontend = Frontend { address, protocol: Protocol::Tcp };
        let service = u32::from(service);
        let added =
            self.datapath.add_service(service, Method::Mac, Affinity::Connection, &[frontend]);
        added.unwrap();
        self.lead(service, server);
    }

    /// Has all packets of a service go to this server.
    fn lead(&mut self, service: u32, server: u16) {
        let ring = vec![Entry::settled(server); RING_SIZE];
        self.datapath.publish(service, &ring).unwrap();
    }

    /// The server of a packet to this port; none where it is for the kernel.
    fn server_at(&self, port: u16) -> Option<u16> {
        let layer = if self.v6 { "ip6 client6" } else { "ip4 client4" };
        self.server_of(&format!("{layer} {} tcp 999 {port} A", named("mac", self.v6)))
    }

    fn server_of(&self, packet: &str) -> Option<u16> {
        let packet = frame(&format!("eth C L {packet}"));
        let tried = self.datapath.try_packet(&packet).unwrap();
        (tried.action == Action::Send).then(|| u16::from(tried.frame[5]))
    }
}

fn worlds() -> impl Iterator<Item = World> {
    [false, true].into_iter().filter_map(World::new)
}

#[test]
fn a_packet_reaches_its_own_service_where_many_share_a_place() {
    for world in worlds() {
        for port in (1..=SERVICES).chain((1..=SERVICES).rev()) {
            assert_eq!(world.server_at(port), Some(port));
        }
        assert_eq!(world.server_at(SERVICES + 1), None);
    }
}

#[test]
fn what_is_remembered_of_a_service_ends_with_every_change_of_it() {
    for mut world in worlds() {
        assert_eq!(world.server_at(1), Some(1));
        world.lead(1, 2);
        assert_eq!(world.server_at(1), Some(2), "another ring");
        world.datapath.remove_service(1).unwrap();
        assert_eq!(world.server_at(1), None, "it is no more");
        world.serve(SERVICES + 1, 1, 3);
        assert_eq!(world.server_at(1), Some(3), "another service");
    }
}

#[test]
fn a_service_that_is_removed_takes_no_packets_at_any_of_its_ports() {
    for mut world in worlds() {
        let at = |port| SocketAddr::new(ip(&named("other", world.v6)), port);
        let frontends =
            [1, 2, 3].map(|port| Frontend { address: at(port), protocol: Protocol::Tcp });
        let (number, method) = (u32::from(SERVICES) + 1, Method::Mac);
        world.datapath.add_service(number, method, Affinity::Connection, &frontends).unwrap();
        world.lead(number, 4);
        let family = if world.v6 { "ip6 client6 other6" } else { "ip4 client4 other4" };
        let server_at =
            |world: &World, port: u16| world.server_of(&format!("{family} tcp 999 {port} A"));
        assert_eq!([1, 2, 3].map(|port| server_at(&world, port)), [Some(4); 3]);
        world.datapath.remove_service(number).unwrap();
        assert_eq!([1, 2, 3].map(|port| server_at(&world, port)), [None; 3]);
    }
}

/// The words of IPv4 and IPv6 addresses are remembered alike.
#[test]
fn an_address_of_ipv6_that_begins_as_one_of_ipv4_is_another() {
    let Some(mut world) = World::new(false) else { return };
    world.serve_at(SERVICES + 1, "[a00:1::]:1".parse().unwrap(), 2);
    for _ in 0..2 {
        assert_eq!(world.server_of("ip6 client6 a00:1:: tcp 999 1 A"), Some(2));
        assert_eq!(world.server_at(1), Some(1), "10.0.0.1");
    }
}
