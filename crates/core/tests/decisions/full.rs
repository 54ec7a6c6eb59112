//! What becomes of requests when groups are full, and how much a group may be given when some of
//! its servers are down.

use loadline_core::{
    decide::{
        controller::{Controller, Input},
        permit::Permit,
        plan::{Decision, PickContext, Plan},
        request::{self, Action, Event, Kind, Machine, Subject},
    },
    fleet::{Capacity, Class, Group, Overflow, Service, Then, WhenFull},
    time::{Duration, Instant},
    units::{Rate, Ratio},
};

use crate::fleets::{after, check, drain, fleet, group, started};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn ask(now: Instant, draw: u64) -> PickContext<'static> {
    PickContext { now, key: 0, draw, tried: &[], stick: None }
}

/// The permits that `count` requests at `now` get, none of which ends; draws are even.
fn permits(plan: &Plan, now: Instant, count: u64) -> Vec<Permit> {
    let step = u64::MAX / count;
    let decide = |n| match plan.services[0].pick(&ask(now, n * step)) {
        Decision::Send(permit) => Some(permit),
        _ => None,
    };
    (0..count).filter_map(decide).collect()
}

fn given(permits: &[Permit]) -> [usize; 2] {
    [0, 1].map(|group| permits.iter().filter(|permit| permit.place().0 == group).count())
}

fn in_flight(limit: u32) -> Capacity {
    Capacity { max_in_flight: Some(limit), ..Capacity::default() }
}

fn rate(per_sec: u64) -> Capacity {
    Capacity { max_rate: Some(Rate::per_sec(per_sec)), burst: Some(1), ..Capacity::default() }
}

/// How many requests are let in at once by three servers of which one is down.
fn with_one_of_three_down(capacity: Capacity, scaler: Ratio) -> usize {
    let mut near = group("near", 0, 3, capacity);
    near.scaler = scaler;
    let service = Service {
        groups: vec![near],
        health: Some(check()),
        when_full: WhenFull::Shed,
        failover_threshold: Ratio::ZERO,
        ..Service::named("web")
    };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let outputs = drain(&mut controller);
    let (plan, server) = (outputs.plan.unwrap(), outputs.checks[0].0);
    let plan =
        after(&mut controller, plan, at(1), Input::Checked { server, passed: Err(String::new()) });
    let plan =
        after(&mut controller, plan, at(2), Input::Checked { server, passed: Err(String::new()) });
    permits(&plan, at(3), 100).len()
}

#[test]
fn of_three_servers_one_down_two_thirds_of_the_places_are_left() {
    let left = |places| with_one_of_three_down(in_flight(places), Ratio::ONE);
    assert_eq!([3, 6, 9, 1].map(left), [2, 4, 6, 1]);
    assert_eq!(with_one_of_three_down(in_flight(12), Ratio::percent(50)), 4);
}

#[test]
fn of_three_servers_one_down_two_thirds_of_a_learnt_limit_are_left() {
    let learnt = Capacity { auto: Some(true), max_in_flight: Some(3), ..Capacity::default() };
    assert_eq!(with_one_of_three_down(learnt, Ratio::ONE), 2);
}

#[test]
fn soonest_goes_far_when_its_queue_is_full_and_far_is_idle() {
    let groups = vec![group("near", 0, 1, in_flight(10)), group("far", 1_000, 1, in_flight(10))];
    let when_full =
        WhenFull::Queue { timeout: Duration::from_secs(1), length: 2, then: Then::Shed };
    let service =
        Service { groups, overflow: Overflow::Soonest, when_full, ..Service::named("web") };
    let (_, plan) = started(service);
    permits(&plan, at(0), 1).into_iter().for_each(|permit| permit.finish(at(10)));
    let near = permits(&plan, at(5_000), 10);
    assert_eq!(given(&near), [10, 0]);
    let decide = |n| plan.services[0].pick(&ask(at(5_000), n));
    let waiting: Vec<Decision> = (0..2).map(decide).collect();
    assert!(waiting.iter().all(|it| matches!(it, Decision::Queue(_))), "{waiting:?}");
    let Decision::Send(third) = decide(3) else { panic!("far is idle") };
    assert_eq!(third.place().0, 1);
}

fn spread(near: Capacity, far: Capacity) -> Full {
    let groups = vec![group("near", 0, 2, near), group("far", 30, 2, far)];
    let service = Service { groups, when_full: WhenFull::Spread, ..Service::named("web") };
    Full(started(service).1)
}

struct Full(std::sync::Arc<Plan>);

