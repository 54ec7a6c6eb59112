//! The load generator beside wrk: how much one thread can ask for, and how late it is.
//!
//! The generator runs on the core of the proxies, the server on the other. wrk and loadline take
//! turns; what is judged is the median of the ratios within rounds.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::cost;
use crate::peers::Workshop;
use crate::process::free_ports;
use crate::run::{Effort, PROXY_CORE, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};
use crate::wrk::Load;

pub(crate) const NAME: &str = "generator";

/// Measures both; says nothing of the peers.
pub(crate) fn measure(workshop: &Workshop, effort: Effort) -> Result<Section> {
    let servers: [u16; 4] = free_ports()?;
    let _backend = cost::start_backend(&servers, &workshop.directory)?;
    let mut section = Section::new(NAME);
    closed_loop(workshop, servers[0], effort, &mut section)?;
    open_loop(workshop, servers[0], &mut section)?;
    Ok(section)
}

fn closed_loop(
    workshop: &Workshop,
    port: u16,
    effort: Effort,
    section: &mut Section,
) -> Result<()> {
    let load = Load { connections: CONNECTIONS, path: "/s", headers: &[] };
    let mut pairs = Vec::new();
    for _ in 0..effort.rounds {
        let theirs = load.run(PROXY_CORE, port, effort.seconds)?.rate;
        let users = CONNECTIONS.to_string();
        let seconds = format!("{}s", effort.seconds);
        let ours = bench(&workshop.loadline, port, &["--users", &users, "--duration", &seconds])?;
        let rate = ours["achieved_per_s"].as_f64().context("a rate in the record")?;
        ensure!(ours["outcomes"]["ok"] == ours["planned"], "requests failed: {}", ours["outcomes"]);
        pairs.push((rate, theirs));
    }
    let middle = |figure: fn(&(f64, f64)) -> f64| Summary::of(pairs.iter().map(figure)).median;
    let ratio = Summary::of(pairs.iter().map(|(ours, theirs)| ours / theirs));
    println!(
        "\nclosed loop, {CONNECTIONS} connections, {} rounds of {} s: loadline {:.0}/s, \
         wrk {:.0}/s, ratio {:.2} ({:.2}..{:.2})",
        effort.rounds,
        effort.seconds,
        middle(|pair| pair.0),
        middle(|pair| pair.1),
        ratio.median,
        ratio.min,
        ratio.max,
    );
    section.judge(Verdict::new(
        "requests per second of wrk's",
        ratio.median,
        Target::AtLeast(0.95),
    ));
    let figures = pairs.iter().map(|(ours, theirs)| json!({ "loadline": ours, "wrk": theirs }));
    section.record("closed loop", figures.collect());
    Ok(())
}

fn open_loop(workshop: &Workshop, port: u16, section: &mut Section) -> Result<()> {
    let record = bench(&workshop.loadline, port, &["--rate", "5000", "--duration", "10s"])?;
    let lag = record["lag"]["p99_ms"].as_f64().context("a lag in the record")?;
    let short = record["planned"].as_u64() != record["outcomes"]["ok"].as_u64();
    let flaw = short.then(|| format!("of 50000 {}", record["outcomes"]));
    println!("open loop, 5000/s for 10 s: lag {}", record["lag"]);
    section.judge(Verdict::new("p99 lag", lag, Target::AtMost(1.0)).unit(" ms").flaw(flaw));
    section.record("open loop", vec![record["lag"].clone(), record["response"].clone()]);
    Ok(())
}

/// One run of `loadline bench` on the core of the proxies; its record.
fn bench(loadline: &Path, port: u16, args: &[&str]) -> Result<Value> {
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "taskset", "-c", &PROXY_CORE.to_string()])
        .arg(loadline)
        .args(["bench", &format!("http://127.0.0.1:{port}/s"), "--json", "--quiet"])
        .args(args)
        .output()
        .context("start loadline bench")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "loadline bench: {}: {said}", output.status);
    serde_json::from_slice(&output.stdout).context("read the record of loadline bench")
}

const CONNECTIONS: usize = 64;
