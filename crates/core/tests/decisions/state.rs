//! What is told of an edge while it works: the order of groups, limits, loads, who is out.

use loadline_core::{
    decide::{
        census::Condition,
        controller::{Controller, Input},
        plan::{Decision, PickContext, Plan},
        reason::Reason,
    },
    fleet::{
        Capacity, Fleet, Listener, Service, WhenFull,
        forwarding::{Frontend, Method, Protocol},
    },
    state::{GroupAvailability, Part, State},
    time::{Duration, Instant},
    units::{Rate, Ratio},
};

use crate::fleets::{after, drain, fleet, group, started};

const NOW: Instant = Instant::from_nanos(1_000_000_000);

const ASK: PickContext<'static> =
    PickContext { now: NOW, key: 0, draw: 0, tried: &[], stick: None };

/// What has overflowed to this group.
fn overflowed(plan: &Plan, name: &str) -> u64 {
    let state = State::of(plan, NOW);
    let group = state.services[0].groups.iter().find(|group| group.name == name);
    group.unwrap().overflowed
}

/// Two groups: near two servers at 100 per second, far one.
fn two_groups() -> Service {
    let limited =
        Capacity { max_rate: Some(Rate::per_sec(100)), burst: Some(1), ..Capacity::default() };
    let groups = vec![group("near", 0, 2, limited), group("far", 30, 1, Capacity::default())];
    Service { groups, ..Service::named("web") }
}

#[test]
fn a_service_whose_packets_alone_are_forwarded_goes_by_a_ring() {
    let frontend = Frontend {
        address: ([10, 0, 0, 100], 80).into(),
        protocol: Protocol::Tcp,
        method: Method::Mac,
        service: 0,
    };
    let policy = |frontends: Vec<Frontend>, listeners: Vec<Listener>| {
        let mut fleet = fleet(two_groups());
        fleet.listeners = listeners.into();
        fleet.forwarding.frontends = frontends;
        let plan = drain(&mut Controller::new(NOW, fleet)).plan.unwrap();
        State::of(&plan, NOW).services[0].policy.clone()
    };
    let listener = || Listener::new(([0, 0, 0, 0], 80).into(), 0);
    assert_eq!(policy(vec![frontend], vec![]), "maglev");
    assert_eq!(policy(vec![frontend], vec![listener()]), "least-requests");
    assert_eq!(policy(vec![], vec![listener()]), "least-requests");
}

#[test]
fn the_excess_is_seen_where_it_goes_and_what_is_left_as_headroom() {
    let (_controller, plan) = started(two_groups());
    let before = State::of(&plan, NOW);
    let permits: Vec<Decision> = (0..3).map(|_| plan.services[0].pick(&ASK)).collect();

    let mut state = State::of(&plan, NOW + Duration::from_secs(1));
    state.measure_since(&before.into());
    let [near, far] = &state.services[0].groups[..] else { panic!("two groups") };
    assert_eq!((near.requests, near.overflowed, near.load.in_flight), (1, 0, 1));
    assert_eq!((far.requests, far.overflowed, far.load.in_flight), (2, 2, 2));
    assert_eq!(far.distance_ms, Some(30.0));
    assert_eq!(near.limits.rate_per_s, Some(100.0));
    assert_eq!(near.headroom.rate_per_s, Some(99.0));
    assert_eq!((far.fullness, far.headroom.rate_per_s), (None, None), "nothing limits it");
    drop(permits);
    assert_eq!(State::of(&plan, NOW).services[0].groups[0].load.in_flight, 0);
}

/// The interval of the budget is 15,000,151 ns, that of 66.6659955623 requests per second.
#[test]
fn a_limit_is_told_to_the_thousandths_that_it_was_written_with() {
    let max_rate = Some(Rate::milli_per_sec(66_666));
    let limited = Capacity { max_rate, ..Capacity::default() };
    let groups = vec![group("near", 0, 2, limited)];
    let (_controller, plan) = started(Service { groups, ..Service::named("web") });
    assert_eq!(State::of(&plan, NOW).services[0].groups[0].limits.rate_per_s, Some(66.666));
}

