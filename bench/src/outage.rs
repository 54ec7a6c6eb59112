//! A server dies, and a server hangs, under load: loadline beside HAProxy, nginx and Envoy, each
//! told what its manual offers against that.
//!
//! Three servers of 16 cores and 10 ms get 2,000 requests per second, every tenth a POST, half of
//! them on new connections. In the first run one is killed and comes back 3 s later; in the second
//! it is stopped for 5 s: its kernel still takes connections and requests, and nobody answers.
//!
//! When a proxy has turned away is seen from outside. From the killed: when the kernel has refused
//! the last connection of those that follow each other closely. From the hanging: when the last
//! request was planned that had to wait for it, of those that follow each other closely.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::open_loop::{self, Load, PlannedRequest, Response};
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{Process, free_ports};
use crate::run::{PROXY_CORE, Row, Section};
use crate::stats::{Summary, quantile};
use crate::verdict::{Target, Verdict, late_client};
use crate::worker;
use crate::{caddy, envoy};

pub(crate) const NAME: &str = "outage";

/// Kills and stops a server of every given proxy; only loadline is judged.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop) -> Result<Section> {
    let mut section = Section::new(NAME);
    println!("\noutage: {RATE}/s, one of three servers is killed at 3 s and back at 6 s\n{KILLED}");
    section.compare("killed", kinds, |kind| kill(kind, workshop))?;
    println!("\noutage: {RATE}/s, one of three servers hangs from 2 s to 7 s\n{STOPPED}");
    section.compare("stopped", kinds, |kind| stop(kind, workshop))?;
    Ok(section)
}

/// A proxy, its servers, and the load.
struct Scene<'a> {
    proxy: Proxy,
    ports: [u16; 3],
    servers: Vec<Process>,
    workshop: &'a Workshop,
}

impl<'a> Scene<'a> {
    fn set(kind: Kind, workshop: &'a Workshop) -> Result<Self> {
        let [port, ports @ ..]: [u16; 4] = free_ports()?;
        let servers: Result<Vec<Process>> =
            ports.iter().map(|port| start_server(*port, workshop)).collect();
        let config = config(kind, port, ports, workshop);
        let proxy = workshop.start(kind, port, &config, PROXY_CORE)?;
        // Everybody has met everybody, and first checks have passed.
        open_loop::run(port, &open_loop::poisson(400.0, 800, WARM_UP_SEED))?;
        Ok(Self { proxy, ports, servers: servers?, workshop })
    }

    /// Loads the proxy for so many seconds while `happens` does; the responses by planned instant.
    fn play<T>(
        &mut self,
        seconds: f64,
        happens: impl FnOnce(&mut Self, Instant) -> Result<T>,
    ) -> Result<(Vec<Response>, T)> {
        let asks = asks(&open_loop::poisson(RATE, (RATE * seconds) as usize, 1));
        let (port, start) = (self.proxy.port, Instant::now() + Duration::from_millis(50));
        let load = Load { port, start, asks: &asks, patience: PATIENCE };
        thread::scope(|scope| {
            let load = scope.spawn(move || load.run());
            let seen = happens(self, start);
            let answers = load.join().ok().context("the client panicked")?;
            let mut answers = answers?;
            answers.sort_by_key(|answer| answer.ask.at);
            Ok((answers, seen?))
        })
    }

    /// Ends the proxy and gives how many failed requests it has counted; of peers, nobody asks.
    fn counted(self) -> Result<Option<u64>> {
        let (kind, port) = (self.proxy.kind, self.proxy.port);
        drop(self.proxy);
        if kind != Kind::Loadline {
            return Ok(None);
        }
        let log = self.workshop.directory.join(format!("{}-{port}.log", kind.name()));
        let text = fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
        failures_counted(&text).context("loadline did not say what it counted").map(Some)
    }
}

/// Every tenth is a POST, half of those on new connections.
fn asks(plan: &[Duration]) -> Vec<PlannedRequest> {
    let mut asks = open_loop::mix(plan);
    asks.iter_mut().step_by(20).for_each(|ask| ask.post = true);
    asks.iter_mut().skip(5).step_by(20).for_each(|ask| ask.post = true);
    asks
}

