//! Labs whose links are changed, and sockets on their hosts.

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    path::PathBuf,
    thread,
};

use loadline_core::{
    time::Duration,
    units::{BitRate, Bytes},
};
use loadline_lab::{
    host::{Lab, Options, PortChoice},
    topology::{HostSpec, Limit, LinkSpec, Topology},
    wan::{Counters, Health, LinkCounters, ProbePlan, Probed, Watch, probe},
};

/// Long enough for a machine that is busy with other things.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// A router may be so late and still not make a run invalid.
pub(crate) const SLACK: Duration = Duration::from_micros(300);

/// `count` hosts at 10.0.0.1, ... and fd00::1, ..., each two joined as `link` says.
pub(crate) fn joined(count: usize, link: impl Fn(usize, usize) -> LinkSpec) -> Topology {
    let host = |i: usize| HostSpec::new(&format!("h{i}"), &[v4(i), v6(i)]);
    let pairs = (0..count).flat_map(|to| (0..to).map(move |from| (from, to)));
    Topology {
        hosts: (0..count).map(host).collect(),
        links: pairs.flat_map(|(from, to)| link(from, to).both()).collect(),
        seed: 1,
    }
}

/// The addresses of a host.
pub(crate) fn v4(host: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, host as u8 + 1])
}

pub(crate) fn v6(host: usize) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host as u16 + 1])
}

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn limit(megabits: u64, queue: u64) -> Option<Limit> {
    let rate = BitRate::new(megabits * 1_000_000);
    Some(Limit { rate, queue: Bytes::new(queue) })
}

/// A lab over TUN where that is open, and one over virtual Ethernet.
pub(crate) fn both_kinds(topology: &Topology) -> [Lab; 2] {
    [PortChoice::Best, PortChoice::Veth].map(|port| start_on(topology, port))
}

pub(crate) fn start(topology: &Topology) -> Lab {
    start_on(topology, PortChoice::Best)
}

/// A lab over that kind of port.
pub(crate) fn start_on(topology: &Topology, port: PortChoice) -> Lab {
    let program = Some(PathBuf::from(env!("CARGO_BIN_EXE_loadline-host")));
    let options = Options { program, port, ..Options::default() };
    Lab::start(topology, &options).unwrap_or_else(|error| panic!("no lab: {error}"))
}

/// A UDP socket on a host, at a port that the host chooses.
pub(crate) fn udp(lab: &Lab, host: usize, address: IpAddr) -> UdpSocket {
    lab.hosts()[host].udp(SocketAddr::new(address, 0)).unwrap()
}

/// A probe between two hosts, and how the router did meanwhile.
pub(crate) fn probed(
    lab: &Lab,
    first: usize,
    second: usize,
    round_trip: Duration,
) -> (Probed, Health) {
    let sockets = [udp(lab, first, v4(first)), udp(lab, second, v4(second))];
    let watch = Watch::begin(lab.router()).unwrap();
    let probed = probe(&sockets[0], &sockets[1], ProbePlan::new(round_trip)).unwrap();
    let (health, _) = watch.end(lab.router()).unwrap();
    (probed, health)
}

/// What was counted from one host to another.
pub(crate) fn counted(counters: &Counters, from: usize, to: usize) -> LinkCounters {
    *counters.links.iter().find(|link| (link.from, link.to) == (from, to)).unwrap()
}

/// Sends so many bytes over TCP from the second host to the first; whether they came unchanged.
pub(crate) fn transfer(lab: &Lab, address: IpAddr, length: usize) -> bool {
    let sent: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
    let server = lab.hosts()[1].socket(address, false).unwrap();
    server.bind(&SocketAddr::new(address, 0).into()).unwrap();
    server.listen(1).unwrap();
    let server: TcpListener = server.into();
    let to = server.local_addr().unwrap();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| server.accept().unwrap().0.write_all(&sent).unwrap());
        let mut client = lab.hosts()[0].connect(to, PATIENT).unwrap();
        client.set_read_timeout(Some(PATIENT.to_std())).unwrap();
        client.read_to_end(&mut received).unwrap();
    });
    received == sent
}
