//! First packets of QUIC from addresses that never answer, beside clients that are there.
//!
//! A client of HTTPS and one of HTTP/3 send requests at a rate, over connections that they have
//! when the flood begins, half a second later. Rounds take turns: without a flood, with one, and
//! with the same flood at a socket that nobody reads, which shows what the clients bear for its
//! being sent from their core. Judged is by how much the median 99th percentile rises.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::server::Server;
use crate::cost::Contender;
use crate::peers::Workshop;
use crate::process::{Process, raise_descriptor_limit};
use crate::run::{Effort, LOAD_CORE, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};

pub(super) const NAME: &str = "flood, HTTP/3";

/// Send first packets from 10,000 addresses to a port of loopback until the process is ended
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    port: u16,
    /// Packets of 1,200 bytes, one behind the other
    packets: PathBuf,
}

/// Where the flood of a round goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    Absent,
    ToLoadline,
    /// To a socket that nobody reads.
    ToNobody,
}

impl Flood {
    const ALL: [Self; 3] = [Self::Absent, Self::ToLoadline, Self::ToNobody];

    const fn name(self) -> &'static str {
        match self {
            Self::Absent => "none",
            Self::ToLoadline => "flood",
            Self::ToNobody => "flood at nobody",
        }
    }
}

/// What the two clients saw in a round.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// In milliseconds, over HTTPS and over HTTP/3.
    p99: [f64; 2],
    failed: u64,
    /// CPU time of the proxy by the time that passed.
    busy: f64,
}

/// Measures loadline.
pub(super) fn measure(
    workshop: &Workshop,
    backends: &[u16; 4],
    effort: Effort,
    section: &mut Section,
) -> Result<()> {
    let proxy = Server::Loadline.start(workshop, backends)?;
    let nobody = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a socket")?;
    let packets = workshop.directory.join("first-packets");
    fs::write(&packets, first_packets(workshop)?).context("write the packets")?;
    println!("\n{NAME}: {PER_SECOND}/s, {} rounds of {SECONDS} s\n{COLUMNS}", effort.rounds);
    let mut rows = Flood::ALL.map(|flood| (flood, Vec::new()));
    for round in 0..=effort.rounds {
        for (flood, seen) in &mut rows {
            let port = match flood {
                Flood::Absent => None,
                Flood::ToLoadline => Some(proxy.port),
                Flood::ToNobody => Some(nobody.local_addr()?.port()),
            };
            let row = take(&proxy, workshop, port.map(|port| (port, &*packets)))?;
            // The first round warms everything up.
            if round > 0 {
                seen.push(row);
            }
        }
    }
    for (flood, seen) in &rows {
        println!("{}", line(*flood, seen));
    }
    let [quiet, flooded, nobody] = rows.each_ref().map(|(_, seen)| &seen[..]);
    for (index, what) in CLIENTS.into_iter().enumerate() {
        let failed: u64 = [quiet, flooded].concat().iter().map(|seen| seen.failed).sum();
        let flaw = (failed > 0).then(|| format!("{failed} requests failed"));
        let rise = |seen| median(seen, |it| it.p99[index]) / median(quiet, |it| it.p99[index]);
        let name = |rest: &str| format!("{NAME}: p99 of {what}{rest}");
        let verdict =
            Verdict::new(name(", beside it to without"), rise(flooded), Target::AtMost(2.0));
        section.judge(verdict.flaw(flaw));
        let floor = Target::Wish(2.0);
        section.judge(Verdict::new(name(", flood at nobody"), rise(nobody), floor));
    }
    section.record(NAME, rows.iter().map(|(flood, seen)| to_json(*flood, seen)).collect());
    Ok(())
}

fn median(seen: &[Seen], figure: impl Fn(&Seen) -> f64) -> f64 {
    Summary::of(seen.iter().map(figure)).median
}

fn line(flood: Flood, seen: &[Seen]) -> String {
    let p99 = |index: usize| {
        let Summary { min, median, max } = Summary::of(seen.iter().map(|it| it.p99[index]));
        format!("{median:>8.2} ({min:.2} to {max:.2})")
    };
    let busy = median(seen, |it| it.busy * 100.0);
    let failed: u64 = seen.iter().map(|it| it.failed).sum();
    format!("{:16}{:>26}{:>26}{busy:>10.1}{failed:>8}", flood.name(), p99(0), p99(1))
}

fn to_json(flood: Flood, seen: &[Seen]) -> Value {
    let round = |seen: &Seen| {
        let Seen { p99: [https, http3], failed, busy } = seen;
        json!({ "https_p99_ms": https, "http3_p99_ms": http3, "failed": failed, "busy": busy })
    };
    json!({ "flood": flood.name(), "rounds": seen.iter().map(round).collect::<Vec<_>>() })
}

