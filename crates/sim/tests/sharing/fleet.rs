//! Three edges before four groups, with demand that moves every ten seconds.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{Capacity, Class, Edge, Fleet, Group, Server, Service, forwarding::Forwarding},
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, Scenario, ServiceTime, Spacing, Stage,
    scenario::{ClientRetry, Selector, ServerModel, Source},
};

pub(crate) const EDGES: usize = 3;

/// Requests per second that each group may be given.
pub(crate) const MAX_RATE: u64 = 300;

/// Between edges and groups, in milliseconds: one beside each edge, and one between them.
const RTTS: [[u64; 4]; EDGES] = [[1, 30, 110, 60], [30, 1, 160, 60], [110, 160, 1, 60]];

const PERIOD: Duration = Duration::from_secs(10);

fn fleet(edge: usize) -> Fleet {
    let group = |at: usize| Group {
        name: format!("group-{at}"),
        region: format!("region-{at}"),
        rtt: Some(Duration::from_millis(RTTS[edge][at])),
        capacity: Capacity {
            max_rate: Some(Rate::per_sec(MAX_RATE)),
            auto: Some(false),
            ..Capacity::UNLIMITED
        },
        scaler: Ratio::ONE,
        servers: vec![Server::at(SocketAddr::from(([10, 0, at as u8, 1], 80)))],
        discovery: None,
    };
    let groups = (0..4).map(group).collect();
    let service = Service { groups, ejection: None, ..Service::named("web") };
    let edge = Edge::within(&format!("edge-{edge}"));
    let (forwarding, listeners) = (Forwarding::default(), Vec::new());
    Fleet { edge, forwarding, listeners, services: vec![service] }
}

/// What comes in at an edge in each period, in requests per second: `load` of the capacity of all
/// groups, of which each edge in turn has the most.
fn stages(edge: usize, load: f64, periods: usize) -> Arc<[Stage]> {
    let all = load * 4.0 * MAX_RATE as f64;
    let parts = [0.6, 0.25, 0.15];
    let stage = |period: usize| {
        let rate = Rate::per_sec((all * parts[(edge + period) % EDGES]) as u64);
        Stage { from: rate, to: rate, lasts: PERIOD }
    };
    (0..periods).map(stage).collect()
}

/// The edges as they are, or one in place of all of them, which everything comes in at.
pub(crate) fn scenario(load: f64, seconds: u64, seed: u64, omniscient: bool) -> Scenario {
    let edges = if omniscient { 1 } else { EDGES };
    let source = |edge: usize| Source {
        name: format!("clients-{edge}"),
        edge: edge % edges,
        service: 0,
        arrivals: Arrivals::Open {
            spacing: Spacing::Poisson,
            stages: stages(edge, load, (seconds / 10) as usize),
        },
        class: Class::Normal,
        clients: 1,
        distance: Duration::ZERO,
        gives_up: None,
        retry: ClientRetry::default(),
    };
    let model = ServerModel {
        time: ServiceTime::Exponential { mean: Duration::from_millis(10) },
        cores: 64,
        ..ServerModel::default()
    };
    Scenario {
        edges: (0..edges).map(|edge| Arc::new(fleet(edge))).collect(),
        seed,
        lasts: Duration::from_secs(seconds),
        warm_up: PERIOD,
        step: Duration::from_secs(1),
        sources: (0..EDGES).map(source).collect(),
        servers: vec![(Selector::default(), Arc::new(model))],
        links: Vec::new(),
        faults: Vec::new(),
        objects: Vec::new(),
        caches: Vec::new(),
    }
}
