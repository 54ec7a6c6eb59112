//! The smallest scenarios.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{
        Capacity, Class, Edge, Fleet, Group, Listeners, Server, Service, forwarding::Forwarding,
    },
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, Scenario, Spacing, Stage,
    scenario::{ClientRetry, Selector, ServerModel, Source},
};

/// One edge beside one server that takes whatever comes.
pub(crate) fn one_server(model: ServerModel, rate: Rate, requests: u64, seed: u64) -> Scenario {
    let group = Group {
        name: "near".into(),
        region: "near".into(),
        rtt: None,
        capacity: Capacity { auto: Some(false), ..Capacity::UNLIMITED },
        scaler: Ratio::ONE,
        servers: vec![Server::at(SocketAddr::from(([127, 0, 0, 1], 80)))],
        discovery: None,
    };
    let service = Service { groups: vec![group], ejection: None, ..Service::named("web") };
    let edge = Edge::within("near");
    let (forwarding, listeners) = (Forwarding::default(), Listeners::default());
    let fleet = Fleet { edge, forwarding, listeners, services: vec![service].into() };
    let lasts = Duration::from_secs(1).scale(requests as f64 / rate.as_per_sec_f64());
    let stages = Arc::new([Stage::constant(rate)]);
    Scenario {
        edges: vec![Arc::new(fleet)],
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
            clients: 1,
            distance: Duration::ZERO,
            gives_up: None,
            retry: ClientRetry::default(),
        }],
        servers: vec![(Selector::default(), Arc::new(model))],
        links: Vec::new(),
        faults: Vec::new(),
        objects: Vec::new(),
        caches: Vec::new(),
        cluster: None,
    }
}