/// One round.
fn take(proxy: &Contender, workshop: &Workshop, flood: Option<(u16, &Path)>) -> Result<Seen> {
    let (begun, before) = (Instant::now(), proxy.process.cpu_time()?);
    let clients = VERSIONS.map(|version| client(workshop, proxy.port, version));
    thread::sleep(BEFORE);
    let flood = flood.map(|(port, packets)| start(workshop, port, packets)).transpose()?;
    let [https, http3] = clients.map(|client| Client::of(client?));
    let (https, http3) = (https?, http3?);
    let busy = proxy.process.cpu_time()?.since(before).total.as_secs_f64();
    drop(flood);
    let busy = busy / begun.elapsed().as_secs_f64();
    Ok(Seen { p99: [https.p99, http3.p99], failed: https.failed + http3.failed, busy })
}

/// What one client saw.
struct Client {
    p99: f64,
    failed: u64,
}

impl Client {
    fn of(child: Child) -> Result<Self> {
        let output = child.wait_with_output().context("wait for loadline bench")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let record: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("read the record: {said}"))?;
        let read = || {
            let planned = record["planned"].as_u64()?;
            let failed = planned.checked_sub(record["outcomes"]["ok"].as_u64()?)?;
            Some(Self { p99: record["response"]["p99_ms"].as_f64()?, failed })
        };
        read().with_context(|| format!("not the record that is expected: {record}"))
    }
}

/// Begins to ask at a rate.
fn client(workshop: &Workshop, port: u16, version: &str) -> Result<Child> {
    let mut command = bench(workshop, port);
    command.args([version, "--connections", "2", "--rate", RATE]);
    command.args(["--duration", &format!("{SECONDS}s")]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("start loadline bench")
}

fn bench(workshop: &Workshop, port: u16) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "taskset", "-c", &LOAD_CORE.to_string()]);
    command.arg(&workshop.loadline).args(["bench", &format!("https://127.0.0.1:{port}/s")]);
    command.args(["--insecure", "--server-name", "localhost", "--json", "--quiet"]);
    command
}

/// The first packets of a thousand clients.
fn first_packets(workshop: &Workshop) -> Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a socket")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut command = bench(workshop, socket.local_addr()?.port());
    command.args(["--http3", "--connections", "1000", "--users", "1000", "--duration", "10s"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut packets = Vec::new();
    let mut room = [0; PACKET + 1];
    while packets.len() < 1_000 * PACKET
        && let Ok(length) = socket.recv(&mut room)
    {
        if length == PACKET {
            packets.extend_from_slice(&room[..length]);
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    ensure!(packets.len() >= 100 * PACKET, "{} bytes of first packets came", packets.len());
    Ok(packets)
}

/// Starts the flood, on the core of the load.
fn start(workshop: &Workshop, port: u16, packets: &Path) -> Result<Process> {
    let program = std::env::current_exe().context("find this program")?.display().to_string();
    let packets = packets.display().to_string();
    let command = [program, "flood".to_owned(), port.to_string(), packets];
    Process::start(LOAD_CORE, &command, &workshop.directory.join("flood.log"))
}

/// The flood, in a process of its own.
pub(crate) fn be_flood(args: &Args) -> Result<()> {
    raise_descriptor_limit()?;
    let packets = fs::read(&args.packets).context("read the packets")?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let open = |n: u16| -> Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 1, (n >> 8) as u8, n as u8), 0))?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let sockets = (0..ADDRESSES).map(open).collect::<Result<Vec<_>>>()?;
    let mut packets = sockets.iter().cycle().zip(packets.chunks_exact(PACKET).cycle());
    let (begun, mut sent) = (Instant::now(), 0);
    loop {
        let due = (begun.elapsed().as_secs_f64() * PER_SECOND) as u64;
        for (socket, packet) in packets.by_ref().take((due - sent) as usize) {
            // Fails where the buffer of the receiver is full.
            let _ = socket.send(packet);
        }
        sent = due;
        thread::sleep(PAUSE);
    }
}

const COLUMNS: &str = "                 p99 ms over:       HTTPS                    HTTP/3  \
                       % of a core  failed";

const CLIENTS: [&str; 2] = ["HTTPS", "HTTP/3"];
const VERSIONS: [&str; 2] = ["--http1.1", "--http3"];

/// Of each client, per second.
const RATE: &str = "500";
const SECONDS: u64 = 6;

/// In which clients connect.
const BEFORE: Duration = Duration::from_millis(500);

/// Of the flood.
const PER_SECOND: f64 = 50_000.0;
const ADDRESSES: u16 = 10_000;

/// Bytes of each of its packets (RFC 9000, 14.1).
const PACKET: usize = 1_200;

/// Between what is sent of it at a time.
const PAUSE: Duration = Duration::from_micros(200);

/// For the packets of clients that have just been started.
const PATIENCE: Duration = Duration::from_secs(2);
