//! The time a proxy adds at 10,000 requests per second, which all of them can carry.
//!
//! A rate that is the same for all shows what waits inside a proxy; at saturation every proxy
//! shows its own limit. The client is the open loop of `open_loop`, on the core of the servers, in
//! a process of its own. A round asks the servers themselves and then every proxy; what was added
//! is the difference of the 99th percentiles.

use std::env;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::config::{Place, Setup};
use crate::cost;
use crate::open_loop;
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::free_ports;
use crate::run::{Effort, LOAD_CORE, PROXY_CORE, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};

pub(crate) const NAME: &str = "fixed rate";

/// Send Poisson arrivals to a port of loopback and print percentiles as JSON
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    port: u16,
    /// Requests per second
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    requests: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Measures every given proxy.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop, effort: Effort) -> Result<Section> {
    let servers: [u16; 4] = free_ports()?;
    let _backend = cost::start_backend(&servers, &workshop.directory)?;
    let mut proxies = Vec::new();
    for kind in kinds {
        let [port] = free_ports()?;
        let place = Place { port, servers: &servers, directory: &workshop.directory };
        let config = Setup::Usual.config(*kind, &place)?;
        proxies.push(workshop.start(*kind, port, &config, PROXY_CORE)?);
    }
    let mut rows: Vec<Row> = proxies.iter().map(Row::new).collect();
    for round in 0..=effort.rounds as u64 {
        let direct = ask(servers[0], (RATE, REQUESTS), round)?;
        for (proxy, row) in proxies.iter().zip(&mut rows) {
            let through = ask(proxy.port, (RATE, REQUESTS), round)?;
            // The first round fills the pools of server connections.
            if round > 0 {
                row.rounds.push(Added { direct, through });
            }
        }
    }
    println!("\n{}", table(&rows, effort.rounds));
    let mut section = Section::new(NAME);
    judge(&rows).into_iter().for_each(|verdict| section.judge(verdict));
    section.record("10,000/s", rows.iter().map(Row::to_json).collect());
    Ok(section)
}

/// The client, in a process of its own so that it has a core of its own.
pub(crate) fn pace(args: &Args) -> Result<()> {
    let plan = open_loop::poisson(args.rate, args.requests, args.seed);
    let answers = open_loop::run(args.port, &plan)?;
    let failed = answers.iter().filter(|answer| answer.result.is_err()).count();
    let mut times: Vec<f64> =
        answers.iter().map(|answer| answer.response_time.as_secs_f64() * 1e6).collect();
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    ensure!(!times.is_empty(), "no request was planned");
    println!("{}", json!({ "p50_us": quantile(0.5), "p99_us": quantile(0.99), "failed": failed }));
    Ok(())
}

struct Row {
    kind: Kind,
    rounds: Vec<Added>,
}

/// A round: the servers themselves, then through the proxy.
#[derive(Clone, Copy)]
struct Added {
    direct: Percentiles,
    through: Percentiles,
}

/// In microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Percentiles {
    p50: f64,
    pub(crate) p99: f64,
    pub(crate) failed: u64,
}

impl Row {
    fn new(proxy: &Proxy) -> Self {
        Self { kind: proxy.kind, rounds: Vec::new() }
    }

    fn p50(&self) -> Summary {
        Summary::of(self.rounds.iter().map(|round| round.through.p50 - round.direct.p50))
    }

    fn p99(&self) -> Summary {
        Summary::of(self.rounds.iter().map(Added::p99))
    }

    fn failed(&self) -> u64 {
        self.rounds.iter().map(|round| round.through.failed).sum()
    }

    fn to_json(&self) -> Value {
        let round = |added: &Added| {
            let Added { direct, through } = added;
            json!({
                "direct_p50_us": direct.p50, "direct_p99_us": direct.p99,
                "p50_us": through.p50, "p99_us": through.p99, "failed": through.failed,
            })
        };
        let rounds: Vec<Value> = self.rounds.iter().map(round).collect();
        json!({ "proxy": self.kind.name(), "rounds": rounds })
    }
}

