//! Packet forwarding by the real binary, with real clients, on a network of namespaces.
//!
//! That takes the rights of root; without them each test is counted as skipped. Names of interfaces
//! and addresses exist in the namespaces alone, which are gone with their holders.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]
#![expect(clippy::print_stdout, reason = "what was logged")]

#[path = "../../../l4/tests/network/bridge.rs"]
mod bridge;
mod checks;
mod datagrams;
mod edge;
#[path = "../../../l4/tests/network/host.rs"]
mod host;
#[path = "../http3/installed.rs"]
mod installed;
#[path = "../../../l4/tests/network/keepalived.rs"]
mod keepalived;
mod managed;
mod network;
#[path = "../../../l4/tests/network/open_connections.rs"]
mod open_connections;
mod quic;
#[path = "../../../core/tests/skipped/mod.rs"]
mod skipped;
mod takeover;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, Permissions, set_permissions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bridge::at;
use edge::Edge;
use host::Host;
use network::{IPIP, MAC, NAT, Network, listed, listener};
use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt},
};
use rustix::thread::{CapabilitySet, capabilities};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

const METHODS: [(&str, u16); 3] = [("nat", NAT), ("mac", MAC), ("ipip", IPIP)];

/// A file with a service for each method and family, with these servers and `more` keys.
fn file(servers: &[u16], l4: &str, more: &str) -> String {
    let mut text = format!(
        "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\n\
         return_addresses = [\"10.0.0.9\", \"10.0.0.10\", \"fd00::9\"]\n{l4}\n"
    );
    for v6 in [false, true] {
        let name = if v6 { "six" } else { "four" };
        for (method, part) in METHODS {
            text += &listener(SocketAddr::new(at(0, part, v6), 80), "tcp", method, name);
        }
        let servers = listed(servers, v6);
        text +=
            &format!("[service.{name}]\n{more}\n[[service.{name}.group]]\nservers = [{servers}]\n");
    }
    text
}

/// Has curl meet three servers by each method in each family.
fn meet_every_server(network: &Network, edge: &Edge) {
    for ((method, part), v6) in METHODS.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let url = format!("http://{}/", SocketAddr::new(at(0, part, v6), 80));
        let met: BTreeSet<String> = (0..20).map(|_| network.curl(&url)).collect();
        let all = ["1\n", "2\n", "3\n"].map(str::to_owned);
        assert_eq!(met, BTreeSet::from(all), "{method} at {url}");
        let sent = edge.packets(&format!("send-{method}"));
        // SYN, ACK, request and FIN at least.
        assert!(sent >= 4 * 20, "{sent} by {method}");
    }
}

#[test]
fn curl_meets_every_server_by_each_method_and_the_report_counts_it() {
    let Some(network) = Network::new(3) else { return };
    let edge = Edge::start(&network, &file(&[1, 2, 3], "", ""));
    meet_every_server(&network, &edge);
    let report = edge.l4(&["report"]);
    assert!(report.contains("Forwarding on eth0, generic, for "), "{report}");
    assert!(report.contains("10.0.0.2:80 tcp: four by mac"), "{report}");
    let metrics = edge.get("/metrics");
    let verdict = "loadline_forwarding_packets_total{verdict=\"send-mac\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(verdict));
    assert!(line.unwrap().parse::<u64>().unwrap() >= 4 * 40, "{metrics}");
    assert!(metrics.contains("loadline_forwarding_nat_ports_exhausted_total 0"), "{metrics}");

    // Connections of NAT are all known, those of others not while servers stay.
    let nat = edge.l4(&["flows", "--method", "nat", "--client", "10.0.3.7"]);
    assert_eq!(nat.lines().count(), 1 + 20, "{nat}");
    assert!(nat.lines().skip(1).all(|line| line.contains("10.0.0.1:80 tcp")), "{nat}");
    assert_eq!(edge.l4(&["flows", "--method", "mac"]).lines().count(), 1);
    let log = edge.end();
    assert!(log.contains("packets are forwarded on eth0, generic"), "{log}");
}

