//! Two balancers, the real binary each, and real keepalived with the files that it prints. The
//! active one is killed, and every connection goes on with the other.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use serde_json::Value;

use crate::{
    METHODS,
    bridge::at,
    crowd::{OpenConnections, all_go_on, allow_sockets, echo},
    edge::Edge,
    host::Host,
    keepalived::Keepalived,
    network::{Network, listener},
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
    let crowds: Vec<_> = families.map(open).collect();
    crowds.iter().for_each(|(_, crowd)| crowd.is_open());
    first.until(|state| is_whole(state, "active"));
    first.kill();
    all_go_on(crowds, SERVERS, 3 * INTERVAL);
    let state = second.state();
    assert_eq!(state["standby"]["role"], "active", "{state:#}");
    second.end();
}
