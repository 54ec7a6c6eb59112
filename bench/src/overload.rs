//! Two and four times the capacity: loadline beside the best that configuration can make of HAProxy
//! and Envoy.
//!
//! Two servers of four cores and 20 ms, 400 requests per second at most, are offered 800 or 1,600
//! Poisson arrivals per second and then 50. What counts is how much of the capacity still goes into
//! answers, how long those take, and how soon all is well again. loadline runs once told the limit
//! and twice with nothing written; HAProxy has to be told, and has no other way; Envoy learns it
//! (adaptive concurrency).

use anyhow::Result;
use serde_json::{Value, json};

use crate::envoy;
use crate::open_loop::{self, Response};
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{Process, free_ports};
use crate::run::{Effort, PROXY_CORE, Section};
use crate::stats::{Summary, quantile};
use crate::verdict::{Target, Verdict, late_client};
use crate::worker;

pub(crate) const NAME: &str = "overload";

/// A proxy and how it knows what its servers can carry.
struct Case {
    name: &'static str,
    kind: Kind,
    config: fn(u16, [u16; 2]) -> String,
    /// Of the capacity, how much must go into answers; HAProxy is only shown.
    goodput: Option<f64>,
    /// The longest of what is answered, 99 times of 100, in milliseconds.
    p99_ms: f64,
    /// How many times the capacity.
    times: f64,
}

const CASES: [Case; 5] = [
    Case {
        name: "limit written",
        kind: Kind::Loadline,
        config: written,
        goodput: Some(97.0),
        p99_ms: 45.0 + QUEUE_MS,
        times: 2.0,
    },
    Case {
        name: "nothing written",
        kind: Kind::Loadline,
        config: nothing,
        goodput: Some(95.0),
        p99_ms: P99_MS,
        times: 2.0,
    },
    Case {
        name: "nothing, 4 times",
        kind: Kind::Loadline,
        config: nothing,
        goodput: Some(95.0),
        p99_ms: P99_MS,
        times: 4.0,
    },
    Case {
        name: "maxconn 8",
        kind: Kind::HaProxy,
        config: haproxy,
        goodput: None,
        p99_ms: 0.0,
        times: 2.0,
    },
    Case {
        name: "adaptive",
        kind: Kind::Envoy,
        config: adaptive,
        goodput: None,
        p99_ms: 0.0,
        times: 2.0,
    },
];

/// Loads every given proxy, one after another; only loadline is judged.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop, effort: Effort) -> Result<Section> {
    let mut section = Section::new(NAME);
    let seconds = if effort.rounds > 3 { 30.0 } else { 10.0 };
    println!("\noverload: {seconds} s of 2 and 4 times {CAPACITY}/s, then {AFTER}/s\n{COLUMNS}");
    for case in CASES.iter().filter(|case| kinds.contains(&case.kind)) {
        let run = load(case, workshop, seconds)?;
        println!("{}", run.line(case));
        run.judge(case).into_iter().for_each(|verdict| section.judge(verdict));
        section.record(case.name, vec![run.to_json(case)]);
    }
    Ok(section)
}

/// What became of a load.
struct Run {
    /// Responses per second while the load was on.
    goodput: f64,
    /// Of what was answered with 200, in milliseconds.
    median: f64,
    p99: f64,
    refused: usize,
    /// Of what was refused, in milliseconds.
    refused_p99: f64,
    /// From the end of the load to the last response after it that was slow or none, in seconds.
    recovery: f64,
    lag: f64,
}

fn load(case: &Case, workshop: &Workshop, seconds: f64) -> Result<Run> {
    let [port, servers @ ..]: [u16; 3] = free_ports()?;
    let options = ["--cores", "4", "--service-time", SERVICE_TIME];
    let _workers = servers
        .iter()
        .map(|port| worker::start(*port, &options, workshop))
        .collect::<Result<Vec<Process>>>()?;
    let proxy: Proxy =
        workshop.start(case.kind, port, &(case.config)(port, servers), PROXY_CORE)?;
    open_loop::run(proxy.port, &open_loop::poisson(AFTER, 50, WARM_UP_SEED))?;
    let offered = CAPACITY * case.times;
    let count = (offered * seconds) as usize;
    let mut plan = open_loop::poisson(offered, count, 1);
    let end = plan[count - 1];
    plan.extend(open_loop::poisson(AFTER, PROBES, 2).iter().map(|after| end + *after));
    Ok(Run::of(&open_loop::run(proxy.port, &plan)?, &plan, count))
}

impl Run {
    fn of(answers: &[Response], plan: &[std::time::Duration], count: usize) -> Self {
        let end = plan[count - 1];
        let millis = |answer: &&Response| answer.millis();
        let (during, after): (Vec<&Response>, Vec<&Response>) =
            answers.iter().partition(|answer| answer.ask.at <= end);
        let (good, refused): (Vec<&Response>, Vec<&Response>) =
            during.into_iter().partition(|answer| answer.result.is_ok());
        let in_time =
            good.iter().filter(|answer| answer.ask.at + answer.response_time <= end).count();
        let bad = |answer: &&&Response| answer.result.is_err() || millis(answer) > SLOW;
        let late = after.iter().filter(bad).map(|answer| (answer.ask.at - end).as_secs_f64());
        Self {
            goodput: in_time as f64 / end.as_secs_f64(),
            median: quantile(good.iter().map(millis), 0.5),
            p99: quantile(good.iter().map(millis), 0.99),
            refused: refused.len(),
            refused_p99: quantile(refused.iter().map(millis), 0.99),
            recovery: if after.is_empty() { f64::NAN } else { late.fold(0.0, f64::max) },
            lag: Summary::of(answers.iter().map(|answer| answer.lag.as_secs_f64() * 1e3)).max,
        }
    }

