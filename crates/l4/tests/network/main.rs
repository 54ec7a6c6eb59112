//! A client, the balancer and three servers on one bridge, each in a namespace of its own: what the
//! program does with real TCP, by each method.
//!
//! That takes the rights of root; without them the test is counted as skipped. Names of interfaces
//! and addresses exist in the namespaces alone, which are gone with their holders.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]
#![expect(clippy::print_stdout, reason = "what was measured")]

mod attachment;
mod balancer;
mod bridge;
mod checks;
mod host;
mod keepalived;
mod open_connections;
mod renewal;
#[path = "../../../core/tests/skipped/mod.rs"]
mod skipped;
mod takeover;

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use bridge::{alone, at, bridge, work_out_checksums};
use host::Host;
use loadline_core::fleet::forwarding::{Affinity, Method, Protocol};
use loadline_l4::{
    Attach, Attached, Checks, Datapath, Decapsulator, Frontend, Server, Settings, Sizes, Verdict,
    ring::{Ring, RingServer, table},
};

const SERVERS: u16 = 3;
const CONNECTIONS: u64 = 40;

/// The method and the last part of the address of each service.
const METHODS: [(Method, u16); 3] = [(Method::Nat, 1), (Method::Mac, 2), (Method::Ipip, 3)];
const OWN: u16 = 8;
const RETURN: u16 = 9;

/// Larger than a segment, so that data goes both ways in several packets.
const ANSWER: usize = 20_000;

#[test]
fn connections_reach_all_servers_by_each_method_and_answers_take_the_link_of_the_method() {
    let Some(network) = Network::new() else { return };
    let datapath = network.balancer.enter(|| forward(OWN, 0, |_| 1));
    network.meet_all(&datapath);
}

#[test]
fn by_default_connections_on_a_veth_reach_their_servers_although_native_xdp_would_lose_them() {
    let Some(network) = Network::new() else { return };
    let datapath = network.balancer.enter(|| {
        let mut datapath = forwarding(OWN, 0, |_| 1);
        assert_eq!(datapath.attach("eth0", Attach::Auto).unwrap(), Attached::Tcx);
        datapath
    });
    network.meet_all(&datapath);
}

#[test]
fn where_traffic_control_takes_no_links_it_is_given_filters_which_replace_those_left_behind() {
    let Some(network) = Network::new() else { return };
    // As many as the kernel takes; it refuses the next as kernels before 6.6 refuse the first.
    let fill = || (0..LINKS).map(|_| Checks::attach("eth0").unwrap()).collect::<Vec<_>>();
    let _links = network.balancer.enter(fill);
    let filters = || {
        let mut tc = network.balancer.command("tc");
        let output = tc.args(["filter", "show", "dev", "eth0", "ingress"]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        told.lines().filter(|line| line.contains("balancer_tc")).count()
    };
    assert_eq!(filters(), 0);
    let attach = || {
        let mut datapath = forwarding(OWN, 0, |_| 1);
        assert_eq!(datapath.attach("eth0", Attach::Tcx).unwrap(), Attached::Tcx);
        datapath
    };
    // As a process that is killed leaves it: nobody takes it away.
    std::mem::forget(network.balancer.enter(attach));
    assert_eq!(filters(), 1);
    let datapath = network.balancer.enter(attach);
    assert_eq!(filters(), 1);
    network.meet_all(&datapath);
    network.balancer.enter(|| drop(datapath));
    assert_eq!(filters(), 0);
}

/// A client, the balancer and servers with their tunnels.
struct Network {
    client: Host,
    balancer: Host,
    _servers: Vec<Host>,
    _tunnels: Vec<Decapsulator>,
    _hub: Host,
}

impl Network {
    /// None where it cannot be made.
    fn new() -> Option<Self> {
        let hub = bridge()?;
        let client = member(&hub, "client", 3, 7);
        let servers: Vec<Host> = (1..=SERVERS).map(|number| server(&hub, number)).collect();
        let balancer = member(&hub, "balancer", 0, OWN);
        for (host, v6) in
            [1, 2, 3, RETURN].into_iter().flat_map(|host| [(host, false), (host, true)])
        {
            balancer.run(&format!("ip address add {} dev eth0 nodad", alone(at(0, host, v6))));
        }
        let tunnels = servers.iter().map(|server| server.enter(open_tunnel)).collect();
        Some(Self { client, balancer, _servers: servers, _tunnels: tunnels, _hub: hub })
    }

    /// Has the client meet all servers by each method in each family.
    fn meet_all(&self, datapath: &Datapath) {
        // NAT last: an end of a connection may still come back when its client has gone.
        let methods = METHODS.into_iter().rev();
        for ((method, host), v6) in methods.flat_map(|one| [(one, false), (one, true)]) {
            let service = at(0, host, v6);
            let before = returned(datapath);
            let ask_all = move || (0..CONNECTIONS).map(|_| ask(service)).collect::<BTreeSet<u8>>();
            let met = self.client.enter(ask_all);
            assert_eq!(met, BTreeSet::from([1, 2, 3]), "{method} at {service}: who answered");
            let answers = returned(datapath) - before;
            let right = match method {
                Method::Nat => answers >= CONNECTIONS * ANSWER as u64 / 1_460,
                Method::Mac | Method::Ipip => answers == 0,
            };
            assert!(right, "{method} at {service}: {answers} packets of answers came back here");
        }
    }
}

/// What TCX takes of programs at an interface, each way.
const LINKS: usize = 64;

/// A host on the bridge, whose packets leave with checksums of their own.
fn member(hub: &Host, name: &str, net: u16, number: u16) -> Host {
    let host = bridge::member(hub, name, net, number);
    work_out_checksums(&host);
    host
}

/// A server that answers with its number.
fn server(network: &Host, number: u16) -> Host {
    let host = silent_server(network, number);
    let listener = host.enter(|| TcpListener::bind("[::]:80").unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(&[number as u8; ANSWER]);
        }
    });
    host
}