/// What became of a load during which a server was killed and came back.
struct Killed {
    kind: Kind,
    failures: Failures,
    /// Of POSTs that came when the server was gone.
    late_posts: usize,
    /// Instants at which connections were refused while the server was away: its checks at least.
    refused: usize,
    /// Between the first refused connection and the last that followed, in seconds; not a number
    /// if none was, for then nobody has seen when the proxy turned away.
    ejected: f64,
    /// Of the requests it would get if all got the same, the part that the server got in its first
    /// second back, and in the last second.
    shares: [f64; 2],
    p99: f64,
    /// Failed requests by the proxy's own count, without those before the load.
    counted: Option<u64>,
    lag: f64,
}

fn kill(kind: Kind, workshop: &Workshop) -> Result<Killed> {
    let mut scene = Scene::set(kind, workshop)?;
    let (answers, (killed, refused)) = scene.play(16.0, |scene, start| {
        sleep_until(start + KILL_AT);
        let before = failed_attempts()?;
        scene.servers[1].signal(Signal::KILL)?;
        let killed = start.elapsed();
        let refused = refusals(before, start + BACK_AT - SPARE)?;
        sleep_until(start + BACK_AT);
        scene.servers[1] = start_server(scene.ports[1], scene.workshop)?;
        Ok((killed, refused))
    })?;
    let name = scene.ports[1].to_string();
    let late = |answer: &&Response| answer.ask.post && answer.ask.at > killed + SENT;
    Ok(Killed {
        kind,
        failures: Failures::of(&answers),
        late_posts: answers.iter().filter(late).filter(|it| it.result.is_err()).count(),
        refused: refused.len(),
        ejected: refused_for(&refused),
        shares: shares(&answers, &name),
        p99: quantile(answers.iter().map(Response::millis), 0.99),
        lag: Summary::of(answers.iter().map(|it| it.lag.as_secs_f64() * 1e3)).max,
        counted: scene.counted()?,
    })
}

impl Row for Killed {
    fn judge(&self) -> Vec<Verdict> {
        let name = |what: &str| format!("outage, killed: {what}");
        let none =
            |what: &str, count: usize| Verdict::new(name(what), count as f64, Target::AtMost(0.0));
        let counted = self.counted.map_or(f64::NAN, |counted| counted as f64);
        let [first, last] = self.shares;
        let verdicts = vec![
            none("GETs failed", self.failures.gets),
            none("POSTs failed that came later", self.late_posts),
            none("closed without an answer", self.failures.untold),
            Verdict::new(
                name("failures counted beside those seen"),
                (counted - self.failures.all() as f64).abs(),
                Target::AtMost(0.0),
            ),
            Verdict::new(name("out of rotation"), 1e3 * self.ejected, Target::AtMost(10.0))
                .unit(" ms"),
            Verdict::new(name("share in its first second back"), first, Target::AtMost(0.5)),
            Verdict::new(name("share in the end"), last, Target::AtLeast(0.8)),
        ];
        verdicts.into_iter().map(|verdict| verdict.flaw(late_client(self.lag, LAG_MOST))).collect()
    }

    fn line(&self) -> String {
        let Failures { gets, posts, untold, .. } = &self.failures;
        let [first, last] = self.shares;
        format!(
            "{:9}{gets:>12}{posts:>13}{untold:>12}{:>12.1}{first:>17.2}{last:>8.2}{:>9.1}{:>8.1}{}",
            self.kind.name(),
            1e3 * self.ejected,
            self.p99,
            self.lag,
            self.failures.reasons(),
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "proxy": self.kind.name(),
            "failures": self.failures.to_json(),
            "late_posts_failed": self.late_posts,
            "refused": self.refused,
            "ejected_after_s": self.ejected,
            "shares": self.shares,
            "p99_ms": self.p99,
            "failures_counted": self.counted,
            "client_lag_maximum_ms": self.lag,
        })
    }
}

/// What became of a load during which a server hung.
struct Stopped {
    kind: Kind,
    failures: Failures,
    /// Responses that took longer than a second, and those that never came.
    slow: usize,
    /// Until the proxy turned away from it, in seconds; not a number if no request waited for it.
    ejected: f64,
    longest: f64,
    lag: f64,
}

