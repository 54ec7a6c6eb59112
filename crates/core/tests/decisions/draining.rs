//! Servers that are given nothing more, and what is left of them.

use loadline_core::{
    decide::{
        controller::Input,
        permit::Permit,
        plan::{Decision, PickContext, Plan},
    },
    fleet::{Capacity, Service},
    time::{Duration, Instant},
};

use crate::fleets::{after, fleet, group, started};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn web(servers: u8, drain_timeout: Option<Duration>) -> Service {
    let groups = vec![group("near", 0, servers, Capacity::default())];
    Service { drain_timeout, groups, ..Service::named("web") }
}

fn send(plan: &Plan) -> Permit {
    let ask = PickContext { now: Instant::ZERO, key: 0, draw: 0, tried: &[], stick: None };
    match plan.services[0].pick(&ask) {
        Decision::Send(permit) => permit,
        other => panic!("not sent: {other:?}"),
    }
}

const SECOND: Option<Duration> = Some(Duration::from_secs(1));

#[test]
fn what_is_under_way_may_end_until_the_deadline_and_a_return_forgives_all() {
    let (mut controller, plan) = started(web(1, SECOND));
    let permit = send(&plan);
    let mut gone = web(1, SECOND);
    gone.groups[0].servers[0].address.set_port(81);
    let plan = after(&mut controller, plan, at(100), Input::Reload(fleet(gone).into()));
    assert!(permit.is_leaving() && !permit.is_cut());
    assert!(!plan.staying().any(|id| id == permit.server()));
    assert_eq!(controller.next_deadline(), Some(at(1_100)));
    let generation = plan.generation;
    let plan = after(&mut controller, plan, at(1_099), Input::Tick);
    assert!(!permit.is_cut());
    let plan = after(&mut controller, plan, at(1_100), Input::Tick);
    assert!(permit.is_cut() && plan.generation > generation, "everybody is told to look");
    assert_eq!(controller.next_deadline(), None, "once");
    after(&mut controller, plan, at(1_200), Input::Reload(fleet(web(1, SECOND)).into()));
    assert!(!permit.is_leaving() && !permit.is_cut());
}

#[test]
fn a_limit_of_the_server_counts_before_that_of_its_service_and_from_when_the_drain_began() {
    let (mut controller, plan) = started(web(2, None));
    let permits = [send(&plan), send(&plan)];
    let mut drained = web(2, None);
    drained.groups[0].servers.iter_mut().for_each(|server| server.weight = 0);
    let plan = after(&mut controller, plan, at(0), Input::Reload(fleet(drained.clone()).into()));
    assert!(permits.iter().all(Permit::is_leaving));
    assert_eq!(controller.next_deadline(), None);
    drained.groups[0].servers[0].drain_timeout = SECOND;
    after(&mut controller, plan, at(500), Input::Reload(fleet(drained).into()));
    assert_eq!(controller.next_deadline(), Some(at(1_000)));
    controller.handle(at(1_000), Input::Tick);
    assert_eq!(permits.iter().filter(|permit| permit.is_cut()).count(), 1);
}

#[test]
fn what_a_server_that_is_gone_was_given_to_end_is_not_forgotten_by_the_next_reload() {
    let other = |slow: u64| {
        let slow_start = Duration::from_secs(slow);
        let groups = vec![group("near", 0, 1, Capacity::default())];
        Input::Reload(fleet(Service { slow_start, groups, ..Service::named("other") }).into())
    };
    let (mut controller, plan) = started(web(1, SECOND));
    let permit = send(&plan);
    controller.handle(at(0), other(0));
    controller.handle(at(500), other(1));
    controller.handle(at(999), Input::Tick);
    assert!(permit.is_leaving() && !permit.is_cut());
    controller.handle(at(1_000), Input::Tick);
    assert!(permit.is_cut(), "its service is gone from both files");

    // A server that drained by a limit of its own leaves the list of its group.
    let (mut controller, plan) = started(web(2, None));
    let permits = [send(&plan), send(&plan)];
    let mut drained = web(2, None);
    drained.groups[0].servers[0].weight = 0;
    drained.groups[0].servers[0].drain_timeout = SECOND;
    let mut gone = drained.clone();
    gone.groups[0].servers.remove(0);
    for (millis, service) in [(0, drained), (500, gone.clone())] {
        controller.handle(at(millis), Input::Reload(fleet(service).into()));
    }
    assert_eq!(controller.next_deadline(), Some(at(1_000)));
    // What the service says now counts as it did.
    gone.drain_timeout = Some(Duration::from_secs(2));
    controller.handle(at(600), Input::Reload(fleet(gone).into()));
    assert_eq!(controller.next_deadline(), Some(at(2_000)));
    controller.handle(at(2_000), Input::Tick);
    assert_eq!(permits.iter().filter(|permit| permit.is_cut()).count(), 1);
}
