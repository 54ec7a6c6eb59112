//! What sharing wastes and costs, and what faults do to it, through a real etcd: `make
//! bench-cluster`. Judged; `SECONDS` of load, `EDGES` without any and `FAULT_SECONDS` set how long
//! it takes. It is no part of `cargo test`.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(dead_code, reason = "edge, etcd and traffic are those of the tests of clusters")]

mod clients;
mod decisions;
#[path = "../cluster/edge.rs"]
mod edge;
#[path = "../cluster/etcd.rs"]
mod etcd;
mod faults;
mod members;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod relay;
#[path = "../cluster/traffic.rs"]
mod traffic;

use std::{
    env, fs,
    thread::sleep,
    time::{Duration, Instant},
};

use clients::{Arrivals, Clients};
use edge::Edge;
use etcd::Etcd;
use relay::{Cut, relay};
use traffic::Server;

/// Round trips to the store.
const RTTS_MS: [u64; 3] = [30, 110, 160];

/// From each edge to each group, as the edge is told: one beside each edge, and one between them.
const FROM_EDGES_MS: [[u64; 4]; 3] = [[1, 30, 110, 60], [30, 1, 160, 60], [110, 160, 1, 60]];

/// From each edge to each member of a store that has one beside each edge.
const TO_MEMBERS_MS: [[u64; 3]; 3] = [[1, 30, 110], [30, 1, 160], [110, 160, 1]];

/// Of a group, per second, and at once.
const RATE: u32 = 300;
const BURST: u32 = 30;
const GROUPS: u32 = 4;

/// What clients want of all there is.
const LOAD: f64 = 0.9;

/// Of that, by edge; each edge in turn has the most for one period.
const PARTS: [f64; 3] = [0.60, 0.25, 0.15];
const PERIOD: Duration = Duration::from_secs(10);

/// Clients of an edge: so many that they ask as if nobody waited for a response.
const CLIENTS: u32 = 8;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// Prints a line, and whether it is as it must be.
fn judge(what: &str, figure: f64, most: f64) -> bool {
    let verdict = if figure <= most { "PASS" } else { "FAIL" };
    println!("{verdict}  {what}: {figure:.2} (at most {most:.2})");
    figure <= most
}

/// A service of one group for each server.
fn site(servers: &[Server]) -> String {
    let mut web = "[service.web]\nwhen_full = \"shed\"\n".to_owned();
    for (nth, server) in servers.iter().enumerate() {
        web += &format!(
            "[[service.web.group]]\nregion = \"region-{nth}\"\n\
             servers = [{:?}]\nmax_rate = \"{RATE}/s\"\nburst = {BURST}\n",
            server.address
        );
    }
    web
}

/// How far each group is from an edge.
fn rtts(edge: usize) -> String {
    let rtts = FROM_EDGES_MS[edge].iter().enumerate();
    let rtts: Vec<String> =
        rtts.map(|(group, rtt)| format!("\"region-{group}\" = \"{rtt}ms\"")).collect();
    format!("[regions.here]\nrtt = {{ {} }}\n", rtts.join(", "))
}

/// An edge for each round trip to the store, which share these servers.
fn sharing(etcd: &Etcd, servers: &[Server]) -> Vec<Edge> {
    let edge = |(nth, rtt): (usize, &u64)| {
        let store = etcd.url().trim_start_matches("http://").to_owned();
        let url = format!("http://{}", relay(&store, Duration::from_millis(*rtt), &Cut::default()));
        let cluster = "floor = \"1%\"\nmax_edges = 3";
        let edge = Edge::at(&[url], &format!("edge-{nth}"), cluster, &(site(servers) + &rtts(nth)));
        edge.edit("lease = \"2s\"", "lease = \"3s\"");
        edge.start()
    };
    let edges: Vec<Edge> = RTTS_MS.iter().enumerate().map(edge).collect();
    for edge in &edges {
        edge.until(|it| it["sharing"]["leased"] == true && it["sharing"]["edges"] == 3);
    }
    edges
}

