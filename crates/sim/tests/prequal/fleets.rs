//! One edge before a few servers.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{self, Capacity, Class, Edge, Group, PolicyKind, Server, Service},
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, Scenario, ServiceTime, Spacing, Stage,
    scenario::{ClientRetry, Selector, ServerModel, Source},
};

/// Servers that take so many times as long as the model says.
pub(crate) struct Fleet {
    pub(crate) name: &'static str,
    pub(crate) slow: &'static [f64],
}

impl Fleet {
    /// A run with some thousand requests at this part of the capacity of the servers together.
    pub(crate) fn scenario(
        &self,
        policy: PolicyKind,
        model: &ServerModel,
        load: f64,
        seed: u64,
    ) -> Scenario {
        let speeds: f64 = self.slow.iter().map(|slow| 1.0 / slow).sum();
        let per_sec = load * f64::from(model.cores) * speeds / model.time.mean().as_secs_f64();
        let rate = Rate::milli_per_sec((per_sec * 1e3) as u64);
        let lasts = Duration::from_secs(1).scale(REQUESTS / per_sec);
        let servers = self.slow.iter().zip(0u8..).map(|(slow, at)| {
            let server = Some(address(at));
            let model = ServerModel { time: slowed(&model.time, *slow), ..model.clone() };
            (Selector { server, ..Selector::default() }, Arc::new(model))
        });
        let stages = Arc::new([Stage::constant(rate)]);
        Scenario {
            edges: vec![Arc::new(self.configuration(policy))],
            seed,
            lasts,
            warm_up: lasts / 10,
            step: lasts / 10,
            sources: vec![Source {
                name: "clients".into(),
                edge: 0,
                service: 0,
                arrivals: Arrivals::Open { spacing: Spacing::Poisson, stages },
                class: Class::Normal,
                clients: 100,
                distance: Duration::ZERO,
                gives_up: None,
                retry: ClientRetry::default(),
            }],
            servers: servers.collect(),
            links: Vec::new(),
            faults: Vec::new(),
            objects: Vec::new(),
            caches: Vec::new(),
            cluster: None,
        }
    }

    /// A run of twenty seconds in which so many users each send a request after the other.
    pub(crate) fn with_users(
        &self,
        users: u32,
        policy: PolicyKind,
        model: &ServerModel,
        seed: u64,
    ) -> Scenario {
        let mut scenario = self.scenario(policy, model, 0.5, seed);
        scenario.sources[0].arrivals =
            Arrivals::Closed { users, think: Duration::ZERO, requests: None };
        scenario.lasts = Duration::from_secs(20);
        (scenario.warm_up, scenario.step) = (scenario.lasts / 10, scenario.lasts / 10);
        scenario
    }

    fn configuration(&self, policy: PolicyKind) -> fleet::Fleet {
        let group = Group {
            name: "near".into(),
            region: "near".into(),
            rtt: Some(Duration::from_micros(200)),
            capacity: Capacity { auto: Some(false), ..Capacity::UNLIMITED },
            scaler: Ratio::ONE,
            servers: (0..self.slow.len()).map(|at| Server::at(address(at as u8))).collect(),
            discovery: None,
        };
        let service =
            Service { policy, groups: vec![group], ejection: None, ..Service::named("web") };
        let (forwarding, listeners) =
            (fleet::forwarding::Forwarding::default(), fleet::Listeners::default());
        fleet::Fleet {
            edge: Edge::within("near"),
            forwarding,
            listeners,
            services: vec![service].into(),
        }
    }
}

fn slowed(time: &ServiceTime, by: f64) -> ServiceTime {
    match time.clone() {
        ServiceTime::Constant(time) => ServiceTime::Constant(time.scale(by)),
        ServiceTime::Exponential { mean } => ServiceTime::Exponential { mean: mean.scale(by) },
        ServiceTime::Lognormal { mean, variation } => {
            ServiceTime::Lognormal { mean: mean.scale(by), variation }
        }
        ServiceTime::Pareto { mean, shape } => ServiceTime::Pareto { mean: mean.scale(by), shape },
        ServiceTime::TwoKinds { short, long, long_share } => {
            ServiceTime::TwoKinds { short: short.scale(by), long: long.scale(by), long_share }
        }
        measured @ ServiceTime::Empirical(_) => measured,
    }
}

fn address(at: u8) -> SocketAddr {
    ([10, 0, 0, at + 1], 80).into()
}

const REQUESTS: f64 = 30_000.0;