#[test]
fn traffic_control_takes_packets_without_checksums_and_large_ones_whole() {
    const BYTES: usize = 3_000_000;
    let Some(network) = Network::with_offload(3) else { return };
    let file = file(&[1, 2, 3], "", "");
    let edge = Edge::start_with(&network.balancer, &file, &["--xdp-mode", "tcx"]);
    meet_every_server(&network, &edge);
    for v6 in [false, true] {
        let url = format!("http://{}/", SocketAddr::new(at(0, NAT, v6), 80));
        let before = [edge.packets("send-nat"), edge.packets("send-nat-return")];
        assert_eq!(network.curl(&format!("{url}{BYTES}")).len(), BYTES);
        let uploaded = network.upload(&format!("{url}up"), BYTES);
        assert_eq!(uploaded, format!("{BYTES}\n"), "{url}");
        let after = [edge.packets("send-nat"), edge.packets("send-nat-return")];
        // As segments they would be more than 2,000, each way.
        let whole = after.iter().zip(before).all(|(after, before)| after - before < 1_500);
        assert!(whole, "{url}: {before:?}, then {after:?}");
    }
    assert!(edge.l4(&["report"]).contains("Forwarding on eth0, tcx, for "));
    let log = edge.end();
    assert!(log.contains("packets are forwarded on eth0, tcx"), "{log}");
}

/// The frames that come in on a host and bear this source address, until nobody listens any more.
fn sniff(host: &Host, source: IpAddr) -> (Sender<()>, JoinHandle<u64>) {
    let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
    let (ready, is_ready) = channel();
    let thread = host.spawn(move || {
        let kind = (AddressFamily::Packet, SockType::Raw, SockProtocol::EthAll);
        let socket = socket(kind.0, kind.1, SockFlag::empty(), kind.2).unwrap();
        let patience = nix::sys::time::TimeVal::new(0, 100_000);
        setsockopt(&socket, sockopt::ReceiveTimeout, &patience).unwrap();
        let (mut socket, mut frame, mut count) = (File::from(socket), [0; 4_096], 0);
        ready.send(()).unwrap();
        loop {
            let is_over = stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty);
            match socket.read(&mut frame) {
                Ok(_) if is_from(&frame, source) => count += 1,
                Err(_) if is_over => return count,
                _ => {}
            }
        }
    });
    is_ready.recv().unwrap();
    (stop, thread)
}

fn is_from(frame: &[u8; 4_096], source: IpAddr) -> bool {
    let IpAddr::V4(source) = source else { return false };
    frame[12..14] == [8, 0] && frame[26..30] == source.octets()
}

#[test]
fn answers_by_mac_take_the_direct_path() {
    const BYTES: usize = 3_000_000;
    let Some(network) = Network::new(2) else { return };
    let edge = Edge::start(&network, &file(&[1, 2], "", ""));
    for (part, is_direct) in [(MAC, true), (NAT, false)] {
        let service = at(0, part, false);
        let (stop, sniffed) = sniff(&network.balancer, service);
        let (_stop, met) = sniff(&network.client, service);
        let before = edge.packets("send-nat-return");
        assert_eq!(network.curl(&format!("http://{service}/{BYTES}")).len(), BYTES);
        drop((stop, _stop));
        let (crossed, met) = (sniffed.join().unwrap(), met.join().unwrap());
        assert!(met > 10, "the client has met {met} packets of {service}");
        assert!(crossed == 0 || !is_direct, "{crossed} packets of {service} met the balancer");
        let returned = edge.packets("send-nat-return") - before;
        assert_eq!(returned == 0, is_direct, "{returned} packets of answers came back here");
    }
}

/// A connection from this port of the client, not answered yet.
fn connect(client: &Host, port: u16, to: SocketAddr) -> Socket {
    client.enter(move || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::from(([10, 0, 3, 7], port)).into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        assert_eq!(
            socket.connect(&to.into()).unwrap_err().raw_os_error(),
            Some(Errno::EINPROGRESS as i32)
        );
        socket
    })
}

