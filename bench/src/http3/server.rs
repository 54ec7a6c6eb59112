//! The servers that are compared, and what each is told: one thread, four servers behind it in
//! turns, connections kept for five minutes.

use std::fs;

use anyhow::{Context as _, Result};

use crate::cost::{Contender, Role};
use crate::idle::CERTIFICATE;
use crate::peers::{Kind, Workshop};
use crate::process::free_ports;
use crate::run::PROXY_CORE;
use crate::{caddy, envoy};

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Loadline,
    Envoy,
    Caddy,
}

impl Server {
    pub(super) const ALL: [Self; 3] = [Self::Loadline, Self::Envoy, Self::Caddy];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loadline => "loadline",
            Self::Envoy => "envoy",
            Self::Caddy => "caddy",
        }
    }

    pub(super) fn is_installed(self, workshop: &Workshop) -> bool {
        let is_there = match self {
            Self::Loadline => true,
            Self::Envoy => workshop.has(Kind::Envoy),
            Self::Caddy => workshop.has(Kind::Caddy),
        };
        if !is_there {
            println!("{} is left out: `scripts/setup bench` could not install it.", self.name());
        }
        is_there
    }

    /// Starts it on the core of the proxies.
    pub(super) fn start(self, workshop: &Workshop, servers: &[u16; 4]) -> Result<Contender> {
        self.start_with("", workshop, servers)
    }

    /// The same; a listener of loadline has these keys as well.
    pub(super) fn start_with(
        self,
        keys: &str,
        workshop: &Workshop,
        servers: &[u16; 4],
    ) -> Result<Contender> {
        let [port] = free_ports()?;
        let certificate = workshop.directory.join("http3.pem");
        fs::write(&certificate, CERTIFICATE).context("write the certificate")?;
        let process = match self {
            Self::Loadline => {
                let config = loadline(port, servers, (&certificate.display().to_string(), keys));
                workshop.start(Kind::Loadline, port, &config, PROXY_CORE)?.process
            }
            Self::Envoy => {
                let config = envoy::http3(port, servers, &certificate);
                workshop.start(Kind::Envoy, port, &config, PROXY_CORE)?.process
            }
            Self::Caddy => {
                let versions = ["h1", "h2", "h3"];
                let config = caddy::simple(port, servers, Some(&certificate), &versions);
                workshop.start(Kind::Caddy, port, &config, PROXY_CORE)?.process
            }
        };
        let role = if self == Self::Loadline { Role::Judged } else { Role::Peer };
        Ok(Contender::new(self.name(), role, port, process))
    }
}

/// Metrics are on, as in production.
fn loadline(port: u16, servers: &[u16; 4], (certificate, keys): (&str, &str)) -> String {
    let servers = servers.map(|server| format!("\"127.0.0.1:{server}\"")).join(", ");
    format!(
        r#"[edge]
threads = 1

[[listener]]
bind = "127.0.0.1:{port}"
protocol = "https"
tls = {{ certificates = ["{certificate}"], resumption = false }}
max_connections = {MOST}
timeouts = {{ idle = "300s", keep_alive = "300s" }}
service = "web"
{keys}

[service.web]
policy = "round-robin"

[[service.web.group]]
servers = [{servers}]
"#
    )
}

/// Connections, more than any case opens.
const MOST: usize = 20_000;
