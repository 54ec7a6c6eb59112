//! How many requests are simulated per second on one core, and what that grows with.
//!
//! `make bench-sim` judges it: at least 3 million a second for 10 groups of 100 servers with
//! `least-requests`; 100,000 servers within 4 GiB, and at most three times the time a request of
//! 1,000 servers.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Instant};

use loadline_core::{
    fleet::{Capacity, Class, Edge, Fleet, Group, Server, Service, forwarding::Forwarding},
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, Scenario, ServiceTime, Simulation, Spacing, Stage,
    scenario::{ClientRetry, Selector, ServerModel, Source},
};

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn main() -> ExitCode {
    println!(
        "{:>9} {:>10} {:>12} {:>12} {:>10}",
        "groups", "servers", "requests/s", "ns/request", "MB"
    );
    let mut judged = Vec::new();
    for (groups, servers) in [(10, 100), (100, 100), (500, 200)] {
        let best = (0..RUNS).map(|_| measure(groups, servers)).fold(f64::INFINITY, f64::min);
        let memory = peak_memory();
        println!(
            "{groups:>9} {:>10} {:>12.0} {best:>12.0} {memory:>10.0}",
            groups * servers,
            1e9 / best
        );
        judged.push((best, memory));
    }
    let [small, .., large] = &judged[..] else { return ExitCode::FAILURE };
    let checks = [
        ("3 million requests a second, 1,000 servers", small.0 <= 1e9 / 3e6),
        ("100,000 servers within 4 GiB", large.1 <= 4_096.0),
        ("100,000 servers cost at most 3 times 1,000", large.0 <= 3.0 * small.0),
    ];
    for (what, holds) in checks {
        println!("{} {what}", if holds { "PASS" } else { "FAIL" });
    }
    if checks.iter().all(|(_, holds)| *holds) { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// Nanoseconds a request.
fn measure(groups: u32, servers: u32) -> f64 {
    let simulation = Simulation::new(scenario(groups, servers));
    let begin = Instant::now();
    let record = simulation.run();
    begin.elapsed().as_nanos() as f64 / record.planned as f64
}

fn scenario(groups: u32, servers: u32) -> Scenario {
    let group = |index: u32| Group {
        name: format!("g{index}"),
        region: format!("r{index}"),
        rtt: Some(Duration::from_millis(u64::from(index))),
        capacity: Capacity { max_in_flight: Some(servers * 4), ..Capacity::UNLIMITED },
        scaler: Ratio::ONE,
        servers: (0..servers).map(|server| at(index, server)).collect(),
        discovery: None,
    };
    let service =
        |index: u32| Service { groups: vec![group(index)], ..Service::named(&format!("s{index}")) };
    let fleet = Fleet {
        edge: Edge::within("r0"),
        listeners: Vec::new(),
        forwarding: Forwarding::default(),
        services: (0..groups).map(service).collect(),
    };
    let time = Duration::from_millis(10);
    // 70 % of what the servers can do, two million requests in all.
    let rate = Rate::per_sec(u64::from(servers) * 70);
    let all = rate.as_per_sec_f64() * f64::from(groups);
    let lasts = Duration::from_secs(1).scale(REQUESTS / all);
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
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1_024.0
}

const RUNS: usize = 3;

const REQUESTS: f64 = 2e6;
