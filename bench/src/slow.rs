//! A good client beside a thousand slow ones: loadline beside HAProxy, nginx and Envoy.
//!
//! Slow clients send a byte a second: of a head, of a body, or of the first message of TLS; or they
//! ask for 10 MB and take a byte a second. One that is cut comes back at once. The good client
//! sends 1,000 requests per second over kept connections, without them and beside them, in turns.
//! What is judged is by how much its 99th percentile rises, and what the proxy's memory grows by.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use crate::cost;
use crate::fixed_rate::{self, Percentiles, Traffic};
use crate::idle::CERTIFICATE;
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{self, Process, free_ports, tcp_memory};
use crate::run::{Effort, LOAD_CORE, PROXY_CORE, Row, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};
use crate::{caddy, envoy};

pub(crate) const NAME: &str = "slow clients";

/// Be slow towards a port of loopback until the process is ended
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    port: u16,
    way: Way,
    #[arg(long, default_value_t = 1000)]
    clients: usize,
}

/// In what a client is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    Heads,
    Bodies,
    Hellos,
    Reading,
}

impl Way {
    const ALL: [Self; 4] = [Self::Heads, Self::Bodies, Self::Hellos, Self::Reading];

    const fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Bodies => "bodies",
            Self::Hellos => "hellos",
            Self::Reading => "reading",
        }
    }

    /// What a client sends at once, and what it repeats byte by byte.
    const fn words(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Heads => (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"a"),
            Self::Bodies => {
                (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", b"a")
            }
            // A record of 512 bytes with a ClientHello in it.
            Self::Hellos => (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x07"),
            Self::Reading => (b"GET /l HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
        }
    }

    /// How much the proxy's memory may grow by for each, in bytes.
    const fn most(self) -> f64 {
        match self {
            Self::Heads | Self::Bodies => 5_000.0,
            Self::Hellos => 15_000.0,
            Self::Reading => 20_000.0,
        }
    }
}

/// Measures every proxy with every kind of slow client; only loadline is judged.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop, effort: Effort) -> Result<Section> {
    let servers: [u16; 4] = free_ports()?;
    let options = ["--send-buffer", SERVER_BUFFER];
    let _backend = cost::start_backend_with(&options, &servers, &workshop.directory)?;
    let certificate = workshop.directory.join("slow.pem");
    fs::write(&certificate, CERTIFICATE).context("write the certificate")?;
    let mut section = Section::new(NAME);
    let rounds = effort.rounds;
    println!(
        "\n{NAME}: 1000 of them, {}/s of a good one, {rounds} rounds, {} of the others\n\
         {COLUMNS}",
        TRAFFIC.rate,
        rounds.min(PEER_ROUNDS)
    );
    for way in Way::ALL {
        section.compare(way.name(), kinds, |kind| {
            let ports: [u16; 2] = free_ports()?;
            let config = config(kind, ports, servers[0], &certificate);
            let proxy = workshop.start(kind, ports[0], &config, PROXY_CORE)?;
            let rounds = if kind == Kind::Loadline { rounds } else { rounds.min(PEER_ROUNDS) };
            Beside::take(&proxy, ports, way, workshop, rounds)
        })?;
    }
    Ok(section)
}

/// One proxy and one kind of slow clients.
struct Beside {
    kind: Kind,
    way: Way,
    /// Of the good client, without slow ones and beside them, for each round.
    rounds: Vec<[Percentiles; 2]>,
    /// Before, with the slow clients of the last round, and when they have gone, in bytes.
    memory: [u64; 3],
    /// Of the slow clients, how many were connected in the round that had the fewest.
    connected: usize,
    /// The kernel's for TCP, before and with the slow clients of the last round, in bytes.
    tcp: [u64; 2],
}

impl Beside {
    fn take(
        proxy: &Proxy,
        [port, tls]: [u16; 2],
        way: Way,
        workshop: &Workshop,
        rounds: usize,
    ) -> Result<Self> {
        let ask = |seed: u64| fixed_rate::ask(port, TRAFFIC, seed);
        let slow_port = if way == Way::Hellos { tls } else { port };
        // Pools and memory are as they stay.
        ask(0)?;
        let mut row = Self {
            kind: proxy.kind,
            way,
            rounds: Vec::new(),
            connected: usize::MAX,
            memory: [proxy.process.memory()?; 3],
            tcp: [tcp_memory()?; 2],
        };
        for round in 1..=rounds as u64 {
            let alone = ask(round)?;
            let slow = start(slow_port, way, workshop)?;
            thread::sleep(SETTLE);
            let beside = ask(round)?;
            row.rounds.push([alone, beside]);
            row.connected = row.connected.min(process::connected(slow_port)?);
            row.memory[1] = proxy.process.memory()?;
            row.tcp[1] = tcp_memory()?;
            drop(slow);
            thread::sleep(SETTLE);
        }
        row.memory[2] = proxy.process.memory()?;
        Ok(row)
    }