impl Percentiles {
    pub(crate) fn to_json(self) -> Value {
        json!({ "p50_us": self.p50, "p99_us": self.p99, "failed": self.failed })
    }
}

impl Added {
    fn p99(&self) -> f64 {
        self.through.p99 - self.direct.p99
    }
}

/// Sends so many requests, at so many per second, from a process on the core of the load.
pub(crate) fn ask(port: u16, (rate, requests): (&str, &str), seed: u64) -> Result<Percentiles> {
    let program = env::current_exe().context("find this program")?;
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "taskset", "-c", &LOAD_CORE.to_string()])
        .arg(program)
        .args(["pace", &port.to_string(), "--rate", rate, "--requests", requests])
        .args(["--seed", &seed.to_string()])
        .output()
        .context("start the client")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the client ended with {}: {said}", output.status);
    let record: Value = serde_json::from_slice(&output.stdout).context("read its record")?;
    let figure = |name: &str| record[name].as_f64().with_context(|| format!("no {name}"));
    let failed = record["failed"].as_u64().context("no count of failures")?;
    Ok(Percentiles { p50: figure("p50_us")?, p99: figure("p99_us")?, failed })
}

fn judge(rows: &[Row]) -> Option<Verdict> {
    let ours = rows.iter().find(|row| row.kind == Kind::Loadline)?;
    let better = rows
        .iter()
        .filter(|row| row.kind != Kind::Loadline)
        .min_by(|a, b| a.p99().median.total_cmp(&b.p99().median))?;
    let pairs = ours.rounds.iter().zip(&better.rounds);
    let ratio = Summary::of(pairs.map(|(mine, theirs)| mine.p99() / theirs.p99()));
    println!(
        "ratio to {}: {:.2} ({:.2}..{:.2})",
        better.kind.name(),
        ratio.median,
        ratio.min,
        ratio.max
    );
    let failed = ours.failed();
    let flaw = (failed > 0).then(|| format!("{failed} requests failed"));
    Some(Verdict::new("p99 added at 10,000/s", ratio.median, Target::AtMost(1.0)).flaw(flaw))
}

fn table(rows: &[Row], rounds: usize) -> String {
    let mut text = format!("fixed rate: {RATE}/s, Poisson, {rounds} rounds\n{COLUMNS}");
    for row in rows {
        let (p50, p99) = (row.p50(), row.p99());
        text += &format!(
            "\n{:9}{:>14.0}{:>14.0}{:>16}{:>8}",
            row.kind.name(),
            p50.median,
            p99.median,
            format!("{:.0}..{:.0}", p99.min, p99.max),
            row.failed(),
        );
    }
    text
}

const COLUMNS: &str = "            added p50 us  added p99 us        min..max  failed";
const RATE: &str = "10000";
const REQUESTS: &str = "20000";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, added: &[f64]) -> Row {
        let direct = Percentiles { p50: 100.0, p99: 200.0, failed: 0 };
        let through = |p99: &f64| Percentiles { p50: 150.0, p99: 200.0 + p99, failed: 0 };
        Row {
            kind,
            rounds: added.iter().map(|p99| Added { direct, through: through(p99) }).collect(),
        }
    }

    #[test]
    fn what_was_added_is_compared_and_not_what_the_servers_took() {
        let rows = [
            row(Kind::Loadline, &[50.0, 60.0, 80.0]),
            row(Kind::HaProxy, &[500.0, 500.0, 500.0]),
            row(Kind::Nginx, &[100.0, 100.0, 100.0]),
        ];
        let verdict = judge(&rows).unwrap();
        assert_eq!(verdict.to_string(), "PASS p99 added at 10,000/s 0.60 (<= 1.00)");
    }

    #[test]
    fn a_failed_request_fails_the_verdict() {
        let mut rows = [row(Kind::Loadline, &[50.0]), row(Kind::HaProxy, &[500.0])];
        rows[0].rounds[0].through.failed = 2;
        assert!(judge(&rows).unwrap().failed());
    }
}
