//! What an edge gives that has a share of its groups, and what it counts for the others.

use std::sync::Arc;

use loadline_core::{
    cluster::{
        Share,
        observe::{observations, shared_services},
    },
    decide::{
        controller::{Controller, Input},
        permit::Permit,
        plan::{Decision, PickContext, Plan, Refusal},
    },
    fleet::{Capacity, Service, WhenFull},
    time::{Duration, Instant},
    units::Rate,
};

use crate::fleets::{after, check, drain, fleet, group, started};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn pick(plan: &Plan, now: Instant) -> Decision {
    let ask = PickContext { now, key: 0, draw: 0, tried: &[], stick: None };
    plan.services[0].pick(&ask)
}

fn permits(plan: &Plan, now: Instant, count: usize) -> Vec<Permit> {
    let sent = (0..count).filter_map(|_| match pick(plan, now) {
        Decision::Send(permit) => Some(permit),
        _ => None,
    });
    sent.collect()
}

fn service(capacity: Capacity) -> Service {
    let groups = vec![group("near", 0, 2, capacity)];
    Service { groups, when_full: WhenFull::Shed, ..Service::named("web") }
}

fn share(part: u64, whole: u64) -> Input {
    let share = Share::part(part, whole);
    Input::Share { service: "web".into(), group: "near".into(), share }
}

fn places(limit: u32) -> Capacity {
    Capacity { max_in_flight: Some(limit), ..Capacity::default() }
}

fn rate(per_sec: u64) -> Capacity {
    Capacity { max_rate: Some(Rate::per_sec(per_sec)), burst: Some(10), ..Capacity::default() }
}

fn shared(capacity: Capacity, part: Input) -> (Controller, Arc<Plan>) {
    let (mut controller, plan) = started(service(capacity));
    let plan = after(&mut controller, plan, at(0), part);
    (controller, plan)
}

#[test]
fn a_share_of_the_places_is_what_is_let_in_and_what_is_there_stays() {
    let (mut controller, plan) = shared(places(30), share(1, 3));
    let held = permits(&plan, at(1), 40);
    assert_eq!(held.len(), 10);
    let plan = after(&mut controller, plan, at(2), share(1, 2));
    let more = permits(&plan, at(2), 40);
    assert_eq!(more.len(), 5);
    let plan = after(&mut controller, plan, at(3), share(1, 5));
    drop(more);
    assert!(permits(&plan, at(3), 40).is_empty(), "10 of 6 are still there");
    drop(held);
    assert_eq!(permits(&plan, at(4), 40).len(), 6);
}

#[test]
fn a_share_of_the_rate_is_what_is_given_over_time() {
    let (_controller, plan) = shared(rate(100), share(1, 4));
    let given: usize = (1..=4_000).map(|millis| permits(&plan, at(millis), 3).len()).sum();
    assert!((98..=103).contains(&given), "{given} of 25/s for 4 s");
}

#[test]
fn a_small_share_of_a_group_leaves_each_of_its_servers_a_place() {
    let mut service = service(rate(100));
    service.groups[0].servers.iter_mut().for_each(|server| server.capacity = places(2));
    let (mut controller, plan) = started(service);
    let plan = after(&mut controller, plan, at(0), share(1, 4));
    assert_eq!(permits(&plan, at(1_000), 9).len(), 2, "one on each, not a quarter of two");
    let plan = after(&mut controller, plan, at(1_000), share(0, 1));
    assert!(permits(&plan, at(2_000), 9).is_empty(), "nothing is nothing");
}

#[test]
fn a_share_ends_at_its_time_though_nobody_says_so() {
    let (mut controller, plan) = shared(places(30), share(1, 3));
    controller.handle(at(0), Input::SharesUntil(Some(at(100))));
    assert_eq!(permits(&plan, at(99), 40).len(), 10);
    assert!(permits(&plan, at(100), 40).is_empty());
    controller.handle(at(100), Input::SharesUntil(Some(at(200))));
    assert_eq!(permits(&plan, at(100), 40).len(), 10);
    controller.handle(at(200), Input::SharesUntil(None));
    assert_eq!(permits(&plan, at(1_000), 40).len(), 10);
}

#[test]
fn nothing_of_a_group_is_full_and_not_gone() {
    for capacity in [rate(100), places(30)] {
        let (mut controller, plan) = shared(capacity, share(0, 1));
        let decision = pick(&plan, at(1_000));
        assert!(matches!(decision, Decision::Refuse(Refusal::Full)), "{decision:?}");
        let plan = after(&mut controller, plan, at(1_000), share(1, 2));
        assert_eq!(permits(&plan, at(1_500), 1).len(), 1);
    }
}

#[test]
fn a_share_that_comes_before_its_group_and_a_reload_after_it_are_obeyed() {
    let (mut controller, _) = started(Service::named("other"));
    controller.handle(at(0), share(1, 3));
    controller.handle(at(0), Input::Reload(Arc::new(fleet(service(places(30))))));
    let plan = drain(&mut controller).plan.unwrap();
    assert_eq!(permits(&plan, at(1), 40).len(), 10);
    controller.handle(at(2), Input::Reload(Arc::new(fleet(service(places(60))))));
    let plan = drain(&mut controller).plan.unwrap();
    assert_eq!(permits(&plan, at(3), 80).len(), 20);
}

#[test]
fn demand_is_counted_whatever_became_of_it_and_capacity_is_that_of_the_whole() {
    let (_controller, plan) = shared(rate(100), share(1, 4));
    let _held = permits(&plan, at(1_000), 7);
    let fleet = plan.fleet.clone();
    let services = shared_services(&fleet);
    assert_eq!((&*services[0].name, &services[0].groups), ("web", &vec![String::from("near")]));
    let observed = observations(&fleet, plan.services.iter().map(|plan| &**plan));
    assert_eq!(observed[0].asked, [0, 7, 0]);
    let near = observed[0].groups[0];
    assert_eq!((near.distance, near.capacity), (Some(Duration::ZERO), Some(100_000)));
    assert_eq!((near.places, near.in_flight), (None, 3), "the burst of 10 is 2.5 here, and one");
}

/// Otherwise another edge would be given the places that these requests still use.
#[test]
fn requests_in_flight_to_a_group_that_is_down_still_use_its_places() {
    let mut service = service(places(20));
    service.health = Some(check());
    let (mut controller, plan) = started(service);
    let plan = after(&mut controller, plan, at(0), share(1, 2));
    let _held = permits(&plan, at(1), 40);
    let servers = plan.services[0].groups[0].servers.iter();
    let servers: Vec<_> = servers.map(|server| server.state().id()).collect();
    for server in servers.iter().flat_map(|server| [*server; 2]) {
        controller.handle(at(2), Input::Checked { server, passed: Err("timeout".into()) });
    }
    let plan = drain(&mut controller).plan.unwrap();
    assert!(plan.services[0].groups.is_empty());
    let observed = observations(&plan.fleet, plan.services.iter().map(|plan| &**plan));
    let near = observed[0].groups[0];
    assert_eq!((near.distance, near.places, near.in_flight), (None, Some(20), 10));
}

#[test]
fn nothing_is_counted_where_nothing_is_shared() {
    let (_controller, plan) = started(service(rate(100)));
    let _held = permits(&plan, at(1_000), 7);
    let observed = observations(&plan.fleet, plan.services.iter().map(|plan| &**plan));
    assert_eq!(observed[0].asked, [0, 0, 0]);
}
