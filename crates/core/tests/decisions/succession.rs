//! An upgrade: a controller goes on with what the one before it knew of servers.

use loadline_core::{
    decide::{
        census::Condition,
        controller::{Controller, Input, KnownServer},
        plan::Plan,
        reason::Reason,
    },
    fleet::{Capacity, Fleet, Service},
    time::{Duration, Instant},
};

use crate::fleets::{Outputs, check, drain, fleet, group, passed};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Four servers that are checked.
fn checked() -> Service {
    let groups = vec![group("near", 0, 4, Capacity::default())];
    Service { groups, health: Some(check()), ..Service::named("web") }
}

/// A controller that knows how each of the servers does by its checks, from 1 ms on.
fn known(service: Service, up: &[bool]) -> (Controller, Outputs) {
    let mut controller = Controller::new(at(0), fleet(service));
    let outputs = drain(&mut controller);
    for ((server, _), up) in outputs.checks.iter().zip(up) {
        let failed = || "answered 404".to_owned();
        let passed = up.then(|| passed(1)).ok_or_else(failed);
        controller.handle(at(1), Input::Checked { server: *server, passed });
    }
    drain(&mut controller);
    (controller, outputs)
}

/// The one that follows a process of so many milliseconds, and what it puts out first.
fn successor(of: &Controller, millis: u64, fleet: Fleet) -> (Controller, Outputs) {
    let told = serde_json::to_string(&of.known_servers(at(millis))).unwrap();
    let told: Vec<KnownServer> = serde_json::from_str(&told).unwrap();
    let mut controller = Controller::shared(at(0), fleet, None, &told);
    let outputs = drain(&mut controller);
    (controller, outputs)
}

/// How the servers do, and why.
fn conditions(plan: &Plan) -> Vec<(Condition, Option<&str>)> {
    let servers = plan.services[0].census[0].servers.iter();
    servers.map(|it| (it.condition, it.reason.as_deref())).collect()
}

/// How many servers are given requests.
fn serving(plan: &Plan) -> usize {
    plan.services[0].groups.first().map_or(0, |group| group.servers.len())
}

#[test]
fn a_server_that_was_down_before_an_upgrade_is_down_after_it_until_its_checks_pass() {
    let (before, _) = known(checked(), &[true, false, true, true]);
    let (mut controller, outputs) = successor(&before, 700, fleet(checked()));
    let mut plan = outputs.plan.unwrap();
    let (up, down) = ((Condition::Up, None), (Condition::Down, Some("answered 404")));
    assert_eq!(conditions(&plan), [up, down, up, up]);
    assert_eq!(serving(&plan), 3);
    assert_eq!(outputs.checks.len(), 4, "all are checked at once");
    for millis in [1, 101] {
        assert_eq!(serving(&plan), 3, "two passes are needed");
        let (server, passed) = (outputs.checks[1].0, Ok(passed(1)));
        controller.handle(at(millis), Input::Checked { server, passed });
        plan = drain(&mut controller).plan.unwrap_or(plan);
    }
    assert_eq!(serving(&plan), 4);
}

#[test]
fn of_many_servers_none_that_was_down_before_an_upgrade_waits_for_its_turn_to_be_so() {
    let servers = 75;
    let many = || {
        let names = ["near", "b", "c", "d"];
        let groups = names.map(|name| group(name, 0, servers, Capacity::default()));
        Service { groups: groups.into(), ..checked() }
    };
    let mut before = Controller::new(at(0), fleet(many()));
    drain(&mut before);
    let mut down = 0;
    while let Some(now) = before.next_deadline().filter(|due| *due < at(1_000)) {
        before.handle(now, Input::Tick);
        for (server, _) in drain(&mut before).checks {
            let passed = Err("connection refused".to_owned());
            before.handle(now, Input::Checked { server, passed });
            down += 1;
        }
    }
    assert!(down > 290, "{down} of 300");
    let (_, outputs) = successor(&before, 1_000, fleet(many()));
    let plan = outputs.plan.unwrap();
    let serving: usize = plan.services[0].groups.iter().map(|group| group.servers.len()).sum();
    assert_eq!(serving, 4 * usize::from(servers) - down);
}

#[test]
fn an_ejection_goes_on_after_an_upgrade_for_as_long_as_it_had_to() {
    let service = || Service { health: None, ..checked() };
    let (mut before, outputs) = known(service(), &[]);
    let server = outputs.plan.unwrap().services[0].groups[0].servers[0].state().id();
    let failing = || Input::Failing { server, errors_in_a_row: 3, reason: Reason::EmptyReply };
    before.handle(at(2), failing());
    let (mut controller, outputs) = successor(&before, 602, fleet(service()));
    let plan = outputs.plan.unwrap();
    let why = Some(Reason::EmptyReply.text());
    assert_eq!(conditions(&plan)[0], (Condition::Ejected, why));
    assert_eq!((serving(&plan), controller.next_deadline()), (3, Some(at(400))));
    controller.handle(at(400), Input::Tick);
    assert_eq!(serving(&drain(&mut controller).plan.unwrap()), 4);
    controller.handle(at(500), failing());
    drain(&mut controller);
    assert_eq!(controller.next_deadline(), Some(at(2_500)), "the second in a row takes longer");
}

