//! The load generator beside wrk: how much one thread can ask for, and how late it is.
//!
//! The generator runs on the core of the proxies, the server on the other. wrk and loadline take
//! turns; what is judged is the median of the ratios within rounds.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::cost;
use crate::peers::Workshop;
use crate::process::{Process, free_ports};
use crate::run::{Effort, LOAD_CORE, PROXY_CORE, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};
use crate::wrk::Load;

pub(crate) const NAME: &str = "generator";

/// Measures both; says nothing of the peers.
pub(crate) fn measure(workshop: &Workshop, effort: Effort) -> Result<Section> {
    let servers: [u16; 4] = free_ports()?;
    let mut section = Section::new(NAME);
    let backend = cost::start_backend(&servers, &workshop.directory)?;
    closed_loop(workshop, servers[0], effort, &mut section)?;
    drop(backend);
    open_loop(workshop, &mut section)?;
    Ok(section)
}

fn closed_loop(
    workshop: &Workshop,
    port: u16,
    effort: Effort,
    section: &mut Section,
) -> Result<()> {
    let load = Load { scheme: "http", connections: CONNECTIONS, path: "/s", headers: &[] };
    let mut pairs = Vec::new();
    for _ in 0..effort.rounds {
        let wrk = load.run(PROXY_CORE, port, effort.seconds)?;
        ensure!(wrk.errors == 0 && wrk.requests > 0, "wrk met {} errors", wrk.errors);
        let theirs = wrk.rate;
        let users = CONNECTIONS.to_string();
        let seconds = format!("{}s", effort.seconds);
        let args = ["--users", &users, "--duration", &seconds];
        let ours = bench(&workshop.loadline, port, "/s", &args)?;
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

/// 5,000 requests a second against a server that takes 2 ms for each and times its own responses.
fn open_loop(workshop: &Workshop, section: &mut Section) -> Result<()> {
    let [port] = free_ports()?;
    let program = workshop.loadline.display().to_string();
    let address = format!("127.0.0.1:{port}");
    let worker = ["worker", "fixed", "--service-time", "2ms", "--listen", &address];
    let command: Vec<String> = [program].into_iter().chain(worker.map(str::to_owned)).collect();
    let mut worker = Process::start(LOAD_CORE, &command, &workshop.directory.join("worker.log"))?;
    worker.wait_for(port)?;
    let record = bench(&workshop.loadline, port, "/", &["--rate", "5000", "--duration", "10s"])?;
    let theirs = p99(&stats(&address)?["time"])?;
    let (lag, response) = (p99(&record["lag"])?, p99(&record["response"])?);
    let short = record["planned"].as_u64() != record["outcomes"]["ok"].as_u64();
    let flaw = short.then(|| format!("of 50000 {}", record["outcomes"]));
    println!(
        "\nopen loop, 5000/s for 10 s: p99 of lag {lag:.2} ms, of response {response:.2} ms, by \
         the server's own record {theirs:.2} ms"
    );
    section.judge(Verdict::new("p99 lag", lag, Target::AtMost(1.0)).unit(" ms").flaw(flaw));
    let apart = (response - theirs).abs();
    let name = "p99 apart from the server's own";
    section.judge(Verdict::new(name, apart, Target::AtMost(1.0)).unit(" ms"));
    section.record("open loop", vec![record["lag"].clone(), record["response"].clone()]);
    Ok(())
}

fn p99(latency: &Value) -> Result<f64> {
    latency["p99_ms"].as_f64().context("a 99th percentile in the record")
}

/// What a worker says of its own work.
fn stats(address: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(address).context("ask the worker")?;
    write!(stream, "GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer of the worker")?;
    serde_json::from_str(body).context("the worker's own record")
}

/// One run of `loadline bench` on the core of the proxies; its record.
fn bench(loadline: &Path, port: u16, path: &str, args: &[&str]) -> Result<Value> {
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "taskset", "-c", &PROXY_CORE.to_string()])
        .arg(loadline)
        .args(["bench", &format!("http://127.0.0.1:{port}{path}"), "--json", "--quiet"])
        .args(args)
        .output()
        .context("start loadline bench")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "loadline bench: {}: {said}", output.status);
    serde_json::from_slice(&output.stdout).context("read the record of loadline bench")
}

const CONNECTIONS: usize = 64;