fn stop(kind: Kind, workshop: &Workshop) -> Result<Stopped> {
    let mut scene = Scene::set(kind, workshop)?;
    let (answers, stopped) = scene.play(10.0, |scene, start| {
        sleep_until(start + STOP_AT);
        scene.servers[1].signal(Signal::STOP)?;
        let stopped = start.elapsed();
        sleep_until(start + STOP_AT + HANG);
        scene.servers[1].signal(Signal::CONT)?;
        Ok(stopped)
    })?;
    let waited = answers.iter().filter(|it| it.millis() > WAITED && it.ask.at > stopped);
    let waited: Vec<f64> = waited.map(|answer| answer.ask.at.as_secs_f64()).collect();
    Ok(Stopped {
        kind,
        failures: Failures::of(&answers),
        slow: answers.iter().filter(|it| it.millis() > 1e3 || it.result.is_err()).count(),
        ejected: turned_away(&waited, stopped),
        longest: Summary::of(answers.iter().map(Response::millis)).max,
        lag: Summary::of(answers.iter().map(|it| it.lag.as_secs_f64() * 1e3)).max,
    })
}

impl Row for Stopped {
    fn judge(&self) -> Vec<Verdict> {
        let name = |what: &str| format!("outage, hanging: {what}");
        let none =
            |what: &str, count: usize| Verdict::new(name(what), count as f64, Target::AtMost(0.0));
        let verdicts = vec![
            none("GETs failed", self.failures.gets),
            none("closed without an answer", self.failures.untold),
            Verdict::new(name("out of rotation"), self.ejected, Target::AtMost(1.0)).unit(" s"),
        ];
        verdicts.into_iter().map(|verdict| verdict.flaw(late_client(self.lag, LAG_MOST))).collect()
    }

    fn line(&self) -> String {
        let Failures { gets, posts, untold, .. } = &self.failures;
        format!(
            "{:9}{gets:>12}{posts:>13}{untold:>12}{:>13.2}{:>13}{:>12.2}{:>8.1}{}",
            self.kind.name(),
            self.ejected,
            self.slow,
            self.longest / 1e3,
            self.lag,
            self.failures.reasons(),
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "proxy": self.kind.name(),
            "failures": self.failures.to_json(),
            "over_a_second": self.slow,
            "ejected_after_s": self.ejected,
            "longest_ms": self.longest,
            "client_lag_maximum_ms": self.lag,
        })
    }
}

/// Requests that were not answered with 200.
struct Failures {
    gets: usize,
    posts: usize,
    /// Of both, and of kept connections that had to be replaced: not even a status came.
    untold: usize,
    /// How many were told what.
    told: BTreeMap<String, usize>,
}

impl Failures {
    fn of(answers: &[Response]) -> Self {
        let failed = || answers.iter().filter(|answer| answer.result.is_err());
        let mut told = BTreeMap::new();
        for what in answers.iter().filter_map(|answer| answer.result.as_ref().err()) {
            *told.entry(what.clone()).or_default() += 1;
        }
        Self {
            told,
            gets: failed().filter(|answer| !answer.ask.post).count(),
            posts: failed().filter(|answer| answer.ask.post).count(),
            untold: answers.iter().filter(|answer| !answer.is_told() || answer.replaced).count(),
        }
    }

    fn all(&self) -> usize {
        self.gets + self.posts
    }

    /// What was told instead of 200, if anything.
    fn reasons(&self) -> String {
        let told = self.told.iter().map(|(what, count)| format!("\n{:11}{count} x {what}", ""));
        told.collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "gets": self.gets,
            "posts": self.posts,
            "without_answer": self.untold,
            "told": self.told,
        })
    }
}

