//! The proxies that are compared: a configuration each, and the command that runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::process::{self, Process};

/// A kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Loadline,
    HaProxy,
    Nginx,
}

/// A proxy that runs.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    pub(crate) process: Process,
}

/// How much of an answer a peer reads at a time. loadline decides that by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffers {
    /// As the peer has it unless told: 16 kB in HAProxy, 4 kB in nginx.
    Usual,
    /// 64 kB for every connection that carries something, which the memory must allow.
    Large,
}

/// Where configurations and logs are written, and which binary is measured.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) directory: PathBuf,
    pub(crate) loadline: PathBuf,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loadline => "loadline",
            Self::HaProxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// What the program says about its version, in one line.
    pub(crate) fn version(self, workshop: &Workshop) -> String {
        let (program, flag) = match self {
            Self::Loadline => (workshop.loadline.as_path(), "--version"),
            Self::HaProxy => (Path::new("haproxy"), "-v"),
            Self::Nginx => (Path::new("nginx"), "-v"),
        };
        let Ok(output) = Command::new(program).arg(flag).output() else {
            return format!("{}: not found", program.display());
        };
        // nginx tells its version on the standard error.
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
    }
}

impl Workshop {
    /// Writes the configuration and starts the proxy with one thread on the given core.
    pub(crate) fn start(&self, kind: Kind, port: u16, config: &str, core: usize) -> Result<Proxy> {
        let path = self.directory.join(format!("{}-{port}.conf", kind.name()));
        let config = if kind == Kind::HaProxy { tune(config, &path)? } else { config.to_owned() };
        fs::write(&path, config).with_context(|| format!("write {}", path.display()))?;
        let file = path.display().to_string();
        let command = match kind {
            Kind::Loadline => {
                vec![self.loadline.display().to_string(), "serve".to_owned(), file.clone()]
            }
            Kind::HaProxy => ["haproxy", "-db", "-f", &file].map(str::to_owned).to_vec(),
            Kind::Nginx => ["nginx", "-c", &file].map(str::to_owned).to_vec(),
        };
        let log = path.with_extension("log");
        let mut process = Process::start(core, &command, &log)?;
        process.wait_for(port).with_context(|| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            format!("{} with {file} said: {said}", kind.name())
        })?;
        Ok(Proxy { kind, port, process })
    }

    /// A round robin over servers on loopback, keeping connections on both sides: what each proxy
    /// does best.
    pub(crate) fn plain_config(
        &self,
        kind: Kind,
        port: u16,
        servers: &[u16],
        buffers: Buffers,
    ) -> String {
        match kind {
            Kind::Loadline => plain_loadline(port, servers),
            Kind::HaProxy => plain_haproxy(port, servers, buffers),
            Kind::Nginx => plain_nginx(port, servers, buffers, &self.directory),
        }
    }
}

/// HAProxy 3 keeps more of its memory in the cache of the thread when told to; older ones do not
/// know the setting and refuse it.
fn tune(config: &str, path: &Path) -> Result<String> {
    let tuned = config.replacen("global\n", "global\n    tune.memory.hot-size 33554432\n", 1);
    let trial = path.with_extension("trial");
    fs::write(&trial, &tuned).with_context(|| format!("write {}", trial.display()))?;
    let status = Command::new("haproxy")
        .args(["-c", "-f"])
        .arg(&trial)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("start haproxy")?;
    Ok(if status.success() { tuned } else { config.to_owned() })
}

fn plain_loadline(port: u16, servers: &[u16]) -> String {
    let servers = list(servers, ", ", |server| format!("\"127.0.0.1:{server}\""));
    format!(
        r#"[edge]
threads = 1

[[listener]]
bind = "127.0.0.1:{port}"
service = "web"

[service.web]
policy = "round-robin"

[[service.web.group]]
servers = [{servers}]
"#
    )
}

/// It closes idle server connections when descriptors are a quarter used, so it gets the most that
/// the machine allows; one that it cannot have makes it exit.
fn plain_haproxy(port: u16, servers: &[u16], buffers: Buffers) -> String {
    let tuning = match buffers {
        Buffers::Usual => "",
        Buffers::Large => "tune.bufsize 65536",
    };
    let descriptors = process::descriptor_limit();
    let connections = (descriptors.saturating_sub(200) / 2).min(9000);
    let servers = list(servers, "\n    ", |server| {
        format!("server s{server} 127.0.0.1:{server} pool-max-conn 2000")
    });
    format!(
        r"global
    maxconn {connections}
    nbthread 1
    {tuning}
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    option http-keep-alive
    option forwardfor
    http-reuse always
frontend f
    bind 127.0.0.1:{port}
    default_backend b
backend b
    balance roundrobin
    {servers}
"
    )
}

fn plain_nginx(port: u16, servers: &[u16], buffers: Buffers, directory: &Path) -> String {
    let tuning = match buffers {
        Buffers::Usual => "",
        Buffers::Large => {
            "proxy_buffer_size 64k; proxy_buffers 4 64k; proxy_busy_buffers_size 128k;"
        }
    };
    let servers = list(servers, " ", |server| format!("server 127.0.0.1:{server};"));
    let dir = directory.display();
    format!(
        r#"worker_processes 1;
daemon off;
pid {dir}/nginx.pid;
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
        listen 127.0.0.1:{port} backlog=4096;
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
