//! Two balancers with real keepalived. The active one is killed, and nobody who is connected
//! notices more than a pause.

use std::{fs, net::SocketAddr, time::Duration};

use loadline_core::time;
use loadline_l4::standby::VirtualRouter;

use crate::{
    METHODS, SERVERS,
    balancer::{self, Balancer, ENDS},
    bridge::{at, bridge},
    host::Host,
    keepalived::Keepalived,
    member,
    open_connections::{OpenConnections, all_go_on, allow_sockets, echo},
    open_tunnel, silent_server,
};

/// Connections of each method and family.
const COUNT: usize = 500;

/// How often the active says that it lives.
const INTERVAL: Duration = Duration::from_secs(1);

#[test]
fn a_thousand_connections_by_each_method_survive_the_death_of_the_active() {
    // The balancers are this test once more, each in a process of its own.
    if balancer::is_one() {
        return balancer::work();
    }
    let Some(network) = bridge() else { return };
    allow_sockets();
    let client = member(&network, "client", 3, 7);
    let servers: Vec<Host> = (1..=SERVERS).map(|it| silent_server(&network, it)).collect();
    let _tunnels: Vec<_> = servers.iter().map(|server| server.enter(open_tunnel)).collect();
    servers.iter().zip(1..).for_each(|(server, number)| echo(server, 80, number));
    let hosts = [0, 1].map(|at| member(&network, ["first", "second"][at], 0, ENDS[at]));
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
    let start = |which: usize| Balancer::start(&hosts[which], which, directory.path());
    let [first, second] = [0, 1].map(start);
    let daemon = |which: usize, balancer: &Balancer| {
        let path = directory.path().join(format!("keepalived-{which}.conf"));
        Keepalived::start(&hosts[which], &configuration(which, balancer.id()), &path)
    };
    let (_one, _other) = (daemon(0, &first), daemon(1, &second));
    first.until("active whole all");
    second.until("standby whole 0 unplaced");

    let families = METHODS.into_iter().flat_map(|one| [(one, false), (one, true)]);
    let open = |((method, host), v6)| {
        let service = SocketAddr::new(at(0, host, v6), 80);
        (format!("{method}, IPv6 {v6}"), OpenConnections::open(&client, service, COUNT))
    };
    let connections: Vec<_> = families.map(open).collect();
    connections.iter().for_each(|(_, opened)| opened.is_open());
    first.until("active whole all");
    first.kill();
    all_go_on(connections, SERVERS, 3 * INTERVAL);
    // Who comes back learns everything, and stands by.
    second.until("active silent 0 unplaced");
    let again = start(0);
    again.until("standby whole 0 unplaced");
    second.until("active whole all");
}

/// The file of one of the two.
fn configuration(which: usize, watched: u32) -> String {
    let router = VirtualRouter {
        interface: "eth0".to_owned(),
        number: 51,
        priority: [200, 100][which],
        interval: time::Duration::from_std(INTERVAL),
        addresses: balancer::addresses(),
        accepts: None,
        check: format!("/bin/kill -0 {watched}"),
    };
    router.to_string()
}
