//! Health checks take the link of the packets: to the service address at a server.

use std::net::SocketAddr;

use serde_json::Value;

use crate::{
    bridge::at,
    edge::Edge,
    network::{IPIP, MAC, Network, listed, listener},
};

/// A service for each way to a service address at a server.
const SERVICES: [(&str, &str, u16, bool); 4] = [
    ("mac4", "mac", MAC, false),
    ("mac6", "mac", MAC, true),
    ("ipip4", "ipip", IPIP, false),
    ("ipip6", "ipip", IPIP, true),
];

/// Each checked by a request.
fn file() -> String {
    let mut text = "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\n".to_owned();
    for (name, method, part, v6) in SERVICES {
        text += &listener(SocketAddr::new(at(0, part, v6), 80), "tcp", method, name);
        text += &format!(
            "[service.{name}]\n\
             health = {{ http = \"/\", interval = \"200ms\", timeout = \"150ms\" }}\n\
             [[service.{name}.group]]\nservers = [{}]\n",
            listed(&[1, 2], v6)
        );
    }
    text
}

/// The conditions of both servers of a service.
fn conditions<'a>(state: &'a Value, service: &str) -> Vec<&'a str> {
    let services = state["services"].as_array().unwrap();
    let service = services.iter().find(|one| one["name"] == service).unwrap();
    let servers = service["groups"][0]["servers"].as_array().unwrap();
    servers.iter().map(|server| server["condition"].as_str().unwrap()).collect()
}

#[test]
fn a_server_without_the_service_address_is_down_for_that_service_alone() {
    let Some(network) = Network::new(2) else { return };
    let edge = Edge::start(&network, &file());
    let all_are_up =
        |state: &Value| SERVICES.iter().all(|(name, ..)| conditions(state, name) == ["up", "up"]);
    edge.until(all_are_up);
    for (name, _, part, v6) in SERVICES {
        let address = at(0, part, v6);
        let place = format!("{address}/{} dev lo", if v6 { 128 } else { 32 });
        network.servers[1].run(&format!("ip address del {place}"));
        edge.until(|state| conditions(state, name) == ["up", "down"]);
        let state = edge.state();
        let others = SERVICES.iter().map(|(other, ..)| other).filter(|other| **other != name);
        for other in others {
            assert_eq!(conditions(&state, other), ["up", "up"], "{other} without {address}");
        }
        let url = format!("http://{}/", SocketAddr::new(address, 80));
        assert!((0..10).all(|_| network.curl(&url) == "1\n"), "{name}");
        network.servers[1].run(&format!("ip address add {place} nodad"));
        edge.until(all_are_up);
    }
    edge.end();
}

#[test]
fn a_server_that_lacks_one_of_several_service_addresses_is_down() {
    let Some(network) = Network::new(2) else { return };
    let mut text = "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\n".to_owned();
    for (_, method, part, v6) in SERVICES {
        text += &listener(SocketAddr::new(at(0, part, v6), 80), "tcp", method, "web");
    }
    text += &format!(
        "[service.web]\nhealth = {{ tcp = true, interval = \"200ms\", timeout = \"150ms\" }}\n\
         [[service.web.group]]\nservers = [{}, {}]\n",
        listed(&[1, 2], false),
        listed(&[1, 2], true)
    );
    let edge = Edge::start(&network, &text);
    let all_are_up = |state: &Value| conditions(state, "web") == ["up"; 4];
    edge.until(all_are_up);
    for (_, _, part, v6) in SERVICES {
        let place = format!("{}/{} dev lo", at(0, part, v6), if v6 { 128 } else { 32 });
        network.servers[1].run(&format!("ip address del {place}"));
        let expected = match v6 {
            false => ["up", "down", "up", "up"],
            true => ["up", "up", "up", "down"],
        };
        edge.until(|state| conditions(state, "web") == expected);
        network.servers[1].run(&format!("ip address add {place} nodad"));
        edge.until(all_are_up);
    }
    edge.end();
}
