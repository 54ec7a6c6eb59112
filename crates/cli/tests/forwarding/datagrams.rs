//! Datagrams: those that a client hands to its kernel as one (UDP GSO) are forwarded as one, and
//! arrive as many; and no flow of them waits for a server that is off.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;

use crate::{
    METHODS,
    bridge::at,
    edge::Edge,
    host::Host,
    network::{IPIP, MAC, NAT, Network, listed, listener},
};

/// Bytes of a datagram, and how many are handed over as one.
const SEGMENT: usize = 1_000;
const COUNT: usize = 10;

/// Longer than a response takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A service for each method and family, without XDP.
fn file() -> String {
    let mut text = "[l4]\ninterface = \"eth0\"\nxdp_mode = \"tcx\"\n\
                    return_addresses = [\"10.0.0.9\", \"fd00::9\"]\n"
        .to_owned();
    for v6 in [false, true] {
        let name = if v6 { "six" } else { "four" };
        for (method, part) in METHODS {
            text += &listener(SocketAddr::new(at(0, part, v6), 80), "udp", method, name);
        }
        let servers = listed(&[1, 2], v6);
        text += &format!("[service.{name}]\n[[service.{name}.group]]\nservers = [{servers}]\n");
    }
    text
}

/// Sends every datagram back from the address that it came to.
fn echo(host: &Host, address: IpAddr) {
    let socket = host.enter(move || UdpSocket::bind((address, 80)).unwrap());
    thread::spawn(move || {
        let mut datagram = [0; 2 * SEGMENT];
        while let Ok((length, client)) = socket.recv_from(&mut datagram) {
            let _ = socket.send_to(&datagram[..length], client);
        }
    });
}

/// The bytes of all datagrams that come back from a service.
fn ask(service: SocketAddr) -> Vec<usize> {
    let any = if service.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(service).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    setsockopt(&socket, sockopt::UdpGsoSegment, &(SEGMENT as i32)).unwrap();
    let all: Vec<u8> = (0..COUNT).flat_map(|number| [number as u8; SEGMENT]).collect();
    assert_eq!(socket.send(&all).unwrap(), all.len());
    let mut datagram = [0; 2 * SEGMENT];
    let answer = |number: usize| {
        let length = socket.recv(&mut datagram).unwrap();
        assert!(datagram[..length].iter().all(|byte| *byte == number as u8));
        length
    };
    (0..COUNT).map(answer).collect()
}

#[test]
fn traffic_control_takes_datagrams_that_leave_as_one() {
    let Some(network) = Network::with_offload(2) else { return };
    for (server, number) in network.servers.iter().zip(1..) {
        for v6 in [false, true] {
            echo(server, at(1, number, v6));
            [MAC, IPIP].into_iter().for_each(|part| echo(server, at(0, part, v6)));
        }
    }
    let edge = Edge::start(&network, &file());
    for ((method, part), v6) in METHODS.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let service = SocketAddr::new(at(0, part, v6), 80);
        let before = edge.packets(&format!("send-{method}"));
        let answers = network.client.enter(move || ask(service));
        assert_eq!(answers, [SEGMENT; COUNT], "{method} at {service}");
        let sent = edge.packets(&format!("send-{method}")) - before;
        assert_eq!(sent, 1, "{method} at {service}");
    }
    assert_eq!(edge.packets("send-nat-return"), 2 * COUNT as u64);
    edge.end();
}

/// New flows in the test of a server that is off.
const NEW: usize = 20;

/// A service by `mac` and `nat` with these servers.
fn file_of_both(servers: &[u16]) -> String {
    let by =
        |(method, part)| listener(SocketAddr::new(at(0, part, false), 80), "udp", method, "web");
    format!(
        "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\nreturn_addresses = [\"10.0.0.9\"]\n\
         {}{}[service.web]\n[[service.web.group]]\nservers = [{}]\n",
        by(("nat", NAT)),
        by(("mac", MAC)),
        listed(servers, false),
    )
}

/// How many new flows to a service get a response, of [`NEW`].
fn responses(service: SocketAddr) -> usize {
    let open = |_| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect(service).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket.send(b"a").unwrap();
        socket
    };
    let sockets: Vec<UdpSocket> = (0..NEW).map(open).collect();
    sockets.iter().filter(|socket| socket.recv(&mut [0; 8]).is_ok()).count()
}

#[test]
fn new_datagrams_do_not_go_to_a_removed_server_that_is_switched_off() {
    let Some(network) = Network::new(2) else { return };
    // What the kernel takes a minute for it does in seconds here.
    for setting in ["base_reachable_time_ms=1000", "delay_first_probe_time=1"] {
        network.balancer.run(&format!("sysctl -q net.ipv4.neigh.eth0.{setting}"));
    }
    network.servers.iter().for_each(|server| echo(server, at(0, MAC, false)));
    let edge = Edge::start(&network, &file_of_both(&[1, 2]));
    let service = SocketAddr::new(at(0, MAC, false), 80);
    let are_all_answered = |_: &Value| network.client.enter(move || responses(service)) == NEW;
    edge.until(are_all_answered);
    edge.reload(&file_of_both(&[2]));
    network.servers[0].run("ip link set eth0 down");
    edge.until(are_all_answered);
    let log = edge.end();
    assert!(log.contains("was removed and does not answer any more"), "{log}");
}
