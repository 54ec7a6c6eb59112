//! How many requests are simulated per second on one core, and what that grows with.
//!
//! `make bench-sim` judges it: at least 3 million a second for 10 groups of 100 servers with
//! `least-requests`; 100,000 servers within 4 GiB, and at most three times the time a request of
//! 1,000 servers; twice as many requests in twice the time. With `--json FILE` it writes its
//! figures, of which `loadline-bench plot FILE` makes a picture.

use std::{env, fs, io, net::SocketAddr, process::ExitCode, sync::Arc, time::Instant};

use loadline_core::{
    fleet::{
        Capacity, Class, Edge, Fleet, Group, Listeners, Server, Service, forwarding::Forwarding,
    },
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, Scenario, ServiceTime, Simulation, Spacing, Stage,
    scenario::{ClientRetry, Selector, ServerModel, Source},
};
use serde_json::json;

/// The allocator of the program.
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn main() -> ExitCode {
    println!(
        "{:>9} {:>10} {:>12} {:>12} {:>10}",
        "groups", "servers", "requests/s", "ns/request", "MB"
    );
    let sizes = [(10, 100), (30, 100), (100, 100), (200, 150), (500, 200)];
    let costs = sizes.map(|(groups, servers)| {
        let nanos = best(groups, servers, REQUESTS);
        let (servers, megabytes) = (groups * servers, peak_memory());
        println!("{groups:>9} {servers:>10} {:>12.0} {nanos:>12.0} {megabytes:>10.0}", 1e9 / nanos);
        Cost { servers, nanos, megabytes }
    });
    if let Err(error) = write_json(&costs) {
        println!("FAIL the figures are written: {error}");
        return ExitCode::FAILURE;
    }
    let [small, .., large] = costs;
    let longer = best(10, 100, 2.0 * REQUESTS) / best(10, 100, REQUESTS);
    let checks = [
        (
            "3 million requests a second, 1,000 servers",
            1e3 / small.nanos,
            "million/s",
            3.0..f64::MAX,
        ),
        ("100,000 servers within 4 GiB", large.megabytes, "MB", 0.0..4_096.0),
        ("100,000 servers beside 1,000", large.nanos / small.nanos, "times a request", 0.0..3.0),
        ("twice as many requests", longer, "times a request", 0.0..1.1),
    ];
    for (what, value, unit, good) in &checks {
        let verdict = if good.contains(value) { "PASS" } else { "FAIL" };
        println!("{verdict} {what}: {value:.2} {unit}");
    }
    let holds = checks.iter().all(|(_, value, _, good)| good.contains(value));
    if holds { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// What a size costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    servers: u32,
    /// A request.
    nanos: f64,
    megabytes: f64,
}

/// Writes the figures to the file behind `--json`, if there is one.
fn write_json(costs: &[Cost]) -> io::Result<()> {
    let mut arguments = env::args().skip_while(|argument| argument != "--json").skip(1);
    let Some(file) = arguments.next() else { return Ok(()) };
    let rows = costs.iter().map(|cost| {
        let Cost { servers, nanos, megabytes } = cost;
        json!({ "servers": servers, "time a request": nanos, "memory": megabytes })
    });
    let figures = json!({ "figures": { "simulator": rows.collect::<Vec<_>>() } });
    fs::write(file, figures.to_string())
}

/// Nanoseconds a request, in the fastest of some runs.
fn best(groups: u32, servers: u32, requests: f64) -> f64 {
    let runs = (0..RUNS).map(|_| measure(groups, servers, requests));
    runs.fold(f64::INFINITY, f64::min)
}

/// Nanoseconds a request.
fn measure(groups: u32, servers: u32, requests: f64) -> f64 {
    let simulation = Simulation::new(scenario(groups, servers, requests));
    let begin = Instant::now();
    let record = simulation.run();
    begin.elapsed().as_nanos() as f64 / record.planned as f64
}

fn scenario(groups: u32, servers: u32, requests: f64) -> Scenario {
    let group = |index: u32| Group {
        name: format!("g{index}"),
        region: format!("r{index}"),
        // As far in all sizes: where more are on their way than the group may have in flight, the
        // rest would wait, and another thing be measured.
        rtt: Some(Duration::from_millis(u64::from(index % 10))),
        capacity: Capacity { max_in_flight: Some(servers * 4), ..Capacity::UNLIMITED },
        scaler: Ratio::ONE,
        servers: (0..servers).map(|server| at(index, server)).collect(),
        discovery: None,
    };
    let service =
        |index: u32| Service { groups: vec![group(index)], ..Service::named(&format!("s{index}")) };
    let fleet = Fleet {
        edge: Edge::within("r0"),
        listeners: Listeners::default(),
        forwarding: Forwarding::default(),
        services: (0..groups).map(service).collect(),
    };
    let time = Duration::from_millis(10);
    // 70 % of what the servers can do.
    let rate = Rate::per_sec(u64::from(servers) * 70);
    let all = rate.as_per_sec_f64() * f64::from(groups);
    let lasts = Duration::from_secs(1).scale(requests / all);
    let source = |service: u32| Source {
        name: format!("clients of {service}"),
        edge: 0,
        service: service as usize,
        arrivals: Arrivals::Open {
            spacing: Spacing::Poisson,
            stages: [Stage::constant(rate)].into(),
        },
        class: Class::Normal,
        clients: 1_000,
        distance: Duration::ZERO,
        gives_up: None,
        retry: ClientRetry::default(),
    };
    let model =
        ServerModel { time: ServiceTime::Exponential { mean: time }, ..ServerModel::default() };
    Scenario {
        edges: vec![Arc::new(fleet)],
        seed: 1,
        lasts,
        warm_up: Duration::ZERO,
        step: lasts / 10,
        sources: (0..groups).map(source).collect(),
        servers: vec![(Selector::default(), Arc::new(model))],
        links: Vec::new(),
        faults: Vec::new(),
        objects: Vec::new(),
        caches: Vec::new(),
        cluster: None,
    }
}

fn at(group: u32, server: u32) -> Server {
    let [_, _, high, low] = group.to_be_bytes();
    let port = 1_000 + server as u16;
    Server::at(SocketAddr::from(([10, high, low, 1], port)))
}

/// The most memory that this process has had, in MB.
fn peak_memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1_024.0
}

const RUNS: usize = 3;

const REQUESTS: f64 = 2e6;
