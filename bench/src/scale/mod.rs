//! What the number of services and servers costs: loadline alone, from 1,000 servers to 100,000.
//!
//! The file is what a user with so many services writes: one listener, a route by host for each
//! service, one worker thread. Only the servers of one service exist; there are no checks, no TLS
//! and no traffic but what a figure is about. Measured are, with the process on a core of its own:
//!
//! - `start`: from the start of the process to the first response through the last route;
//! - `memory`: the proportional set size, 25 s after the start, less that of a process with two
//!   services and no other server, over the number of servers;
//! - `idle`: CPU time of all threads while nothing happens, with the administration and without;
//! - `reload`: CPU time of all threads from SIGHUP until a client is answered by the servers of the
//!   one line that was changed, and of the 2 s after that, less what idle costs;
//! - `request`: CPU time of a request through the last route, 10,000 a second;
//! - `change`: of the thread with the controller, for one health change. Each server of one service
//!   is checked ten times a second; first each check succeeds, then each other. The cost of a
//!   check, known from the first, is subtracted;
//! - `scrape`: CPU time of reading `/metrics` once, and by how much it makes the memory grow;
//! - `check`: how long `loadline check` takes with the file.

mod client;
mod edge;
mod failures;
mod fleet;
mod live;
pub(crate) mod plot;
mod table;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::peers::{Kind, Workshop};
use crate::process::free_ports;
use crate::run::{Effort, Section};
use crate::stats::Summary;
use crate::verdict::{self, Verdict};
use edge::Edge;
use fleet::{Fleet, LIVE_HOST, Size};
use live::{Checks, Live};
use table::Costs;

pub(crate) const NAME: &str = "scale";

/// What a size may cost at most.
struct Wanted {
    size: Size,
    start_s: f64,
    reload_s: f64,
    /// Of a core, with the administration and without.
    idle_percent: f64,
    /// Bytes a server, where they are judged.
    memory: Option<f64>,
    /// Where it is judged.
    health_change_us: Option<f64>,
}

const WANTED: [Wanted; 2] = [
    Wanted {
        size: MANY_SERVICES,
        start_s: 1.5,
        reload_s: 0.5,
        idle_percent: 2.0,
        memory: None,
        health_change_us: None,
    },
    Wanted {
        size: LARGE_GROUPS,
        start_s: 1.0,
        reload_s: 0.5,
        idle_percent: 1.0,
        memory: Some(1_200.0),
        health_change_us: Some(50.0),
    },
];

/// Measures loadline; says nothing of the peers.
pub(crate) fn measure(workshop: &Workshop, effort: Effort) -> Result<Section> {
    let mut section = Section::new(NAME);
    println!(
        "\nscale: one listener, a route by host for each service, one worker\n{}",
        table::HEAD
    );
    let empty = empty_memory(workshop)?;
    let mut measured = Vec::new();
    for size in [SMALL, MIDDLE, MANY_SERVICES, LARGE_GROUPS] {
        let costs = costs(size, empty, workshop)?;
        println!("{costs}");
        measured.push(costs);
    }
    for wanted in &WANTED {
        let costs = measured.iter().find(|costs| costs.size == wanted.size);
        costs.into_iter().flat_map(|it| it.judge(wanted)).for_each(|it| section.judge(it));
    }
    table::judge_growth(&measured[..3]).into_iter().for_each(|it| section.judge(it));
    section.record(table::RECORD, measured.iter().map(Costs::to_json).collect());
    if let Err(error) = failures::measure(workshop, effort, &mut section) {
        let verdict = Verdict::new(failures::NAME, f64::NAN, verdict::Target::AtMost(0.0));
        section.judge(verdict.flaw(Some(format!("{error:#}"))));
    }
    Ok(section)
}

/// Bytes of a process that has the two services that are in every file, and no other.
fn empty_memory(workshop: &Workshop) -> Result<f64> {
    let stage = Endpoints::new()?;
    let (edge, _) = stage.start(Size { services: 0, each: 0 }, false, workshop)?;
    thread::sleep(SETTLE);
    edge.memory()
}

/// Every cost of one size. What cannot be measured is not a number, and says why.
fn costs(size: Size, empty: f64, workshop: &Workshop) -> Result<Costs> {
    let stage = Endpoints::new()?;
    let mut costs = Costs::unknown(size);
    let parts = [
        bare(&stage, &mut costs, empty, workshop),
        with_admin(&stage, &mut costs, empty, workshop),
    ];
    costs.trouble = parts.into_iter().find_map(Result::err).map(|error| format!("{error:#}"));
    Ok(costs)
}

/// Where a program of one size and those around it listen.
struct Endpoints {
    port: u16,
    admin: u16,
    dead: u16,
    ports: [u16; 2],
    live: Live,
}

impl Endpoints {
    fn new() -> Result<Self> {
        let [port, admin, dead, ports @ ..]: [u16; 5] = free_ports()?;
        Ok(Self { port, admin, dead, ports, live: Live::start(ports)? })
    }

