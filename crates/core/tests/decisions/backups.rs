//! Servers of a later priority: what they are given while those of the first fail.

use std::sync::Arc;

use loadline_core::{
    decide::{
        controller::{Change, Controller, Input},
        plan::Plan,
        reason::Reason,
        request::{Action, At, Event, Failed, Kind, Machine, Progress, Subject},
    },
    fleet::{Capacity, Class, Ejection, Retry, Service},
    time::{Duration, Instant},
    units::Ratio,
};

use crate::fleets::{drain, group, started};

/// A service of one server for each of these priorities.
fn service(priorities: &[u16]) -> Service {
    let mut near = group("near", 0, priorities.len() as u8, Capacity::default());
    let servers = near.servers.iter_mut().zip(priorities);
    servers.for_each(|(server, priority)| server.priority = *priority);
    Service { groups: vec![near], ..Service::named("web") }
}

fn request() -> Machine {
    let (kind, class) = (Kind::Message, Class::Normal);
    Machine::new(Subject { kind, key: 0, class, stick: None, idempotent: true })
}

/// Tells a request what happens at this time, and gives the server it is sent to, if any.
fn tell(plan: &Plan, now: Instant, request: &mut Machine, event: Event) -> Option<usize> {
    let at = At { now, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
    let action = request.handle(&at, event);
    matches!(action, Action::Send).then(|| request.permit().unwrap().place().1)
}

/// Nobody listens.
fn refused() -> Event {
    let progress = Progress::NOTHING;
    Event::Failed(Failed { reason: Reason::ConnectionRefused, progress })
}

/// The first of two servers has refused a request, and is back from its ejection.
fn back() -> (Controller, Arc<Plan>, Instant) {
    let (mut controller, plan) = started(service(&[0, 1]));
    let mut first = request();
    assert_eq!(tell(&plan, Instant::ZERO, &mut first, Event::Arrived), Some(0));
    tell(&plan, Instant::ZERO, &mut first, refused());
    controller.handle(Instant::ZERO, first.poll_report().unwrap());
    let plan = drain(&mut controller).plan.unwrap();
    let mut second = request();
    assert_eq!(tell(&plan, Instant::ZERO, &mut second, Event::Arrived), Some(1), "it is out");
    let now = controller.next_deadline().unwrap();
    controller.handle(now, Input::Tick);
    let outputs = drain(&mut controller);
    assert!(matches!(outputs.changes.as_slice(), [Change::Returned(_)]), "{:?}", outputs.changes);
    (controller, outputs.plan.unwrap(), now)
}

#[test]
fn a_request_that_the_only_primary_fails_goes_to_the_backup() {
    let (_, plan) = started(service(&[0, 1]));
    let now = Instant::ZERO;
    let mut request = request();
    assert_eq!(tell(&plan, now, &mut request, Event::Arrived), Some(0));
    assert_eq!(tell(&plan, now, &mut request, refused()), Some(1));
    assert_eq!(tell(&plan, now, &mut request, refused()), None, "there is nobody else");
}

#[test]
fn a_backup_is_given_what_every_primary_has_failed_and_the_lowest_priority_first() {
    let (_, plan) = started(service(&[5, 7, 5, 6]));
    let now = Instant::ZERO;
    let mut request = request();
    let first = tell(&plan, now, &mut request, Event::Arrived).unwrap();
    let second = tell(&plan, now, &mut request, refused()).unwrap();
    assert_eq!([first.min(second), first.max(second)], [0, 2]);
    assert_eq!(tell(&plan, now, &mut request, refused()), Some(3));
}

#[test]
fn no_request_fails_while_a_dead_primary_is_back_on_probation() {
    let (_controller, plan, now) = back();
    let mut probe = request();
    assert_eq!(tell(&plan, now, &mut probe, Event::Arrived), Some(0), "it is tried again");
    // Others are spared what the first one finds out.
    let mut other = request();
    assert_eq!(tell(&plan, now, &mut other, Event::Arrived), Some(1));
    assert_eq!(tell(&plan, now, &mut probe, refused()), Some(1));
}

#[test]
fn a_primary_that_answers_again_is_given_all_requests() {
    let (_controller, plan, now) = back();
    let mut probe = request();
    assert_eq!(tell(&plan, now, &mut probe, Event::Arrived), Some(0));
    tell(&plan, now, &mut probe, Event::Head { status: 200, untouched: true });
    let mut others: Vec<_> = (0..4).map(|_| request()).collect();
    for other in &mut others {
        assert_eq!(tell(&plan, now, other, Event::Arrived), Some(0));
    }
}

#[test]
fn the_request_behind_one_that_has_a_dead_primary_ejected_goes_to_the_backup_at_once() {
    let retry = Retry { attempts: 0, ..Retry::default() };
    let (mut controller, plan) = started(Service { retry, ..service(&[0, 1]) });
    let arrived = |plan: &Plan, now| tell(plan, now, &mut request(), Event::Arrived);
    let mut first = request();
    assert_eq!(tell(&plan, Instant::ZERO, &mut first, Event::Arrived), Some(0));
    assert_eq!(tell(&plan, Instant::ZERO, &mut first, refused()), None, "it is not sent again");
    // The plan has it still, before the controller has looked and after that.
    assert_eq!(arrived(&plan, Instant::ZERO), Some(1));
    controller.handle(Instant::ZERO, first.poll_report().unwrap());
    assert_eq!(arrived(&plan, Instant::ZERO), Some(1));

    drain(&mut controller);
    let now = controller.next_deadline().unwrap();
    controller.handle(now, Input::Tick);
    let plan = drain(&mut controller).plan.unwrap();
    let mut probe = request();
    assert_eq!(tell(&plan, now, &mut probe, Event::Arrived), Some(0), "it is tried again");
    assert_eq!(tell(&plan, now, &mut probe, refused()), None);
    assert_eq!(arrived(&plan, now), Some(1));
    assert!(probe.poll_report().is_some(), "its next failure is told as well");
}

#[test]
fn a_primary_that_may_not_be_ejected_is_given_requests_whatever_it_fails() {
    let ejection = Some(Ejection { share_max: Ratio::percent(10), ..Ejection::default() });
    let retry = Retry { attempts: 0, ..Retry::default() };
    let (mut controller, plan) = started(Service { ejection, retry, ..service(&[0, 1]) });
    let mut first = request();
    assert_eq!(tell(&plan, Instant::ZERO, &mut first, Event::Arrived), Some(0));
    assert_eq!(tell(&plan, Instant::ZERO, &mut first, refused()), None);
    controller.handle(Instant::ZERO, first.poll_report().unwrap());
    let mut second = request();
    assert_eq!(tell(&plan, Instant::ZERO, &mut second, Event::Arrived), Some(0));
}
