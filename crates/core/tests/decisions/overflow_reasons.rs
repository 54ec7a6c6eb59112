//! Why a request went past the nearest group: which limit was reached there, or what is wrong with
//! it.

use loadline_core::{
    cluster::Share,
    decide::{
        controller::Input,
        overflow_reason::OverflowReason,
        permit::Permit,
        plan::{Decision, PickContext, Plan},
        reason::Reason,
    },
    fleet::{Capacity, Group, Overflow, Service, Then, WhenFull},
    time::{Duration, Instant},
    units::{Rate, Ratio},
};

use crate::fleets::{after, group, started};

const ASK: PickContext<'static> = PickContext {
    now: Instant::from_nanos(1_000_000_000),
    key: 0,
    draw: 0,
    tried: &[],
    stick: None,
};

fn sent(plan: &Plan, ask: &PickContext<'_>) -> Permit {
    match plan.services[0].pick(ask) {
        Decision::Send(permit) => permit,
        other => panic!("there is room, yet {other:?}"),
    }
}

fn rate() -> Capacity {
    Capacity { max_rate: Some(Rate::per_sec(10)), burst: Some(1), ..Capacity::default() }
}

fn places() -> Capacity {
    Capacity { max_in_flight: Some(1), ..Capacity::default() }
}

/// A near group of one server, and a far one without limits.
fn service(near: Group) -> Service {
    let groups = vec![near, group("far", 30, 1, Capacity::default())];
    Service { groups, ..Service::named("web") }
}

/// The same with a limit of the near group, and with the same of its server.
fn limited(capacity: Capacity) -> [Service; 2] {
    let mut of_server = group("near", 0, 1, Capacity::default());
    of_server.servers[0].capacity = capacity;
    [service(group("near", 0, 1, capacity)), service(of_server)]
}

#[test]
fn a_request_says_which_limit_of_the_nearest_group_or_its_servers_sent_it_on() {
    let both = Capacity { max_in_flight: Some(1), ..rate() };
    for (capacity, reason) in [
        (rate(), OverflowReason::MaxRate),
        (places(), OverflowReason::MaxInFlight),
        (both, OverflowReason::MaxRate),
    ] {
        for service in limited(capacity) {
            let (_controller, plan) = started(service);
            let near = sent(&plan, &ASK);
            assert_eq!((near.place().0, near.overflow_reason()), (0, None));
            let far = sent(&plan, &ASK);
            assert_eq!((far.place().0, far.overflow_reason()), (1, Some(reason)));
            drop(near);
            let later = PickContext { now: ASK.now + Duration::from_millis(100), ..ASK };
            assert_eq!(sent(&plan, &later).overflow_reason(), None, "near again");
        }
    }
}

#[test]
fn a_request_says_that_the_servers_of_the_nearest_group_are_over_their_utilization() {
    let capacity = Capacity { max_utilization: Some(Ratio::percent(50)), ..Capacity::default() };
    for service in limited(capacity) {
        let (_controller, plan) = started(service);
        for second in 1..=3 {
            let now = Instant::ZERO + Duration::from_secs(second);
            sent(&plan, &PickContext { now, ..ASK }).report_utilization(now, Ratio::ONE);
        }
        let now = Instant::ZERO + Duration::from_secs(3);
        let permits: Vec<Permit> =
            (0..10).map(|_| sent(&plan, &PickContext { now, ..ASK })).collect();
        let far: Vec<_> = permits.iter().filter_map(Permit::overflow_reason).collect();
        assert!(!far.is_empty());
        assert!(far.iter().all(|it| *it == OverflowReason::MaxUtilization), "{far:?}");
    }
}

#[test]
fn a_request_says_that_the_nearest_group_is_out_or_below_its_threshold() {
    let mut drained = service(group("near", 0, 1, Capacity::default()));
    drained.groups[0].scaler = Ratio::ZERO;
    let (_controller, plan) = started(drained);
    assert_eq!(sent(&plan, &ASK).overflow_reason(), Some(OverflowReason::Out));

    let (mut controller, plan) = started(service(group("near", 0, 2, places())));
    let server = plan.server_ids().next().unwrap();
    let failing = Input::Failing { server, errors_in_a_row: 3, reason: Reason::EmptyReply };
    let plan = after(&mut controller, plan, ASK.now, failing);
    assert_eq!(sent(&plan, &ASK).overflow_reason(), Some(OverflowReason::Yields));
}

#[test]
fn a_request_says_that_this_edge_has_lost_its_share_of_the_nearest_group() {
    let (mut controller, plan) = started(service(group("near", 0, 1, rate())));
    let share = Share::part(1, 2);
    let given = Input::Share { service: "web".into(), group: "near".into(), share };
    let plan = after(&mut controller, plan, Instant::ZERO, given);
    let plan = after(&mut controller, plan, Instant::ZERO, Input::SharesUntil(Some(ASK.now)));
    assert_eq!(sent(&plan, &ASK).overflow_reason(), Some(OverflowReason::Share));
}

#[test]
fn what_a_farther_group_gets_for_another_reason_has_no_reason_of_overflow() {
    let (_controller, plan) = started(service(group("near", 0, 1, places())));
    let servers: Vec<_> = plan.server_ids().collect();
    let session = PickContext { stick: Some(servers[1]), ..ASK };
    let retry = PickContext { tried: &servers[..1], ..ASK };
    for ask in [&session, &retry] {
        let far = sent(&plan, ask);
        assert_eq!((far.place().0, far.overflow_reason()), (1, None), "near has room");
    }
    let _near = sent(&plan, &ASK);
    for ask in [&session, &retry] {
        assert_eq!(sent(&plan, ask).overflow_reason(), Some(OverflowReason::MaxInFlight));
    }
}

#[test]
fn who_leaves_a_free_place_to_those_that_wait_says_that_the_nearest_group_is_full() {
    let mut service = service(group("near", 0, 1, places()));
    service.groups[1].capacity = places();
    service.overflow = Overflow::Soonest;
    service.when_full =
        WhenFull::Queue { timeout: Duration::from_secs(1), length: 9, then: Then::Shed };
    let (_controller, plan) = started(service);
    let held = [sent(&plan, &ASK), sent(&plan, &ASK)];
    let waiting = plan.services[0].pick(&ASK);
    assert!(matches!(waiting, Decision::Queue(_)), "{waiting:?}");
    drop(held);
    let far = sent(&plan, &ASK);
    assert_eq!((far.place().0, far.overflow_reason()), (1, Some(OverflowReason::Full)));
}