    fn judge(&self, case: &Case) -> Vec<Verdict> {
        let Some(goodput) = case.goodput else { return Vec::new() };
        let name = |what: &str| format!("overload, {}, {what}", case.name);
        let share = 100.0 * self.goodput / CAPACITY;
        let mut verdicts = vec![
            Verdict::new(name("goodput"), share, Target::AtLeast(goodput)).unit(" %"),
            Verdict::new(name("recovery"), self.recovery, Target::AtMost(0.2)).unit(" s"),
        ];
        let p99 = Target::AtMost(case.p99_ms);
        verdicts.push(Verdict::new(name("p99 admitted"), self.p99, p99).unit(" ms"));
        let flaw = || late_client(self.lag, LAG_MOST);
        verdicts.into_iter().map(|verdict| verdict.flaw(flaw())).collect()
    }

    fn line(&self, case: &Case) -> String {
        format!(
            "{:9}{:17}{:>8.1}{:>10.1}{:>8.1}{:>9}{:>12.1}{:>11.2}{:>8.1}",
            case.kind.name(),
            case.name,
            self.goodput,
            self.median,
            self.p99,
            self.refused,
            self.refused_p99,
            self.recovery,
            self.lag,
        )
    }

    fn to_json(&self, case: &Case) -> Value {
        json!({
            "proxy": case.kind.name(),
            "good_per_second": self.goodput,
            "median_ms": self.median,
            "p99_ms": self.p99,
            "refused": self.refused,
            "refused_p99_ms": self.refused_p99,
            "recovery_s": self.recovery,
            "client_lag_maximum_ms": self.lag,
        })
    }
}

fn written(port: u16, servers: [u16; 2]) -> String {
    let full = format!("when_full = {{ queue = \"{QUEUE_MS}ms\", length = 8, then = \"shed\" }}\n");
    loadline(port, servers, &full, "per_server = { max_in_flight = 4 }")
}

fn nothing(port: u16, servers: [u16; 2]) -> String {
    loadline(port, servers, "", "")
}

fn loadline(port: u16, [one, two]: [u16; 2], full: &str, capacity: &str) -> String {
    format!(
        "[edge]\nthreads = 1\n[[listener]]\nbind = \"127.0.0.1:{port}\"\nservice = \"web\"\n\
         [service.web]\n{full}[[service.web.group]]\n{capacity}\n\
         servers = [\"127.0.0.1:{one}\", \"127.0.0.1:{two}\"]\n"
    )
}

/// Of nine settings this had the highest goodput: two requests for each core, and a short queue.
fn haproxy(port: u16, [one, two]: [u16; 2]) -> String {
    format!(
        "global\n    maxconn 20000\n    nbthread 1\n    no strict-limits\n\
         defaults\n    mode http\n    balance leastconn\n    http-reuse always\n\
         timeout connect 5s\n    timeout client 30s\n    timeout server 30s\n\
         timeout queue 200ms\n\
         frontend f\n    bind 127.0.0.1:{port}\n    default_backend b\n\
         backend b\n    server one 127.0.0.1:{one} maxconn 8\n\
         server two 127.0.0.1:{two} maxconn 8\n"
    )
}

/// Its adaptive concurrency as its manual shows it.
fn adaptive(port: u16, servers: [u16; 2]) -> String {
    let controller = json!({
        "gradient_controller_config": {
            "sample_aggregate_percentile": { "value": 90 },
            "concurrency_limit_params": { "concurrency_update_interval": "0.1s" },
            "min_rtt_calc_params": {
                "jitter": { "value": 10 }, "interval": "60s", "request_count": 50,
            },
        },
        "enabled": { "default_value": true, "runtime_key": "adaptive" },
    });
    let filter = envoy::filter("adaptive_concurrency.v3.AdaptiveConcurrency", &controller);
    let filters = json!({ "http_filters": [filter, envoy::router()] });
    let cluster = envoy::cluster(&servers, &json!({ "lb_policy": "LEAST_REQUEST" }));
    envoy::file(&[envoy::listener(port, None, &filters)], &[cluster])
}

const COLUMNS: &str = "                            good/s p50 good ms  p99 ms  refused refused p99 \
                       recovery s  lag ms";

/// Of the two servers, requests per second: 2 x 4 cores / 20 ms.
const CAPACITY: f64 = 400.0;
/// Requests per second when the overload is over: enough to see recovery to 20 ms.
const AFTER: f64 = 50.0;
const PROBES: usize = 250;
const SERVICE_TIME: &str = "20ms";
/// What `when_full` lets a request wait, in milliseconds; 8 places are free in 20 ms.
const QUEUE_MS: f64 = 20.0;
/// Of what is answered with nothing written, in milliseconds: the requests of 20 ms that are under
/// way when it begins among them.
const P99_MS: f64 = 50.0;
/// A response after the load that takes longer, in milliseconds, is not one of a system at rest.
const SLOW: f64 = 100.0;
/// Of the client, in milliseconds: against times of 20 ms and more.
const LAG_MOST: f64 = 20.0;
const WARM_UP_SEED: u64 = 99;
