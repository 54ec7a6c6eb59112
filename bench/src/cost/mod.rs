//! What a request costs: CPU time per request of loadline beside the floor and its peers.
//!
//! Every proxy runs from the start to the end, alone on its core; wrk, or h2load for HTTP/2, and
//! the servers share the other. A round measures each of them in turn, and every second round in
//! reverse, so that a machine that drifts does so for all. Medians of rounds are printed; what is
//! judged is the median of the ratios within rounds: to the floor, which is what is possible on the
//! machine, and where that cannot do the work, to the peer that is cheaper by its median.

mod row;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::config::{Place, Setup};
use crate::h2load;
use crate::http3;
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{Process, free_ports};
use crate::run::{Effort, LOAD_CORE, PROXY_CORE, Section};
use crate::verdict::Target;
use crate::wrk::Load;

use row::{Row, Sample};

/// One kind of traffic.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    load: Load,
    client: Client,
    setup: Setup,
    /// What the ratio is taken to.
    against: Against,
    target: Target,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) enum Client {
    /// wrk, over HTTP/1.1.
    Wrk,
    /// h2load, with so many requests at a time on each connection.
    H2load(usize),
    /// `loadline bench` over HTTP/3, likewise.
    Http3(usize, PathBuf),
}

impl Client {
    /// Requests at a time on each connection.
    const fn streams(&self) -> usize {
        match self {
            Self::Wrk => 1,
            Self::H2load(streams) | Self::Http3(streams, _) => *streams,
        }
    }
}

/// Whom loadline is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// What is possible: the floor, or loadline without the feature.
    Yardstick,
    /// The cheaper of the peers.
    Peer,
}

/// What a row of a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Judged,
    Peer,
    Yardstick,
    /// Shown beside the yardstick.
    Reference,
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, setup: Setup, connections, path, headers, against, target| {
        let load = Load { scheme: setup.scheme(), connections, path, headers };
        Case { name, load, client: Client::Wrk, setup, against, target }
    };
    let floor = |name, connections, path, headers, at_most| {
        let target = Target::AtMost(at_most);
        case(name, Setup::Usual, connections, path, headers, Against::Yardstick, target)
    };
    let peer = |name, setup, connections, path, headers, target| {
        case(name, setup, connections, path, headers, Against::Peer, target)
    };
    let http2 = |name, (connections, streams), path, at_most| {
        let target = Target::AtMost(at_most);
        let case = peer(name, Setup::Http2, connections, path, &[], target);
        Case { client: Client::H2load(streams), ..case }
    };
    let close = &["Connection: close"];
    let large = "50 kB, peers with 64 kB buffers";
    let (log, silent) = (Setup::AccessLog, Against::Yardstick);
    vec![
        floor(SMALL, 64, "/s", &[], 1.10),
        floor("11 headers", 64, "/s", &BROWSER, 1.20),
        floor("50 kB", 64, "/m", &[], 1.00),
        floor("1000 connections", 1000, "/s", &[], 1.15),
        floor("connection per request", 64, "/s", close, 0.90),
        peer("TLS keep-alive", Setup::Tls, 64, "/s", &[], Target::AtMost(0.80)),
        peer("TLS handshakes", Setup::Tls, 64, "/s", close, Target::AtMost(0.60)),
        http2("HTTP/2, 10 connections", (10, 32), "/s", 0.85),
        http2("HTTP/2, 64 connections", (64, 1), "/s", 0.85),
        http2("HTTP/2, 50 kB", (10, 32), "/m", 0.70),
        peer("10 MB, spliced", Setup::Splice, 8, "/l", &[], Target::AtMost(1.05)),
        case("access log", log, 64, "/s", &[], silent, Target::AtMost(1.08)),
        peer(large, Setup::LargeBuffers, 64, "/m", &[], Target::Wish(1.0)),
    ]
}

/// Measures every given case for every given proxy.
pub(crate) fn measure(
    cases: &[Case],
    kinds: &[Kind],
    workshop: &Workshop,
    effort: Effort,
) -> Result<Section> {
    let servers: [u16; 4] = free_ports()?;
    let _backend = start_backend(&servers, &workshop.directory)?;
    let mut section = Section::new("cost");
    for setup in Setup::ALL {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.setup == setup).collect();
        if cases.is_empty() {
            continue;
        }
        let contenders = start_contenders(kinds, workshop, &servers, setup)?;
        let contenders: Vec<&Contender> = contenders.iter().collect();
        for case in cases {
            compare(case, &contenders, effort, &mut section)?;
        }
    }
    Ok(section)
}