#[test]
fn a_server_that_is_out_for_its_silence_stays_out_after_an_upgrade_until_a_check_passes() {
    let (mut before, outputs) = known(checked(), &[true; 4]);
    let server = outputs.checks[0].0;
    before.handle(at(2), Input::Silent { server, suspicions: 3 });
    // Its time is over, and nobody knows yet whether it answers.
    before.handle(at(1_100), Input::Tick);
    let (mut controller, outputs) = successor(&before, 1_100, fleet(checked()));
    assert_eq!(serving(&outputs.plan.unwrap()), 3);
    let server = outputs.checks[0].0;
    controller.handle(at(1), Input::Checked { server, passed: Ok(passed(1)) });
    controller.handle(at(2), Input::Tick);
    assert_eq!(serving(&drain(&mut controller).plan.unwrap()), 4);
}

#[test]
fn a_slow_start_goes_on_after_an_upgrade() {
    let slow_start = Duration::from_secs(10);
    let service = || Service { slow_start, ..checked() };
    let (mut before, outputs) = known(service(), &[false, true, true, true]);
    let server = outputs.checks[0].0;
    for millis in [10, 20] {
        before.handle(at(millis), Input::Checked { server, passed: Ok(passed(1)) });
    }
    let weights = |plan: &Plan| {
        let servers = &plan.services[0].groups[0].servers;
        (servers[0].weight, servers[1].weight)
    };
    let (controller, outputs) = successor(&before, 4_020, fleet(service()));
    let (slow, full) = weights(&outputs.plan.unwrap());
    assert_eq!(slow, full / 10 * 4);
    let (mut controller, _) = successor(&controller, 2_000, fleet(service()));
    controller.handle(at(1_001), Input::Tick);
    let (slow, full) = weights(&drain(&mut controller).plan.unwrap());
    assert_eq!(slow, full / 10 * 7, "and after another one");
}

#[test]
fn what_was_known_of_servers_that_the_new_file_has_not_is_nothing_to_those_it_has() {
    let (before, _) = known(checked(), &[false; 4]);
    let groups = vec![group("near", 0, 5, Capacity::default())];
    let (_, outputs) = successor(&before, 10, fleet(Service { groups, ..checked() }));
    assert_eq!(serving(&outputs.plan.unwrap()), 1, "the fifth is new");
    let groups = vec![group("far", 0, 4, Capacity::default())];
    let (_, outputs) = successor(&before, 10, fleet(Service { groups, ..checked() }));
    assert_eq!(serving(&outputs.plan.unwrap()), 4);
    let (_, outputs) = successor(&before, 10, fleet(Service { health: None, ..checked() }));
    assert_eq!(serving(&outputs.plan.unwrap()), 4, "nothing would ever bring them up");
}

#[test]
fn a_server_that_was_up_before_an_upgrade_is_not_told_as_unchecked_after_it() {
    let (before, _) = known(checked(), &[true; 4]);
    let groups = vec![group("near", 0, 5, Capacity::default())];
    let (controller, outputs) = successor(&before, 10, fleet(Service { groups, ..checked() }));
    let (up, unchecked) = ((Condition::Up, None), (Condition::Unchecked, None));
    assert_eq!(conditions(&outputs.plan.unwrap()), [up, up, up, up, unchecked], "the fifth is new");
    let (mut controller, outputs) = successor(&controller, 10, fleet(checked()));
    assert_eq!(conditions(&outputs.plan.unwrap()), [up; 4], "and after another one");
    // The first check decides at once, as without an upgrade.
    let (server, passed) = (outputs.checks[0].0, Err("answered 404".to_owned()));
    controller.handle(at(1), Input::Checked { server, passed });
    let down = (Condition::Down, Some("answered 404"));
    assert_eq!(conditions(&drain(&mut controller).plan.unwrap())[0], down);
    let (_, outputs) = successor(&before, 10, fleet(Service { health: None, ..checked() }));
    assert_eq!(conditions(&outputs.plan.unwrap()), [unchecked; 4], "nobody checks them");
}

#[test]
fn of_servers_that_nobody_has_checked_an_upgrade_has_nothing_to_tell() {
    let (before, _) = known(checked(), &[]);
    assert!(before.known_servers(at(10)).is_empty());
}