#[test]
fn three_edges_share_four_groups_while_demand_moves() {
    let etcd = Etcd::start();
    let servers: Vec<Server> = (0..GROUPS).map(|_| Server::start(Duration::ZERO)).collect();
    let edges = sharing(&etcd, &servers);
    let all = LOAD * f64::from(RATE * GROUPS);
    let demands: Vec<Clients> =
        edges.iter().map(|edge| Clients::begin(&edge.traffic, CLIENTS)).collect();
    let ask = |turn: usize| {
        for (nth, demand) in demands.iter().enumerate() {
            let part = PARTS[(nth + PARTS.len() - turn % PARTS.len()) % PARTS.len()];
            demand.change((all * part * 1e3 / f64::from(CLIENTS)) as u32);
        }
    };
    ask(0);
    sleep(PERIOD / 2);
    let (begun, revision) = (Instant::now(), revision_of(&etcd));
    let (mut late, mut gained) = (0, 0);
    let turns = number("SECONDS", 60).div_ceil(PERIOD.as_secs()).max(1) as usize;
    for turn in 1..=turns {
        ask(turn);
        // From a second after the step on, what the edge that has gained is refused.
        sleep(Duration::from_secs(1));
        let rising = &demands[turn % demands.len()];
        let before = rising.counts();
        sleep(PERIOD - Duration::from_secs(1));
        let after = rising.counts();
        late += after.1 - before.1;
        gained += after.0 + after.1 - before.0 - before.1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut arrivals = Arrivals::since(begun);
    demands.iter().for_each(|demand| arrivals.add(demand));
    let (asked, given) = (arrivals.asked(), arrivals.given());
    let could = arrivals.could(RATE * GROUPS, BURST * GROUPS);
    let waste = 100.0 * could.saturating_sub(given) as f64 / could as f64;
    let busiest = servers.iter().map(|server| server.busiest_second(begun)).max().unwrap_or(0);
    let writes = (revision_of(&etcd) - revision) as f64 / seconds;
    let lapses = |edge: &Edge| edge.log().matches("no lease of the store").count();
    println!("leases that ended meanwhile: {}", edges.iter().map(lapses).sum::<usize>());
    println!("{asked} requests in {seconds:.0} s, {given} given, {could} by one edge with all");
    let most = f64::from(RATE + BURST) + edges.len() as f64;
    let verdicts = [
        judge("most requests in any second at a group", busiest as f64, most),
        judge("waste, % of what one edge with all would give", waste, 3.0),
        judge("refused later than 1 s after a step, %", 100.0 * late as f64 / gained as f64, 3.0),
        judge("writes to etcd per second", writes, 200.0),
        judge("requests that failed", demands.iter().map(Clients::failed).sum::<u32>().into(), 0.0),
    ];
    assert!(verdicts.into_iter().all(|passed| passed));
}

#[test]
fn edges_that_are_idle_cost_next_to_nothing() {
    assert!(idle(1, ""));
}

#[test]
fn edges_that_divide_their_checks_and_are_idle_cost_next_to_nothing() {
    assert!(idle(100, "share_health = true"));
}

/// `EDGES` with so many servers.
fn idle(servers: usize, cluster: &str) -> bool {
    let etcd = Etcd::start();
    let servers: Vec<Server> = (0..servers).map(|_| Server::start(Duration::ZERO)).collect();
    let addresses: Vec<&String> = servers.iter().map(|server| &server.address).collect();
    let count = number("EDGES", 50);
    let web = format!(
        "[service.web]\n[[service.web.group]]\nregion = \"here\"\nservers = {addresses:?}\n\
         max_rate = \"1000/s\"\n"
    );
    let edge = |nth| {
        let cluster = format!("floor = \"1%\"\nmax_edges = {count}\nid = \"bench\"\n{cluster}");
        Edge::of(&etcd, &format!("edge-{nth}"), &cluster, &web).start()
    };
    let edges: Vec<Edge> = (0..count).map(edge).collect();
    for edge in &edges {
        edge.until(|it| it["sharing"]["leased"] == true && it["sharing"]["edges"] == count);
    }
    sleep(Duration::from_secs(10));
    let used = || edges.iter().map(cpu_seconds).sum::<f64>();
    let (begun, revision, before) = (Instant::now(), revision_of(&etcd), used());
    sleep(Duration::from_secs(20));
    let seconds = begun.elapsed().as_secs_f64();
    let writes = (revision_of(&etcd) - revision) as f64 / seconds;
    let cpu = 100.0 * (used() - before) / seconds / count as f64;
    println!("{count} edges without requests for {seconds:.0} s {cluster}");
    let verdicts = [
        judge("writes to etcd per second", writes, 200.0),
        judge("CPU time of an edge, % of a core", cpu, 2.0),
    ];
    verdicts.into_iter().all(|passed| passed)
}

/// How many changes etcd has seen.
fn revision_of(etcd: &Etcd) -> i64 {
    let found = etcd.control(&["get", "none", "-w", "json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    found["header"]["revision"].as_i64().unwrap()
}

/// CPU time that the process of an edge has taken.
fn cpu_seconds(edge: &Edge) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", edge.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
}

/// Of Linux, for whoever reads `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;
