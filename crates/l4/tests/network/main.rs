//! A client, the balancer and three servers on one bridge, each in a namespace of its own: what the
//! program does with real TCP, by each method.
//!
//! That takes the rights of root; without them the test says so and is over. Names of interfaces
//! and addresses exist in the namespaces alone, which are gone with their holders.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod host;

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use host::{Host, link};
use loadline_core::forwarding::{Member, Ring, table};
use loadline_l4::{
    Attach, Attached, Datapath, Decapsulator, Frontend, Method, Protocol, Server, Settings, Sizes,
    Verdict,
};
use rustix::thread::{CapabilitySet, capabilities};

const SERVERS: u16 = 3;
const CONNECTIONS: u64 = 40;

/// The method and the last part of the address of each service.
const METHODS: [(Method, u16); 3] = [(Method::Nat, 1), (Method::Mac, 2), (Method::Ipip, 3)];
const OWN: u16 = 8;
const RETURN: u16 = 9;

/// Larger than a segment, so that data goes both ways in several packets.
const ANSWER: usize = 20_000;

#[test]
fn connections_reach_all_servers_by_each_method_and_answers_take_the_road_of_the_method() {
    let rights = capabilities(None).unwrap().effective;
    if !rights.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN) {
        println!("skipped: namespaces and XDP take CAP_SYS_ADMIN and CAP_NET_ADMIN");
        return;
    }
    let network = Host::new();
    network.run("ip link add hub type bridge");
    network.run("ip link set hub up");
    let client = member(&network, "client", 3, 7);
    let servers: Vec<Host> = (1..=SERVERS).map(|number| server(&network, number)).collect();
    let balancer = member(&network, "balancer", 0, OWN);
    for (host, v6) in [1, 2, 3, RETURN].into_iter().flat_map(|host| [(host, false), (host, true)]) {
        balancer.run(&format!("ip address add {} dev eth0 nodad", alone(at(0, host, v6))));
    }
    let _tunnels: Vec<_> = servers.iter().map(|server| server.enter(open_tunnel)).collect();
    let datapath = balancer.enter(forward);

    for ((method, host), v6) in METHODS.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let service = at(0, host, v6);
        let before = returned(&datapath);
        let ask_all = move || (0..CONNECTIONS).map(|_| ask(service)).collect::<BTreeSet<u8>>();
        let met = client.enter(ask_all);
        assert_eq!(met, BTreeSet::from([1, 2, 3]), "{method} at {service}: who answered");
        let answers = returned(&datapath) - before;
        let right = match method {
            Method::Nat => answers >= CONNECTIONS * ANSWER as u64 / 1_460,
            Method::Mac | Method::Ipip => answers == 0,
        };
        assert!(right, "{method} at {service}: {answers} packets of answers came back here");
    }
}

/// The address of a host, of the same parts in both families.
fn at(net: u16, host: u16, v6: bool) -> IpAddr {
    match v6 {
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, net, host]),
        false => IpAddr::from([10, 0, net as u8, host as u8]),
    }
}

/// An address without a network around it.
fn alone(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 })
}

/// A host on the bridge, whose packets leave with checksums of their own.
fn member(network: &Host, name: &str, net: u16, number: u16) -> Host {
    let host = Host::new();
    link(network, &host, name);
    host.run(&format!("ip link set eth0 address 02:00:00:00:00:{number:02x}"));
    host.run("ethtool -K eth0 tx off");
    host.run(&format!("ip address add {}/16 dev eth0", at(net, number, false)));
    host.run(&format!("ip address add {}/64 dev eth0 nodad", at(net, number, true)));
    host.run("ip link set lo up");
    host.run("ip link set eth0 up");
    host
}

/// A server that answers with its number, to the addresses of `mac` and `ipip` as well.
fn server(network: &Host, number: u16) -> Host {
    let host = member(network, &format!("server{number}"), 1, number);
    for setting in ["all.arp_ignore=1", "all.arp_announce=2", "all.rp_filter=0", "eth0.rp_filter=0"]
    {
        host.run(&format!("sysctl -q net.ipv4.conf.{setting}"));
    }
    for v6 in [false, true] {
        for (_, service) in &METHODS[1..] {
            host.run(&format!("ip address add {} dev lo nodad", alone(at(0, *service, v6))));
        }
    }
    let listener = host.enter(|| TcpListener::bind("[::]:80").unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(&[number as u8; ANSWER]);
        }
    });
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

fn forward() -> Datapath {
    let (IpAddr::V4(tunnel4), IpAddr::V6(tunnel6)) = (at(0, OWN, false), at(0, OWN, true)) else {
        panic!("families")
    };
    let returns = vec![at(0, RETURN, false), at(0, RETURN, true)];
    let settings = Settings { tunnel4, tunnel6, returns, ..Settings::default() };
    let mut datapath = Datapath::load(Sizes::default(), settings).unwrap();
    for v6 in [false, true] {
        let numbers = (1..=SERVERS).map(|number| number + if v6 { SERVERS } else { 0 });
        let mut members = Vec::new();
        for (server, number) in (1..=SERVERS).zip(numbers) {
            let (address, mac) = (at(1, server, v6), [2, 0, 0, 0, 0, server as u8]);
            datapath.set_server(number, &Server { address, port: 0, mac, is_up: true }).unwrap();
            members.push(Member { address: SocketAddr::new(address, 80), weight: 1, number });
        }
        let ring = Ring::new(&table(&members));
        for (method, host) in METHODS {
            let service = u32::from(host) * 2 + u32::from(v6);
            let address = SocketAddr::new(at(0, host, v6), 80);
            let frontend = Frontend { address, protocol: Protocol::Tcp };
            datapath.add_service(service, method, &[frontend]).unwrap();
            datapath.publish(service, ring.entries()).unwrap();
        }
    }
    assert_eq!(datapath.attach("eth0", Attach::Generic).unwrap(), Attached::Generic);
    datapath
}

/// Packets of servers that the balancer has sent on to clients.
fn returned(datapath: &Datapath) -> u64 {
    let verdicts = datapath.verdicts().unwrap();
    let found = verdicts.iter().find(|(verdict, _)| *verdict == Verdict::SendNatReturn);
    found.map_or(0, |(_, count)| count.packets)
}

/// A connection; the number of the server that answered, all of whose answer must arrive.
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
