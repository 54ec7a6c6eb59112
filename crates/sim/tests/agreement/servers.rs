//! What edges learn of servers, by checks and by what servers report, and how servers begin.

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    fleet::{HealthCheck, PolicyKind, Probe, Server},
    time::{Duration, Instant},
    units::{Rate, Ratio},
};
use loadline_sim::{
    Arrivals, OutageKind, Scenario, ServiceTime, Simulation,
    scenario::{Antagonist, Fault, Link, Selector, ServerModel, Trouble},
    trace::{Fact, Place, What},
};

use crate::fleets::one_server;

/// Three requests of a minute are lost with their server, which is back a second later.
#[test]
fn checks_do_not_wait_for_what_was_lost_with_a_server_that_went_down() {
    let mut scenario = checked(taking(60_000), Probe::Http { path: "/".to_owned(), host: None });
    scenario.sources[0].arrivals = Arrivals::Listed([500, 510, 520].map(millis).into());
    scenario.faults = vec![Fault {
        at: Instant::ZERO + millis(1_000),
        lasts: Some(millis(1_000)),
        what: Trouble::Outage(OutageKind::Down),
        whom: Selector::default(),
    }];
    let facts = facts_of(scenario);
    let checks = checks_of(&facts);
    let late = checks.filter(|(at, ..)| *at > Instant::ZERO + millis(3_000));
    let late: Vec<_> = late.collect();
    assert!(late.len() > 5 && late.iter().all(|(.., passed)| *passed), "{late:?}");
}

/// Its point of the timeline is the one after the warm-up.
#[test]
fn a_request_that_comes_as_the_warm_up_ends_is_in_the_timeline() {
    let mut scenario = one_server(taking(1), Rate::per_sec(1), 10, 1);
    assert_eq!((scenario.warm_up, scenario.step), (millis(1_000), millis(1_000)));
    scenario.sources[0].arrivals = Arrivals::Listed([1_000, 2_500].map(millis).into());
    let record = Simulation::new(scenario).run();
    let planned: u64 = record.moments.iter().map(|moment| moment.planned).sum();
    assert_eq!((record.planned, planned), (2, 2), "{:?}", record.moments);
}

#[test]
fn a_server_in_two_groups_is_checked_over_the_way_of_each() {
    let mut scenario = checked(taking(1), Probe::Tcp);
    let mut fleet = (*scenario.edges[0]).clone();
    let groups = &mut fleet.services[0].groups;
    let mut far = groups[0].clone();
    (far.name, far.region) = ("far".to_owned(), "far".to_owned());
    groups.push(far);
    scenario.edges = vec![Arc::new(fleet)];
    let between = ["near".to_owned(), "far".to_owned()];
    scenario.links = vec![Link { between, rtt: Some(millis(100)), jitter: Duration::ZERO }];
    let facts = facts_of(scenario);
    let first = |group| {
        let of = |server: &Place| server.group == group;
        checks_of(&facts).find(|(_, server, _)| of(server)).expect("it is checked").0
    };
    assert_eq!(first(1).since(first(0)), millis(100));
}

/// Both are given as much by default, and one has a core where the other has twenty.
#[test]
fn managed_weights_go_by_what_servers_report_where_nothing_limits_their_load() {
    let mut scenario = one_server(taking(5), Rate::per_sec(100), 6_000, 1);
    let mut fleet = (*scenario.edges[0]).clone();
    let service = &mut fleet.services[0];
    let large = SocketAddr::from(([127, 0, 0, 2], 80));
    service.groups[0].servers.push(Server::at(large));
    service.policy = PolicyKind::Managed;
    let proportions = &mut service.manager.proportions;
    (proportions.active, proportions.new) = (Ratio::ZERO, Ratio::ZERO);
    proportions.reported = Ratio::ONE;
    scenario.edges = vec![Arc::new(fleet)];
    let whom = Selector { server: Some(large), ..Selector::default() };
    scenario.servers.push((whom, Arc::new(ServerModel { cores: 20, ..taking(5) })));
    let record = Simulation::new(scenario).run();
    let imbalance = record.simulation.unwrap().groups[0].imbalance;
    assert!(imbalance > 1.2, "{imbalance}");
}

/// After half of its warm up it has two thirds of its speed, of which next to nothing is taken.
#[test]
fn a_server_with_an_antagonist_warms_up_as_others_do() {
    let antagonist = Some(Antagonist { most: 0.01, every: millis(1_000) });
    let model = ServerModel { warm_up: millis(10_000), antagonist, ..taking(10) };
    let mut scenario = one_server(model, Rate::per_sec(1), 20, 1);
    scenario.warm_up = Duration::ZERO;
    scenario.sources[0].arrivals = Arrivals::Listed([millis(5_100)].into());
    let took = Simulation::new(scenario).run().response.max;
    assert!((Duration::from_micros(14_900)..millis(16)).contains(&took), "{took}");
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn taking(time: u64) -> ServerModel {
    ServerModel { time: ServiceTime::Constant(millis(time)), ..ServerModel::default() }
}

/// A server that is checked every second, for ten.
fn checked(model: ServerModel, probe: Probe) -> Scenario {
    let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
    let mut fleet = (*scenario.edges[0]).clone();
    fleet.services[0].health = Some(HealthCheck {
        probe,
        interval: millis(1_000),
        fast_interval: millis(500),
        timeout: millis(500),
        rise: 1,
        fall: 2,
        lenient: false,
    });
    scenario.edges = vec![Arc::new(fleet)];
    scenario
}

fn facts_of(scenario: Scenario) -> Vec<Fact> {
    let mut simulation = Simulation::traced(scenario);
    let mut facts = simulation.facts();
    while simulation.step() {
        facts.extend(simulation.facts());
    }
    facts
}

/// When each check ended, of which server, and whether it passed.
fn checks_of(facts: &[Fact]) -> impl Iterator<Item = (Instant, Place, bool)> {
    facts.iter().filter_map(|fact| match fact.what {
        What::Checked { server, passed, .. } => Some((fact.at, server, passed)),
        _ => None,
    })
}
