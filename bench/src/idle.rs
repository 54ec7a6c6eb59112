//! What a connection that waits costs in memory: loadline beside HAProxy, nginx and Envoy.
//!
//! Connections are opened sixteen at a time, ask once, and then wait. What is judged is by how
//! much the proxy's memory (the proportional set size of it and its children) grows for each, from
//! a state in which a hundred connections have warmed it up. The kernel's share, 4 to 5 kB for each
//! end of a connection, is the same for all and not in it. Afterwards all but the hundred are
//! closed, and what the process then keeps is judged as well, in bytes for each that was closed.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::cost;
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{self, free_ports};
use crate::run::{PROXY_CORE, Section};
use crate::verdict::{Target, Verdict};
use crate::{caddy, envoy};

pub(crate) const NAME: &str = "idle";

/// How clients speak, how many there are, and what each may cost.
struct Case {
    name: &'static str,
    tls: bool,
    connections: usize,
    /// Bytes for each.
    target: f64,
    /// Of which so many may be left when it is closed.
    kept: f64,
}

const CASES: [Case; 2] = [
    Case { name: "idle, plain", tls: false, connections: 8_000, target: 1_000.0, kept: 400.0 },
    Case { name: "idle, TLS 1.3", tls: true, connections: 2_000, target: 12_000.0, kept: 4_000.0 },
];

/// Measures every proxy, one after another; only loadline is judged.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop) -> Result<Section> {
    let servers: [u16; 4] = free_ports()?;
    let _backend = cost::start_backend(&servers, &workshop.directory)?;
    let certificate = workshop.directory.join("idle.pem");
    fs::write(&certificate, CERTIFICATE).context("write the certificate")?;
    let mut section = Section::new(NAME);
    for case in CASES {
        println!("\n{}: {} connections\n{COLUMNS}", case.name, case.connections);
        let mut rows = Vec::new();
        for &kind in kinds {
            let [port] = free_ports()?;
            let config = config(kind, port, servers[0], case.tls.then_some(&*certificate));
            let proxy = workshop.start(kind, port, &config, PROXY_CORE)?;
            rows.push((kind, growth(&proxy, &case)?));
        }
        if let Some((_, ours)) = rows.iter().find(|(kind, _)| *kind == Kind::Loadline) {
            ours.judge(&case).into_iter().for_each(|verdict| section.judge(verdict));
        }
        section.record(case.name, rows.iter().map(|(kind, it)| it.to_json(*kind)).collect());
    }
    Ok(section)
}

/// The memory of a proxy in bytes, and the connections that clients have with it.
struct Growth {
    /// With a hundred connections.
    before: u64,
    /// With all of them.
    during: u64,
    /// With a hundred again.
    after: u64,
    connected: usize,
    connected_after: usize,
}

impl Growth {
    fn each(&self, case: &Case) -> f64 {
        self.during.saturating_sub(self.before) as f64 / case.connections as f64
    }

    /// Bytes that are still there afterwards, for each connection that was closed.
    fn kept(&self, case: &Case) -> f64 {
        self.after.saturating_sub(self.before) as f64 / case.connections as f64
    }

    /// Memory that did not grow tells nothing, nor do connections that were not there or stayed.
    fn judge(&self, case: &Case) -> [Verdict; 2] {
        let wanted = case.connections + WARM;
        let few = self.connected < wanted || self.during <= self.before;
        let few = few.then(|| format!("{} of {wanted} connections were there", self.connected));
        let left = (self.connected_after > WARM)
            .then(|| format!("{} connections are left of {WARM}", self.connected_after));
        let name = format!("{}, kept of each when closed", case.name);
        let kept = Verdict::new(name, self.kept(case), Target::AtMost(case.kept)).unit(" B");
        let each = Verdict::new(case.name, self.each(case), Target::AtMost(case.target)).unit(" B");
        [each.flaw(few.clone()), kept.flaw(few.or(left))]
    }