/// A server that has the addresses of `mac` and `ipip` as well.
fn silent_server(hub: &Host, number: u16) -> Host {
    let host = bridge::silent_server(hub, number, &[METHODS[1].1, METHODS[2].1]);
    work_out_checksums(&host);
    host
}

fn open_tunnel() -> Decapsulator {
    let mut tunnel = Decapsulator::load().unwrap();
    for v6 in [false, true] {
        tunnel.serve(at(0, METHODS[2].1, v6)).unwrap();
    }
    assert_eq!(tunnel.attach("eth0", Attach::Generic).unwrap(), Attached::Generic);
    tunnel
}

/// A balancer at an address, to which servers have numbers after `first`, and these weights.
fn forward(own: u16, first: u16, weight: impl Fn(u16) -> u32) -> Datapath {
    let mut datapath = forwarding(own, first, weight);
    assert_eq!(datapath.attach("eth0", Attach::Generic).unwrap(), Attached::Generic);
    datapath
}

/// The same, not attached yet.
fn forwarding(own: u16, first: u16, weight: impl Fn(u16) -> u32) -> Datapath {
    let (IpAddr::V4(tunnel4), IpAddr::V6(tunnel6)) = (at(0, own, false), at(0, own, true)) else {
        panic!("families")
    };
    let returns = vec![at(0, RETURN, false), at(0, RETURN, true)];
    let settings = Settings { tunnel4, tunnel6, returns, ..Settings::default() };
    let sizes = Sizes { events: 1 << 20, ..Sizes::default() };
    let mut datapath = Datapath::load(sizes, settings).unwrap();
    for v6 in [false, true] {
        for server in 1..=SERVERS {
            let number = number_of(server, first, v6);
            let (address, mac) = (at(1, server, v6), [2, 0, 0, 0, 0, server as u8]);
            datapath
                .set_server(number, &Server { address, port: 0, service: None, mac, is_up: true })
                .unwrap();
        }
        let ring = Ring::new(&members(first, v6, &weight));
        for (method, host) in METHODS {
            let service = service_of(host, v6);
            let address = SocketAddr::new(at(0, host, v6), 80);
            let frontend = Frontend { address, protocol: Protocol::Tcp };
            datapath.add_service(service, method, Affinity::Connection, &[frontend]).unwrap();
            datapath.publish(service, ring.entries()).unwrap();
        }
    }
    datapath
}

fn number_of(server: u16, first: u16, v6: bool) -> u16 {
    first + server + if v6 { SERVERS } else { 0 }
}

fn service_of(host: u16, v6: bool) -> u32 {
    u32::from(host) * 2 + u32::from(v6)
}

/// The table of new connections.
fn members(first: u16, v6: bool, weight: impl Fn(u16) -> u32) -> Box<[u16]> {
    let member = |server| RingServer {
        address: SocketAddr::new(at(1, server, v6), 80),
        weight: weight(server),
        number: number_of(server, first, v6),
    };
    table(&(1..=SERVERS).map(member).collect::<Vec<_>>())
}

/// Packets of servers that the balancer has sent on to clients.
fn returned(datapath: &Datapath) -> u64 {
    let verdicts = datapath.verdicts().unwrap();
    let found = verdicts.iter().find(|(verdict, _)| *verdict == Verdict::SendNatReturn);
    found.map_or(0, |(_, count)| count.packets)
}

/// A connection; the number of the server that answered, all of whose response must arrive.
fn ask(service: IpAddr) -> u8 {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(service, 80), PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.len(), ANSWER);
    assert!(answer.iter().all(|byte| *byte == answer[0]));
    answer[0]
}

/// Longer than a connection takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
