//! What a server was sent is counted, and what is dropped on its way there takes nothing from it.

use loadline_l4::{Datapath, Hook, Verdict};

use crate::{
    frame::frame,
    world::{SERVICES, judge, world},
};

/// The worlds of both hooks, where they can be had.
fn worlds() -> impl Iterator<Item = Datapath> {
    [Hook::Xdp, Hook::TrafficControl].into_iter().filter_map(world)
}

/// The number of the server of this service in one family.
fn server(service: &str, v6: bool) -> u16 {
    let (.., server) = SERVICES.into_iter().find(|(name, ..)| *name == service).unwrap();
    server + u16::from(v6)
}

fn sent(datapath: &Datapath, server: u16) -> (u64, u64) {
    let count = datapath.server_count(server).unwrap();
    (count.packets, count.opened)
}

#[test]
fn a_packet_that_does_not_fit_its_tunnel_does_not_count_as_sent_to_the_server() {
    for datapath in worlds() {
        for (family, v6, fits) in [(4, false, 1_440), (6, true, 1_400)] {
            let server = server("ipip", v6);
            let try_with = |data: u32| {
                let text = format!("ip{family} client{family} ipip{family} tcp 1000 80 A");
                judge(&datapath, &frame(&format!("eth C L {text} data {data}"))).0
            };
            assert_eq!(try_with(fits + 1), Verdict::DropTooBig);
            assert_eq!(sent(&datapath, server), (0, 0), "IPv{family}");
            assert_eq!(try_with(fits), Verdict::SendIpip);
            assert_eq!(sent(&datapath, server), (1, 0), "IPv{family}");
        }
    }
}

#[test]
fn a_first_packet_that_may_go_no_further_takes_no_port_of_nat_and_does_not_count() {
    for datapath in worlds() {
        for (family, v6, last) in [(4, false, "ttl=1"), (6, true, "hop=1")] {
            let server = server("nat", v6);
            let try_as = |words: &str| {
                let text = format!("eth C L ip{family} client{family} nat{family} {words}");
                judge(&datapath, &frame(&text)).0
            };
            let free = datapath.free_ports(server);
            assert_eq!(try_as(&format!("{last} tcp 1000 80 S")), Verdict::DropTtl);
            assert_eq!(try_as(&format!("{last} udp 1000 53 data 33")), Verdict::DropTtl);
            assert_eq!(datapath.free_ports(server), free, "IPv{family}");
            assert_eq!(sent(&datapath, server), (0, 0), "IPv{family}");
            assert_eq!(try_as("tcp 1000 80 S"), Verdict::SendNat);
            assert_eq!(datapath.free_ports(server), free - 1, "IPv{family}");
            // Of a connection that is known, looked up and remembered.
            for _ in 0..3 {
                assert_eq!(try_as(&format!("{last} tcp 1000 80 A")), Verdict::DropTtl);
            }
            assert_eq!(sent(&datapath, server), (1, 1), "IPv{family}");
        }
    }
}