    fn to_json(&self, kind: Kind) -> Value {
        let Self { before, during, after, connected, connected_after } = self;
        json!({
            "proxy": kind.name(),
            "before": before,
            "during": during,
            "after": after,
            "connected": connected,
            "connected_after": connected_after,
        })
    }
}

fn growth(proxy: &Proxy, case: &Case) -> Result<Growth> {
    let warm = open(proxy.port, WARM, case.tls)?;
    thread::sleep(REST);
    let before = proxy.process.memory()?;
    let idle = open(proxy.port, case.connections, case.tls)?;
    thread::sleep(REST);
    let (during, connected) = (proxy.process.memory()?, process::connected(proxy.port)?);
    drop(idle);
    thread::sleep(SETTLE);
    let (after, connected_after) = (proxy.process.memory()?, process::connected(proxy.port)?);
    drop(warm);
    let growth = Growth { before, during, after, connected, connected_after };
    println!(
        "{:9}{:>14.0}{:>14.0}{:>12.1}{:>12.1}{:>12.1}",
        proxy.kind.name(),
        growth.each(case),
        growth.kept(case),
        megabytes(before),
        megabytes(during),
        megabytes(after),
    );
    Ok(growth)
}

/// Opens connections, each of which asks once and stays.
fn open(port: u16, count: usize, tls: bool) -> Result<Vec<TcpStream>> {
    let config = tls.then(client_config).transpose()?;
    let one = || -> Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let Some(config) = &config else {
            ask(&mut &stream)?;
            return Ok(stream);
        };
        let name = ServerName::try_from("localhost")?;
        let connection = ClientConnection::new(config.clone(), name)?;
        let mut secure = StreamOwned::new(connection, stream);
        ask(&mut secure)?;
        Ok(secure.into_parts().1)
    };
    thread::scope(|scope| {
        let share = |index: usize| count / AT_A_TIME + usize::from(index < count % AT_A_TIME);
        let threads: Vec<_> = (0..AT_A_TIME)
            .map(|index| scope.spawn(move || (0..share(index)).map(|_| one()).collect()))
            .collect();
        let mut opened = Vec::with_capacity(count);
        for thread in threads {
            let part: Result<Vec<TcpStream>> = thread.join().expect("a client does not panic");
            opened.extend(part.context("open an idle connection")?);
        }
        Ok(opened)
    })
}

/// One request and its response.
fn ask(stream: &mut (impl Read + Write)) -> Result<()> {
    stream.write_all(b"GET /s HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let count = stream.read(&mut piece)?;
        ensure!(count > 0, "closed after {}", answer.escape_ascii());
        answer.extend_from_slice(&piece[..count]);
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        if end.is_some_and(|end| answer.len() >= end + 4 + BODY) {
            ensure!(answer.starts_with(b"HTTP/1.1 200 "), "{}", answer.escape_ascii());
            return Ok(());
        }
    }
}

