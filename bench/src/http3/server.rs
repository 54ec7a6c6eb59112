//! The servers that are compared, and what each is told: one thread, four servers behind it in
//! turns, connections kept for five minutes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::cost::{Contender, Role};
use crate::envoy;
use crate::idle::CERTIFICATE;
use crate::peers::{Kind, Workshop};
use crate::process::{Process, free_ports};
use crate::run::PROXY_CORE;

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
            Self::Envoy => workshop.envoy.exists(),
            Self::Caddy => caddy(workshop).exists(),
        };
        if !is_there {
            println!("{} is left out: `scripts/setup bench` could not install it.", self.name());
        }
        is_there
    }

    /// Starts it on the core of the proxies.
    pub(super) fn start(self, workshop: &Workshop, servers: &[u16; 4]) -> Result<Contender> {
        let [port] = free_ports()?;
        let certificate = workshop.directory.join("http3.pem");
        fs::write(&certificate, CERTIFICATE).context("write the certificate")?;
        let process = match self {
            Self::Loadline => {
                let config = loadline(port, servers, &certificate.display().to_string());
                workshop.start(Kind::Loadline, port, &config, PROXY_CORE)?.process
            }
            Self::Envoy => {
                let config = envoy::http3(port, servers, &certificate);
                workshop.start(Kind::Envoy, port, &config, PROXY_CORE)?.process
            }
            Self::Caddy => {
                start_caddy(workshop, port, servers, &certificate.display().to_string())?
            }
        };
        let role = if self == Self::Loadline { Role::Judged } else { Role::Peer };
        Ok(Contender::new(self.name(), role, port, process))
    }
}

/// Metrics are on, as in production.
fn loadline(port: u16, servers: &[u16; 4], certificate: &str) -> String {
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

[service.web]
policy = "round-robin"

[[service.web.group]]
servers = [{servers}]
"#
    )
}

/// Where `scripts/setup bench` puts it.
fn caddy(workshop: &Workshop) -> PathBuf {
    workshop.envoy.with_file_name("caddy")
}

fn start_caddy(
    workshop: &Workshop,
    port: u16,
    servers: &[u16; 4],
    certificate: &str,
) -> Result<Process> {
    let upstreams = servers.map(|server| json!({ "dial": format!("127.0.0.1:{server}") }));
    let proxy = json!({
        "handler": "reverse_proxy",
        "upstreams": upstreams,
        "load_balancing": { "selection_policy": { "policy": "round_robin" } },
        "transport": {
            "protocol": "http",
            "keep_alive": { "max_idle_conns_per_host": 1024 },
        },
    });
    let files = json!([{ "certificate": certificate, "key": certificate }]);
    let tls = json!({
        "certificates": { "load_files": files },
        "session_tickets": { "disabled": true },
    });
    let web = json!({
        "listen": [format!("127.0.0.1:{port}")],
        "idle_timeout": "300s",
        "protocols": ["h1", "h2", "h3"],
        "automatic_https": { "disable": true },
        "tls_connection_policies": [{}],
        "routes": [{ "handle": [proxy] }],
    });
    let config = json!({
        "admin": { "disabled": true },
        "logging": { "logs": { "default": { "level": "ERROR" } } },
        "apps": { "tls": tls, "http": { "servers": { "web": web } } },
    });
    let file = workshop.directory.join(format!("caddy-{port}.json"));
    fs::write(&file, config.to_string()).with_context(|| format!("write {}", file.display()))?;
    let program = caddy(workshop).display().to_string();
    let command = [program.as_str(), "run", "--config", &file.display().to_string()];
    let log = file.with_extension("log");
    let mut process = Process::start(PROXY_CORE, &command.map(str::to_owned), &log)?;
    process.wait_for(port).with_context(|| {
        let said = fs::read_to_string(&log).unwrap_or_default();
        format!("caddy with {} said: {said}", file.display())
    })?;
    Ok(process)
}

/// Connections, more than any case opens.
const MOST: usize = 20_000;
