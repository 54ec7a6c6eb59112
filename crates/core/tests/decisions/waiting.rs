//! How long a request waits, in the queue and for its server, and what that costs others.

use loadline_core::{
    decide::{
        controller::Input,
        ledger::ServerId,
        overflow_reason::OverflowReason,
        permit::Permit,
        plan::{Decision, PickContext, Plan},
        reason::Reason,
        request::{Action, At, Event, Failed, Kind, Machine, Progress, Subject, Unanswered},
    },
    fleet::{Capacity, Class, Service, Then, WhenFull},
    state::State,
    time::{Duration, Instant},
};

use crate::fleets::{group, started};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn machine(kind: Kind) -> Machine {
    let class = Class::Normal;
    Machine::new(Subject { kind, key: 0, class, stick: None, idempotent: true })
}

fn tell(machine: &mut Machine, plan: &Plan, millis: u64, event: Event) -> Action {
    machine.handle(
        &At { now: at(millis), draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO },
        event,
    )
}

fn pick(plan: &Plan, millis: u64, tried: &[ServerId]) -> Decision {
    let ask = PickContext { now: at(millis), key: 0, draw: 0, tried, stick: None };
    plan.services[0].pick(&ask)
}

fn permit(plan: &Plan, millis: u64, tried: &[ServerId]) -> Permit {
    match pick(plan, millis, tried) {
        Decision::Send(permit) => permit,
        other => panic!("there is room, yet {other:?}"),
    }
}

/// Its server closed the connection, which may have been a kept one, without a response.
fn reset(reused: bool) -> Event {
    let progress = Progress { reused, left: reused, sent: true, ..Progress::NOTHING };
    Event::Failed(Failed { reason: Reason::ResetBeforeResponse, progress })
}

/// It has waited so long for a response.
fn unanswered(waited: u64) -> Event {
    Event::Unanswered(Unanswered {
        expired: true,
        late: false,
        waited: Some(Duration::from_millis(waited)),
        limit: Duration::from_secs(60),
        untouched: true,
        reason: Reason::ResponseTimeout,
    })
}

