//! The time a proxy adds at 10,000 requests per second, which all of them can carry.
//!
//! A rate that is the same for all shows what waits inside a proxy; at saturation every proxy
//! shows its own limit. The client is the open loop of `open_loop`, on the core of the servers, in
//! a process of its own. A round asks the servers themselves and then every proxy, the floor among
//! them; what was added is the difference of the 99th percentiles. What is judged is by how much
//! more loadline added than the better peer, in the median of the rounds: no more than the median
//! of so few rounds scatters by itself.

use std::env;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::cost::{self, Contender, Role};
use crate::open_loop::{self, Objects};
use crate::peers::{Kind, Workshop};
use crate::process::free_ports;
use crate::run::{Effort, LOAD_CORE, Section};
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
    /// Ask for objects of 1 kB: so large a share of the requests, 0 to 1, for one that nobody has
    /// asked for with another seed, the others for one of a hundred
    #[arg(long)]
    misses: Option<f64>,
}

/// What the client sends, as its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// Requests per second.
    pub(crate) rate: &'static str,
    pub(crate) requests: &'static str,
    pub(crate) misses: Option<&'static str>,
}

/// Measures every given proxy.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop, effort: Effort) -> Result<Section> {
    let servers: [u16; 4] = free_ports()?;
    let _backend = cost::start_backend(&servers, &workshop.directory)?;
    let proxies = cost::start_usual(kinds, workshop, &servers)?;
    let mut rows: Vec<Row> = proxies.iter().map(Row::new).collect();
    for round in 0..=effort.rounds as u64 {
        let direct = ask(servers[0], TRAFFIC, round)?;
        for (proxy, row) in proxies.iter().zip(&mut rows) {
            let through = ask(proxy.port, TRAFFIC, round)?;
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
    let answers = match args.misses {
        None => open_loop::run(args.port, &plan)?,
        Some(misses) => open_loop::run_for(args.port, &plan, Objects { misses, seed: args.seed })?,
    };
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
    name: &'static str,
    role: Role,
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
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) failed: u64,
}

impl Row {
    const fn new(proxy: &Contender) -> Self {
        Self { name: proxy.name, role: proxy.role, rounds: Vec::new() }
    }

    fn p50(&self) -> Summary {
        Summary::of(self.rounds.iter().map(|round| round.through.p50 - round.direct.p50))
    }

    fn p99(&self) -> Summary {
        Summary::of(self.rounds.iter().map(Added::p99))
    }

    /// Those of the servers themselves with them: what they answered is what is subtracted.
    fn failed(&self) -> u64 {
        self.rounds.iter().map(|round| round.through.failed + round.direct.failed).sum()
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
        json!({ "proxy": self.name, "rounds": rounds })
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
pub(crate) fn ask(port: u16, traffic: Traffic, seed: u64) -> Result<Percentiles> {
    let Traffic { rate, requests, misses } = traffic;
    let program = env::current_exe().context("find this program")?;
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "taskset", "-c", &LOAD_CORE.to_string()])
        .arg(program)
        .args(["pace", &port.to_string(), "--rate", rate, "--requests", requests])
        .args(["--seed", &seed.to_string()])
        .args(misses.iter().flat_map(|share| ["--misses", share]))
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
    let ours = rows.iter().find(|row| row.role == Role::Judged)?;
    let peers = rows.iter().filter(|row| row.role == Role::Peer);
    let better = peers.min_by(|a, b| a.p99().median.total_cmp(&b.p99().median));
    let Some(better) = better else {
        let flaw = Some("there is no peer".to_owned());
        return Some(Verdict::new(NAME, f64::NAN, Target::AtMost(0.0)).flaw(flaw));
    };
    let pairs = ours.rounds.iter().zip(&better.rounds);
    let more: Vec<f64> = pairs.map(|(mine, theirs)| mine.p99() - theirs.p99()).collect();
    let Summary { min, median, max } = Summary::of(more.iter().copied());
    println!("more than {}: {median:.0} us ({min:.0}..{max:.0})", better.name);
    let failed = ours.failed() + better.failed();
    let flaw = (failed > 0).then(|| format!("{failed} requests failed"));
    let name = format!("p99 added at 10,000/s, more than {}", better.name);
    let target = Target::AtMost(scatter_of_median(&more));
    Some(Verdict::new(name, median, target).unit(" us").flaw(flaw))
}

