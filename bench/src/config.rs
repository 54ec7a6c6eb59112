//! What each proxy is told: a round robin over servers on loopback that keeps connections on both
//! sides, which each does best, with what a case asks for besides.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::peers::Kind;
use crate::process;
use crate::{caddy, envoy};

/// What a case asks of every proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// As the proxy is unless told. A peer reads a response in pieces of 16 kB (HAProxy) or 4 kB
    /// (nginx); Envoy as much as comes.
    Usual,
    /// Peers read 64 kB at a time for every connection that carries something, which the memory
    /// must allow. loadline decides that by itself.
    LargeBuffers,
    /// HAProxy moves bodies inside the kernel, as loadline does by itself; the others cannot.
    Splice,
    /// TLS towards clients, with one certificate (ECDSA P-256) for all. No session is resumed:
    /// wrk would, and a handshake would cost half.
    Tls,
    /// The same with HTTP/2 as the protocol that clients prefer. Servers speak HTTP/1.1.
    Http2,
    /// A line for every request in a log file.
    AccessLog,
}

/// Where the servers are and where the proxy listens.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) port: u16,
    pub(crate) servers: &'a [u16],
    /// For process ids, temporary files and logs.
    pub(crate) directory: &'a Path,
}

impl Setup {
    pub(crate) const ALL: [Self; 6] =
        [Self::Usual, Self::LargeBuffers, Self::Splice, Self::Tls, Self::Http2, Self::AccessLog];

    pub(crate) fn scheme(self) -> &'static str {
        if self.is_secure() { "https" } else { "http" }
    }

    fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Http2)
    }

    /// The file that makes a proxy do so.
    pub(crate) fn config(self, kind: Kind, place: &Place<'_>) -> Result<String> {
        Ok(match kind {
            Kind::Loadline => loadline(self, place, &self.certificate(place)?),
            Kind::HaProxy => haproxy(self, place, &self.certificate(place)?),
            Kind::Nginx => nginx(self, place, &self.certificate(place)?),
            Kind::Envoy => {
                let certificate = self.certificate(place)?;
                match self {
                    Self::Http2 => envoy::http2(place.port, place.servers, &certificate),
                    Self::Tls => envoy::simple(place.port, place.servers, Some(&certificate)),
                    _ => envoy::simple(place.port, place.servers, None),
                }
            }
            Kind::Caddy => {
                let certificate = self.certificate(place)?;
                let certificate = self.is_secure().then_some(&*certificate);
                let versions: &[&str] = if self == Self::Http2 { &["h1", "h2"] } else { &["h1"] };
                caddy::simple(place.port, place.servers, certificate, versions)
            }
        })
    }

    fn certificate(self, place: &Place<'_>) -> Result<PathBuf> {
        let path = place.directory.join("certificate.pem");
        if self.is_secure() {
            fs::write(&path, CERTIFICATE).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(path)
    }
}

/// Metrics are on, as in production.
fn loadline(setup: Setup, place: &Place<'_>, certificate: &Path) -> String {
    let (port, directory) = (place.port, place.directory.display());
    let log = match setup {
        Setup::AccessLog => format!("access_log = \"{directory}/access-{port}.log\""),
        _ => String::new(),
    };
    let tls = match setup {
        Setup::Tls | Setup::Http2 => format!(
            "protocol = \"https\"\ntls = {{ certificates = [{:?}], resumption = false }}",
            certificate.display().to_string()
        ),
        _ => String::new(),
    };
    let servers = list(place.servers, ", ", |server| format!("\"127.0.0.1:{server}\""));
    format!(
        r#"[edge]
threads = 1
{log}

[admin]
bind = "{directory}/admin-{port}.sock"

[[listener]]
bind = "127.0.0.1:{port}"
service = "web"
{tls}

[service.web]
policy = "round-robin"

[[service.web.group]]
servers = [{servers}]
"#
    )
}

/// It closes idle server connections when descriptors are a quarter used, so it gets the most that
/// the machine allows; one that it cannot have makes it exit.
fn haproxy(setup: Setup, place: &Place<'_>, certificate: &Path) -> String {
    let tuning = if setup == Setup::LargeBuffers { "tune.bufsize 65536" } else { "" };
    let splice = if setup == Setup::Splice { "option splice-response" } else { "" };
    let tls = match setup {
        Setup::Tls => format!(" ssl crt {}", certificate.display()),
        Setup::Http2 => format!(" ssl crt {} alpn h2", certificate.display()),
        _ => String::new(),
    };
    // It counts a pipe for every fourth connection that may be spliced.
    let each = if setup == Setup::Splice { 3 } else { 2 };
    let descriptors = process::descriptor_limit();
    let connections = (descriptors.saturating_sub(200) / each).min(9000);
    let tickets = match setup {
        Setup::Tls | Setup::Http2 => {
            "tune.ssl.cachesize 0\n    ssl-default-bind-options no-tls-tickets"
        }
        _ => "",
    };
    let servers = list(place.servers, "\n    ", |server| {
        format!("server s{server} 127.0.0.1:{server} pool-max-conn 2000")
    });
    let port = place.port;
    format!(
        r"global
    maxconn {connections}
    nbthread 1
    {tuning}
    {tickets}
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    option http-keep-alive
    option forwardfor
    http-reuse always
    {splice}
frontend f
    bind 127.0.0.1:{port}{tls}
    default_backend b
backend b
    balance roundrobin
    {servers}
"
    )
}

fn nginx(setup: Setup, place: &Place<'_>, certificate: &Path) -> String {
    let tuning = match setup {
        Setup::LargeBuffers | Setup::Splice => {
            "proxy_buffer_size 64k; proxy_buffers 4 64k; proxy_busy_buffers_size 128k;"
        }
        _ => "",
    };
    let (listen, tls) = match setup {
        Setup::Tls | Setup::Http2 => {
            let file = certificate.display();
            let tls = format!(
                "ssl_certificate {file}; ssl_certificate_key {file}; \
                 ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off; ssl_session_cache off;"
            );
            (if setup == Setup::Http2 { " ssl http2" } else { " ssl" }, tls)
        }
        _ => ("", String::new()),
    };
    let servers = list(place.servers, " ", |server| format!("server 127.0.0.1:{server};"));
    let (port, dir) = (place.port, place.directory.display());
    format!(
        r#"worker_processes 1;
daemon off;
pid {dir}/nginx-{port}.pid;
error_log {dir}/nginx.err crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 10000000;
    client_body_temp_path {dir}/nginx-body;
    proxy_temp_path {dir}/nginx-proxy;
    fastcgi_temp_path {dir}/nginx-fastcgi;
    uwsgi_temp_path {dir}/nginx-uwsgi;
    scgi_temp_path {dir}/nginx-scgi;
    upstream b {{ {servers} keepalive 1024; keepalive_requests 10000000; }}
    server {{
        listen 127.0.0.1:{port}{listen} backlog=4096;
        {tls}
        location / {{
            proxy_pass http://b;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_max_temp_file_size 0;
            {tuning}
        }}
    }}
}}
"#
    )
}

fn list(ports: &[u16], separator: &str, line: impl Fn(&u16) -> String) -> String {
    ports.iter().map(line).collect::<Vec<_>>().join(separator)
}

/// Certificate and key in one file, which all of them read.
const CERTIFICATE: &str = include_str!("../../examples/tls/localhost.pem");
