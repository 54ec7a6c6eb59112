//! Traffic where nobody says any.

use loadline_core::{
    fleet::{Fleet, Group, Service},
    time::Duration,
    units::Rate,
};

use crate::{
    arrivals::{Arrivals, Spacing, Stage},
    planning::{in_use, limits},
    scenario::{ClientRetry, ServerModel, Source},
};

/// For each service, at random, 70 % of what all its groups may be given together.
pub(super) fn sources(fleet: &Fleet) -> Vec<Source> {
    let services = fleet.services.iter().enumerate();
    let sources = services.map(|(index, service)| {
        let capacity: f64 = service.groups.iter().map(capacity_of).sum();
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
fn capacity_of(group: &Group) -> f64 {
    let model = ServerModel::default();
    let per_core = 1.0 / model.time.mean().as_secs_f64();
    let servers = in_use(group).count() as f64 * f64::from(model.cores) * per_core;
    let (rate, in_flight) = limits(group);
    // A place is taken for the way as well.
    let held = (model.time.mean() + group.rtt.unwrap_or_default()).as_secs_f64();
    let in_flight = in_flight.map_or(f64::INFINITY, |places| places as f64 / held);
    rate.unwrap_or(f64::INFINITY).min(in_flight).min(servers * group.scaler.as_f64())
}

/// Busy, with room for what comes at random.
const SHARE: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::{
        fleet::{Capacity, Server},
        units::Ratio,
    };

    fn of_three(capacity: Capacity, per_server: Capacity, rtt: u64) -> f64 {
        let server =
            |last| Server { capacity: per_server, ..Server::at(([10, 0, 0, last], 80).into()) };
        capacity_of(&group((1..=3).map(server).collect(), capacity, rtt))
    }

    fn group(servers: Vec<Server>, capacity: Capacity, rtt: u64) -> Group {
        Group {
            name: "near".into(),
            region: "near".into(),
            rtt: Some(Duration::from_millis(rtt)),
            capacity,
            scaler: Ratio::ONE,
            servers,
            discovery: None,
        }
    }

    #[test]
    fn servers_that_are_drained_or_stand_by_count_for_no_capacity() {
        let per_server = Capacity { max_rate: Some(Rate::per_sec(20)), ..Capacity::UNLIMITED };
        let server = |last, weight, priority| Server {
            weight,
            priority,
            capacity: per_server,
            ..Server::at(([10, 0, 0, last], 80).into())
        };
        let servers = vec![server(1, 0, 0), server(2, 1, 3), server(3, 1, 3), server(4, 1, 9)];
        assert_eq!(capacity_of(&group(servers, Capacity::UNLIMITED, 0)), 40.0);
        let plain = |server: Server| Server { capacity: Capacity::UNLIMITED, ..server };
        let servers = vec![plain(server(1, 0, 0)), plain(server(2, 1, 0)), plain(server(3, 1, 1))];
        assert_eq!(capacity_of(&group(servers, Capacity::UNLIMITED, 0)), 100.0);
    }

    #[test]
    fn what_servers_may_be_given_each_and_the_way_to_them_count_for_the_capacity() {
        let rate = Capacity { max_rate: Some(Rate::per_sec(20)), ..Capacity::UNLIMITED };
        let places = |n| Capacity { max_in_flight: Some(n), ..Capacity::UNLIMITED };
        let unlimited = Capacity::UNLIMITED;
        assert_eq!(of_three(unlimited, unlimited, 0), 300.0);
        assert_eq!(of_three(unlimited, rate, 0), 60.0);
        // 10 ms of work and 90 of way: each place is good for ten a second.
        assert_eq!(of_three(places(6), unlimited, 90), 60.0);
        assert_eq!(of_three(unlimited, places(1), 90), 30.0);
    }
}