/// Connects from each of these ports at once and waits until this many are answered.
fn answered(
    client: &Host,
    ports: impl IntoIterator<Item = u16>,
    to: SocketAddr,
    expected: usize,
) -> Vec<(u16, Option<TcpStream>)> {
    let tried: Vec<_> = ports.into_iter().map(|port| (port, connect(client, port, to))).collect();
    let is_answered = |socket: &Socket| socket.peer_addr().is_ok();
    let begun = Instant::now();
    while tried.iter().filter(|(_, socket)| is_answered(socket)).count() < expected {
        assert!(begun.elapsed() < Duration::from_secs(20), "not {expected} are answered");
        thread::sleep(Duration::from_millis(5));
    }
    let stream = |socket: Socket| {
        socket.set_nonblocking(false).unwrap();
        is_answered(&socket).then(|| socket.into())
    };
    tried.into_iter().map(|(port, socket)| (port, stream(socket))).collect()
}

/// Asks once more on a connection; the number of the server.
fn ask(mut stream: &TcpStream) -> u16 {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    lines.next().unwrap().parse().unwrap()
}

/// Opens so many connections by each method, and asks on each: with the number of its server.
fn held(network: &Network, each: u16) -> Vec<(TcpStream, u16)> {
    network.get_to_know();
    let mut held = Vec::new();
    for (at_method, (_, part)) in METHODS.iter().enumerate() {
        let service = SocketAddr::new(at(0, *part, false), 80);
        let first = 20_000 + 100 * at_method as u16;
        let streams = answered(&network.client, first..first + each, service, each.into());
        for stream in streams.into_iter().filter_map(|(_, stream)| stream) {
            let server = ask(&stream);
            held.push((stream, server));
        }
    }
    held
}

fn none_moves(held: &[(TcpStream, u16)]) {
    held.iter().for_each(|(stream, server)| assert_eq!(ask(stream), *server));
}

/// Waits until these servers of a [`file`] have places, and has curl meet them and no others.
fn meet(network: &Network, edge: &Edge, servers: &[u16]) {
    edge.until(|state| {
        let known = state["forwarding"]["servers"].as_array().unwrap();
        let mut here = known.iter().filter(|server| server["condition"] != "leaving");
        here.clone().count() == 6 * servers.len() && here.all(|it| !it["link"].is_null())
    });
    let url = format!("http://{}/", at(0, MAC, false));
    let met: BTreeSet<String> = (0..30).map(|_| network.curl(&url)).collect();
    let expected = servers.iter().map(|number| format!("{number}\n")).collect();
    assert_eq!(met, expected, "new connections go to whoever is there");
}

#[test]
fn a_listener_that_gets_another_service_by_a_reload_keeps_its_connections() {
    let Some(network) = Network::new(3) else { return };
    let more = "stale_timeout = \"20s\"";
    let edge = Edge::start(&network, &file(&[1, 2], "", more));
    let held = held(&network, 20);
    for (servers, four) in [(&[3][..], "green"), (&[2, 3], "blue")] {
        edge.reload(&file(servers, "", more).replace("four", four));
        meet(&network, &edge, servers);
        none_moves(&held);
    }
    let log = edge.end();
    assert!(!log.contains("connections that this listener had break"), "{log}");
    assert!(log.contains("connections of service `four` stay on its servers"), "{log}");
}