/// When the kernel has refused connections beyond those before, in seconds since this began, until
/// then. It counts for the whole machine: nobody else may be refused meanwhile.
fn refusals(mut before: u64, until: Instant) -> Result<Vec<f64>> {
    let start = Instant::now();
    let mut refused = Vec::new();
    while Instant::now() < until {
        let now = failed_attempts()?;
        if now > before {
            refused.push(start.elapsed().as_secs_f64());
            before = now;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(refused)
}

fn failed_attempts() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/snmp").context("read /proc/net/snmp")?;
    attempt_fails(&text).context("no AttemptFails in /proc/net/snmp")
}

/// A line of names and a line of numbers for each protocol.
fn attempt_fails(snmp: &str) -> Option<u64> {
    let mut tcp = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let place = tcp.next()?.split(' ').position(|name| name == "AttemptFails")?;
    tcp.next()?.split(' ').nth(place)?.parse().ok()
}

/// How long connections were refused that followed each other closely.
fn refused_for(refused: &[f64]) -> f64 {
    burst(refused, REFUSED_GAP).map_or(f64::NAN, |(first, last)| last - first)
}

/// How long after a server has stopped the last request was planned that waited for it.
fn turned_away(waited: &[f64], stopped: Duration) -> f64 {
    burst(waited, WAITED_GAP).map_or(f64::NAN, |(_, last)| last - stopped.as_secs_f64())
}

/// The first of these instants and the last that follows without a longer gap.
fn burst(instants: &[f64], gap: f64) -> Option<(f64, f64)> {
    let (&first, rest) = instants.split_first()?;
    let mut last = first;
    for &instant in rest {
        if instant - last > gap {
            break;
        }
        last = instant;
    }
    Some((first, last))
}

/// The part of its third that a server got in the first second after it was back, and in the last.
fn shares(answers: &[Response], name: &str) -> [f64; 2] {
    let its = |answer: &&Response| answer.result.as_ref().is_ok_and(|server| server == name);
    let share = |from: Duration| {
        let until = from + Duration::from_secs(1);
        let then = || answers.iter().filter(|it| (from..until).contains(&it.ask.at));
        3.0 * then().filter(its).count() as f64 / then().count() as f64
    };
    let back = answers.iter().filter(its).find(|answer| answer.ask.at > BACK_AT);
    let last = answers.last().map_or(Duration::ZERO, |answer| answer.ask.at);
    let first = back.map_or(f64::NAN, |answer| share(answer.ask.at));
    [first, share(last.saturating_sub(Duration::from_secs(1)))]
}

/// What loadline says when it ends, `stopped NAME=COUNT ...`: all but what was complete.
fn failures_counted(log: &str) -> Option<u64> {
    let line = log.lines().rfind(|line| line.contains("stopped"))?;
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    let failed = pairs.filter(|(name, _)| !name.ends_with("complete"));
    Some(failed.filter_map(|(_, count)| count.parse::<u64>().ok()).sum())
}

fn sleep_until(instant: Instant) {
    thread::sleep(instant.saturating_duration_since(Instant::now()));
}

fn start_server(port: u16, workshop: &Workshop) -> Result<Process> {
    let name = port.to_string();
    let options = ["--cores", "16", "--service-time", "10ms", "--name", &name];
    worker::start(port, &options, workshop)
}

/// Checks every second, three seconds for a response, and what each has besides: repeated requests
/// where that is safe, errors of real requests, and a slow start of 3 s where there is one.
fn config(kind: Kind, port: u16, servers: [u16; 3], workshop: &Workshop) -> String {
    let list = |line: fn(u16) -> String| servers.map(line).concat();
    match kind {
        Kind::Loadline => format!(
            "[edge]\nthreads = 1\n[[listener]]\nbind = \"127.0.0.1:{port}\"\nservice = \"web\"\n\
             [service.web]\nslow_start = \"3s\"\ntimeouts = {{ head = \"3s\" }}\n\
             health = {{ http = \"/health-check\", interval = \"1s\" }}\n\
             [[service.web.group]]\nservers = [{}]\n",
            list(|server| format!("\"127.0.0.1:{server}\", "))
        ),
        Kind::HaProxy => format!(
            "global\n    maxconn 9000\n    nbthread 1\n    no strict-limits\n\
             defaults\n    mode http\n    balance leastconn\n    timeout connect 1s\n\
             timeout client 30s\n    timeout server 3s\n    retries 3\n    option redispatch 1\n\
             retry-on all-retryable-errors\n    option httpchk GET /health-check\n\
             default-server check inter 1s fastinter 250ms fall 3 rise 2 slowstart 3s \
             observe layer4 error-limit 3 on-error mark-down\n\
             frontend f\n    bind 127.0.0.1:{port}\n    default_backend b\n\
             backend b\n    http-request disable-l7-retry unless METH_GET\n{}",
            list(|server| format!("    server s{server} 127.0.0.1:{server}\n"))
        ),
        Kind::Envoy => envoy_config(port, servers),
        Kind::Caddy => caddy_config(port, servers),
        Kind::Nginx => {
            let directory = workshop.directory.display();
            let dead = "max_fails=1 fail_timeout=3s";
            format!(
                "worker_processes 1; daemon off; pid {directory}/nginx-{port}.pid;\n\
                 error_log {directory}/nginx.err crit;\n\
                 events {{ worker_connections 4096; }}\nhttp {{ access_log off;\n\
                 client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;\n\
                 fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;\n\
                 scgi_temp_path {directory}/scgi; keepalive_requests 10000000;\n\
                 upstream b {{ zone b 64k; least_conn; {} keepalive 64; }}\n\
                 server {{ listen 127.0.0.1:{port} backlog=4096;\n\
                 location / {{ proxy_pass http://b; proxy_http_version 1.1;\n\
                 proxy_set_header Connection \"\"; proxy_connect_timeout 1s;\n\
                 proxy_read_timeout 3s; }} }} }}\n",
                servers.map(|server| format!("server 127.0.0.1:{server} {dead};")).concat()
            )
        }
    }
}

/// It tries again what it may; a server that failed once is left alone for three seconds.
fn caddy_config(port: u16, servers: [u16; 3]) -> String {
    let settings = json!({
        "load_balancing": {
            "selection_policy": { "policy": "least_conn" },
            "retries": 3,
            "try_interval": "0s",
        },
        "health_checks": {
            "active": { "uri": "/health-check", "interval": "1s", "timeout": "1s" },
            "passive": { "fail_duration": "3s", "max_fails": 1 },
        },
        "transport": {
            "protocol": "http",
            "dial_timeout": "1s",
            "response_header_timeout": "3s",
            "keep_alive": { "max_idle_conns_per_host": 1024 },
        },
    });
    let web = caddy::server(port, false, &caddy::proxy(&servers, &settings), &json!({}));
    caddy::file(&json!({ "web": web }), None)
}

/// GETs are tried three times more on other servers, POSTs where no connection was had.
fn envoy_config(port: u16, servers: [u16; 3]) -> String {
    let route = |retries: Value| {
        let tried = json!({
            "num_retries": 3,
            "per_try_timeout": "3s",
            "retry_host_predicate": [{
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts\
                              .v3.PreviousHostsPredicate",
                },
            }],
            "host_selection_retry_max_attempts": 5,
        });
        envoy::route(&json!({ "retry_policy": envoy::with(tried, &retries) }))
    };
    let get = json!([{ "name": ":method", "string_match": { "exact": "GET" } }]);
    let routes = envoy::routes(&[
        json!({
            "match": { "prefix": "/", "headers": get },
            "route": route(json!({ "retry_on": "5xx,reset,connect-failure" })),
        }),
        json!({
            "match": { "prefix": "/" },
            "route": route(json!({ "retry_on": "connect-failure" })),
        }),
    ]);
    let cluster = envoy::cluster(
        &servers,
        &json!({
            "connect_timeout": "1s",
            "lb_policy": "LEAST_REQUEST",
            "least_request_lb_config": { "slow_start_config": { "slow_start_window": "3s" } },
            "health_checks": [{
                "timeout": "3s", "interval": "1s", "unhealthy_threshold": 3,
                "healthy_threshold": 2, "http_health_check": { "path": "/health-check" },
            }],
            "outlier_detection": {
                "consecutive_5xx": 3, "consecutive_gateway_failure": 3,
                "enforcing_consecutive_gateway_failure": 100, "base_ejection_time": "3s",
                "interval": "1s", "max_ejection_percent": 67,
            },
        }),
    );
    envoy::file(&[envoy::listener(port, None, &json!({ "route_config": routes }))], &[cluster])
}