/// Measures a case for every contender in turn, prints, judges and records it.
pub(crate) fn compare(
    case: &Case,
    contenders: &[&Contender],
    effort: Effort,
    section: &mut Section,
) -> Result<()> {
    let rows = rounds(case, contenders, effort)?;
    println!("\n{}", row::table(case, &rows, effort));
    row::judge(case, &rows).into_iter().for_each(|verdict| section.judge(verdict));
    section.record(case.name, rows.iter().map(Row::to_json).collect());
    Ok(())
}

impl Case {
    /// Plain HTTP/1.1 to one path, held against the cheapest peer.
    pub(crate) const fn beside_peers(
        name: &'static str,
        connections: usize,
        path: &'static str,
        target: Target,
    ) -> Self {
        let load = Load { scheme: "http", connections, path, headers: &[] };
        let (setup, against) = (Setup::Usual, Against::Peer);
        Self { name, load, client: Client::Wrk, setup, against, target }
    }

    /// HTTP/3 to one path.
    pub(crate) fn over_http3(
        name: &'static str,
        (connections, client): (usize, Client),
        path: &'static str,
        (against, target): (Against, Target),
    ) -> Self {
        let load = Load { scheme: "https", connections, path, headers: &[] };
        Self { name, load, client, setup: Setup::Http2, against, target }
    }
}

/// A proxy that runs, under the name it has in the tables.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) port: u16,
    pub(crate) process: Process,
    /// Who asks it, if not the client of the case.
    client: Option<Client>,
}

impl Contender {
    /// One that has been started by other means.
    pub(crate) const fn new(name: &'static str, role: Role, port: u16, process: Process) -> Self {
        Self { name, role, port, process, client: None }
    }

    /// The same under another name.
    pub(crate) fn called(self, name: &'static str, role: Role) -> Self {
        Self { name, role, ..self }
    }

    /// The same, asked by this client whatever the case says.
    pub(crate) fn asked_by(self, client: Client) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Starts a proxy on its core.
    pub(crate) fn start(
        (name, role, kind): (&'static str, Role, Kind),
        workshop: &Workshop,
        servers: &[u16],
        setup: Setup,
    ) -> Result<Self> {
        let [port] = free_ports()?;
        let place = Place { port, servers, directory: &workshop.directory };
        let config = setup.config(kind, &place)?;
        let Proxy { process, .. } = workshop.start(kind, port, &config, PROXY_CORE)?;
        Ok(Self::new(name, role, port, process))
    }

    /// Starts the floor of a cache hit: a server that sends what it has in memory, what is long
    /// without a copy, and does nothing else.
    pub(crate) fn memory(workshop: &Workshop) -> Result<Self> {
        let [port] = free_ports()?;
        let options = ["backend", &port.to_string(), "--sendfile"].map(str::to_owned);
        let command = [vec![this_program()?], options.into()].concat();
        let mut process =
            Process::start(PROXY_CORE, &command, &workshop.directory.join("memory.log"))?;
        process.wait_for(port)?;
        let (name, role) = ("floor", Role::Reference);
        Ok(Self { name, role, port, process, client: None })
    }

    /// Starts the floor, which has no configuration but this option.
    fn floor(
        (name, role, option): (&'static str, Role, Option<&str>),
        workshop: &Workshop,
        servers: &[u16],
    ) -> Result<Self> {
        let [port] = free_ports()?;
        let mut command = vec![this_program()?, "floor".to_owned(), port.to_string()];
        command.extend(servers.iter().map(u16::to_string));
        command.extend(option.map(str::to_owned));
        let log = workshop.directory.join(format!("{name}.log"));
        let mut process = Process::start(PROXY_CORE, &command, &log)?;
        process.wait_for(port)?;
        Ok(Self::new(name, role, port, process))
    }
}

/// Starts the server on the core of the load.
pub(crate) fn start_backend(ports: &[u16; 4], directory: &Path) -> Result<Process> {
    start_backend_with(&[], ports, directory)
}

/// The same, with options.
pub(crate) fn start_backend_with(
    options: &[&str],
    ports: &[u16; 4],
    directory: &Path,
) -> Result<Process> {
    let mut command = vec![this_program()?, "backend".to_owned()];
    command.extend(options.iter().map(ToString::to_string));
    command.extend(ports.iter().map(u16::to_string));
    let mut backend = Process::start(LOAD_CORE, &command, &directory.join("backend.log"))?;
    for port in ports {
        backend.wait_for(*port)?;
    }
    Ok(backend)
}

fn this_program() -> Result<String> {
    Ok(env::current_exe().context("find this program")?.display().to_string())
}

/// Every proxy of a usual comparison: the given kinds, and the floor.
pub(crate) fn start_usual(
    kinds: &[Kind],
    workshop: &Workshop,
    servers: &[u16],
) -> Result<Vec<Contender>> {
    start_contenders(kinds, workshop, servers, Setup::Usual)
}

fn start_contenders(
    kinds: &[Kind],
    workshop: &Workshop,
    servers: &[u16],
    setup: Setup,
) -> Result<Vec<Contender>> {
    if setup == Setup::AccessLog {
        let logging = ("logging", Role::Judged, Kind::Loadline);
        let silent = ("silent", Role::Yardstick, Kind::Loadline);
        return Ok(vec![
            Contender::start(logging, workshop, servers, setup)?,
            Contender::start(silent, workshop, servers, Setup::Usual)?,
        ]);
    }
    let role = |kind| if kind == Kind::Loadline { Role::Judged } else { Role::Peer };
    let mut contenders = Vec::new();
    for &kind in kinds {
        let lineup = (kind.name(), role(kind), kind);
        contenders.push(Contender::start(lineup, workshop, servers, setup)?);
    }
    if setup == Setup::Usual {
        for floor in [("floor", Role::Yardstick, None), ("tuned", Role::Reference, Some("--tuned"))]
        {
            contenders.push(Contender::floor(floor, workshop, servers)?);
        }
    }
    Ok(contenders)
}

fn rounds(case: &Case, contenders: &[&Contender], effort: Effort) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = contenders.iter().map(|one| Row::new(one.name, one.role)).collect();
    warm_up(case, contenders)?;
    for round in 0..effort.rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for place in order {
            let sample = sample(case, contenders[place], effort.seconds)?;
            rows[place].samples.push(sample);
        }
    }
    Ok(rows)
}

