//! Weights follow what servers have: one that is busy with another service gets fewer connections.

use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::{
    bridge::at,
    edge::Edge,
    network::{IPIP, MAC, NAT, Network, listed, listener},
};

/// Two servers whose weights the manager makes by their connections, and a service that the first
/// has alone.
fn file(v6: bool) -> String {
    let mut text = "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\n\
                    return_addresses = [\"10.0.0.9\", \"fd00::9\"]\n"
        .to_owned();
    for (part, method, service) in [(MAC, "mac", "web"), (NAT, "nat", "web"), (IPIP, "ipip", "own")]
    {
        text += &listener(SocketAddr::new(at(0, part, v6), 80), "tcp", method, service);
    }
    text + &format!(
        "[service.web]\npolicy = \"managed\"\n\
         manager = {{ active = \"100%\", new = \"0%\", interval = \"500ms\", smoothing = 1.0 }}\n\
         [[service.web.group]]\nservers = [{}]\n\
         [service.own]\n[[service.own.group]]\nservers = [{}]\n",
        listed(&[1, 2], v6),
        listed(&[1], v6)
    )
}

/// What each server of the managed service is given, by its weight.
fn shares(state: &Value) -> Vec<f64> {
    let services = state["services"].as_array().unwrap();
    let service = services.iter().find(|one| one["name"] == "web").unwrap();
    let servers = service["groups"][0]["servers"].as_array().unwrap();
    servers.iter().map(|server| server["share"].as_f64().unwrap()).collect()
}

#[test]
fn a_server_with_many_connections_is_given_few_new_ones_until_they_end() {
    const MANY: usize = 40;
    let Some(network) = Network::new(2) else { return };
    for v6 in [false, true] {
        let edge = Edge::start(&network, &file(v6));
        edge.until(|state| shares(state) == [1.0, 1.0]);
        let own = SocketAddr::new(at(0, IPIP, v6), 80);
        let connect = move || (0..MANY).map(|_| TcpStream::connect(own).unwrap()).collect();
        let open: Vec<TcpStream> = network.client.enter(connect);
        // The mean of many and none is half of the many: half the weight for the one, and ten times
        // as much, the most there is, for the other.
        edge.until(|state| {
            let shares = shares(state);
            shares[0] < 0.6 && shares[1] > 9.0
        });
        for part in [MAC, NAT] {
            let url = format!("http://{}/", SocketAddr::new(at(0, part, v6), 80));
            let met = (0..40).filter(|_| network.curl(&url) == "1\n").count();
            assert!(met <= 8, "{met} of 40 on the busy one, where one in 20 is its share: {url}");
        }
        drop(open);
        edge.until(|state| shares(state).iter().all(|share| (0.3..3.0).contains(share)));
        edge.end();
    }
}