/// By how much the median of so many figures scatters: in 95 of 100 such runs it is no further
/// from the truth. Their own spread is taken by the median distance from their median, which one
/// round gone wrong does not move.
fn scatter_of_median(figures: &[f64]) -> f64 {
    let middle = Summary::of(figures.iter().copied()).median;
    let distance = Summary::of(figures.iter().map(|figure| (figure - middle).abs())).median;
    let deviation = NORMAL_DEVIATION * distance;
    1.96 * MEDIAN_TO_MEAN * deviation / (figures.len() as f64).sqrt()
}

fn table(rows: &[Row], rounds: usize) -> String {
    let mut text = format!("fixed rate: {}/s, Poisson, {rounds} rounds\n{COLUMNS}", TRAFFIC.rate);
    for row in rows {
        let (p50, p99) = (row.p50(), row.p99());
        text += &format!(
            "\n{:9}{:>14.0}{:>14.0}{:>16}{:>8}",
            row.name,
            p50.median,
            p99.median,
            format!("{:.0}..{:.0}", p99.min, p99.max),
            row.failed(),
        );
    }
    text
}

const COLUMNS: &str = "            added p50 us  added p99 us        min..max  failed";
/// The standard deviation of a normal distribution, by the median distance from its median.
const NORMAL_DEVIATION: f64 = 1.4826;
/// The standard error of a median, by that of a mean.
const MEDIAN_TO_MEAN: f64 = 1.2533;
const TRAFFIC: Traffic = Traffic { rate: "10000", requests: "20000", misses: None };

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    fn row(name: &'static str, role: Role, added: &[f64]) -> Row {
        let direct = Percentiles { p50: 100.0, p99: 200.0, failed: 0 };
        let through = |p99: &f64| Percentiles { p50: 150.0, p99: 200.0 + p99, failed: 0 };
        let rounds = added.iter().map(|p99| Added { direct, through: through(p99) }).collect();
        Row { name, role, rounds }
    }

    fn rows(ours: &[f64]) -> [Row; 4] {
        [
            row("loadline", Role::Judged, ours),
            row("haproxy", Role::Peer, &[500.0; 5]),
            row("nginx", Role::Peer, &[100.0, 100.0, 120.0, 90.0, 95.0]),
            row("floor", Role::Yardstick, &[10.0; 5]),
        ]
    }

    #[test]
    fn what_was_added_is_compared_with_the_better_peer_and_not_with_the_floor() {
        let verdict = judge(&rows(&[50.0, 60.0, 80.0, 60.0, 60.0])).unwrap();
        let said = verdict.to_string();
        assert!(said.starts_with("PASS p99 added at 10,000/s, more than nginx -40 us"), "{said}");
    }

    #[test]
    fn what_is_within_the_spread_of_the_rounds_passes_and_what_is_beyond_fails() {
        let within = judge(&rows(&[80.0, 130.0, 150.0, 85.0, 100.0])).unwrap();
        assert!(!within.failed(), "{within}");
        let beyond = judge(&rows(&[150.0, 150.0, 165.0, 145.0, 140.0])).unwrap();
        assert!(beyond.failed(), "{beyond}");
    }

    #[test]
    fn the_median_of_rounds_is_within_its_scatter_in_95_of_100_runs() {
        let mut random = StdRng::seed_from_u64(7);
        let runs = 2_000;
        let mut within = 0;
        for _ in 0..runs {
            // Sums of twelve are as good as normal.
            let mut figure = || (0..12).map(|_| random.random::<f64>() - 0.5).sum::<f64>();
            let figures: Vec<f64> = (0..31).map(|_| figure()).collect();
            let median = Summary::of(figures.iter().copied()).median;
            within += usize::from(median.abs() <= scatter_of_median(&figures));
        }
        let share = within as f64 / f64::from(runs);
        assert!((0.90..0.98).contains(&share), "{share}");
    }

    #[test]
    fn a_failed_request_fails_the_verdict_whoever_was_asked() {
        for guilty in [0, 2] {
            let mut rows = rows(&[50.0; 5]);
            rows[guilty].rounds[0].through.failed = 2;
            assert!(judge(&rows).unwrap().failed());
            rows[guilty].rounds[0].through.failed = 0;
            rows[guilty].rounds[0].direct.failed = 1;
            assert!(judge(&rows).unwrap().failed());
        }
    }

    #[test]
    fn without_a_peer_it_fails() {
        assert!(judge(&rows(&[50.0; 5])[..1]).unwrap().failed());
    }
}