    fn p99(&self, beside: usize) -> f64 {
        Summary::of(self.rounds.iter().map(|round| round[beside].p99)).median
    }

    /// Of the medians: a 99th percentile of four seconds scatters too much to divide by.
    fn rise(&self) -> f64 {
        self.p99(1) / self.p99(0)
    }

    /// Bytes that the memory has grown by for each slow client.
    fn each(&self) -> f64 {
        self.memory[1].saturating_sub(self.memory[0]) as f64 / CLIENTS
    }

    /// The same of the kernel's, on both sides of the proxy.
    fn each_tcp(&self) -> f64 {
        self.tcp[1].saturating_sub(self.tcp[0]) as f64 / CLIENTS
    }

    fn failed(&self) -> u64 {
        self.rounds.iter().flatten().map(|percentiles| percentiles.failed).sum()
    }
}

impl Row for Beside {
    fn judge(&self) -> Vec<Verdict> {
        let name = |what: &str| format!("slow {}: {what}", self.way.name());
        let failed = self.failed();
        let absent = || {
            let few = self.connected < CONNECTED_LEAST;
            few.then(|| format!("only {} slow clients were connected", self.connected))
        };
        let flaw = (failed > 0).then(|| format!("{failed} requests failed")).or_else(absent);
        vec![
            Verdict::new(name("p99 beside them"), self.rise(), Target::AtMost(2.0)).flaw(flaw),
            Verdict::new(name("memory of each"), self.each(), Target::AtMost(self.way.most()))
                .unit(" B")
                .flaw(absent()),
        ]
    }

    fn line(&self) -> String {
        let [before, during, after] = self.memory.map(|bytes| bytes as f64 / 1e6);
        format!(
            "{:9}{:9}{:>10.0}{:>10.0}{:>8.2}{:>8}{:>11.0}{before:>11.1}{during:>8.1}{after:>7.1}\
             {:>12.0}",
            self.kind.name(),
            self.way.name(),
            self.p99(0),
            self.p99(1),
            self.rise(),
            self.failed(),
            self.each(),
            self.each_tcp() / 1e3,
        )
    }

    fn to_json(&self) -> Value {
        let round = |[alone, beside]: &[Percentiles; 2]| json!([alone.to_json(), beside.to_json()]);
        json!({
            "proxy": self.kind.name(),
            "without_and_beside": self.rounds.iter().map(round).collect::<Vec<_>>(),
            "memory_before_during_after": self.memory,
            "connected": self.connected,
            "kernel_tcp_memory_before_during": self.tcp,
        })
    }
}

/// Starts a thousand slow clients, on the core of the load.
fn start(port: u16, way: Way, workshop: &Workshop) -> Result<Process> {
    let program = std::env::current_exe().context("find this program")?.display().to_string();
    let command = [program, "slow".to_owned(), port.to_string(), way.name().to_owned()];
    Process::start(LOAD_CORE, &command, &workshop.directory.join("slow.log"))
}

/// The slow clients, in a process of their own.
pub(crate) fn be_slow(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut clients = JoinSet::new();
        for index in 0..args.clients {
            let pause = BYTE.mul_f64(index as f64 / args.clients as f64);
            clients.spawn_local(come_back(args.port, args.way, pause));
        }
        clients.join_all().await;
    });
    Ok(())
}

async fn come_back(port: u16, way: Way, pause: Duration) {
    sleep(pause).await;
    loop {
        if drip(port, way).await.is_err() {
            sleep(BYTE / 10).await;
        }
    }
}

/// One connection, until it is cut.
async fn drip(port: u16, way: Way) -> Result<()> {
    let mut stream = connect(port).await?;
    let (first, byte) = way.words();
    if matches!(way, Way::Bodies | Way::Reading) {
        stream.write_all(first).await?;
    } else {
        for byte in first {
            sleep(BYTE).await;
            stream.write_all(&[*byte]).await?;
        }
    }
    loop {
        sleep(BYTE).await;
        if way == Way::Reading {
            stream.read_u8().await?;
        } else {
            stream.write_all(byte).await?;
        }
    }
}

/// Whoever reads slowly gives its kernel little room.
async fn connect(port: u16) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_recv_buffer_size(4096)?;
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    Ok(socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?)
}

