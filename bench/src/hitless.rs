//! Reloads and upgrades under load: loadline beside HAProxy, nginx and Envoy.
//!
//! 2,000 requests per second, half on kept connections and half on new ones, and 50 tunnels that
//! are opened one after another and stay. loadline reloads 200 times and is replaced by another
//! process 5 times; no request may fail, and no tunnel end by a reload: a process that leaves cuts
//! its tunnels after `drain_timeout`. The peers reload 20 times, HAProxy and nginx as a master with
//! workers, each of which stays as long as a tunnel of it lasts, Envoy in place.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::envoy;
use crate::open_loop::{self, Load, Response};
use crate::peers::{Kind, Proxy, Workshop};
use crate::process::{self, Process, free_ports};
use crate::run::{PROXY_CORE, Row, Section};
use crate::stats::{Summary, quantile};
use crate::tunnels::{Seen, Tunnels};
use crate::verdict::{Target, Verdict, late_client};
use crate::worker;

pub(crate) const NAME: &str = "hitless";

/// Reloads every given proxy under load; only loadline is judged.
pub(crate) fn measure(kinds: &[Kind], workshop: &Workshop) -> Result<Section> {
    let mut section = Section::new(NAME);
    println!("\nhitless: reloads and upgrades under {RATE}/s and {TUNNELS} tunnels\n{COLUMNS}");
    // Caddy has no upgrade but a restart.
    let mut kinds = kinds.to_vec();
    kinds.retain(|kind| *kind != Kind::Caddy);
    section.compare("reloads and upgrades", &kinds, |kind| run(kind, workshop))?;
    Ok(section)
}

/// A proxy with its file, and whoever has taken over from it.
struct Edge<'a> {
    proxy: Proxy,
    places: Places,
    /// Each took over from the one before.
    successors: Vec<u32>,
    workshop: &'a Workshop,
}

/// Where everybody listens.
#[derive(Clone, Copy)]
struct Places {
    web: u16,
    tunnels: u16,
    /// What every second configuration opens.
    spare: u16,
    echo: u16,
    servers: [u16; 4],
}

impl<'a> Edge<'a> {
    fn start(kind: Kind, workshop: &'a Workshop) -> Result<Self> {
        let [web, tunnels, spare, echo, servers @ ..]: [u16; 8] = free_ports()?;
        let places = Places { web, tunnels, spare, echo, servers };
        if kind == Kind::Envoy {
            places.write_resources(workshop, false)?;
        }
        let options: &[&str] = if kind == Kind::HaProxy { &["-W"] } else { &[] };
        let config = places.config(kind, workshop, false);
        let proxy = workshop.start_with(kind, web, &config, PROXY_CORE, options)?;
        Ok(Self { proxy, places, successors: Vec::new(), workshop })
    }

    fn file(&self) -> PathBuf {
        self.workshop.file(self.proxy.kind, self.places.web)
    }

    /// The process that takes new connections.
    fn current(&self) -> u32 {
        self.successors.last().copied().unwrap_or(self.proxy.process.id())
    }

    /// Changes the file and has it read.
    fn reload(&self, odd: bool) -> Result<()> {
        if self.proxy.kind == Kind::Envoy {
            return self.places.write_resources(self.workshop, odd);
        }
        replace(&self.file(), &self.places.config(self.proxy.kind, self.workshop, odd))?;
        let haproxy = self.proxy.kind == Kind::HaProxy;
        let signal = if haproxy { Signal::USR2 } else { Signal::HUP };
        let pid = i32::try_from(self.current()).ok().and_then(Pid::from_raw);
        let pid = pid.context("a process has a number")?;
        rustix::process::kill_process(pid, signal).context("ask for a reload")
    }

    /// Whether the proxy listens where the file says: what every second configuration opens, the
    /// next closes. Waits for that a while.
    fn has_read(&self, odd: bool) -> bool {
        let deadline = Instant::now() + READING;
        let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, self.places.spare)).is_ok();
        while listens() != odd {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Has another process take over.
    fn upgrade(&mut self) -> Result<()> {
        let done = Command::new(&self.workshop.loadline)
            .args(["upgrade", "--socket"])
            .arg(self.workshop.directory.join("control"))
            .output()
            .context("start loadline upgrade")?;
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "not upgraded: {told}{said}");
        let pid = told.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        self.successors.push(pid.with_context(|| format!("no process in {told:?}"))?);
        Ok(())
    }

    /// Those that run, of the proxy and of its successors.
    fn processes(&self) -> Vec<u32> {
        let first = self.proxy.process.id();
        let roots = self.successors.iter().copied().chain([first]);
        let mut all: Vec<u32> = roots.flat_map(process::descendants).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|pid| process::is_alive(*pid));
        all
    }
}