#[test]
fn what_goes_past_a_nearest_group_that_is_drained_is_overflow() {
    let mut service = two_groups();
    service.groups[0].scaler = Ratio::ZERO;
    let (_controller, plan) = started(service);
    let sent = plan.services[0].pick(&ASK);
    let Decision::Send(permit) = &sent else { panic!("{sent:?}") };
    assert!(permit.is_overflow());
    let state = State::of(&plan, NOW);
    assert_eq!((state.services[0].groups[0].name.as_str(), overflowed(&plan, "far")), ("far", 1));
}

#[test]
fn of_a_nearest_group_that_yields_what_goes_past_it_is_overflow_and_what_it_gets_is_not() {
    let limited =
        Capacity { max_rate: Some(Rate::per_sec(100)), burst: Some(1), ..Capacity::default() };
    let groups = vec![group("near", 0, 2, Capacity::default()), group("far", 30, 1, limited)];
    let (mut controller, first) = started(Service { groups, ..Service::named("web") });
    let server = first.server_ids().next().unwrap();
    let failing = Input::Failing { server, errors_in_a_row: 3, reason: Reason::EmptyReply };
    let plan = after(&mut controller, first, NOW, failing);
    assert_eq!(State::of(&plan, NOW).services[0].groups[1].standing, GroupAvailability::Yields);
    let sent: Vec<Decision> = (0..2).map(|_| plan.services[0].pick(&ASK)).collect();
    assert!(sent.iter().all(|it| matches!(it, Decision::Send(_))), "{sent:?}");
    assert_eq!((overflowed(&plan, "far"), overflowed(&plan, "near")), (1, 0));
}

#[test]
fn a_session_of_a_farther_group_and_a_retry_are_overflow_only_while_the_nearest_is_full() {
    let (_controller, plan) = started(two_groups());
    let service = &plan.services[0];
    let of_group = |at: usize| service.groups[at].servers.iter().map(|it| it.state().id());
    let failed: Vec<_> = of_group(0).collect();
    let session = PickContext { stick: of_group(1).next(), ..ASK };
    let retry = PickContext { tried: &failed, ..ASK };
    let overflows = |ask: &PickContext<'_>| {
        let sent = service.pick(ask);
        let Decision::Send(permit) = &sent else { panic!("{sent:?}") };
        assert_eq!(permit.place().0, 1);
        permit.is_overflow()
    };
    assert!(!overflows(&session) && !overflows(&retry), "near may be given one");
    let near = service.pick(&ASK);
    assert!(matches!(&near, Decision::Send(permit) if permit.place().0 == 0), "{near:?}");
    assert!(overflows(&session) && overflows(&retry), "near has been given it");
    assert_eq!(overflowed(&plan, "far"), 2);
}

#[test]
fn what_is_spread_over_capacity_is_counted() {
    let limited =
        Capacity { max_rate: Some(Rate::per_sec(1)), burst: Some(1), ..Capacity::default() };
    let groups = vec![group("near", 0, 2, limited)];
    let service = Service { groups, when_full: WhenFull::Spread, ..Service::named("web") };
    let (_controller, plan) = started(service);
    let sent: Vec<Decision> = (0..3).map(|_| plan.services[0].pick(&ASK)).collect();
    assert!(sent.iter().all(|it| matches!(it, Decision::Send(_))), "{sent:?}");
    let group = &State::of(&plan, NOW).services[0].groups[0];
    assert_eq!((group.requests, group.over_capacity), (3, 2));
}

#[test]
fn what_a_group_was_sent_stays_counted_when_servers_leave_and_come_back() {
    let groups = vec![group("far", 30, 2, Capacity::default())];
    let both = Service { groups, ..Service::named("web") };
    let mut one = both.clone();
    one.groups[0].servers.remove(1);
    let reload = |service: &Service| Input::Reload(fleet(service.clone()).into());
    let requests = |plan: &Plan| State::of(plan, NOW).services[0].groups[0].requests;
    let (mut controller, plan) = started(both.clone());
    let held: Vec<Decision> = (0..2).map(|_| plan.services[0].pick(&ASK)).collect();
    assert!(held.iter().all(|it| matches!(it, Decision::Send(_))), "{held:?}");
    (0..18).for_each(|_| drop(plan.services[0].pick(&ASK)));
    assert_eq!(requests(&plan), 20);

    let plan = after(&mut controller, plan, NOW, reload(&one));
    assert_eq!(requests(&plan), 20, "it leaves with a request in flight");
    let plan = after(&mut controller, plan, NOW, reload(&both));
    assert_eq!(requests(&plan), 20, "it is back");
    drop(held);
    let before = plan.clone();
    let plan = after(&mut controller, plan, NOW, reload(&one));
    assert_eq!(requests(&plan), 20, "it leaves with nothing in flight");
    (0..2).for_each(|_| drop(before.services[0].pick(&ASK)));
    assert_eq!(requests(&plan), 22, "a worker had not seen that plan yet");
    assert_eq!(requests(&before), 22, "nothing is counted twice");
    let plan = after(&mut controller, plan, NOW, reload(&both));
    assert_eq!(requests(&plan), 22, "it begins anew, and its group does not");
    drop(plan.services[0].pick(&ASK));
    assert_eq!(requests(&plan), 23);
    let copy = drain(&mut controller.snapshot(NOW)).plan.unwrap();
    assert_eq!(requests(&copy), 23, "a copy knows it");
}