const KILLED: &str = "          GETs failed POSTs failed    untold  rotation ms  share at return   \
                      later   p99 ms  lag ms";
const STOPPED: &str = "          GETs failed POSTs failed    untold   rotation s    over 1 s   \
                       longest s  lag ms";

/// Requests per second: the two that are left have 16 cores each, and 2,000 x 10 ms take 20.
const RATE: f64 = 2_000.0;
const KILL_AT: Duration = Duration::from_secs(3);
const BACK_AT: Duration = Duration::from_secs(6);
/// No refusal is looked for in the last of the time that the server is away.
const SPARE: Duration = Duration::from_millis(50);
const STOP_AT: Duration = Duration::from_secs(2);
const HANG: Duration = Duration::from_secs(5);
/// As clients give up: sooner than a server that hangs is back.
const PATIENCE: Duration = Duration::from_secs(5);
/// A dying process keeps its connections for some milliseconds, and what is sent there counts as
/// sent.
const SENT: Duration = Duration::from_millis(10);
/// Between refused connections, in seconds; at 2,000 requests per second they come every 1.5 ms.
const REFUSED_GAP: f64 = 0.02;
/// A response that took longer, in milliseconds, has waited for the server that hangs.
const WAITED: f64 = 60.0;
/// Between requests that had to wait, in seconds.
const WAITED_GAP: f64 = 0.2;
/// Of the client, in milliseconds.
const LAG_MOST: f64 = 50.0;
const WARM_UP_SEED: u64 = 99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_where_the_gap_is_longer() {
        assert_eq!(burst(&[1.0, 1.01, 1.015, 2.0], 0.02), Some((1.0, 1.015)));
        assert_eq!(burst(&[], 0.02), None);
    }

    fn killed(refused: &[f64]) -> Killed {
        Killed {
            kind: Kind::Loadline,
            failures: Failures::of(&[]),
            late_posts: 0,
            refused: refused.len(),
            ejected: refused_for(refused),
            shares: [0.2, 1.0],
            p99: 12.0,
            counted: Some(0),
            lag: 1.0,
        }
    }

    #[test]
    fn an_outage_in_which_nothing_was_seen_is_no_quick_one() {
        let out = |row: &dyn Row| {
            row.judge().iter().filter(|it| it.failed()).map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(out(&killed(&[3.0, 3.004])), Vec::<String>::new());
        assert_eq!(out(&killed(&[])), ["FAIL outage, killed: out of rotation NaN ms (<= 10 ms)"]);
        let stopped = |waited: &[f64]| Stopped {
            kind: Kind::Loadline,
            failures: Failures::of(&[]),
            slow: 0,
            ejected: turned_away(waited, Duration::from_secs(2)),
            longest: 12.0,
            lag: 1.0,
        };
        assert_eq!(out(&stopped(&[2.0, 2.1])), Vec::<String>::new());
        assert_eq!(out(&stopped(&[])), ["FAIL outage, hanging: out of rotation NaN s (<= 1.00 s)"]);
    }

    #[test]
    fn refused_connections_are_found_by_name() {
        let snmp = "Ip: A B\nIp: 1 2\nTcp: RtoMax AttemptFails EstabResets\nTcp: -1 7 9\nUdp: A\n";
        assert_eq!(attempt_fails(snmp), Some(7));
        assert_eq!(attempt_fails("Udp: A\nUdp: 1\n"), None);
    }

    #[test]
    fn what_is_counted_is_everything_that_was_not_complete() {
        let log = "12:00 INFO listening\n12:01 INFO stopped complete=9 server-reset=2 shed=1\n";
        assert_eq!(failures_counted(log), Some(3));
        assert_eq!(failures_counted(""), None);
    }

    #[test]
    fn a_tenth_are_posts_and_half_of_these_on_new_connections() {
        let asks = asks(&[Duration::ZERO; 40]);
        let posts: Vec<&PlannedRequest> = asks.iter().filter(|ask| ask.post).collect();
        assert_eq!((posts.len(), posts.iter().filter(|ask| ask.fresh).count()), (4, 2));
    }
}
