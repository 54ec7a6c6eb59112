//! Overflow between regions: loadline beside the best that configuration can make of HAProxy and
//! Envoy.
//!
//! Near are three servers of two cores and 38 ms, 158 requests per second at most; far the same,
//! 30 ms away. Five times 500 Poisson arrivals at 200 per second must overflow, 500 at 80 per
//! second need not: a wait near of a few milliseconds beats 30 ms of distance. Each proxy has its
//! own six servers and gets the same arrivals; while one is loaded the other is idle.

mod config;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::open_loop::{self, Response};
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{Process, free_ports};
use crate::run::{Effort, PROXY_CORE, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict, late_client};
use crate::worker;

pub(crate) const NAME: &str = "overflow";

/// Runs the two loads against every given proxy that can overflow.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop, effort: Effort) -> Result<Section> {
    let mut sides = Vec::new();
    for case in CASES.iter().filter(|case| kinds.contains(&case.kind)) {
        sides.push(Side::start(case, workshop)?);
    }
    // Both must have met their servers before they are judged.
    for side in &mut sides {
        side.load(80.0, 100, WARM_UP_SEED)?;
    }
    let runs = effort.rounds.min(5) as u64;
    for seed in 1..=runs {
        for side in &mut sides {
            let run = side.load(200.0, REQUESTS, seed)?;
            side.over.push(run);
        }
    }
    for side in &mut sides {
        side.under = Some(side.load(80.0, REQUESTS, runs + 1)?);
    }
    println!("\n{}", table(&sides, runs));
    let mut section = Section::new(NAME);
    if let Some(ours) = sides.iter().find(|side| side.proxy.kind == Kind::Loadline) {
        judge(ours).into_iter().for_each(|verdict| section.judge(verdict));
    }
    section.record("200/s and 80/s", sides.iter().map(Side::to_json).collect());
    Ok(section)
}

/// A proxy and how it is told to leave a region. nginx leaves one when its servers fail, not when
/// they are full.
struct Case {
    name: &'static str,
    kind: Kind,
    config: fn(u16, &[u16], &[u16]) -> String,
}

const CASES: [Case; 4] = [
    Case { name: "loadline", kind: Kind::Loadline, config: config::loadline },
    Case { name: "haproxy", kind: Kind::HaProxy, config: config::haproxy },
    Case { name: "envoy, zone-aware", kind: Kind::Envoy, config: config::zone_aware },
    Case { name: "envoy, load-aware", kind: Kind::Envoy, config: config::load_aware },
];

/// A proxy, its servers and what it made of the loads.
struct Side {
    name: &'static str,
    proxy: Proxy,
    _servers: Vec<Process>,
    idle_since: Instant,
    over: Vec<Run>,
    under: Option<Run>,
}

/// The responses of one load.
struct Run(Vec<Response>);

impl Side {
    fn start(case: &Case, workshop: &Workshop) -> Result<Self> {
        let [port, servers @ ..]: [u16; 7] = free_ports()?;
        let (near, far) = servers.split_at(3);
        let mut processes = Vec::new();
        for (region, delay, ports) in [("near", "0s", near), ("far", DISTANCE, far)] {
            for port in ports {
                processes.push(start_server(region, delay, *port, workshop)?);
            }
        }
        let config = (case.config)(port, near, far);
        let proxy = workshop.start(case.kind, port, &config, PROXY_CORE)?;
        let (idle_since, over, under) = (Instant::now(), Vec::new(), None);
        Ok(Self { name: case.name, proxy, _servers: processes, idle_since, over, under })
    }

    fn load(&mut self, rate: f64, count: usize, seed: u64) -> Result<Run> {
        thread::sleep(IDLE.saturating_sub(self.idle_since.elapsed()));
        let answers = open_loop::run(self.proxy.port, &open_loop::poisson(rate, count, seed))?;
        self.idle_since = Instant::now();
        Ok(Run(answers))
    }

    fn over(&self, figure: impl Fn(&Run) -> f64) -> Summary {
        Summary::of(self.over.iter().map(figure))
    }

    fn failed(&self) -> usize {
        self.over.iter().chain(&self.under).map(Run::failed).sum()
    }

