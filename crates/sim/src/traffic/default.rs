//! Traffic where nobody says any.

use loadline_core::{
    fleet::{Fleet, Group, Service},
    time::Duration,
    units::Rate,
};

use crate::{
    arrivals::{Arrivals, Spacing, Stage},
    scenario::{ClientRetry, ServerModel, Source},
};

/// For each service, at random, 70 % of what all its groups may be given together.
pub(super) fn sources(fleet: &Fleet) -> Vec<Source> {
    let services = fleet.services.iter().enumerate();
    let sources = services.map(|(index, service)| {
        let capacity: f64 = service.groups.iter().map(capacity).sum();
        let rate = Rate::milli_per_sec((capacity * SHARE * 1e3) as u64);
        source(index, service, rate)
    });
    sources.collect()
}

fn source(index: usize, service: &Service, rate: Rate) -> Source {
    let stages = [Stage::constant(rate)].into();
    Source {
        name: service.name.clone(),
        edge: 0,
        service: index,
        arrivals: Arrivals::Open { spacing: Spacing::Poisson, stages },
        class: service.class,
        clients: 1_000,
        distance: Duration::ZERO,
        gives_up: None,
        retry: ClientRetry::default(),
    }
}

/// Requests per second that a group may be given, as far as the configuration says; else what
/// servers of the default kind can do.
fn capacity(group: &Group) -> f64 {
    let model = ServerModel::default();
    let per_core = 1.0 / model.time.mean().as_secs_f64();
    let servers = group.servers.len() as f64 * f64::from(model.cores) * per_core;
    let rate = group.capacity.max_rate.map_or(f64::INFINITY, Rate::as_per_sec_f64);
    let in_flight = group.capacity.max_in_flight.map_or(f64::INFINITY, f64::from) * per_core;
    rate.min(in_flight).min(servers) * group.scaler.as_f64()
}

/// Busy, with room for what comes at random.
const SHARE: f64 = 0.7;
