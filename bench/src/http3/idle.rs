//! What a QUIC connection that waits costs in memory.
//!
//! Load generators, one after another, open a few hundred connections each, over which every user
//! asks once and then thinks for longer than this takes. More at a time would overflow the buffer
//! of the proxy's socket, and wait for what was lost. Judged is by how much the memory of a proxy
//! (the proportional set size) grows for each, from a state in which as many requests over a
//! hundred connections have warmed it up, against the peer that takes least.

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::client::command;
use super::server::Server;
use crate::cost::Contender;
use crate::peers::Workshop;
use crate::process::connected_udp;
use crate::run::Section;
use crate::verdict::{Target, Verdict};

pub(super) const NAME: &str = "idle, HTTP/3";

/// Measures every server, one after another.
pub(super) fn measure(
    servers: &[Server],
    workshop: &Workshop,
    backends: &[u16; 4],
    section: &mut Section,
) -> Result<()> {
    println!("\n{NAME}: {} connections\n{COLUMNS}", CONNECTIONS);
    let mut rows = Vec::new();
    for &server in servers {
        let proxy = server.start(workshop, backends)?;
        let growth = growth(&proxy, workshop)?;
        println!(
            "{:9}{:>14.0}{:>12.1}{:>12.1}",
            server.name(),
            growth.each(),
            growth.before as f64 / 1e6,
            growth.during as f64 / 1e6,
        );
        rows.push((server, growth));
    }
    let (ours, peers): (Vec<_>, Vec<_>) =
        rows.iter().partition(|(server, _)| *server == Server::Loadline);
    if let Some(ours) = ours.first() {
        let least = peers.into_iter().min_by(|one, other| one.1.each().total_cmp(&other.1.each()));
        let flaws = [Some(*ours), least].into_iter().flatten().filter_map(flaw);
        let flaw = flaws.reduce(|all, one| format!("{all}, {one}"));
        let target = Target::AtMost(least.map_or(f64::NAN, |(_, growth)| growth.each()));
        section.judge(Verdict::new(NAME, ours.1.each(), target).unit(" B").flaw(flaw));
    }
    section.record(NAME, rows.iter().map(|(server, it)| it.to_json(*server)).collect());
    Ok(())
}

/// The memory of a proxy in bytes.
struct Growth {
    before: u64,
    during: u64,
    /// Connections that were there.
    connected: u64,
}

impl Growth {
    /// For each connection; memory that did not grow tells nothing.
    fn each(&self) -> f64 {
        match self.during.checked_sub(self.before) {
            Some(grown @ 1..) => grown as f64 / self.connected as f64,
            _ => f64::NAN,
        }
    }

    fn to_json(&self, server: Server) -> Value {
        let Self { before, during, connected } = self;
        let name = server.name();
        json!({ "proxy": name, "before": before, "during": during, "connected": connected })
    }
}

/// A handshake of a hundred may be lost.
fn flaw((server, growth): &(Server, Growth)) -> Option<String> {
    let connected = growth.connected;
    let few = connected < CONNECTIONS as u64 * 99 / 100;
    few.then(|| format!("{connected} of {CONNECTIONS} connections of {} were there", server.name()))
}

fn growth(proxy: &Contender, workshop: &Workshop) -> Result<Growth> {
    let warm = command(&workshop.loadline, proxy.port, "/s", (100, 100))
        .args(["--requests", &(CONNECTIONS / 100).to_string()])
        .output()
        .context("start loadline bench")?;
    ensure!(warm.status.success(), "warm up: {}", String::from_utf8_lossy(&warm.stderr));
    thread::sleep(REST);
    let before = proxy.process.memory()?;
    let mut generators = Generators(Vec::new());
    for _ in 0..GENERATORS {
        let there = connected_udp(proxy.port)?;
        let child = command(&workshop.loadline, proxy.port, "/s", (EACH, EACH))
            .args(["--think", "1h", "--duration", "2h"])
            .stdout(Stdio::piped())
            .spawn()
            .context("start loadline bench")?;
        generators.0.push(child);
        wait_for(proxy.port, there + EACH)?;
        // The handshakes.
        thread::sleep(BREATH);
    }
    thread::sleep(REST);
    let during = proxy.process.memory()?;
    let connected = generators.finish()?;
    Ok(Growth { before, during, connected })
}

/// Waits until so many clients have sockets to the port, or nobody has come for a while: `flaw`
/// says so where too many are missing.
fn wait_for(port: u16, connections: usize) -> Result<()> {
    let (mut count, mut last) = (connected_udp(port)?, Instant::now());
    while count < connections && last.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(100));
        let now = connected_udp(port)?;
        if now > count {
            (count, last) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Load generators that wait; killed where they are not needed any more.
struct Generators(Vec<Child>);

impl Generators {
    /// Ends them; gives how many connections had their response.
    fn finish(mut self) -> Result<u64> {
        let mut answered = 0;
        for child in self.0.drain(..) {
            // setpriv and taskset have become the program.
            kill_process(Pid::from_child(&child), Signal::INT).context("interrupt the load")?;
            let output = child.wait_with_output().context("wait for the load")?;
            let record: Value = serde_json::from_slice(&output.stdout).context("its record")?;
            let counted = [&record["connections"], &record["outcomes"]["ok"]];
            answered += counted.into_iter().filter_map(Value::as_u64).min().unwrap_or_default();
        }
        Ok(answered)
    }
}

impl Drop for Generators {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const COLUMNS: &str = "           B/connection   MB before      during";

const CONNECTIONS: usize = GENERATORS * EACH;
const GENERATORS: usize = 50;
/// Connections of one of them.
const EACH: usize = 200;

/// Between one load generator and the next.
const BREATH: Duration = Duration::from_millis(500);

/// After which a proxy has done what it does when connections come.
const REST: Duration = Duration::from_secs(5);

const PATIENCE: Duration = Duration::from_secs(20);