fn client_config() -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// One thread, one server, and no timeout before the measurement ends.
fn config(kind: Kind, port: u16, server: u16, certificate: Option<&Path>) -> String {
    let certificate = certificate.map(|path| path.display().to_string());
    match kind {
        Kind::Loadline => {
            let tls = certificate.map_or_else(String::new, |path| {
                format!("protocol = \"https\"\ntls = {{ certificates = [\"{path}\"] }}\n")
            });
            format!(
                "[edge]\nthreads = 1\n[[listener]]\nbind = \"127.0.0.1:{port}\"\n\
                 service = \"web\"\nmax_connections = {MOST}\n\
                 timeouts = {{ head = \"300s\", idle = \"300s\", keep_alive = \"300s\" }}\n{tls}\
                 [service.web]\n[[service.web.group]]\nservers = [\"127.0.0.1:{server}\"]\n"
            )
        }
        Kind::HaProxy => {
            let tls = certificate.map_or_else(String::new, |path| format!(" ssl crt {path}"));
            format!(
                "global\n    maxconn {MOST}\n    nbthread 1\n    no strict-limits\n\
                 defaults\n    mode http\n    timeout connect 5s\n    timeout client 300s\n\
                 timeout server 300s\n    timeout http-keep-alive 300s\n\
                 frontend f\n    bind 127.0.0.1:{port}{tls}\n    default_backend b\n\
                 backend b\n    server s 127.0.0.1:{server}\n"
            )
        }
        Kind::Envoy => {
            let pem = certificate.as_deref().map(Path::new);
            let manager = json!({ "common_http_protocol_options": { "idle_timeout": "300s" } });
            let listener = envoy::listener(port, pem, &manager);
            envoy::file(&[listener], &[envoy::cluster(&[server], &json!({}))])
        }
        Kind::Caddy => {
            let pem = certificate.as_deref().map(Path::new);
            caddy::simple(port, &[server], pem, &["h1"])
        }
        Kind::Nginx => {
            let (ssl, files) = certificate.map_or_else(Default::default, |path| {
                (
                    " ssl",
                    format!(
                        "ssl_protocols TLSv1.3; ssl_certificate {path}; ssl_certificate_key {path};"
                    ),
                )
            });
            format!(
                "worker_processes 1; daemon off; pid nginx-{port}.pid; error_log /dev/null;\n\
                 worker_rlimit_nofile 20000;\nevents {{ worker_connections {MOST}; }}\n\
                 http {{ access_log off; keepalive_timeout 300s;\n\
                 client_body_temp_path body-{port}; proxy_temp_path proxy-{port};\n\
                 fastcgi_temp_path fastcgi-{port}; uwsgi_temp_path uwsgi-{port};\n\
                 scgi_temp_path scgi-{port};\n\
                 server {{ listen 127.0.0.1:{port}{ssl} backlog=4096; {files}\n\
                 location / {{ proxy_pass http://127.0.0.1:{server}; }} }} }}\n"
            )
        }
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

const COLUMNS: &str = "           B/connection   kept of each   MB before      during      closed";

/// For `localhost`, ECDSA P-256: the one the examples use.
pub(crate) const CERTIFICATE: &str = include_str!("../../examples/tls/localhost.pem");

/// Connections that are there before the measurement begins.
const WARM: usize = 100;
const AT_A_TIME: usize = 16;

/// More than any case opens.
const MOST: usize = 9_500;

/// Of a response to `/s`.
const BODY: usize = 100;

/// After which a proxy has done what it does when connections come.
const REST: Duration = Duration::from_secs(2);

/// After which it has done what it does when they go. jemalloc gives memory back that nobody has
/// used for 10 s, and looks every 12 s or so: in between, what is kept is a matter of chance.
const SETTLE: Duration = Duration::from_secs(25);

const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &Case = &CASES[0];

    fn growth(each: u64, kept: u64) -> Growth {
        let before = 10 << 20;
        Growth {
            before,
            during: before + each * 8_000,
            after: before + kept * 8_000,
            connected: 8_100,
            connected_after: 100,
        }
    }

    #[test]
    fn what_is_kept_is_judged_in_bytes_of_a_connection_and_not_by_what_it_took() {
        let said: Vec<String> = growth(500, 390).judge(PLAIN).map(|it| it.to_string()).into();
        let expected = [
            "PASS idle, plain 500 B (<= 1000 B)",
            "PASS idle, plain, kept of each when closed 390 B (<= 400 B)",
        ];
        assert_eq!(said, expected);
        assert!(growth(900, 410).judge(PLAIN)[1].failed());
    }

    #[test]
    fn connections_that_were_not_there_or_did_not_go_fail() {
        let gone = Growth { connected: 100, ..growth(500, 0) };
        assert!(gone.judge(PLAIN).iter().all(Verdict::failed));
        assert!(growth(0, 0).judge(PLAIN).iter().all(Verdict::failed));
        let stayed = Growth { connected_after: 101, ..growth(500, 0) };
        assert!(!stayed.judge(PLAIN)[0].failed() && stayed.judge(PLAIN)[1].failed());
    }
}
