//! Two balancers, the real binary each, and real keepalived with the files that it prints. The
//! active one is killed, and every connection goes on with the other.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use serde_json::Value;

use crate::{
    METHODS,
    bridge::{alone, at},
    edge::Edge,
    host::Host,
    keepalived::Keepalived,
    network::{NAT, Network, listener},
    open_connections::{OpenConnections, all_go_on, allow_sockets, echo},
};

const SERVERS: u16 = 3;

/// Connections of each method and family.
const COUNT: usize = 150;

/// How often the active says that it lives.
const INTERVAL: Duration = Duration::from_secs(1);

/// The port of the service.
const PORT: u16 = 7;

/// The last part of the address of each of the two.
const ENDS: [u16; 2] = [8, 18];

/// The file of one of the two. The second has other weights, so that its own rings would lead many
/// connections elsewhere.
fn file(which: usize, directory: &Path) -> String {
    let [own, peer] = [which, 1 - which].map(|it| SocketAddr::new(at(0, ENDS[it], false), 4_343));
    let priority = [200, 100][which];
    let mut text = format!(
        "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\n\
         return_addresses = [\"10.0.0.9\", \"fd00::9\"]\n\
         [l4.standby]\nbind = \"{own}\"\npeers = [\"{peer}\"]\npriority = {priority}\n\
         interval = \"{}ms\"\nkey_file = {:?}\n",
        INTERVAL.as_millis(),
        directory.join("key"),
    );
    for v6 in [false, true] {
        let name = if v6 { "six" } else { "four" };
        for (method, part) in METHODS {
            text += &listener(SocketAddr::new(at(0, part, v6), PORT), "tcp", method, name);
        }
        let server = |number: u16| {
            let weight = if which == 0 { 1 } else { number };
            let address = SocketAddr::new(at(1, number, v6), PORT);
            format!("{{ address = \"{address}\", weight = {weight} }}")
        };
        let servers: Vec<String> = (1..=SERVERS).map(server).collect();
        text += &format!(
            "[service.{name}]\n[[service.{name}.group]]\nservers = [{}]\n",
            servers.join(", ")
        );
    }
    text
}

/// Two balancers with their key, the active first.
fn pair(hosts: [&Host; 2], directory: &Path) -> [Edge; 2] {
    fs::write(directory.join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    [0, 1].map(|which| Edge::start_on(hosts[which], &file(which, directory)))
}

/// Whether a balancer is this, and knows the same as the other.
fn is_whole(state: &Value, role: &str) -> bool {
    let standby = &state["standby"];
    let peer = &standby["peers"][0];
    let is_told = role == "standby" || peer["behind"] == 0;
    standby["role"] == role && peer["link"] == "whole" && is_told && standby["unplaced"] == 0
}

#[test]
fn keepalived_finds_nothing_wrong_with_the_file_it_is_given() {
    let Some((network, second)) = Network::of_two_balancers(0) else { return };
    let directory = tempfile::tempdir().unwrap();
    let hosts = [&network.balancer, &second];
    for (host, edge) in hosts.into_iter().zip(pair(hosts, directory.path())) {
        Keepalived::test(host, &edge.keepalived(), &directory.path().join("keepalived.conf"));
    }
}

/// The file of one of the two, with one server by NAT and room for two.
fn small_file(which: usize, directory: &Path, port: u16) -> String {
    let [own, peer] = [which, 1 - which].map(|it| SocketAddr::new(at(0, ENDS[it], false), 4_343));
    format!(
        "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\nreturn_addresses = [\"10.0.0.9\"]\n\
         max_nat_servers = 2\n[l4.standby]\nbind = \"{own}\"\npeers = [\"{peer}\"]\n\
         key_file = {:?}\n{}[service.web]\nstale_timeout = \"1s\"\nfin_timeout = \"1s\"\n\
         [[service.web.group]]\nservers = [\"{}\"]\n",
        directory.join("key"),
        listener(SocketAddr::new(at(0, NAT, false), 80), "tcp", "nat", "web"),
        SocketAddr::new(at(1, 1, false), port),
    )
}

#[test]
fn a_standby_that_has_seen_many_servers_come_and_go_forwards_to_those_there_are() {
    let Some((network, second)) = Network::of_two_balancers(1) else { return };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let hosts = [&network.balancer, &second];
    let moving = [NAT, 9].map(|part| alone(at(0, part, false)));
    let has_addresses = |host: &Host, word: &str| {
        moving.iter().for_each(|it| host.run(&format!("ip address {word} {it} dev eth0")));
    };
    has_addresses(hosts[0], "add");
    let edges = [0, 1].map(|which| Edge::start_on(hosts[which], &small_file(which, directory, 81)));
    edges[1].until(|state| is_whole(state, "standby"));
    for port in [82, 83, 84, 80] {
        let place = SocketAddr::new(at(1, 1, false), port).to_string();
        edges.iter().enumerate().for_each(|(which, edge)| {
            edge.reload(&small_file(which, directory, port));
        });
        // The one before is forgotten here as well.
        edges.iter().for_each(|edge| {
            edge.until(|state| {
                let servers = state["forwarding"]["servers"].as_array().unwrap();
                servers.len() == 1 && servers[0]["address"] == place.as_str()
            });
        });
    }
    let [first, second] = edges;
    first.kill();
    has_addresses(hosts[0], "del");
    has_addresses(hosts[1], "add");
    network.client.run("ip neigh flush all");
    second.until(|state| state["standby"]["role"] == "active");
    assert_eq!(network.curl(&format!("http://{}/", at(0, NAT, false))), "1\n");
    let log = second.end();
    assert!(!log.contains("is given no packets"), "{log}");
}

#[test]
fn connections_by_each_method_survive_kill_9_of_the_active() {
    let Some((network, second)) = Network::of_two_balancers(SERVERS) else { return };
    allow_sockets();
    network.servers.iter().zip(1..).for_each(|(server, number)| echo(server, PORT, number));
    let directory = tempfile::tempdir().unwrap();
    let hosts = [&network.balancer, &second];
    let [first, second] = pair(hosts, directory.path());
    let start = |which: usize, edge: &Edge| {
        let path = directory.path().join(format!("keepalived-{which}.conf"));
        Keepalived::start(hosts[which], &edge.keepalived(), &path)
    };
    let _daemons = [start(0, &first), start(1, &second)];
    first.until(|state| is_whole(state, "active"));
    second.until(|state| is_whole(state, "standby"));

    let families = METHODS.into_iter().flat_map(|one| [(one, false), (one, true)]);
    let open = |((method, part), v6)| {
        let service = SocketAddr::new(at(0, part, v6), PORT);
        (format!("{method}, IPv6 {v6}"), OpenConnections::open(&network.client, service, COUNT))
    };
    let connections: Vec<_> = families.map(open).collect();
    connections.iter().for_each(|(_, opened)| opened.is_open());
    first.until(|state| is_whole(state, "active"));
    first.kill();
    all_go_on(connections, SERVERS, 3 * INTERVAL);
    let state = second.state();
    assert_eq!(state["standby"]["role"], "active", "{state:#}");
    second.end();
}