impl Drop for Edge<'_> {
    /// The first process ends with its value; those that took over are nobody's.
    fn drop(&mut self) {
        let pids = self.successors.iter().filter(|pid| process::is_alive(**pid));
        let pids = pids.filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
        for pid in pids {
            // It may have ended just now.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// What became of a load under reloads.
struct Run {
    kind: Kind,
    reloads: u32,
    /// Of the reloads, those that were seen to take effect.
    effective: u32,
    upgrades: usize,
    answers: Vec<Response>,
    tunnels: Seen,
    upgraded_at: Vec<Instant>,
    /// At most, while it was reloaded and before the first upgrade.
    processes: usize,
    /// When the load is over and who leaves has left.
    processes_after: usize,
    /// Before, after the reloads before the first upgrade, and afterwards, in bytes.
    memory: [u64; 3],
}

fn run(kind: Kind, workshop: &Workshop) -> Result<Run> {
    let mut edge = Edge::start(kind, workshop)?;
    let options = ["--cores", "8", "--service-time", "2ms"];
    let servers = edge.places.servers.iter();
    let _servers: Vec<Process> =
        servers.map(|port| worker::start(*port, &options, workshop)).collect::<Result<_>>()?;
    open_loop::run(edge.places.web, &open_loop::poisson(400.0, 800, WARM_UP_SEED))?;
    let ours = kind == Kind::Loadline;
    let seconds = if ours { 47.0 } else { 16.0 };
    let asks = open_loop::mix(&open_loop::poisson(RATE, (RATE * seconds) as usize, 1));
    let before = process::memory(&edge.processes())?;
    let tunnels = Tunnels::open(edge.places.tunnels, edge.places.echo, TUNNELS)?;
    let (port, start) = (edge.places.web, Instant::now() + Duration::from_millis(50));
    let load = Load { port, start, asks: &asks, patience: PATIENCE };
    let (answers, work) = thread::scope(|scope| {
        let load = scope.spawn(move || load.run());
        let work = if ours { renew(&mut edge) } else { reload(&edge, 20, PEER_GAP) };
        let answers = load.join().ok().context("the client panicked")?;
        anyhow::Ok((answers?, work?))
    })?;
    let deadline = Instant::now() + DRAIN * 2;
    while ours && edge.processes().len() > 1 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
    }
    let after = edge.processes();
    Ok(Run {
        kind,
        reloads: work.reloads,
        effective: work.effective,
        upgrades: work.upgraded_at.len(),
        memory: [before, work.memory, process::memory(&after)?],
        processes: work.processes,
        processes_after: after.len(),
        tunnels: tunnels.close()?,
        upgraded_at: work.upgraded_at,
        answers,
    })
}

/// What was done while the load was on.
struct Work {
    reloads: u32,
    effective: u32,
    /// After the reloads before the first upgrade.
    memory: u64,
    processes: usize,
    upgraded_at: Vec<Instant>,
}

fn reload(edge: &Edge<'_>, count: u32, gap: Duration) -> Result<Work> {
    let (mut most, mut effective) = (0, 0);
    thread::sleep(gap);
    for index in 1..=count {
        let odd = index % 2 == 1;
        edge.reload(odd)?;
        thread::sleep(gap);
        effective += u32::from(edge.has_read(odd));
        most = most.max(edge.processes().len());
    }
    let memory = process::memory(&edge.processes())?;
    Ok(Work { reloads: count, effective, memory, processes: most, upgraded_at: Vec::new() })
}

/// Half of the reloads of one process, the others after one upgrade or another.
fn renew(edge: &mut Edge<'_>) -> Result<Work> {
    let mut work = reload(edge, 100, GAP)?;
    for _ in 0..5 {
        work.upgraded_at.push(Instant::now());
        edge.upgrade()?;
        let more = reload(edge, 20, GAP)?;
        work.reloads += more.reloads;
        work.effective += more.effective;
    }
    Ok(work)
}

impl Run {
    fn failed(&self) -> usize {
        self.answers.iter().filter(|answer| answer.result.is_err()).count()
    }

    fn replaced(&self) -> usize {
        self.answers.iter().filter(|answer| answer.replaced).count()
    }

    /// Tunnels cut by reloads, and by upgrades: those that were open when one began.
    fn cuts(&self) -> (usize, usize) {
        let all = self.tunnels.cuts.len();
        let upgraded = self.tunnels.cuts.iter().filter(|cut| {
            self.upgraded_at.iter().any(|at| cut.opened < *at + HANDOVER && *at < cut.ended)
        });
        let by_upgrades = upgraded.count();
        (all - by_upgrades, by_upgrades)
    }

    fn times(&self) -> Vec<f64> {
        self.answers.iter().map(Response::millis).collect()
    }
}

impl Row for Run {
    fn judge(&self) -> Vec<Verdict> {
        let name = |what: &str| format!("hitless, {what}");
        let at_most = |what: &str, count: f64, most: f64| {
            Verdict::new(name(what), count, Target::AtMost(most))
        };
        let [before, reloaded, after] = self.memory.map(|bytes| bytes as f64);
        let lag = Summary::of(self.answers.iter().map(|it| it.lag.as_secs_f64() * 1e3)).max;
        let idle = (self.tunnels.echoes < ECHOES_LEAST)
            .then(|| format!("tunnels carried {} words", self.tunnels.echoes));
        let (effective, all) = (f64::from(self.effective), f64::from(self.reloads));
        vec![
            Verdict::new(name("reloads seen to take effect"), effective, Target::AtLeast(all)),
            at_most("requests failed", self.failed() as f64, 0.0).flaw(late_client(lag, LAG_MOST)),
            at_most("tunnels cut by reloads", self.cuts().0 as f64, 0.0).flaw(idle),
            at_most("processes during reloads", self.processes as f64, 1.0),
            at_most("processes after all", self.processes_after as f64, 1.0),
            at_most("memory after 100 reloads to before", reloaded / before, GROWTH_MOST),
            at_most("memory after all to before", after / before, GROWTH_MOST),
        ]
    }

    fn line(&self) -> String {
        let times = self.times();
        let (reloads, upgrades) = self.cuts();
        let [before, reloaded, after] = self.memory.map(|bytes| bytes as f64 / 1e6);
        format!(
            "{:9}{:>8}{:>9}{:>9}{:>7}{:>9}{:>8.1}{:>8.1}{:>13}{:>11}{before:>11.1}{reloaded:>7.1}\
             {after:>7.1}",
            self.kind.name(),
            self.reloads,
            self.upgrades,
            self.answers.len(),
            self.failed(),
            self.replaced(),
            quantile(times.iter().copied(), 0.99),
            Summary::of(times).max,
            format!("{reloads}, {upgrades}"),
            format!("{}, {}", self.processes, self.processes_after),
        )
    }

    fn to_json(&self) -> Value {
        let failures: Vec<&String> =
            self.answers.iter().filter_map(|answer| answer.result.as_ref().err()).collect();
        let (reloads, upgrades) = self.cuts();
        let times = self.times();
        json!({
            "proxy": self.kind.name(),
            "reloads": self.reloads,
            "effective": self.effective,
            "upgrades": self.upgrades,
            "requests": self.answers.len(),
            "failures": failures,
            "replaced": self.replaced(),
            "p99_ms": quantile(times.iter().copied(), 0.99),
            "maximum_ms": Summary::of(times).max,
            "echoes": self.tunnels.echoes,
            "tunnels_cut_by_reloads": reloads,
            "tunnels_cut_by_upgrades": upgrades,
            "processes_during_reloads": self.processes,
            "processes_after": self.processes_after,
            "memory_before_reloaded_after": self.memory,
        })
    }
}

impl Places {
    /// Every second configuration has another weight, and a listener more.
    fn config(self, kind: Kind, workshop: &Workshop, odd: bool) -> String {
        match kind {
            Kind::Loadline => self.loadline(workshop, odd),
            Kind::HaProxy => self.haproxy(odd),
            Kind::Nginx => self.nginx(workshop, odd),
            Kind::Envoy => self.envoy(workshop),
            Kind::Caddy => String::new(),
        }
    }

    fn loadline(self, workshop: &Workshop, odd: bool) -> String {
        let Self { web, tunnels, spare, echo, servers: [first, rest @ ..] } = self;
        let directory = workshop.directory.display();
        let weight = 1 + u8::from(odd);
        let spare = if odd {
            format!("[[listener]]\nbind = \"127.0.0.1:{spare}\"\nservice = \"web\"\n")
        } else {
            String::new()
        };
        let rest = rest.map(|server| format!(", \"127.0.0.1:{server}\"")).concat();
        format!(
            "[edge]\nthreads = 1\ncontrol = \"{directory}/control\"\n\
             drain_timeout = \"{}s\"\n\
             [[listener]]\nbind = \"127.0.0.1:{web}\"\nservice = \"web\"\n\
             [[listener]]\nbind = \"127.0.0.1:{tunnels}\"\nservice = \"echo\"\n{spare}\
             [service.web]\n[[service.web.group]]\n\
             servers = [{{ address = \"127.0.0.1:{first}\", weight = {weight} }}{rest}]\n\
             [service.echo]\n[[service.echo.group]]\nservers = [\"127.0.0.1:{echo}\"]\n",
            DRAIN.as_secs()
        )
    }

    fn haproxy(self, odd: bool) -> String {
        let Self { web, tunnels, spare, echo, servers } = self;
        let spare = if odd { format!("    bind 127.0.0.1:{spare}\n") } else { String::new() };
        let servers = servers.map(|server| format!("    server s{server} 127.0.0.1:{server}\n"));
        format!(
            "global\n    maxconn 9000\n    nbthread 1\n    no strict-limits\n\
             defaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n\
             timeout server 30s\n    timeout tunnel 1h\n    http-reuse always\n\
             frontend web\n    bind 127.0.0.1:{web}\n{spare}    default_backend web\n\
             frontend echo\n    bind 127.0.0.1:{tunnels}\n    default_backend echo\n\
             backend web\n{}backend echo\n    server echo 127.0.0.1:{echo}\n",
            servers.concat()
        )
    }

    /// Where Envoy finds what changes.
    fn envoy(self, workshop: &Workshop) -> String {
        let from = |name: &str| {
            let path = self.resources(workshop, name);
            json!({ "resource_api_version": "V3", "path_config_source": { "path": path } })
        };
        let dynamic = json!({ "lds_config": from("lds"), "cds_config": from("cds") });
        json!({ "node": { "id": "bench", "cluster": "bench" }, "dynamic_resources": dynamic })
            .to_string()
    }

    fn resources(self, workshop: &Workshop, name: &str) -> PathBuf {
        workshop.directory.join(format!("envoy-{}-{name}.json", self.web))
    }

    /// Envoy reads what is moved into place.
    fn write_resources(self, workshop: &Workshop, odd: bool) -> Result<()> {
        let upgrades = json!([{ "upgrade_type": "websocket" }]);
        let echo = envoy::route(&json!({ "cluster": "echo", "upgrade_configs": upgrades }));
        let echo = envoy::routes(&[json!({ "match": { "prefix": "/" }, "route": echo })]);
        let tunnels = json!({ "route_config": echo, "upgrade_configs": upgrades });
        let mut listeners = vec![
            envoy::listener(self.web, None, &json!({})),
            envoy::listener(self.tunnels, None, &tunnels),
        ];
        listeners.extend(odd.then(|| envoy::listener(self.spare, None, &json!({}))));
        let [first, rest @ ..] = self.servers;
        let mut web = vec![envoy::endpoint(first, 1 + u32::from(odd))];
        web.extend(rest.map(|server| envoy::endpoint(server, 1)));
        let clusters = [
            envoy::cluster(&self.servers, &envoy::members("web", &web)),
            envoy::cluster(&[], &envoy::members("echo", &[envoy::endpoint(self.echo, 1)])),
        ];
        for (name, kind, resources) in [
            ("cds", "cluster.v3.Cluster", &clusters[..]),
            ("lds", "listener.v3.Listener", &listeners),
        ] {
            let kind = json!({ "@type": format!("type.googleapis.com/envoy.config.{kind}") });
            let typed = |resource: &Value| envoy::with(kind.clone(), resource);
            let resources: Vec<Value> = resources.iter().map(typed).collect();
            let file = json!({ "resources": resources }).to_string();
            replace(&self.resources(workshop, name), &file)?;
        }
        Ok(())
    }

    fn nginx(self, workshop: &Workshop, odd: bool) -> String {
        let Self { web, tunnels, spare, echo, servers } = self;
        let dir = workshop.directory.display();
        let spare = if odd { format!("listen 127.0.0.1:{spare};") } else { String::new() };
        let servers = servers.map(|server| format!("server 127.0.0.1:{server};")).concat();
        format!(
            "worker_processes 1; daemon off; pid {dir}/nginx-{web}.pid;\n\
             error_log {dir}/nginx.err crit;\nevents {{ worker_connections 4096; }}\n\
             http {{ access_log off; keepalive_requests 10000000;\n\
             client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;\n\
             fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi;\n\
             scgi_temp_path {dir}/scgi; proxy_http_version 1.1;\n\
             upstream web {{ {servers} keepalive 64; }}\n\
             server {{ listen 127.0.0.1:{web} backlog=4096; {spare}\n\
             location / {{ proxy_pass http://web; proxy_set_header Connection \"\"; }} }}\n\
             server {{ listen 127.0.0.1:{tunnels};\n\
             location / {{ proxy_pass http://127.0.0.1:{echo}; proxy_read_timeout 1h;\n\
             proxy_set_header Upgrade $http_upgrade;\n\
             proxy_set_header Connection upgrade; }} }} }}\n"
        )
    }
}

/// Writes a file at once, as nobody may read half of it.
fn replace(path: &Path, text: &str) -> Result<()> {
    let next = path.with_extension("next");
    fs::write(&next, text).with_context(|| format!("write {}", next.display()))?;
    fs::rename(&next, path).with_context(|| format!("write {}", path.display()))
}

const COLUMNS: &str = "          reloads upgrades requests failed replaced  p99 ms     max \
                       tunnels cut  processes  MB before reloaded after\n\
                       (cut by reloads, by upgrades; processes at most while reloading, after all)";

/// Requests per second.
const RATE: f64 = 2_000.0;
const TUNNELS: u32 = 50;
/// Between the reloads of loadline, and of the peers: 50 tunnels are opened in 12.5 s, and each of
/// the 20 processes of a peer shall get some.
const GAP: Duration = Duration::from_millis(200);
const PEER_GAP: Duration = Duration::from_millis(700);
/// How long a process that leaves waits for its tunnels.
const DRAIN: Duration = Duration::from_secs(4);
/// A tunnel that is opened while another process takes over may still be of the old one.
const HANDOVER: Duration = Duration::from_secs(1);
/// How long a reload may take to be seen.
const READING: Duration = Duration::from_secs(2);
/// Of 50 tunnels that say four a second for 10 s and more.
const ECHOES_LEAST: u64 = 1_000;
/// As clients give up.
const PATIENCE: Duration = Duration::from_secs(5);
/// The tunnels are in it, and twice the memory while another plan is made.
const GROWTH_MOST: f64 = 2.0;
/// Of the client, in milliseconds.
const LAG_MOST: f64 = 50.0;
const WARM_UP_SEED: u64 = 99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reloads_that_had_no_effect_and_tunnels_that_carried_nothing_fail() {
        let answer = Response {
            ask: open_loop::mix(&[Duration::ZERO])[0],
            response_time: Duration::from_millis(2),
            lag: Duration::ZERO,
            replaced: false,
            result: Ok(String::new()),
        };
        let mut run = Run {
            kind: Kind::Loadline,
            reloads: 200,
            effective: 200,
            upgrades: 5,
            answers: vec![answer],
            tunnels: Seen { echoes: 8_000, cuts: Vec::new() },
            upgraded_at: Vec::new(),
            processes: 1,
            processes_after: 1,
            memory: [1 << 20; 3],
        };
        let failed = |run: &Run| run.judge().iter().filter(|it| it.failed()).count();
        assert_eq!(failed(&run), 0);
        (run.effective, run.tunnels.echoes) = (199, 0);
        assert_eq!(failed(&run), 2);
        run.answers.clear();
        assert_eq!(failed(&run), 3, "a client that asked nothing saw no failure");
    }
}
