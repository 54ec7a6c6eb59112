//! Servers that join a group that serves, and are not up yet.

use std::sync::Arc;

use loadline_core::{
    decide::{
        controller::{Change, Controller, Input},
        ledger::ServerId,
        plan::{Decision, PickContext, Plan},
    },
    fleet::{Capacity, Service, WhenFull},
    time::{Duration, Instant},
};

use crate::fleets::{check, drain, fleet, group, passed};

/// A near group of so many servers, which may have six requests in flight, and a far one.
fn web(servers: u8) -> Service {
    let capacity = Capacity { max_in_flight: Some(6), ..Capacity::default() };
    let groups = vec![group("near", 0, servers, capacity), group("far", 30, 2, capacity)];
    let (health, when_full) = (Some(check()), WhenFull::Shed);
    Service { groups, health, when_full, ..Service::named("web") }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

struct Edge {
    controller: Controller,
    plan: Arc<Plan>,
    changes: Vec<Change>,
    /// The last servers that were to be checked.
    to_check: Vec<ServerId>,
}

impl Edge {
    /// With two near servers, all of which have passed their first checks.
    fn new() -> Self {
        let mut controller = Controller::new(Instant::ZERO, fleet(web(2)));
        let outputs = drain(&mut controller);
        let to_check = outputs.checks.into_iter().map(|(server, _)| server).collect();
        let plan = outputs.plan.unwrap();
        let mut edge = Self { controller, plan, changes: vec![], to_check };
        for server in edge.to_check.clone() {
            edge.check(1, server, true);
        }
        edge
    }

    fn hear(&mut self, millis: u64, input: Input) {
        self.controller.handle(at(millis), input);
        let outputs = drain(&mut self.controller);
        self.plan = outputs.plan.unwrap_or_else(|| self.plan.clone());
        self.changes.extend(outputs.changes);
        self.to_check = outputs.checks.into_iter().map(|(server, _)| server).collect();
    }

    fn check(&mut self, millis: u64, server: ServerId, passes: bool) {
        let passed = if passes { Ok(passed(1)) } else { Err("it boots".to_string()) };
        self.hear(millis, Input::Checked { server, passed });
    }

    /// Puts this in force at 10 s, and says who is new.
    fn reload(&mut self, service: Service) -> ServerId {
        let address = service.groups[0].servers.last().unwrap().address;
        self.hear(10_000, Input::Reload(fleet(service).into()));
        let census = &self.plan.services[0].census[0].servers;
        let new = census.iter().find(|it| it.state.address() == address).unwrap();
        new.state.id()
    }

    fn yields(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Yields(..)))
    }

    /// How many of the first six requests at once go near, and how many of a hundred.
    fn near(&self, millis: u64) -> [usize; 2] {
        let ask = PickContext { now: at(millis), key: 0, draw: 0, tried: &[], stick: None };
        let sent = |_| match self.plan.services[0].pick(&ask) {
            Decision::Send(permit) => Some(permit),
            _ => None,
        };
        let sent: Vec<_> = (0..100).filter_map(sent).collect();
        let near = |count| sent.iter().take(count).filter(|it| it.place().0 == 0).count();
        [near(6), near(100)]
    }
}

#[test]
fn a_server_that_joins_and_still_boots_takes_nothing_from_its_group() {
    let mut edge = Edge::new();
    assert_eq!(edge.near(9_000), [6, 6]);
    let new = edge.reload(web(3));
    edge.check(10_001, new, false);
    assert!(matches!(edge.changes[..], [Change::Down(..)]), "{:?}", edge.changes);
    assert_eq!(edge.near(10_002), [6, 6]);
    edge.check(20_000, new, true);
    edge.check(20_100, new, true);
    assert_eq!(edge.near(20_200), [6, 6]);
    assert!(!edge.yields());
    edge.check(30_000, new, false);
    edge.check(30_100, new, false);
    assert!(edge.yields(), "it was up, and is missing");
    assert_eq!(edge.near(30_200), [0, 4]);
}

#[test]
fn a_server_that_has_joined_and_is_not_up_after_a_minute_is_missing() {
    let mut edge = Edge::new();
    let new = edge.reload(web(3));
    edge.check(10_001, new, false);
    let mut other = web(3);
    other.slow_start = Duration::from_secs(1);
    edge.hear(40_000, Input::Reload(fleet(other).into()));
    edge.hear(69_999, Input::Tick);
    assert!(!edge.yields());
    edge.hear(70_000, Input::Tick);
    assert!(edge.yields());
    assert_eq!(edge.near(70_001), [0, 4]);
}

#[test]
fn a_server_that_takes_the_place_of_another_is_missing_while_it_boots() {
    let mut edge = Edge::new();
    let mut replaced = web(3);
    replaced.groups[0].servers.remove(0);
    let new = edge.reload(replaced);
    edge.check(10_001, new, false);
    assert!(edge.yields());
    assert_eq!(edge.near(10_002), [0, 3], "one server is not given what was meant for two");
}

#[test]
fn at_the_start_every_server_of_the_file_counts() {
    let mut edge = Edge::new();
    let mut controller = Controller::new(Instant::ZERO, fleet(web(3)));
    let outputs = drain(&mut controller);
    let third = web(3).groups[0].servers[2].address;
    let (server, _) = *outputs.checks.iter().find(|(_, address)| *address == third).unwrap();
    edge.controller = controller;
    edge.check(1, server, false);
    assert!(edge.yields());
    assert_eq!(edge.near(2), [0, 4]);
}