#[test]
fn servers_come_and_go_by_reload_and_no_connection_breaks() {
    const EACH: u16 = 20;
    let Some(network) = Network::new(3) else { return };
    // Longer than four reloads take on a busy machine, with nothing said meanwhile.
    let more = "stale_timeout = \"20s\"\nfin_timeout = \"1s\"";
    let edge = Edge::start(&network, &file(&[1, 2], "", more));
    let held = held(&network, EACH);
    let reloads: [&[u16]; 4] = [&[1, 2, 3], &[2, 3], &[3], &[2, 3]];
    for servers in reloads {
        edge.reload(&file(servers, "", more));
        meet(&network, &edge, servers);
        none_moves(&held);
    }
    assert!(held.iter().any(|(_, server)| *server == 1), "somebody is on a server that left");
    let flows = edge.l4(&["flows", "--server", "10.0.1.1", "--method", "mac"]);
    let on_first = held.iter().skip(EACH.into()).take(EACH.into()).filter(|it| it.1 == 1);
    assert_eq!(flows.lines().count() - 1, on_first.count(), "{flows}");

    // Whoever has left is forgotten once nobody is there any more.
    drop(held);
    edge.until(|state| {
        let servers = state["forwarding"]["servers"].as_array().unwrap();
        servers.iter().all(|server| server["condition"] == "up")
    });
    let log = edge.end();
    assert!(log.contains("has left: no connection is on it any more"), "{log}");
}

/// A file with a service by NAT.
fn file_of_nat(servers: &str) -> String {
    format!(
        "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\nreturn_addresses = [\"10.0.0.9\"]\n\
         {}[[service.web.group]]\nservers = [{servers}]\n",
        listener(SocketAddr::new(at(0, NAT, false), 80), "tcp", "nat", "web"),
    )
}

#[test]
fn a_server_behind_another_interface_is_told_of_and_loses_no_packets() {
    let Some(network) = Network::new(1) else { return };
    for command in [
        "ip link add eth1 type veth peer name far",
        "ip address add 10.9.0.8/24 dev eth1",
        "ip link set eth1 up",
        "ip link set far up",
        "ip neighbour add 10.9.0.1 lladdr 02:00:00:00:09:01 dev eth1",
    ] {
        network.balancer.run(command);
    }
    let edge = Edge::start(&network, &file_of_nat("\"10.9.0.1:80\", \"10.0.1.1:80\""));
    edge.until(|state| {
        let servers = state["forwarding"]["servers"].as_array().unwrap();
        servers.iter().any(|server| server["address"] == "10.0.1.1:80" && !server["link"].is_null())
    });
    let begun = Instant::now();
    // It is told at the second look, a second after the first.
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(network.curl(&format!("http://{}/", at(0, NAT, false))), "1\n");
    }
    let log = edge.end();
    assert!(log.contains("it is reached by eth1, and packets leave by eth0"), "{log}");
}

#[test]
fn a_server_whose_link_address_is_another_is_followed_though_nothing_else_asks_for_it() {
    let Some(network) = Network::new(1) else { return };
    // What the kernel takes a minute for it does in seconds here.
    for setting in ["base_reachable_time_ms=1000", "delay_first_probe_time=1"] {
        network.balancer.run(&format!("sysctl -q net.ipv4.neigh.eth0.{setting}"));
    }
    let edge = Edge::start(&network, &file_of_nat("\"10.0.1.1:80\""));
    let has_link = |state: &Value, link: &str| state["forwarding"]["servers"][0]["link"] == link;
    edge.until(|state| has_link(state, "02:00:00:00:00:01"));
    network.servers[0].run("ip link set eth0 address 02:00:00:00:0a:01");
    edge.until(|state| has_link(state, "02:00:00:00:0a:01"));
    edge.end();
}

/// A file with one server by NAT, at this port, and room for one.
fn file_of_one(port: u16) -> String {
    format!(
        "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\nreturn_addresses = [\"10.0.0.9\"]\n\
         max_nat_servers = 1\n{}[service.web]\nstale_timeout = \"1s\"\n\
         [[service.web.group]]\nservers = [\"{}\"]\n",
        listener(SocketAddr::new(at(0, NAT, false), 80), "tcp", "nat", "web"),
        SocketAddr::new(at(1, 1, false), port),
    )
}