#[test]
fn of_groups_at_one_distance_the_first_is_the_nearest() {
    let limited =
        Capacity { max_rate: Some(Rate::per_sec(100)), burst: Some(1), ..Capacity::default() };
    let groups = vec![group("one", 30, 1, limited), group("two", 30, 1, Capacity::default())];
    let (_controller, plan) = started(Service { groups, ..Service::named("web") });
    let sent: Vec<Decision> = (0..2).map(|_| plan.services[0].pick(&ASK)).collect();
    assert!(sent.iter().all(|it| matches!(it, Decision::Send(_))), "{sent:?}");
    assert_eq!((overflowed(&plan, "one"), overflowed(&plan, "two")), (0, 1));
}

#[test]
fn a_group_that_is_out_comes_last_and_may_be_given_nothing() {
    let mut service = two_groups();
    service.groups[0].scaler = Ratio::ZERO;
    let state = State::of(&started(service).1, NOW);
    let groups = &state.services[0].groups;
    assert_eq!(groups[0].name, "far");
    assert_eq!(
        (groups[1].standing, groups[1].limits.rate_per_s),
        (GroupAvailability::Closed, Some(0.0))
    );
    assert_eq!(groups[1].servers[0].condition, Condition::Drained);
    assert!(state.is_ready(), "one group is enough");
}

#[test]
fn servers_that_fail_are_told_as_ejected_and_counted() {
    let (mut controller, first) = started(two_groups());
    let server = first.server_ids().next().unwrap();
    let plan = after(
        &mut controller,
        first,
        NOW,
        Input::Failing { server, errors_in_a_row: 3, reason: Reason::EmptyReply },
    );
    let state = State::of(&plan, NOW);
    let near = state.services[0].groups.iter().find(|group| group.name == "near").unwrap();
    assert_eq!(near.servers[0].condition, Condition::Ejected);
    assert_eq!(near.servers[0].reason.as_deref(), Some(Reason::EmptyReply.text()));
    assert_eq!(near.servers[0].ejections, 1);
    assert_eq!(near.limits.rate_per_s, Some(50.0), "half of the group is left");
}

#[test]
fn pieces_are_the_whole_and_parts_are_what_they_say() {
    let services = ["a", "b", "c"].map(|name| Service { name: name.into(), ..two_groups() });
    let fleet = Fleet { services: services.into_iter().collect(), ..fleet(two_groups()) };
    let plan = drain(&mut Controller::new(NOW, fleet)).plan.unwrap();
    let whole = State::of(&plan, NOW).services;
    let piece = |places, part| State::of_services(&plan, places, part, NOW).services;
    let pieces: Vec<_> = [0..2, 2..9].map(|places| piece(places, Part::Whole)).concat();
    assert_eq!(pieces, whole);
    assert_eq!(piece(0..3, Part::Servers), whole);
    for (part, groups) in [(Part::Groups, 2), (Part::Service, 0)] {
        for (of_part, of_whole) in piece(0..3, part).iter().zip(&whole) {
            let mut expected = of_whole.clone();
            expected.groups.truncate(groups);
            expected.groups.iter_mut().for_each(|group| group.servers.clear());
            assert_eq!(*of_part, expected, "{part:?}");
        }
    }
    let ids = |places| plan.server_ids_of(places).count();
    assert_eq!((ids(0..1), ids(1..9), plan.server_ids().count()), (3, 6, 9));
}