    fn start(&self, size: Size, admin: bool, workshop: &Workshop) -> Result<(Edge, Duration)> {
        let Self { port, dead, ports, .. } = *self;
        let admin = admin.then_some(self.admin);
        let fleet = Fleet { size, port, admin, live: ports[0], dead, checks: false };
        Edge::start(fleet, ports, workshop)
    }
}

/// What is measured of a process without the administration.
fn bare(stage: &Endpoints, costs: &mut Costs, empty: f64, workshop: &Workshop) -> Result<()> {
    let (mut edge, start) = stage.start(costs.size, false, workshop)?;
    costs.start_s = start.as_secs_f64();
    costs.check_file_s = check(workshop, stage.port)?;
    thread::sleep(SETTLE);
    costs.memory = edge.memory()? - empty;
    costs.idle_percent = 100.0 * edge.rest(IDLE)?;
    costs.reload_s = reload(&mut edge)?;
    let (spent, load) = edge.cost(|_| client::pace(stage.port, LIVE_HOST, LOAD))?;
    ensure!(load.answers > 0, "no request was answered");
    costs.request_us = spent * 1e6 / load.answers as f64;
    edge.reload(true)?;
    (costs.health_check_us, costs.health_change_us) = change(&edge, &stage.live)?;
    Ok(())
}

/// The median of three reloads.
fn reload(edge: &mut Edge) -> Result<f64> {
    let mut rounds = Vec::new();
    for _ in 0..3 {
        rounds.push(edge.cost(|edge| edge.reload(false))?.0);
    }
    Ok(Summary::of(rounds).median)
}

/// Microseconds of the controller's thread for a check, and for a health change.
fn change(edge: &Edge, live: &Live) -> Result<(f64, f64)> {
    let phase = || {
        let (checks, spent) = (live.checks(), edge.controller());
        thread::sleep(CHECKING);
        let after = live.checks();
        let answered = after.answered - checks.answered;
        let changes = after.changes - checks.changes;
        (edge.controller() - spent, Checks { answered, changes })
    };
    live.wait_for_checks(PATIENCE)?;
    let (spent, steady) = phase();
    ensure!(steady.answered > 0 && steady.changes == 0, "{steady:?} while all was well");
    let check = spent / steady.answered as f64;
    live.alternate(true);
    let (spent, changing) = phase();
    live.alternate(false);
    ensure!(changing.changes > 0, "no health change in {CHECKING:?}");
    let change = (spent - check * changing.answered as f64) / changing.changes as f64;
    Ok((check * 1e6, change * 1e6))
}

/// What is measured of a process with the administration.
fn with_admin(stage: &Endpoints, costs: &mut Costs, empty: f64, workshop: &Workshop) -> Result<()> {
    let (mut edge, _) = stage.start(costs.size, true, workshop)?;
    thread::sleep(SETTLE);
    costs.memory_admin = edge.memory()? - empty;
    costs.idle_admin_percent = 100.0 * edge.rest(IDLE_ADMIN)?;
    let (spent, (growth, length)) = edge.cost(|edge| edge.growth(|| scrape(stage.admin)))?;
    costs.scrape_s = spent;
    costs.scrape_bytes = length as f64;
    costs.scrape_memory = growth;
    Ok(())
}

/// How many bytes `/metrics` are.
fn scrape(port: u16) -> Result<usize> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let (mut length, mut piece) = (0, vec![0; 1 << 16]);
    loop {
        match stream.read(&mut piece).context("read the metrics")? {
            0 => break,
            count => length += count,
        }
    }
    ensure!(length > 1_000, "{length} bytes of metrics");
    Ok(length)
}

/// How long `loadline check` takes with the file, in seconds.
fn check(workshop: &Workshop, port: u16) -> Result<f64> {
    let start = Instant::now();
    let status = Command::new(&workshop.loadline)
        .arg("check")
        .arg(workshop.file(Kind::Loadline, port))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("start loadline check")?;
    ensure!(status.success(), "loadline check: {status}");
    Ok(start.elapsed().as_secs_f64())
}

const SMALL: Size = Size { services: 100, each: 10 };
const MIDDLE: Size = Size { services: 1_000, each: 10 };
const MANY_SERVICES: Size = Size { services: 10_000, each: 10 };
const LARGE_GROUPS: Size = Size { services: 1_000, each: 100 };

/// After which a process that has started has given back what it no longer needs: the allocator
/// looks every 12 s or so, and returns what nobody has used for 10 s.
const SETTLE: Duration = Duration::from_secs(25);
const IDLE: Duration = Duration::from_secs(5);
/// With many servers the administration looks at them only every 30 s.
const IDLE_ADMIN: Duration = Duration::from_secs(60);
const LOAD: Duration = Duration::from_secs(2);
const CHECKING: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(60);