#[test]
fn a_server_that_there_was_no_room_for_is_given_packets_once_another_has_left() {
    let Some(network) = Network::new(1) else { return };
    let edge = Edge::start(&network, &file_of_one(81));
    edge.reload(&file_of_one(80));
    edge.until(|state| {
        let servers = state["forwarding"]["servers"].as_array().unwrap();
        servers.len() == 1 && servers[0]["address"] == "10.0.1.1:80"
    });
    assert_eq!(network.curl(&format!("http://{}/", at(0, NAT, false))), "1\n");
    let log = edge.end();
    assert_eq!(log.matches("is given no packets").count(), 1, "{log}");
}

#[test]
fn ports_that_are_all_taken_refuse_exactly_the_rest_until_the_fin_timeout() {
    let Some(network) = Network::new(3) else { return };
    let l4 = "first_port = 20000\nports = 4";
    let edge = Edge::start(&network, &file(&[1, 2, 3], l4, "fin_timeout = \"2s\""));
    let service = SocketAddr::new(at(0, NAT, false), 80);
    network.get_to_know();
    let all_free = |state: &Value| {
        let servers = state["forwarding"]["servers"].as_array().unwrap();
        servers.iter().filter(|server| server["free_ports"] == 8).count() == 3
    };
    edge.until(all_free);
    let tried = answered(&network.client, FIRST_PORTS, service, 24);
    let mut met: BTreeMap<u16, usize> = BTreeMap::new();
    let open: Vec<&TcpStream> = tried.iter().filter_map(|(_, stream)| stream.as_ref()).collect();
    open.iter().for_each(|stream| *met.entry(ask(stream)).or_default() += 1);
    assert_eq!(met, BTreeMap::from([(1, 8), (2, 8), (3, 8)]), "4 ports x 2 addresses each");
    let refused: Vec<u16> =
        tried.iter().filter(|(_, stream)| stream.is_none()).map(|(port, _)| *port).collect();
    assert_eq!(refused.len(), 16);
    edge.until(|_| edge.packets("drop-nat-ports") >= 16);
    // More where a busy machine let one ask anew.
    let dropped = edge.packets("drop-nat-ports");
    let metrics = edge.get("/metrics");
    let counted = format!("loadline_forwarding_nat_ports_exhausted_total {dropped}\n");
    assert!(dropped < 32 && metrics.contains(&counted), "{dropped} {metrics}");
    let report = edge.l4(&["report"]);
    assert!(report.contains("no port of a return address is free (drop-nat-ports)"), "{report}");

    drop(tried);
    edge.until(all_free);
    answered(&network.client, refused, service, 16);
    let log = edge.end();
    assert_eq!(log.matches("NAT ports are exhausted").count(), 1, "{log}");
}

/// Ports of the client whose connections fall to the servers in numbers from 8 to 16. Where they
/// fall depends on the addresses of the test alone.
const FIRST_PORTS: std::ops::Range<u16> = 31_000..31_040;

#[test]
fn a_full_table_of_nat_connections_is_told_once() {
    let Some(network) = Network::new(1) else { return };
    let edge = Edge::start(&network, &file(&[1], "max_nat_connections = 4", ""));
    let service = SocketAddr::new(at(0, NAT, false), 80);
    let _held = answered(&network.client, 31_000..31_008, service, 4);
    edge.until(|_| edge.packets("drop-nat-full") >= 4);
    thread::sleep(Duration::from_secs(1));
    let log = edge.end();
    assert_eq!(log.matches("the table of NAT connections is full").count(), 1, "{log}");
}

#[test]
fn whoever_may_not_is_told_which_right_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("loadline.toml");
    std::fs::write(&path, file(&[1], "", "")).unwrap();
    let program = env!("CARGO_BIN_EXE_loadline");
    let mut serve = Command::new(program);
    if capabilities(None).unwrap().effective.contains(CapabilitySet::SETPCAP) {
        serve = Command::new("setpriv");
        serve.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", program]);
    }
    serve.arg("serve").arg(&path);
    let output = serve.env("NO_COLOR", "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("all but listeners with `forward` works without"), "{told}");
    for right in ["CAP_BPF", "CAP_NET_ADMIN"] {
        assert!(told.contains(right), "{right} in: {told}");
    }
}
