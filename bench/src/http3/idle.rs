//! What a QUIC connection that waits costs in memory.
//!
//! Ten load generators, one after another, open a thousand connections each, over which every user
//! asks once and then thinks for longer than this takes. Judged is by how much the memory of a proxy
//! (the proportional set size) grows for each, from a state in which as many requests over a hundred
//! connections have warmed it up, against the peer that takes least.

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
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
    if let Some((_, ours)) = rows.iter().find(|(server, _)| *server == Server::Loadline) {
        let peers = rows.iter().filter(|(server, _)| *server != Server::Loadline);
        let least = peers.map(|(_, growth)| growth.each()).fold(f64::NAN, f64::min);
        section.judge(Verdict::new(NAME, ours.each(), Target::AtMost(least)).unit(" B"));
    }
    section.record(NAME, rows.iter().map(|(server, it)| it.to_json(*server)).collect());
    Ok(())
}

/// The memory of a proxy in bytes.
struct Growth {
    before: u64,
    during: u64,
}

impl Growth {
    /// For each connection; memory that did not grow tells nothing.
    fn each(&self) -> f64 {
        match self.during.checked_sub(self.before) {
            Some(grown @ 1..) => grown as f64 / CONNECTIONS as f64,
            _ => f64::NAN,
        }
    }

    fn to_json(&self, server: Server) -> Value {
        json!({ "proxy": server.name(), "before": self.before, "during": self.during })
    }
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
    for number in 1..=GENERATORS {
        let child = command(&workshop.loadline, proxy.port, "/s", (EACH, EACH))
            .args(["--think", "1h", "--duration", "1h", "--timeout", "120s"])
            .stdout(Stdio::piped())
            .spawn()
            .context("start loadline bench")?;
        generators.0.push(child);
        wait_for(proxy.port, number * EACH)?;
    }
    thread::sleep(REST);
    let during = proxy.process.memory()?;
    generators.finish()?;
    Ok(Growth { before, during })
}

/// Waits until so many clients have sockets to the port.
fn wait_for(port: u16, connections: usize) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while connected_udp(port)? < connections {
        if Instant::now() > deadline {
            bail!("{} of {connections} connections were there", connected_udp(port)?);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Load generators that wait; killed where they are not needed any more.
struct Generators(Vec<Child>);

impl Generators {
    /// Ends them; every connection has to have had its response.
    fn finish(mut self) -> Result<()> {
        for child in self.0.drain(..) {
            // The name of setpriv and taskset is gone: they became the program.
            kill_process(Pid::from_child(&child), Signal::INT).context("interrupt the load")?;
            let output = child.wait_with_output().context("wait for the load")?;
            let record: Value = serde_json::from_slice(&output.stdout).context("its record")?;
            let (opened, answered) = (&record["connections"], &record["outcomes"]["ok"]);
            let all = *opened == EACH && *answered == EACH;
            ensure!(all, "{answered} responses over {opened} connections, not {EACH}");
        }
        Ok(())
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
const GENERATORS: usize = 10;
/// Connections of one of them.
const EACH: usize = 1_000;

/// After which a proxy has done what it does when connections come.
const REST: Duration = Duration::from_secs(5);

const PATIENCE: Duration = Duration::from_secs(120);
