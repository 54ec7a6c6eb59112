//! What a request costs: CPU time per request of loadline beside HAProxy and nginx.
//!
//! Every proxy runs from the start to the end, alone on its core; wrk and the servers share the
//! other. A round measures each of them in turn, and every second round in reverse, so that a
//! machine that drifts does so for all. Medians of rounds are printed; what is judged is the median
//! of the ratios within rounds, against the peer that is cheaper by its median.

use std::env;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::config::{Place, Setup};
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{Process, free_ports};
use crate::run::{Effort, LOAD_CORE, PROXY_CORE, Section};
use crate::stats::Summary;
use crate::verdict::{Target, Verdict};
use crate::wrk::{Load, Outcome};

/// One kind of traffic.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    load: Load,
    setup: Setup,
    /// For the ratio to the better of the others.
    target: Target,
}

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, setup: Setup, connections, path, headers, target| {
        let load = Load { scheme: setup.scheme(), connections, path, headers };
        Case { name, load, setup, target }
    };
    let usual = |name, connections, path, headers, at_most| {
        case(name, Setup::Usual, connections, path, headers, Target::AtMost(at_most))
    };
    let close = &["Connection: close"];
    vec![
        usual(SMALL, 64, "/s", &[], 0.70),
        usual("11 headers", 64, "/s", &BROWSER, 0.85),
        usual("50 kB", 64, "/m", &[], 0.65),
        usual("1000 connections", 1000, "/s", &[], 0.65),
        usual("connection per request", 64, "/s", close, 0.85),
        case("TLS keep-alive", Setup::Tls, 64, "/s", &[], Target::AtMost(0.75)),
        case("TLS handshakes", Setup::Tls, 64, "/s", close, Target::AtMost(0.60)),
        case("10 MB, spliced", Setup::Splice, 8, "/l", &[], Target::AtMost(1.05)),
        case("access log", Setup::AccessLog, 64, "/s", &[], Target::AtMost(1.08)),
        case(
            "50 kB, peers with 64 kB buffers",
            Setup::LargeBuffers,
            64,
            "/m",
            &[],
            Target::Wish(1.0),
        ),
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
        for case in cases {
            let rows = rounds(case, &contenders, effort)?;
            println!("\n{}", table(case, &rows, effort));
            for verdict in judge(case, &rows) {
                section.judge(verdict);
            }
            section.record(case.name, rows.iter().map(Row::to_json).collect());
        }
    }
    Ok(section)
}

/// A proxy that runs, under the name it has in the tables. The first is the one that is judged,
/// against the best of the others.
struct Contender {
    name: &'static str,
    proxy: Proxy,
}

/// The samples of one proxy in one case, in the order of the rounds.
struct Row {
    name: &'static str,
    samples: Vec<Sample>,
}

/// One proxy in one round.
struct Sample {
    outcome: Outcome,
    /// CPU time per request in microseconds.
    cost: f64,
    /// The part of it in user space.
    user: f64,
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
    let program = env::current_exe().context("find this program")?;
    let mut command = vec![program.display().to_string(), "backend".to_owned()];
    command.extend(options.iter().map(ToString::to_string));
    command.extend(ports.iter().map(u16::to_string));
    let mut backend = Process::start(LOAD_CORE, &command, &directory.join("backend.log"))?;
    for port in ports {
        backend.wait_for(*port)?;
    }
    Ok(backend)
}

fn start_contenders(
    kinds: &[Kind],
    workshop: &Workshop,
    servers: &[u16],
    setup: Setup,
) -> Result<Vec<Contender>> {
    let lineup: Vec<(&'static str, Kind, Setup)> = if setup == Setup::AccessLog {
        vec![("logging", Kind::Loadline, setup), ("silent", Kind::Loadline, Setup::Usual)]
    } else {
        kinds.iter().map(|kind| (kind.name(), *kind, setup)).collect()
    };
    let mut contenders = Vec::new();
    for (name, kind, setup) in lineup {
        let [port] = free_ports()?;
        let place = Place { port, servers, directory: &workshop.directory };
        let config = setup.config(kind, &place)?;
        let proxy = workshop.start(kind, port, &config, PROXY_CORE)?;
        contenders.push(Contender { name, proxy });
    }
    Ok(contenders)
}

fn rounds(case: &Case, contenders: &[Contender], effort: Effort) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> =
        contenders.iter().map(|one| Row { name: one.name, samples: Vec::new() }).collect();
    for contender in contenders {
        sample(case, &contender.proxy, WARM_UP_SECONDS)?;
    }
    for round in 0..effort.rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for place in order {
            let sample = sample(case, &contenders[place].proxy, effort.seconds)?;
            rows[place].samples.push(sample);
        }
    }
    Ok(rows)
}

fn sample(case: &Case, proxy: &Proxy, seconds: u64) -> Result<Sample> {
    let before = proxy.process.cpu_time()?;
    let outcome = case.load.run(LOAD_CORE, proxy.port, seconds)?;
    let spent = proxy.process.cpu_time()?.since(before);
    let cost = micros(spent.total) / outcome.requests as f64;
    Ok(Sample { outcome, cost, user: cost * spent.user_share() })
}

impl Row {
    fn summary(&self, figure: impl Fn(&Sample) -> f64) -> Summary {
        Summary::of(self.samples.iter().map(figure))
    }

    fn cost(&self) -> Summary {
        self.summary(|sample| sample.cost)
    }

    fn errors(&self) -> u64 {
        self.samples.iter().map(|sample| sample.outcome.errors).sum()
    }