impl Full {
    /// How 1000 requests are spread once both groups are full, each of which held requests for
    /// this many milliseconds.
    fn shares(&self, held: [u64; 2]) -> [usize; 2] {
        let first = permits(&self.0, at(0), 200);
        for permit in first {
            let millis = held[permit.place().0];
            permit.finish(at(millis));
        }
        let full = permits(&self.0, at(0), 200);
        let given = given(&permits(&self.0, at(0), 1_000));
        drop(full);
        given
    }
}

#[test]
fn spread_gives_equal_groups_equal_shares_whether_rates_or_places_say_it() {
    // Ten places that are held for 100 ms are 100 per second.
    let shares = spread(rate(100), in_flight(10)).shares([100, 100]);
    assert!(shares.iter().all(|n| n.abs_diff(500) <= 20), "{shares:?}");
    let shares = spread(in_flight(30), in_flight(10)).shares([100, 100]);
    assert!(shares[0].abs_diff(750) <= 20, "places alone: {shares:?}");
    let shares = spread(rate(300), rate(100)).shares([100, 100]);
    assert!(shares[0].abs_diff(750) <= 20, "rates alone: {shares:?}");
}

/// These groups of two servers, of which each server may be given so much.
fn of_servers(per_sec: [u64; 2]) -> Vec<Group> {
    let mut groups =
        vec![group("near", 0, 2, Capacity::default()), group("far", 30, 2, Capacity::default())];
    for (group, per_sec) in groups.iter_mut().zip(per_sec) {
        group.servers.iter_mut().for_each(|server| server.capacity = rate(per_sec));
    }
    groups
}

#[test]
fn spread_is_in_proportion_to_the_rates_of_servers() {
    let groups = of_servers([150, 50]);
    let service = Service { groups, when_full: WhenFull::Spread, ..Service::named("web") };
    let shares = Full(started(service).1).shares([100, 100]);
    assert!(shares[0].abs_diff(750) <= 20, "{shares:?}");
}

#[test]
fn who_is_refused_is_told_how_long_the_rates_of_servers_take_for_the_queue() {
    let when_full =
        WhenFull::Queue { timeout: Duration::from_secs(10), length: 10, then: Then::Shed };
    let mut groups = of_servers([1, 1]);
    groups.truncate(1);
    let (_, plan) = started(Service { groups, when_full, ..Service::named("web") });
    let decide = |n| plan.services[0].pick(&ask(at(0), n));
    let decisions: Vec<Decision> = (0..13).map(decide).collect();
    let sent = decisions.iter().filter(|it| matches!(it, Decision::Send(_))).count();
    let refused = decisions.iter().filter(|it| matches!(it, Decision::Refuse(_))).count();
    assert_eq!((sent, refused), (2, 1));
    assert_eq!(plan.services[0].retry_after(at(0), 0), 6, "eleven at two a second");
}

#[test]
fn who_waits_when_a_reload_lets_nobody_wait_any_more_is_still_served() {
    let service = |when_full| Service {
        groups: vec![group("near", 0, 1, in_flight(1))],
        when_full,
        ..Service::named("web")
    };
    let queue = WhenFull::Queue { timeout: Duration::from_secs(1), length: 2, then: Then::Shed };
    let (mut controller, plan) = started(service(queue));
    let busy = permits(&plan, at(0), 1);
    let (kind, class) = (Kind::Message, Class::Normal);
    let subject = Subject { kind, key: 0, class, stick: None, idempotent: true };
    let mut machine = Machine::new(subject);
    let mut tell = |plan: &Plan, millis, event| {
        let plan = Some(&plan.services[0]);
        machine.handle(&request::At { now: at(millis), draw: 0, plan, lag: Duration::ZERO }, event)
    };
    let joined = tell(&plan, 0, Event::Arrived);
    assert!(matches!(joined, Action::Join { .. }), "{joined:?}");
    let fleet = fleet(service(WhenFull::Shed));
    let plan = after(&mut controller, plan, at(100), Input::Reload(fleet.into()));
    drop(busy);
    let served = tell(&plan, 200, Event::First);
    assert!(matches!(served, Action::Send), "{served:?}");
}

#[test]
fn a_least_rate_of_which_half_is_in_use_is_still_a_limit() {
    let max_rate = Some(Rate::milli_per_sec(1));
    let least = Capacity { max_rate, burst: Some(3), ..Capacity::default() };
    let mut near = group("near", 0, 1, least);
    near.scaler = Ratio::percent(50);
    let groups = vec![near];
    let (_, plan) = started(Service { groups, when_full: WhenFull::Shed, ..Service::named("web") });
    assert_eq!(permits(&plan, at(1), 100).len(), 3, "the burst");
    assert!(permits(&plan, at(60_000), 100).is_empty());
}
