//! The testbed: servers that may use what others leave of their machines, and what they are asked.
//!
//! The paper has 100 clients and 100 servers, each with an allocation of a machine whose other
//! programs (the antagonists) come and go; a query costs what a normal distribution gives whose
//! deviation is its mean, and fails after 5 s. What the antagonists take is not published: here
//! each takes any share up to [`MOST`] with the same probability, another one every [`EVERY`].

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{
        Capacity, Class, Edge, Fleet, Group, Listeners, PolicyKind, Server, Service,
        forwarding::Forwarding,
    },
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, Random, Scenario, ServiceTime, Spacing, Stage,
    scenario::{Antagonist, ClientRetry, Discipline, Selector, ServerModel, Source},
};

/// Clients of the paper.
pub(crate) const EDGES: usize = 100;

const SERVERS: u8 = 100;

/// Cores that a server could use on a machine of its own.
const CORES: u32 = 8;

/// The allocations together are what the machines can do over this, so that the highest step of the
/// ramp, 1.74, is just below what they can do.
const CAPACITY_PER_ALLOCATION: f64 = 1.85;

const MOST: f64 = 0.85;
const EVERY: Duration = Duration::from_secs(20);

/// The mean of the normal distribution, so that queries take about 75 ms where nothing else runs,
/// as in the paper; that of its positive part is [`MEAN_OF_POSITIVE`] times as much.
const WORK: f64 = 0.062;
const MEAN_OF_POSITIVE: f64 = 1.288;

/// A run at this part of the allocation.
pub(crate) fn scenario(policy: PolicyKind, load: f64) -> Scenario {
    let mean_speed = 1.0 - MOST / 2.0;
    let cores = f64::from(SERVERS) * f64::from(CORES) * mean_speed / CAPACITY_PER_ALLOCATION;
    let per_sec = load * cores / (WORK * MEAN_OF_POSITIVE) / EDGES as f64;
    let stages = Arc::new([Stage::constant(Rate::milli_per_sec((per_sec * 1e3) as u64))]);
    let source = |edge| Source {
        name: format!("client {edge}"),
        edge,
        service: 0,
        arrivals: Arrivals::Open { spacing: Spacing::Poisson, stages: stages.clone() },
        class: Class::Normal,
        clients: 1000,
        distance: Duration::ZERO,
        gives_up: Some(Duration::from_secs(5)),
        retry: ClientRetry::default(),
    };
    let model = ServerModel {
        time: ServiceTime::Empirical(work().into()),
        cores: CORES,
        discipline: Discipline::ProcessorSharing,
        antagonist: Some(Antagonist { most: MOST, every: EVERY }),
        ..ServerModel::default()
    };
    let edge = Arc::new(configuration(policy));
    Scenario {
        edges: vec![edge; EDGES],
        seed: 1,
        lasts: Duration::from_secs(70),
        warm_up: Duration::from_secs(10),
        step: Duration::from_secs(5),
        sources: (0..EDGES).map(source).collect(),
        servers: vec![(Selector::default(), Arc::new(model))],
        links: Vec::new(),
        faults: Vec::new(),
        objects: Vec::new(),
        caches: Vec::new(),
        cluster: None,
    }
}

/// Times of which each is equally likely.
fn work() -> Vec<Duration> {
    let mut random = Random::stream(2024, 0);
    let normal = std::iter::from_fn(|| Some(1.0 + random.normal()));
    let positive = normal.filter(|work| *work > 0.0).take(20_000);
    positive.map(|work| Duration::from_secs(1).scale(WORK * work)).collect()
}

fn configuration(policy: PolicyKind) -> Fleet {
    let server = |at: u8| Server::at(SocketAddr::from(([10, 0, 0, at + 1], 80)));
    let group = Group {
        name: "near".into(),
        region: "near".into(),
        rtt: Some(Duration::from_micros(500)),
        capacity: Capacity {
            auto: Some(false),
            // Nobody reaches it; the servers report how busy they are for it.
            max_utilization: Some(Ratio::percent(1_000)),
            ..Capacity::UNLIMITED
        },
        scaler: Ratio::ONE,
        servers: (0..SERVERS).map(server).collect(),
        discovery: None,
    };
    let service = Service { policy, groups: vec![group], ejection: None, ..Service::named("web") };
    let (forwarding, listeners) = (Forwarding::default(), Listeners::default());
    Fleet { edge: Edge::within("near"), forwarding, listeners, services: vec![service].into() }
}
