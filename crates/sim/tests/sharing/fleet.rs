//! Edges before groups, and what comes in at each of them.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{
        Capacity, Class, Edge, Fleet, Group, Listeners, Server, Service, WhenFull,
        forwarding::Forwarding,
    },
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, Scenario, ServiceTime, Spacing, Stage,
    scenario::{ClientRetry, Selector, ServerModel, Source},
};

const PERIOD: Duration = Duration::from_secs(10);

/// Groups that are alike, edges, and what these want.
#[derive(Clone)]
pub(crate) struct Site {
    /// Between edges and groups, in milliseconds.
    pub(crate) rtts: Vec<Vec<u64>>,
    /// What each group may be given, in requests per second, and at once.
    pub(crate) rate: u64,
    pub(crate) burst: u32,
    /// What is wanted of all capacity.
    pub(crate) load: f64,
    /// What each edge wants of that.
    pub(crate) parts: Vec<f64>,
    pub(crate) changes: Changes,
    pub(crate) spacing: Spacing,
    pub(crate) when_full: WhenFull,
}

/// What becomes of demand every ten seconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    /// Nothing.
    Never,
    /// Each edge wants at once what the next one wanted.
    AtOnce,
    /// The same, evenly over ten seconds.
    Evenly,
}

impl Site {
    /// As `make bench-cluster` has it: one group beside each of three edges, and one between them.
    pub(crate) fn measured(rate: u64, burst: u32, load: f64) -> Self {
        Self {
            rtts: [[1, 30, 110, 60], [30, 1, 160, 60], [110, 160, 1, 60]].map(Vec::from).to_vec(),
            rate,
            burst,
            load,
            parts: vec![0.6, 0.25, 0.15],
            changes: Changes::AtOnce,
            spacing: Spacing::Poisson,
            when_full: WhenFull::Shed,
        }
    }

    /// Requests that groups may be given in a second: the burst of each, and one for each edge that
    /// has a part of it.
    pub(crate) fn most_in_a_second(&self) -> u64 {
        self.rate + u64::from(self.burst) + self.rtts.len() as u64
    }

    fn fleet(&self, edge: usize) -> Fleet {
        let group = |(at, rtt): (usize, &u64)| Group {
            name: format!("group-{at}"),
            region: format!("region-{at}"),
            rtt: Some(Duration::from_millis(*rtt)),
            capacity: Capacity {
                max_rate: Some(Rate::per_sec(self.rate)),
                burst: Some(self.burst),
                auto: Some(false),
                ..Capacity::UNLIMITED
            },
            scaler: Ratio::ONE,
            servers: vec![Server::at(SocketAddr::from(([10, 0, at as u8, 1], 80)))],
            discovery: None,
        };
        let groups = self.rtts[edge].iter().enumerate().map(group).collect();
        let when_full = self.when_full;
        let service = Service { groups, when_full, ejection: None, ..Service::named("web") };
        let edge = Edge::within(&format!("edge-{edge}"));
        let (forwarding, listeners) = (Forwarding::default(), Listeners::default());
        Fleet { edge, forwarding, listeners, services: vec![service].into() }
    }

    /// What comes in at an edge in each period.
    fn stages(&self, edge: usize, periods: usize) -> Arc<[Stage]> {
        let all = self.load * (self.rate as usize * self.rtts[0].len()) as f64;
        let rate = |period: usize| {
            let period = if self.changes == Changes::Never { 0 } else { period };
            let part = self.parts[(edge + period) % self.parts.len()];
            Rate::milli_per_sec((all * part * 1e3) as u64)
        };
        let stage = |period: usize| {
            let to = if self.changes == Changes::Evenly { period + 1 } else { period };
            Stage { from: rate(period), to: rate(to), lasts: PERIOD }
        };
        (0..periods).map(stage).collect()
    }

    /// The edges as they are, or one in place of all of them, which everything comes in at.
    pub(crate) fn scenario(&self, seconds: u64, seed: u64, omniscient: bool) -> Scenario {
        let edges = if omniscient { 1 } else { self.rtts.len() };
        let source = |edge: usize| Source {
            name: format!("clients-{edge}"),
            edge: edge % edges,
            service: 0,
            arrivals: Arrivals::Open {
                spacing: self.spacing,
                stages: self.stages(edge, (seconds / 10) as usize),
            },
            class: Class::Normal,
            clients: 1,
            distance: Duration::ZERO,
            gives_up: None,
            retry: ClientRetry::default(),
        };
        let model = ServerModel {
            time: ServiceTime::Exponential { mean: Duration::from_millis(1) },
            cores: 64,
            ..ServerModel::default()
        };
        Scenario {
            edges: (0..edges).map(|edge| Arc::new(self.fleet(edge))).collect(),
            seed,
            lasts: Duration::from_secs(seconds),
            warm_up: PERIOD,
            step: Duration::from_secs(1),
            sources: (0..self.rtts.len()).map(source).collect(),
            servers: vec![(Selector::default(), Arc::new(model))],
            links: Vec::new(),
            faults: Vec::new(),
            objects: Vec::new(),
            caches: Vec::new(),
            cluster: None,
        }
    }
}
