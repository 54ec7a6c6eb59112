//! A balancer with a service of each method in each family, and three servers.

use loadline_core::fleet::forwarding::{Affinity, Method, Protocol};
use loadline_l4::{
    Datapath, Decapsulator, Frontend, Hook, LoadError, Server, Settings, Sizes, TestRunResult,
    Verdict,
    ring::{Entry, RING_SIZE, RingServer, table},
};
use rustix::thread::{CapabilitySet, capabilities};
use std::net::{IpAddr, SocketAddr};

use crate::{
    frame::{ip, mac},
    skipped::skipped,
};

pub(crate) const SIZES: Sizes = Sizes {
    services: 10,
    frontends: 64,
    servers: 32,
    nat_servers: 8,
    flows: 4_096,
    nat: 1_024,
    events: 0,
};

/// Numbers of the services, and of the server of each: IPv4, then IPv6.
pub(crate) const SERVICES: [(&str, Method, u32, u16); 5] = [
    ("nat", Method::Nat, 0, 1),
    ("mac", Method::Mac, 2, 5),
    ("ipip", Method::Ipip, 4, 7),
    ("empty", Method::Mac, 6, 0),
    ("down", Method::Mac, 8, 9),
];

/// What `load` gives, or none where the kernel does not let us: then nothing can be tested here.
pub(crate) fn allowed<T>(load: Result<T, LoadError>) -> Option<T> {
    match load {
        Ok(loaded) => Some(loaded),
        Err(LoadError::Kernel(error)) if !has_rights() => {
            skipped(&format!("CAP_BPF and CAP_NET_ADMIN, to load programs: {error}"));
            None
        }
        Err(error) => panic!("{error}: {error:?}"),
    }
}

fn has_rights() -> bool {
    let needed = CapabilitySet::BPF | CapabilitySet::NET_ADMIN | CapabilitySet::PERFMON;
    capabilities(None).unwrap().effective.contains(needed)
}

/// An empty datapath: no service, no server.
pub(crate) fn bare(sizes: Sizes, ports: u16, returns: &[&str]) -> Option<Datapath> {
    let (IpAddr::V4(tunnel4), IpAddr::V6(tunnel6)) = (ip("own4"), ip("own6")) else { return None };
    let returns = returns.iter().map(|name| ip(name)).collect();
    let settings =
        Settings { tunnel4, tunnel6, returns, first_port: 5_000, ports, ..Settings::default() };
    allowed(Datapath::load(sizes, settings))
}

/// The world of the vectors.
pub(crate) fn world(hook: Hook) -> Option<Datapath> {
    let mut datapath = bare(SIZES, 4, &["return4", "return6"])?;
    datapath.try_at(hook).unwrap();
    for (name, method, service, server) in SERVICES {
        for v6 in [false, true] {
            let (service, server) = (service + u32::from(v6), server + u16::from(v6));
            let (at, port, to) = match method {
                Method::Nat => ("two", 8_080, "S2"),
                Method::Mac if name == "down" => ("other", 0, "S1"),
                Method::Mac => ("one", 0, "S1"),
                Method::Ipip => ("three", 0, "S3"),
            };
            serve(&mut datapath, &named(name, v6), service, method);
            if name != "empty" {
                let is_up = name != "down";
                let address = ip(&named(at, v6));
                let known = Server { address, port, service: None, mac: mac(to), is_up };
                datapath.set_server(server, &known).unwrap();
                let ring = vec![Entry::settled(server); RING_SIZE];
                datapath.publish(service, &ring).unwrap();
            }
        }
    }
    Some(datapath)
}

/// A name of `frame::ip` with its family.
pub(crate) fn named(name: &str, v6: bool) -> String {
    format!("{name}{}", if v6 { 6 } else { 4 })
}

/// A service at TCP port 80 and UDP port 53 of an address.
pub(crate) fn serve(datapath: &mut Datapath, at: &str, service: u32, method: Method) {
    datapath.add_service(service, method, Affinity::Connection, &frontends(at)).unwrap();
}

pub(crate) fn frontends(at: &str) -> [Frontend; 2] {
    [(80, Protocol::Tcp), (53, Protocol::Udp)]
        .map(|(port, protocol)| Frontend { address: SocketAddr::new(ip(at), port), protocol })
}

pub(crate) fn decapsulator() -> Option<Decapsulator> {
    let mut decapsulator = allowed(Decapsulator::load())?;
    decapsulator.serve(ip("ipip4")).unwrap();
    decapsulator.serve(ip("ipip6")).unwrap();
    Some(decapsulator)
}

/// The Maglev table of these servers, all of one weight, at addresses of their numbers.
pub(crate) fn maglev(servers: &[u16]) -> Box<[u16]> {
    let member = |number: &u16| RingServer {
        address: SocketAddr::from(([10, 0, 1, *number as u8], 0)),
        weight: 1,
        number: *number,
    };
    table(&servers.iter().map(member).collect::<Vec<_>>())
}

/// Whether the kernel tries such a frame: in traffic control it makes no packet of one whose IP
/// header is not whole.
pub(crate) fn is_possible(hook: Hook, frame: &[u8]) -> bool {
    let header = match frame[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => 1,
    };
    hook == Hook::Xdp || frame.len() >= 14 + header
}

/// Tries a frame, with the verdict that was counted for it, of which there must be one.
pub(crate) fn judge(datapath: &Datapath, frame: &[u8]) -> (Verdict, TestRunResult) {
    let before = datapath.verdicts().unwrap();
    let tried = datapath.try_packet(frame).unwrap();
    let after = datapath.verdicts().unwrap();
    let grown: Vec<_> =
        before.iter().zip(&after).filter(|(before, after)| before != after).collect();
    let [((verdict, before), (_, after))] = grown[..] else { panic!("counted: {grown:?}") };
    assert_eq!(
        (after.packets - before.packets, after.bytes - before.bytes),
        (1, frame.len() as u64)
    );
    (*verdict, tried)
}