/// Fills pools of server connections, and caches.
pub(crate) fn warm_up(case: &Case, contenders: &[&Contender]) -> Result<()> {
    contenders.iter().try_for_each(|it| sample(case, it, WARM_UP_SECONDS).map(drop))
}

fn sample(case: &Case, contender: &Contender, seconds: u64) -> Result<Sample> {
    let before = contender.process.cpu_time()?;
    let (load, port) = (&case.load, contender.port);
    let outcome = match contender.client.as_ref().unwrap_or(&case.client) {
        Client::Wrk => load.run(LOAD_CORE, port, seconds)?,
        Client::H2load(streams) => h2load::run(load, *streams, LOAD_CORE, port, seconds)?,
        Client::Http3(streams, program) => {
            http3::client::run(program, load, *streams, port, seconds)?
        }
    };
    Ok(Sample::new(outcome, contender.process.cpu_time()?.since(before)))
}

/// The case whose user time is judged too.
const SMALL: &str = "small keep-alive";

const WARM_UP_SECONDS: u64 = 1;

/// With `Host` the 11 headers and 700 B that a browser sends.
const BROWSER: [&str; 10] = [
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/126.0.0.0 Safari/537.36",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Accept-Language: en-US,en;q=0.9",
    "Accept-Encoding: gzip, deflate, br",
    "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; \
     _ga=GA1.2.1234567890.1234567890; _gid=GA1.2.0987654321.0987654321; \
     csrf=fedcba9876543210fedcba9876543210; consent=all; tz=60",
    "Referer: https://www.example.com/some/page.html",
    "Cache-Control: max-age=0",
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-Site: same-origin",
    "X-Request-Id: 4f3c1c2a-aaaa-bbbb-cccc-1234567890ab",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_sends_11_headers_and_700_bytes() {
        let head: usize = BROWSER.iter().map(|header| header.len() + 2).sum();
        let line = "GET /s HTTP/1.1\r\nHost: 127.0.0.1:18100\r\n\r\n".len();
        assert!((690..=710).contains(&(head + line)), "{}", head + line);
    }
}
