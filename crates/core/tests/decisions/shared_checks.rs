//! Checks that other edges make: what they found, and what is looked at again.

use loadline_core::{
    decide::{
        controller::{Controller, Input, Output},
        ledger::ServerId,
        reason::Reason,
    },
    fleet::{Capacity, Service},
    time::{Duration, Instant},
};

use crate::fleets::{check, drain, fleet, group, passed};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A controller whose servers have all passed their first check at once, and these servers.
fn checked() -> (Controller, Vec<ServerId>) {
    let groups = vec![group("near", 0, 4, Capacity::default())];
    let service = Service { groups, health: Some(check()), ..Service::named("web") };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let servers: Vec<_> = drain(&mut controller).checks.into_iter().map(|(id, _)| id).collect();
    for server in &servers {
        controller.handle(at(1), Input::Checked { server: *server, passed: Ok(passed(1)) });
    }
    drain(&mut controller);
    (controller, servers)
}

#[test]
fn what_others_have_found_counts_at_once_since_they_have_checked_it_often_enough() {
    let (mut controller, servers) = checked();
    let report = |passed| Input::Reported { server: servers[0], passed };
    controller.handle(at(10), report(Err("refused".to_owned())));
    assert_eq!(controller.is_healthy(servers[0]), Some(false));
    let plan = drain(&mut controller).plan.unwrap();
    assert_eq!(plan.services[0].groups[0].servers.len(), 3);
    controller.handle(at(20), report(Ok(passed(1))));
    assert_eq!(controller.is_healthy(servers[0]), Some(true));
}

#[test]
fn a_server_is_looked_at_again_at_once_unless_a_check_is_under_way() {
    let (mut controller, servers) = checked();
    let mut again = |millis| {
        controller.handle(at(millis), Input::Recheck { server: servers[1] });
        drain(&mut controller).checks.into_iter().map(|(server, _)| server).collect::<Vec<_>>()
    };
    assert_eq!(again(10), [servers[1]]);
    assert_eq!(again(11), [], "the first has not ended");
}

#[test]
fn a_check_that_failed_comes_again_by_the_same_link_and_one_that_passed_by_the_next() {
    let (mut controller, servers) = checked();
    let mut turn_after = |millis, result: Option<bool>| {
        let server = servers[1];
        if let Some(is_passed) = result {
            let passed = is_passed.then(|| passed(1)).ok_or_else(|| "refused".to_owned());
            controller.handle(at(millis), Input::Checked { server, passed });
        }
        controller.handle(at(millis + 1), Input::Recheck { server });
        let outputs: Vec<_> = std::iter::from_fn(|| controller.poll()).collect();
        let told = |output: &Output| match output {
            Output::Check { server: it, turn, .. } if *it == server => Some(*turn),
            _ => None,
        };
        outputs.iter().find_map(told).unwrap()
    };
    let results = [None, Some(false), Some(false), Some(true), Some(false), Some(true)];
    let turns: Vec<u16> =
        (1..).zip(results).map(|(nth, result)| turn_after(10 * nth, result)).collect();
    assert_eq!(turns, [1, 1, 1, 2, 2, 3]);
}

#[test]
fn a_check_says_whether_its_server_is_ejected_which_others_cannot_know() {
    let (mut controller, servers) = checked();
    let (server, reason) = (servers[3], Reason::EmptyReply);
    controller.handle(at(10), Input::Failing { server, errors_in_a_row: 3, reason });
    let outputs: Vec<_> = std::iter::from_fn(|| controller.poll()).collect();
    let told = |output: &Output| match output {
        Output::Check { server: it, is_ejected, .. } => Some((*it, *is_ejected)),
        _ => None,
    };
    assert_eq!(outputs.iter().filter_map(told).collect::<Vec<_>>(), [(server, true)]);
}