    fn to_json(&self) -> Value {
        json!({
            "proxy": self.name,
            "at_200_per_second": self.over.iter().map(Run::to_json).collect::<Vec<_>>(),
            "at_80_per_second": self.under.as_ref().map(Run::to_json),
        })
    }
}

impl Run {
    fn times(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|answer| millis(answer.response_time))
    }

    fn average(&self) -> f64 {
        self.times().sum::<f64>() / self.0.len() as f64
    }

    fn maximum(&self) -> f64 {
        Summary::of(self.times()).max
    }

    fn failed(&self) -> usize {
        self.0.iter().filter(|answer| answer.result.is_err()).count()
    }

    /// The part of the requests that was served far, in per cent.
    fn far(&self) -> f64 {
        let far = |answer: &&Response| {
            answer.result.as_ref().is_ok_and(|server| server.starts_with("far"))
        };
        100.0 * self.0.iter().filter(far).count() as f64 / self.0.len() as f64
    }

    fn lag(&self) -> f64 {
        Summary::of(self.0.iter().map(|answer| millis(answer.lag))).max
    }

    fn failures(&self) -> Vec<&str> {
        self.0
            .iter()
            .filter_map(|answer| answer.result.as_ref().err())
            .map(String::as_str)
            .collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "average_ms": self.average(),
            "maximum_ms": self.maximum(),
            "far_percent": self.far(),
            "client_lag_maximum_ms": self.lag(),
            "failures": self.failures(),
            "answers": self.0.iter().map(answer_to_json).collect::<Vec<_>>(),
        })
    }
}

fn answer_to_json(answer: &Response) -> Value {
    let served_by = answer.result.as_ref().ok();
    json!({ "response_time_ms": millis(answer.response_time), "served_by": served_by })
}

fn judge(side: &Side) -> Vec<Verdict> {
    let far = side.under.as_ref().map_or(f64::NAN, Run::far);
    let average = side.over(Run::average).median;
    let maximum = side.over(Run::maximum).median;
    let verdicts = vec![
        Verdict::new("overflow, failures", side.failed() as f64, Target::AtMost(0.0)),
        Verdict::new("overflow at 200/s, average", average, Target::AtMost(54.0)).unit(" ms"),
        Verdict::new("overflow at 200/s, maximum", maximum, Target::AtMost(100.0)).unit(" ms"),
        Verdict::new("overflow at 80/s, sent far", far, Target::AtMost(0.5)).unit(" %"),
    ];
    let lag = Summary::of(side.over.iter().chain(&side.under).map(Run::lag)).max;
    verdicts.into_iter().map(|verdict| verdict.flaw(late_client(lag, LAG_MOST))).collect()
}

fn table(sides: &[Side], runs: u64) -> String {
    let mut text = format!(
        "overflow: {runs} runs of {REQUESTS} Poisson arrivals at 200/s, then {REQUESTS} at 80/s; \
         medians (min..max)\n{:18}{:>22}{:>24}{:>20}{:>14}{:>8}{:>8}",
        "", "average ms", "maximum ms", "far %", "far % at 80/s", "failed", "lag ms"
    );
    for side in sides {
        let cell = |figure: fn(&Run) -> f64| {
            let Summary { min, median, max } = side.over(figure);
            format!("{median:.1} ({min:.1}..{max:.1})")
        };
        text += &format!(
            "\n{:18}{:>22}{:>24}{:>20}{:>14.1}{:>8}{:>8.1}",
            side.name,
            cell(Run::average),
            cell(Run::maximum),
            cell(Run::far),
            side.under.as_ref().map_or(f64::NAN, Run::far),
            side.failed(),
            side.over(Run::lag).max,
        );
    }
    text
}

fn start_server(region: &str, delay: &str, port: u16, workshop: &Workshop) -> Result<Process> {
    let work = ["--cores", "2", "--service-time", SERVICE_TIME, "--report-utilization"];
    let place = ["--delay", delay, "--region", region];
    worker::start(port, &[&work[..], &place].concat(), workshop)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

const REQUESTS: usize = 500;
const SERVICE_TIME: &str = "38ms";
const DISTANCE: &str = "30ms";
/// Of the client, in milliseconds: half a round-trip to the other region.
const LAG_MOST: f64 = 15.0;
/// Between two runs against one proxy.
const IDLE: Duration = Duration::from_secs(2);
const WARM_UP_SEED: u64 = 99;