    /// The ratio of the costs in each round.
    fn ratio_to(&self, other: &Self) -> Summary {
        let pairs = self.samples.iter().zip(&other.samples);
        Summary::of(pairs.map(|(mine, theirs)| mine.cost / theirs.cost))
    }

    fn to_json(&self) -> Value {
        let samples: Vec<Value> = self
            .samples
            .iter()
            .map(|sample| {
                json!({
                    "cpu_us_per_request": sample.cost,
                    "user_us_per_request": sample.user,
                    "requests": sample.outcome.requests,
                    "requests_per_second": sample.outcome.rate,
                    "p50_us": micros(sample.outcome.p50),
                    "p99_us": micros(sample.outcome.p99),
                    "errors": sample.outcome.errors,
                })
            })
            .collect();
        json!({ "proxy": self.name, "rounds": samples })
    }
}

/// Judges loadline against the better of the others; nothing where one of the two is missing.
fn judge(case: &Case, rows: &[Row]) -> Vec<Verdict> {
    let Some((ours, others)) = rows.split_first() else { return Vec::new() };
    let cheaper = |a: &&Row, b: &&Row| a.cost().median.total_cmp(&b.cost().median);
    let Some(better) = others.iter().min_by(cheaper) else { return Vec::new() };
    if ours.name == Kind::HaProxy.name() {
        return Vec::new();
    }
    let ratio = ours.ratio_to(better);
    println!("ratio to {}: {:.2} ({:.2}..{:.2})", better.name, ratio.median, ratio.min, ratio.max);
    let errors: Vec<String> = rows
        .iter()
        .filter(|row| row.errors() > 0)
        .map(|row| format!("{} errors with {}", row.errors(), row.name))
        .collect();
    let flaw = (!errors.is_empty()).then(|| errors.join(", "));
    let mut verdicts = vec![Verdict::new(case.name, ratio.median, case.target).flaw(flaw)];
    if case.name == SMALL {
        let user = ours.summary(|sample| sample.user).median;
        let name = format!("{}, user time", case.name);
        verdicts.push(Verdict::new(name, user, Target::AtMost(USER_TIME)).unit(" us"));
    }
    verdicts
}

fn table(case: &Case, rows: &[Row], effort: Effort) -> String {
    let Load { scheme, connections, path, .. } = case.load;
    let Effort { rounds, seconds } = effort;
    let mut text = format!(
        "{}: {scheme}, GET {path}, {connections} connections, {rounds} rounds of {seconds} s\n\
         {COLUMNS}",
        case.name
    );
    for row in rows {
        let cost = row.cost();
        let middle = |figure: fn(&Sample) -> f64| row.summary(figure).median;
        text += &format!(
            "\n{:9}{:>15.1}{:>15}{:>9.1}{:>12.0}{:>9.0}{:>9.0}{:>8}",
            row.name,
            cost.median,
            format!("{:.1}..{:.1}", cost.min, cost.max),
            middle(|sample| sample.user),
            middle(|sample| sample.outcome.rate),
            middle(|sample| micros(sample.outcome.p50)),
            middle(|sample| micros(sample.outcome.p99)),
            row.errors(),
        );
    }
    text
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

const COLUMNS: &str = "          \
    CPU us/request       min..max     user  requests/s   p50 us   p99 us  errors";

/// The case whose user time is judged too.
const SMALL: &str = "small keep-alive";

/// Of the data path for a small request, in microseconds: the budget of all features together.
const USER_TIME: f64 = 4.0;

/// Fills the pools of server connections and the caches.
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

    fn row(name: &'static str, costs: &[f64]) -> Row {
        let sample = |cost: &f64| Sample { outcome: Outcome::default(), cost: *cost, user: 1.0 };
        Row { name, samples: costs.iter().map(sample).collect() }
    }

    #[test]
    fn the_ratio_is_taken_within_rounds_to_the_cheaper_peer() {
        // The machine halves its speed in the last round: the medians alone would say 0.6.
        let rows = [
            row("loadline", &[6.0, 6.0, 12.0]),
            row("haproxy", &[99.0, 99.0, 99.0]),
            row("nginx", &[8.0, 12.0, 24.0]),
        ];
        let verdicts = judge(&cases()[0], &rows);
        assert_eq!(verdicts[0].to_string(), "PASS small keep-alive 0.50 (<= 0.70)");
        let user = verdicts[1].to_string();
        assert_eq!(user, "PASS small keep-alive, user time 1.00 us (<= 4 us)");
    }

    #[test]
    fn an_error_with_anyone_fails_the_case() {
        let mut rows = [row("loadline", &[1.0]), row("haproxy", &[9.0])];
        rows[1].samples[0].outcome.errors = 3;
        let verdict = &judge(&cases()[0], &rows)[0];
        assert!(verdict.to_string().ends_with(": 3 errors with haproxy"), "{verdict}");
        assert!(verdict.failed());
    }

    #[test]
    fn without_loadline_or_without_a_peer_nothing_is_judged() {
        let peers = [row("haproxy", &[9.0]), row("nginx", &[9.0])];
        assert!(judge(&cases()[0], &peers).is_empty());
        assert!(judge(&cases()[0], &[row("loadline", &[9.0])]).is_empty());
    }

    #[test]
    fn the_browser_sends_11_headers_and_700_bytes() {
        let head: usize = BROWSER.iter().map(|header| header.len() + 2).sum();
        let line = "GET /s HTTP/1.1\r\nHost: 127.0.0.1:18100\r\n\r\n".len();
        assert!((690..=710).contains(&(head + line)), "{}", head + line);
    }
}