/// In clear on the first port, with TLS on the second; 10 s for a head, a minute for anything else.
fn config(kind: Kind, [port, tls]: [u16; 2], server: u16, certificate: &Path) -> String {
    let pem = certificate.display();
    match kind {
        Kind::Loadline => format!(
            "[edge]\nthreads = 1\n[[listener]]\nbind = \"127.0.0.1:{port}\"\nservice = \"web\"\n\
             [[listener]]\nbind = \"127.0.0.1:{tls}\"\nservice = \"web\"\nprotocol = \"https\"\n\
             tls = {{ certificates = [\"{pem}\"] }}\n\
             [service.web]\n[[service.web.group]]\nservers = [\"127.0.0.1:{server}\"]\n\
             per_server = {{ max_connections = 9000 }}\n"
        ),
        Kind::HaProxy => format!(
            "global\n    maxconn 9000\n    nbthread 1\n    no strict-limits\n\
             defaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n\
             timeout server 60s\n    timeout http-request 10s\n    http-reuse always\n\
             frontend f\n    bind 127.0.0.1:{port}\n    bind 127.0.0.1:{tls} ssl crt {pem}\n\
             default_backend b\nbackend b\n    server s 127.0.0.1:{server}\n"
        ),
        Kind::Envoy => {
            let limits = json!({
                "request_headers_timeout": "10s",
                "stream_idle_timeout": "60s",
            });
            let listeners = [
                envoy::listener(port, None, &limits),
                envoy::listener(tls, Some(certificate), &limits),
            ];
            envoy::file(&listeners, &[envoy::cluster(&[server], &json!({}))])
        }
        Kind::Caddy => {
            let limits = json!({ "read_header_timeout": "10s", "idle_timeout": "60s" });
            let handler = caddy::proxy(&[server], &json!({}));
            let servers = json!({
                "web": caddy::server(port, false, &handler, &limits),
                "tls": caddy::server(tls, true, &handler, &limits),
            });
            caddy::file(&servers, Some(certificate))
        }
        Kind::Nginx => {
            let dir = certificate.with_file_name("nginx");
            let dir = dir.display();
            format!(
                "worker_processes 1; daemon off; pid {dir}-{port}.pid; error_log /dev/null;\n\
                 worker_rlimit_nofile 20000;\nevents {{ worker_connections 9000; }}\n\
                 http {{ access_log off; client_header_timeout 10s;\n\
                 client_body_temp_path {dir}-body; proxy_temp_path {dir}-proxy;\n\
                 fastcgi_temp_path {dir}-fastcgi; uwsgi_temp_path {dir}-uwsgi;\n\
                 scgi_temp_path {dir}-scgi; keepalive_requests 10000000;\n\
                 upstream b {{ server 127.0.0.1:{server}; keepalive 64; }}\n\
                 server {{ listen 127.0.0.1:{port} backlog=4096;\n\
                 listen 127.0.0.1:{tls} ssl backlog=4096;\n\
                 ssl_certificate {pem}; ssl_certificate_key {pem};\n\
                 location / {{ proxy_pass http://b; proxy_http_version 1.1;\n\
                 proxy_set_header Connection \"\"; proxy_max_temp_file_size 0; }} }} }}\n"
            )
        }
    }
}

const COLUMNS: &str = "         slow in   p99 us: alone beside   ratio  failed  B of each  \
                       MB before  during  after  kernel's kB";

/// Requests per second.
const TRAFFIC: Traffic = Traffic { rate: "1000", requests: "4000", misses: None };
const CLIENTS: f64 = 1000.0;
/// One that was cut is away until it says its next byte.
const CONNECTED_LEAST: usize = 500;
/// Rounds of the proxies that are not judged.
const PEER_ROUNDS: usize = 3;
/// The server is on the same machine, and what its kernel would hold for a thousand slow readers,
/// 1 to 4 GB, is all that the machine has for TCP. So it holds 256 kB (the kernel doubles this).
const SERVER_BUFFER: &str = "128000";
/// Between two bytes of a slow client.
const BYTE: Duration = Duration::from_secs(1);
/// After which all slow clients have said something, and after which the proxy knows that they
/// went.
const SETTLE: Duration = Duration::from_millis(2_500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_clients_that_were_not_there_fail_what_was_measured_beside_them() {
        let quiet = Percentiles { p50: 100.0, p99: 300.0, failed: 0 };
        let (rounds, memory, tcp) = (vec![[quiet; 2]; 3], [1 << 20; 3], [0; 2]);
        let mut row =
            Beside { kind: Kind::Loadline, way: Way::Heads, rounds, connected: 900, memory, tcp };
        assert!(!row.judge().iter().any(Verdict::failed));
        row.connected = 0;
        assert!(row.judge().iter().all(Verdict::failed));
    }
}