/// A server that has just answered somebody within 10 ms.
fn quick() -> std::sync::Arc<Plan> {
    let groups = vec![group("near", 0, 1, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    let first = permit(&plan, 0, &[]);
    first.answered(at(10));
    first.finish(at(10));
    plan
}

#[test]
fn one_slow_request_takes_no_server_out_however_long_it_takes() {
    let plan = quick();
    let mut slow = machine(Kind::Message);
    assert!(matches!(tell(&mut slow, &plan, 100, Event::Arrived), Action::Send));
    for waited in [500, 1_000, 1_500, 2_000, 30_000] {
        let goes_on = tell(&mut slow, &plan, 100 + waited, unanswered(waited));
        assert!(matches!(goes_on, Action::Await(_)), "{goes_on:?}");
        assert!(slow.poll_report().is_none(), "after {waited} ms");
    }
}

#[test]
fn a_server_that_leaves_three_requests_without_a_response_is_told_of() {
    let plan = quick();
    let mut waiting: Vec<Machine> = (0..3).map(|_| machine(Kind::Message)).collect();
    let mut told = Vec::new();
    for (request, millis) in waiting.iter_mut().zip([100, 110, 120]) {
        assert!(matches!(tell(request, &plan, millis, Event::Arrived), Action::Send));
    }
    for (request, millis) in waiting.iter_mut().zip([600, 610, 620]) {
        let _ = tell(request, &plan, millis, unanswered(500));
        told.extend(request.poll_report());
    }
    assert!(matches!(told[..], [Input::Silent { suspicions: 3, .. }]), "{told:?}");
}

#[test]
fn a_request_that_waits_on_suspects_a_server_again_that_has_answered_meanwhile() {
    let plan = quick();
    let other = permit(&plan, 90, &[]);
    let mut slow = machine(Kind::Message);
    let _ = tell(&mut slow, &plan, 100, Event::Arrived);
    let _ = tell(&mut slow, &plan, 600, unanswered(500));
    other.answered(at(700));
    for waited in [1_000, 1_500, 2_000] {
        let _ = tell(&mut slow, &plan, 100 + waited, unanswered(waited));
    }
    assert_eq!(other.suspect(), 2, "it is one, after the response");
}

/// Two servers that take this many requests each, and a queue of a second.
fn two_servers(places: u32, when_full: WhenFull) -> std::sync::Arc<Plan> {
    let mut near = group("near", 0, 2, Capacity::default());
    for server in &mut near.servers {
        server.capacity.max_in_flight = Some(places);
    }
    started(Service { groups: vec![near], when_full, ..Service::named("web") }).1
}

const QUEUE: WhenFull =
    WhenFull::Queue { timeout: Duration::from_secs(1), length: 10, then: Then::Shed };

#[test]
fn a_retry_that_finds_no_room_blocks_the_queue_for_20_ms_at_most() {
    let plan = two_servers(2, QUEUE);
    let mut failing = machine(Kind::Message);
    assert!(matches!(tell(&mut failing, &plan, 0, Event::Arrived), Action::Send));
    let tried = [failing.permit().unwrap().server()];
    let _downloads = [permit(&plan, 0, &tried), permit(&plan, 0, &tried)];
    let joined = tell(&mut failing, &plan, 10, reset(false));
    let Action::Join { place, .. } = joined else { panic!("the other is full, yet {joined:?}") };
    let Decision::Queue(behind) = pick(&plan, 10, &[]) else { panic!("none overtakes") };
    let waits = tell(&mut failing, &plan, 10, Event::First);
    assert!(matches!(waits, Action::Wait(Some(until)) if until == at(30)), "{waits:?}");
    let ends = tell(&mut failing, &plan, 30, Event::First);
    assert!(matches!(ends, Action::End), "{ends:?}");
    assert_eq!(failing.failure().unwrap().reason, Reason::ResetBeforeResponse);
    drop((place, behind));
    permit(&plan, 30, &[]).finish(at(31));
}

#[test]
fn a_retry_waits_for_its_time_while_all_servers_are_full() {
    let plan = two_servers(1, QUEUE);
    let mut failing = machine(Kind::Message);
    let _ = tell(&mut failing, &plan, 0, Event::Arrived);
    let tried = [failing.permit().unwrap().server()];
    let other = permit(&plan, 0, &tried);
    let Action::Join { place: _place, .. } = tell(&mut failing, &plan, 10, reset(false)) else {
        panic!("the other is full")
    };
    let _taken = {
        let ask = PickContext { now: at(10), key: 0, draw: 0, tried: &[], stick: None };
        plan.services[0].spread(&ask).unwrap()
    };
    for millis in [10, 30, 50, 500] {
        let waits = tell(&mut failing, &plan, millis, Event::First);
        assert!(matches!(waits, Action::Wait(_)), "{waits:?}");
    }
    drop(other);
    let sent = tell(&mut failing, &plan, 510, Event::First);
    assert!(matches!(sent, Action::Send), "{sent:?}");
}

#[test]
fn a_server_without_a_connection_to_spare_does_not_end_the_wait_for_another() {
    let plan = two_servers(1, QUEUE);
    let other = permit(&plan, 0, &[]);
    let mut request = machine(Kind::Message);
    assert!(matches!(tell(&mut request, &plan, 0, Event::Arrived), Action::Send));
    let progress = Progress { crowded: true, ..Progress::NOTHING };
    let crowded = Event::Failed(Failed { reason: Reason::NoConnection, progress });
    let Action::Join { place: _place, .. } = tell(&mut request, &plan, 0, crowded) else {
        panic!("the other is full")
    };
    for millis in [10, 30, 50, 500] {
        let waits = tell(&mut request, &plan, millis, Event::First);
        assert!(matches!(waits, Action::Wait(_)), "{waits:?}");
    }
    drop(other);
    assert!(matches!(tell(&mut request, &plan, 510, Event::First), Action::Send));
}

#[test]
fn who_finds_no_connection_near_is_overflow_and_was_not_sent_there() {
    let groups =
        vec![group("near", 0, 2, Capacity::default()), group("far", 30, 1, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    let progress = Progress { crowded: true, ..Progress::NOTHING };
    let crowded = || Event::Failed(Failed { reason: Reason::NoConnection, progress });
    let mut told = 0;
    for _ in 0..10 {
        let mut request = machine(Kind::Message);
        let _ = tell(&mut request, &plan, 1, Event::Arrived);
        for _ in 0..2 {
            assert!(!request.permit().unwrap().is_overflow(), "near has room");
            let _ = tell(&mut request, &plan, 1, crowded());
            let near = State::of(&plan, at(1)).services[0].groups[0].requests;
            assert!((told..=2).contains(&near), "{near}: one at each server, and never fewer");
            told = near;
        }
        let permit = request.permit().unwrap();
        assert!(permit.place().0 == 1 && permit.is_overflow());
        assert_eq!(permit.overflow_reason(), Some(OverflowReason::MaxConnections));
    }
    let far = &State::of(&plan, at(1)).services[0].groups[1];
    assert_eq!((far.requests, far.overflowed), (10, 10));
}

#[test]
fn a_server_without_a_connection_to_spare_is_told_of_only_where_the_request_ends_so() {
    let progress = Progress { crowded: true, ..Progress::NOTHING };
    let crowded = || Event::Failed(Failed { reason: Reason::NoConnection, progress });
    let untold = |request: &mut Machine| request.take_untold().map(|failure| failure.reason);
    let plan = two_servers(1, WhenFull::Shed);
    let mut request = machine(Kind::Message);
    let _ = tell(&mut request, &plan, 0, Event::Arrived);
    assert!(matches!(tell(&mut request, &plan, 0, crowded()), Action::Send));
    assert_eq!(untold(&mut request), None, "it goes on");
    assert!(matches!(tell(&mut request, &plan, 0, crowded()), Action::End));
    assert_eq!(untold(&mut request), Some(Reason::NoConnection));
    assert_eq!(untold(&mut request), None, "once");

    let plan = two_servers(1, QUEUE);
    let _other = permit(&plan, 0, &[]);
    let mut waiting = machine(Kind::Message);
    let _ = tell(&mut waiting, &plan, 0, Event::Arrived);
    let Action::Join { place: _place, .. } = tell(&mut waiting, &plan, 0, crowded()) else {
        panic!("the other is full")
    };
    assert_eq!(untold(&mut waiting), None, "it waits");
    assert!(matches!(tell(&mut waiting, &plan, 1_000, Event::Overdue), Action::End));
    assert_eq!(untold(&mut waiting), Some(Reason::NoConnection));
}

#[test]
fn a_failure_is_told_of_once() {
    let plan = two_servers(1, QUEUE);
    let _other = permit(&plan, 0, &[]);
    let mut failing = machine(Kind::Message);
    let _ = tell(&mut failing, &plan, 0, Event::Arrived);
    let Action::Join { place: _place, .. } = tell(&mut failing, &plan, 10, reset(false)) else {
        panic!("the other is full")
    };
    let told = failing.take_untold().map(|failure| failure.reason);
    assert_eq!(told, Some(Reason::ResetBeforeResponse));
    assert!(matches!(tell(&mut failing, &plan, 1_010, Event::Overdue), Action::End));
    assert!(failing.take_untold().is_none(), "it ends for the same");
}

#[test]
fn a_copy_is_not_sent_over_capacity() {
    let plan = two_servers(1, WhenFull::Spread);
    let first = permit(&plan, 0, &[]);
    let _second = permit(&plan, 0, &[first.server()]);
    let mut copy = machine(Kind::Copy);
    assert!(matches!(tell(&mut copy, &plan, 0, Event::Arrived), Action::End));
    assert_eq!(copy.failure().unwrap().reason, Reason::Full);
    let mut message = machine(Kind::Message);
    assert!(matches!(tell(&mut message, &plan, 0, Event::Arrived), Action::Send));
}

#[test]
fn a_request_is_sent_again_for_nothing_only_where_its_connection_was_closed_before() {
    for (millis, is_stale) in [(5, true), (100, true), (101, false), (300, false)] {
        let plan = quick();
        let mut request = machine(Kind::Message);
        let _ = tell(&mut request, &plan, 1_000, Event::Arrived);
        let state = request.permit().unwrap().state().clone();
        let action = tell(&mut request, &plan, 1_000 + millis, reset(true));
        assert_eq!(matches!(action, Action::Resend), is_stale, "{action:?} after {millis} ms");
        assert_eq!(matches!(action, Action::End), !is_stale, "no other server is left");
        assert_eq!(state.in_flight(), u32::from(is_stale));
    }
}

#[test]
fn a_post_lost_on_a_kept_connection_is_a_failure_of_its_server_but_ejects_it_not() {
    let plan = quick();
    let failures = || State::of(&plan, at(2_000)).services[0].groups[0].servers[0].failures;
    for lost in 1..=10 {
        let subject = Subject {
            kind: Kind::Message,
            key: 0,
            class: Class::Normal,
            stick: None,
            idempotent: false,
        };
        let mut post = Machine::new(subject);
        assert!(matches!(tell(&mut post, &plan, 1_000, Event::Arrived), Action::Send));
        assert!(matches!(tell(&mut post, &plan, 1_005, reset(true)), Action::End));
        assert_eq!(failures(), lost);
        assert!(post.poll_report().is_none(), "it may close what is idle, many at a time");
    }
    let mut get = machine(Kind::Message);
    assert!(matches!(tell(&mut get, &plan, 1_000, Event::Arrived), Action::Send));
    assert!(matches!(tell(&mut get, &plan, 1_005, reset(true)), Action::Resend));
    assert_eq!(failures(), 10, "what is sent again has not failed");
}
