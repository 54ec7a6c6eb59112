//! HTTP/3 behind packet forwarding: three edges, each with its number in the ids of its
//! connections, and a client (quic-go) that goes on from another port in mid-download.

use std::{fs, net::SocketAddr, path::Path, path::PathBuf};

use crate::{
    METHODS,
    bridge::at,
    edge::Edge,
    installed::installed,
    network::{Network, listener},
    skipped::skipped,
};

const PORT: u16 = 443;
const SERVERS: u16 = 3;

/// Bytes of a download: many round trips after the change.
const BYTES: usize = 3_000_000;

/// Of each method in each family. From another port two of three downloads would meet another
/// server.
const DOWNLOADS: usize = 6;

/// An edge on a server, before the HTTP server that is there.
fn edge(number: u16, certificate: &Path) -> String {
    let mut text = format!("[edge]\nquic_server_id = {}\nthreads = 1\n", 1_000 + number);
    for bind in ["0.0.0.0", "[::]"] {
        text += &format!(
            "[[listener]]\nbind = \"{bind}:{PORT}\"\nprotocol = \"https\"\n\
             tls = {{ certificates = [{certificate:?}] }}\nservice = \"web\"\n"
        );
    }
    text + "[[service.web.group]]\nservers = [\"127.0.0.1:80\"]\n"
}

/// The balancer: a service for each method and family.
fn balancer() -> String {
    let mut text = "[l4]\ninterface = \"eth0\"\nxdp_mode = \"generic\"\n\
                    return_addresses = [\"10.0.0.9\", \"fd00::9\"]\n"
        .to_owned();
    for v6 in [false, true] {
        let name = if v6 { "six" } else { "four" };
        for (method, part) in METHODS {
            text += &listener(SocketAddr::new(at(0, part, v6), PORT), "udp", method, name);
        }
        let server = |number: u16| {
            let address = SocketAddr::new(at(1, number, v6), PORT);
            format!("{{ address = \"{address}\", quic_server_id = {} }}", 1_000 + number)
        };
        let servers: Vec<String> = (1..=SERVERS).map(server).collect();
        let servers = servers.join(", ");
        text += &format!("[service.{name}]\n[[service.{name}.group]]\nservers = [{servers}]\n");
    }
    text
}

fn certificate(directory: &Path) -> PathBuf {
    let path = directory.join("own.pem");
    let own = rcgen::generate_simple_self_signed(["edge.test".to_owned()]).unwrap();
    fs::write(&path, own.cert.pem() + &own.signing_key.serialize_pem()).unwrap();
    path
}

#[test]
fn a_download_goes_on_from_another_port_of_the_client_through_each_method() {
    let Some(client) = installed("quic-go-client") else { return skipped("quic-go") };
    let Some(network) = Network::new(SERVERS) else { return };
    let directory = tempfile::tempdir().unwrap();
    let certificate = certificate(directory.path());
    let start = |(host, number)| Edge::start_on(host, &edge(number, &certificate));
    let edges: Vec<Edge> = network.servers.iter().zip(1..).map(start).collect();
    let balancer = Edge::start(&network, &balancer());
    for ((method, part), v6) in METHODS.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let url = format!("https://{}", SocketAddr::new(at(0, part, v6), PORT));
        for _ in 0..DOWNLOADS {
            let mut download = network.client.command(client.to_str().unwrap());
            let output = download.args(["migrate", &url, &BYTES.to_string()]).output().unwrap();
            let (told, error) = (output.stdout, String::from_utf8_lossy(&output.stderr));
            let told = String::from_utf8(told).unwrap();
            assert_eq!(told, format!("200 {BYTES}\n"), "{method} at {url}: {error}");
        }
    }
    for edge in edges {
        let log = edge.end();
        assert!(!log.contains("panicked"), "{log}");
    }
    balancer.end();
}
