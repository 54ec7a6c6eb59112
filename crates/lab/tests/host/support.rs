//! Labs of a few hosts, and probes between them.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    time::Instant,
};

use loadline_core::time::Duration;
use loadline_lab::{
    host::{Host, Lab, Options, PortChoice},
    topology::{HostSpec, LinkSpec, Topology, mesh},
};

/// Long enough for a machine that is busy with other things.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// Options with the program that becomes hosts.
pub(crate) fn options() -> Options {
    let program = Some(PathBuf::from(env!("CARGO_BIN_EXE_loadline-host")));
    Options { program, ..Options::default() }
}

/// The same by virtual Ethernet.
pub(crate) fn veth() -> Options {
    Options { port: PortChoice::Veth, ..options() }
}

/// Hosts `h0`, `h1`, ... at 10.0.0.1, ... and fd00::1, ..., each as far from each other.
pub(crate) fn row(count: u8, delay: Duration) -> Topology {
    let host = |i: u8| {
        let addresses = [v4(i + 1), v6(i + 1)];
        HostSpec::new(&format!("h{i}"), &addresses)
    };
    let places: Vec<u8> = (0..count).collect();
    Topology {
        hosts: places.iter().map(|&i| host(i)).collect(),
        links: mesh(&places, |_, _| delay),
        seed: 1,
    }
}

pub(crate) fn v4(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

pub(crate) fn v6(last: u8) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)])
}

/// Hosts of these names and addresses.
pub(crate) fn named(hosts: &[(&str, &[IpAddr])], links: &[(usize, usize, u64)]) -> Topology {
    let link = |&(from, to, millis): &(usize, usize, u64)| {
        LinkSpec::new(from, to, Duration::from_millis(millis)).both()
    };
    Topology {
        hosts: hosts.iter().map(|(name, addresses)| HostSpec::new(name, addresses)).collect(),
        links: links.iter().flat_map(link).collect(),
        seed: 1,
    }
}

pub(crate) fn start(topology: &Topology, options: &Options) -> Lab {
    Lab::start(topology, options).unwrap_or_else(|error| panic!("no lab: {error}"))
}

/// A UDP socket on a host that waits for a few seconds at most.
pub(crate) fn udp(host: &Host, address: IpAddr) -> UdpSocket {
    let socket = host.udp(SocketAddr::new(address, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENT.to_std())).unwrap();
    socket
}

/// One packet there and one back; the time between.
pub(crate) fn round_trip(here: &UdpSocket, there: &UdpSocket, to: SocketAddr) -> Duration {
    let begin = Instant::now();
    here.send_to(b"ping", to).unwrap();
    let mut words = [0; 8];
    let (length, from) = there.recv_from(&mut words).unwrap();
    there.send_to(&words[..length], from).unwrap();
    let (length, _) = here.recv_from(&mut words).unwrap();
    assert_eq!(&words[..length], b"ping");
    Duration::from_std(begin.elapsed())
}

/// Whether a process is there and has not ended.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// Looks until it is so, for as long as patience lasts.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENT.to_std();
    while !so() {
        assert!(Instant::now() < until, "{what} is still not so after {PATIENT}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Whether the tests are run by root.
pub(crate) fn is_root() -> bool {
    Path::new("/proc/self")
        .metadata()
        .is_ok_and(|self_| std::os::unix::fs::MetadataExt::uid(&self_) == 0)
}
