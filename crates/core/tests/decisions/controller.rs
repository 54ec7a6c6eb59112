//! Stories of a fleet: servers go down and come back, files change, and nothing that is counted
//! is lost.

use loadline_core::{
    decide::{
        controller::{Change, Controller, Input, Output},
        ledger::ServerId,
        overrides::{Mode, Override, Overrides, Setting},
        permit::Permit,
        plan::{Decision, PickContext, Plan, Refusal},
        reason::Reason,
    },
    fleet::{Capacity, HealthCheck, PolicyKind, Probe, Service, WhenFull},
    time::{Duration, Instant},
    units::{Rate, Ratio},
};

use crate::fleets::{self, after, check, drain, fleet, group, started};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn ask(now: Instant) -> PickContext<'static> {
    PickContext {
        now,
        key: 0,
        draw: now.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15),
        tried: &[],
        stick: None,
    }
}

fn send(plan: &Plan, now: Instant) -> Permit {
    match plan.services[0].pick(&ask(now)) {
        Decision::Send(permit) => permit,
        other => panic!("not sent: {other:?}"),
    }
}

/// How many of `count` requests at `now`, none of which ends, are sent to each group.
fn share(plan: &Plan, now: Instant, count: usize) -> Vec<usize> {
    let mut given = vec![0; 3];
    let mut permits = Vec::new();
    for _ in 0..count {
        if let Decision::Send(permit) = plan.services[0].pick(&ask(now)) {
            given[permit.place().0] += 1;
            permits.push(permit);
        }
    }
    given
}

fn checked(server: ServerId, passed: bool) -> Input {
    let failed = || "answered 404".to_owned();
    Input::Checked { server, passed: passed.then(|| fleets::passed(1)).ok_or_else(failed) }
}

fn in_flight(limit: u32) -> Capacity {
    Capacity { max_in_flight: Some(limit), ..Capacity::default() }
}

#[test]
fn the_first_plan_comes_first_though_a_group_has_no_servers_yet() {
    let mut empty = group("near", 1, 0, in_flight(1));
    empty.servers.clear();
    let service = Service { groups: vec![empty], ..Service::named("web") };
    let mut controller = Controller::new(at(0), fleet(service));
    assert!(matches!(controller.poll(), Some(Output::Publish(_))));
    assert!(matches!(controller.poll(), Some(Output::Notice(_))), "that it yields");
}

#[test]
fn the_nearest_group_is_filled_first_and_only_the_excess_goes_on() {
    let groups = vec![
        group("far", 90, 3, in_flight(10)),
        group("near", 0, 3, in_flight(10)),
        group("middle", 30, 3, in_flight(10)),
    ];
    let service = Service { groups, when_full: WhenFull::Shed, ..Service::named("web") };
    let (_, plan) = started(service);
    assert_eq!(share(&plan, at(1), 10), [0, 10, 0]);
    assert_eq!(share(&plan, at(1), 14), [0, 10, 4]);
    assert_eq!(share(&plan, at(1), 99), [10, 10, 10]);
}

#[test]
fn a_server_that_goes_down_takes_its_part_of_the_budget_with_it() {
    let capacity = Capacity { max_rate: Some(Rate::per_sec(300)), ..Capacity::default() };
    let groups = vec![group("near", 0, 3, capacity), group("far", 30, 3, Capacity::default())];
    let service = Service {
        groups,
        health: Some(check()),
        failover_threshold: Ratio::ZERO,
        ..Service::named("web")
    };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let outputs = drain(&mut controller);
    let plan = outputs.plan.unwrap();
    // A thousand requests in a second: the rate of a second, and the burst of a tenth of one.
    let near = |plan: &Plan, from| {
        (from..from + 1_000).filter(|ms| send(plan, at(*ms)).place().0 == 0).count()
    };
    assert!((328..=330).contains(&near(&plan, 1)));
    let plan = after(&mut controller, plan, at(10), checked(outputs.checks[0].0, false));
    assert!((218..=220).contains(&near(&plan, 5_000)));
}

#[test]
fn a_group_below_its_threshold_comes_last_and_returns_without_flapping() {
    let groups =
        vec![group("near", 0, 4, Capacity::default()), group("far", 30, 4, Capacity::default())];
    let service = Service { groups, health: Some(check()), ..Service::named("web") };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let outputs = drain(&mut controller);
    let (mut plan, near) = (outputs.plan.unwrap(), &outputs.checks[..4]);
    for (server, _) in &near[..2] {
        plan = after(&mut controller, plan, at(10), checked(*server, false));
    }
    assert_eq!(share(&plan, at(11), 8), [0, 8, 0], "half of near is down, 70 % are asked for");
    for passed_at in [20, 30] {
        for (server, _) in &near[..2] {
            plan = after(&mut controller, plan, at(passed_at), checked(*server, true));
        }
    }
    assert_eq!(share(&plan, at(31), 8), [0, 8, 0], "well again, but not for long");
    plan = after(&mut controller, plan, at(4_000), Input::Tick);
    assert_eq!(share(&plan, at(4_001), 8), [8, 0, 0]);
}

#[test]
fn a_group_below_its_threshold_says_how_many_are_healthy_and_one_that_is_drained_that_it_is() {
    let service = |weight: u32| {
        let mut near = group("near", 0, 2, Capacity::default());
        near.servers.iter_mut().for_each(|server| server.weight = weight);
        let groups = vec![near, group("far", 30, 2, Capacity::default())];
        Service { groups, health: Some(check()), ..Service::named("web") }
    };
    let mut controller = Controller::new(Instant::ZERO, fleet(service(1)));
    let server = drain(&mut controller).checks[0].0;
    controller.handle(at(1), Input::Reload(fleet(service(0)).into()));
    assert_eq!(drain(&mut controller).changes, [Change::Drained]);
    controller.handle(at(2), Input::Reload(fleet(service(1)).into()));
    controller.handle(at(3), checked(server, false));
    let low = Change::Yields(1, 2, Ratio::percent(70));
    assert!(drain(&mut controller).changes.contains(&low), "it is back, and half of it is down");
    controller.handle(at(4), Input::Reload(fleet(service(0)).into()));
    assert!(drain(&mut controller).changes.is_empty());
}

#[test]
fn servers_in_maintenance_count_for_the_threshold_as_if_they_were_down_and_drained_ones_do_not() {
    let groups = vec![group("near", 0, 4, in_flight(100)), group("far", 30, 1, in_flight(100))];
    let file = fleet(Service { groups, ..Service::named("web") });
    for (mode, changes) in [
        (Mode::Maintenance, vec![Change::Yields(1, 4, Ratio::percent(70))]),
        (Mode::Drain, Vec::new()),
    ] {
        let mut controller = Controller::new(Instant::ZERO, file.clone());
        drain(&mut controller);
        let mut overrides = Overrides::default();
        for server in &file.services[0].groups[0].servers[..3] {
            let setting = Setting::Mode(server.address, mode);
            let change = Override { service: "web".into(), group: "near".into(), setting };
            overrides.set(&file, change).unwrap();
        }
        controller.handle(at(1), Input::Reload(overrides.applied_to(&file).into()));
        let outputs = drain(&mut controller);
        let near = usize::from(changes.is_empty()) * 8;
        assert_eq!(share(&outputs.plan.unwrap(), at(2), 8), [near, 8 - near, 0], "{mode:?}");
        assert_eq!(outputs.changes, changes, "{mode:?}");
    }
}

#[test]
fn three_errors_in_a_row_eject_a_server_for_a_second() {
    let service =
        Service { groups: vec![group("near", 0, 4, Capacity::default())], ..Service::named("web") };
    let (mut controller, mut plan) = started(service);
    let victim = send(&plan, at(1)).server();
    plan = after(
        &mut controller,
        plan,
        at(2),
        Input::Failing { server: victim, errors_in_a_row: 2, reason: Reason::EmptyReply },
    );
    assert_eq!(plan.services[0].groups[0].servers.len(), 4, "two are not enough");
    plan = after(
        &mut controller,
        plan,
        at(3),
        Input::Failing { server: victim, errors_in_a_row: 3, reason: Reason::EmptyReply },
    );
    assert_eq!(plan.services[0].groups[0].servers.len(), 3);
    assert_eq!(controller.next_deadline(), Some(at(1_003)));
    plan = after(&mut controller, plan, at(1_003), Input::Tick);
    assert_eq!(plan.services[0].groups[0].servers.len(), 4);
}

#[test]
fn an_ejected_server_that_answers_no_check_stays_out_until_it_does_or_is_down() {
    let ejected = |answers: &[bool]| {
        let groups = vec![group("near", 0, 4, Capacity::default())];
        let service = Service { groups, health: Some(check()), ..Service::named("web") };
        let mut controller = Controller::new(Instant::ZERO, fleet(service));
        let outputs = drain(&mut controller);
        let (mut plan, victim) = (outputs.plan.unwrap(), outputs.checks[0].0);
        for (server, _) in outputs.checks {
            plan = after(&mut controller, plan, at(1), checked(server, true));
        }
        let failing =
            Input::Failing { server: victim, errors_in_a_row: 3, reason: Reason::EmptyReply };
        plan = after(&mut controller, plan, at(2), failing);
        for &passed in answers {
            plan = after(&mut controller, plan, at(500), checked(victim, passed));
        }
        plan = after(&mut controller, plan, at(1_002), Input::Tick);
        (controller.is_healthy(victim).unwrap(), plan.services[0].groups[0].servers.len())
    };
    assert_eq!(ejected(&[]), (false, 3), "the check is under way");
    assert_eq!(ejected(&[false]), (false, 3), "one that fails is not yet the end");
    assert_eq!(ejected(&[true]), (true, 4));
    assert_eq!(ejected(&[false, false]), (false, 3), "it is down: no matter of ejection any more");
}

#[test]
fn a_server_that_went_down_meanwhile_is_not_said_to_be_back() {
    let told = |passed: bool| {
        let groups = vec![group("near", 0, 4, Capacity::default())];
        let service = Service { groups, health: Some(check()), ..Service::named("web") };
        let mut controller = Controller::new(Instant::ZERO, fleet(service));
        let servers = drain(&mut controller).checks;
        for (server, _) in &servers {
            controller.handle(at(1), checked(*server, true));
        }
        let (server, address) = servers[0];
        controller.handle(
            at(2),
            Input::Failing { server, errors_in_a_row: 3, reason: Reason::EmptyReply },
        );
        for _ in 0..2 {
            controller.handle(at(500), checked(server, passed));
        }
        controller.handle(at(1_002), Input::Tick);
        let notices = std::iter::from_fn(|| controller.poll()).filter_map(|output| match output {
            Output::Notice(notice) => Some(notice.change),
            _ => None,
        });
        (address, notices.collect::<Vec<_>>())
    };
    let (address, notices) = told(true);
    assert!(notices.contains(&Change::Returned(address)), "{notices:?}");
    let (address, notices) = told(false);
    assert!(notices.contains(&Change::Down(address, "answered 404".into())), "{notices:?}");
    assert!(!notices.contains(&Change::Returned(address)), "{notices:?}");
}

#[test]
fn who_waits_for_a_server_that_is_out_for_errors_hears_that_it_hangs() {
    let groups = vec![group("near", 0, 4, Capacity::default())];
    let (mut controller, mut plan) = started(Service { groups, ..Service::named("web") });
    let waiting = send(&plan, at(1));
    let server = waiting.server();
    plan = after(
        &mut controller,
        plan,
        at(2),
        Input::Failing { server, errors_in_a_row: 3, reason: Reason::EmptyReply },
    );
    assert!(!waiting.hangs(), "errors alone say nothing of those under way");
    plan = after(&mut controller, plan, at(3), Input::Silent { server, suspicions: 2 });
    assert!(!waiting.hangs());
    after(&mut controller, plan, at(4), Input::Silent { server, suspicions: 3 });
    assert!(waiting.hangs());
}

#[test]
fn when_every_server_is_down_requests_are_refused_by_name() {
    let groups = vec![group("near", 0, 1, Capacity::default())];
    let service = Service { groups, health: Some(check()), ..Service::named("web") };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let outputs = drain(&mut controller);
    let down = checked(outputs.checks[0].0, false);
    let plan = after(&mut controller, outputs.plan.unwrap(), at(1), down);
    let refused = plan.services[0].pick(&ask(at(2)));
    assert!(matches!(refused, Decision::Refuse(Refusal::NoServer)), "{refused:?}");
}

#[test]
fn a_reload_keeps_counts_budgets_averages_and_positions() {
    let capacity = Capacity {
        max_rate: Some(Rate::per_sec(100)),
        burst: Some(5),
        max_in_flight: Some(4),
        ..Capacity::default()
    };
    let service = Service {
        groups: vec![group("near", 0, 3, capacity)],
        policy: PolicyKind::RoundRobin,
        when_full: WhenFull::Shed,
        ..Service::named("web")
    };
    let (mut controller, mut plan) = started(service.clone());
    let first = send(&plan, at(1));
    let held = [send(&plan, at(1)), send(&plan, at(1))];
    first.answered(at(21));
    let (first_server, latency) = (first.server(), first.address());
    first.finish(at(21));
    plan = after(&mut controller, plan, at(22), Input::Reload(fleet(service).into()));

    let near = &plan.services[0].groups[0];
    assert_eq!(near.state().in_flight(), 2);
    let known = near.servers.iter().find(|server| server.state().address() == latency).unwrap();
    assert_eq!(known.state().latency(), Duration::from_millis(20));
    assert_eq!(known.state().id(), first_server);
    assert_eq!(send(&plan, at(22)).server(), first_server, "the fourth turn is the first server's");
    // Three of five were taken at 1 ms, two came back by 21 ms, one went just now.
    assert_eq!(share(&plan, at(22), 9)[0], 2, "two places are left");
    drop(held);
}

#[test]
fn a_server_that_comes_up_starts_slowly() {
    let service = Service {
        groups: vec![group("near", 0, 2, Capacity::default())],
        health: Some(check()),
        slow_start: Duration::from_secs(10),
        ..Service::named("web")
    };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let outputs = drain(&mut controller);
    let mut plan = outputs.plan.unwrap();
    let (server, _) = outputs.checks[0];
    for (millis, passed) in [(1, false), (10, true), (20, true)] {
        plan = after(&mut controller, plan, at(millis), checked(server, passed));
    }
    let weight = |plan: &Plan| plan.services[0].groups[0].servers[0].weight;
    let full = plan.services[0].groups[0].servers[1].weight;
    assert_eq!(weight(&plan), full / 10);
    plan = after(&mut controller, plan, at(5_020), Input::Tick);
    assert_eq!(weight(&plan), full / 2);
    plan = after(&mut controller, plan, at(10_020), Input::Tick);
    assert_eq!(weight(&plan), full);
}

#[test]
fn a_server_that_comes_back_from_maintenance_starts_slowly_and_one_that_was_drained_does_not() {
    let service = Service {
        groups: vec![group("near", 0, 2, Capacity::default())],
        slow_start: Duration::from_secs(10),
        ..Service::named("web")
    };
    let file = fleet(service);
    let server = file.services[0].groups[0].servers[0].address;
    for (mode, part) in [(Mode::Maintenance, 10), (Mode::Drain, 1)] {
        let mut controller = Controller::new(Instant::ZERO, file.clone());
        let mut plan = drain(&mut controller).plan.unwrap();
        let weights = |plan: &Plan| {
            let servers = plan.services[0].groups[0].servers.iter();
            servers.map(|it| it.weight).collect::<Vec<_>>()
        };
        let full = weights(&plan)[0];
        let mut overrides = Overrides::default();
        let change = |mode| Override {
            service: "web".into(),
            group: "near".into(),
            setting: Setting::Mode(server, mode),
        };
        for (second, mode) in [(1, mode), (60, Mode::Active)] {
            overrides.set(&file, change(mode)).unwrap();
            let reload = Input::Reload(overrides.applied_to(&file).into());
            plan = after(&mut controller, plan, at(second * 1_000), reload);
        }
        assert_eq!(weights(&plan), [full / part, full], "{mode:?}");
        plan = after(&mut controller, plan, at(65_000), Input::Tick);
        assert_eq!(weights(&plan), [full / part.min(2), full], "{mode:?}");
        plan = after(&mut controller, plan, at(70_000), Input::Tick);
        assert_eq!(weights(&plan), [full, full], "{mode:?}");
    }
}

#[test]
fn a_region_without_a_given_distance_is_ordered_by_what_checks_measure() {
    let mut groups =
        vec![group("a", 0, 1, Capacity::default()), group("b", 0, 1, Capacity::default())];
    groups.iter_mut().for_each(|group| group.rtt = None);
    let service = Service { groups, health: Some(check()), ..Service::named("web") };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let outputs = drain(&mut controller);
    let mut plan = outputs.plan.unwrap();
    for (n, rtt) in [(0, 80), (1, 20)] {
        let passed = Ok(fleets::passed(rtt));
        let result = Input::Checked { server: outputs.checks[n].0, passed };
        plan = after(&mut controller, plan, at(90), result);
    }
    let order: Vec<u16> = plan.services[0].groups.iter().map(|group| group.index).collect();
    assert_eq!(order, [1, 0]);
}

#[test]
fn a_drained_group_is_given_nothing() {
    let mut near = group("near", 0, 2, Capacity::default());
    near.scaler = Ratio::ZERO;
    let groups = vec![near, group("far", 30, 2, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    assert_eq!(share(&plan, at(1), 5), [0, 5, 0]);
}

#[test]
fn a_retry_goes_to_a_server_that_has_not_failed_it() {
    let groups = vec![group("near", 0, 2, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    let failed = send(&plan, at(1)).server();
    for draw in 0..50u64 {
        let tried = [failed];
        let ask = PickContext {
            draw: draw.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            tried: &tried,
            ..ask(at(2))
        };
        let Decision::Send(permit) = plan.services[0].pick(&ask) else { panic!("one is left") };
        assert_ne!(permit.server(), failed);
    }
}

#[test]
fn the_last_attempt_is_made_in_a_group_that_has_not_failed_the_request() {
    let groups =
        vec![group("near", 0, 3, Capacity::default()), group("far", 30, 3, Capacity::default())];
    let (_, plan) = started(Service { groups, ..Service::named("web") });
    let mut tried = Vec::new();
    let mut groups = Vec::new();
    for _ in 0..=2 {
        let ask = PickContext { tried: &tried, ..ask(at(1)) };
        let Decision::Send(permit) = plan.services[0].pick(&ask) else { panic!("there is room") };
        groups.push(permit.place().0);
        tried.push(permit.server());
    }
    assert_eq!(groups, [0, 0, 1]);
}

#[test]
fn a_snapshot_goes_on_where_the_controller_stands_and_shares_nothing_with_it() {
    let limit =
        Capacity { max_rate: Some(Rate::per_sec(10)), burst: Some(5), ..Capacity::default() };
    let mut service = Service { groups: vec![group("near", 0, 2, limit)], ..Service::named("web") };
    (service.health, service.when_full) = (Some(check()), WhenFull::Shed);
    let (mut controller, plan) = started(service);
    let down = plan.services[0].groups[0].servers[0].state().id();
    for _ in 0..2 {
        let input = Input::Checked { server: down, passed: Err("404".into()) };
        controller.handle(at(0), input);
    }
    let plan = drain(&mut controller).plan.unwrap_or(plan);
    let _permits = [send(&plan, at(0)), send(&plan, at(0))];

    let mut copy = controller.snapshot(at(0));
    let copied = drain(&mut copy).plan.unwrap();
    assert_eq!(copied.services[0].groups[0].servers.len(), 1, "the other one is down");
    assert_eq!(copied.services[0].groups[0].state().in_flight(), 0, "nothing is under way");
    let takes = |plan: &Plan| match plan.services[0].pick(&ask(at(0))) {
        Decision::Send(_) => true,
        Decision::Queue(_) | Decision::Refuse(_) => false,
    };
    let left = |plan: &Plan| (0..10).filter(|_| takes(plan)).count();
    let (left_here, left_there) = (left(&plan), left(&copied));
    assert_eq!(left_here, left_there, "what was given counts there, what is given now does not");
    assert!((1..5).contains(&left_there));
    assert_eq!(copy.is_healthy(down), Some(false));
}

#[test]
fn a_shorter_interval_of_checks_takes_effect_at_once_and_so_does_another_probe() {
    let web = |interval, probe| {
        let groups = vec![group("near", 0, 1, Capacity::default())];
        let interval = Duration::from_secs(interval);
        let health = Some(HealthCheck { interval, probe, ..check() });
        fleet(Service { groups, health, ..Service::named("web") })
    };
    let mut controller = Controller::new(Instant::ZERO, web(600, Probe::Tcp));
    let server = drain(&mut controller).checks[0].0;
    controller.handle(at(1), checked(server, true));
    assert!(controller.next_deadline() > Some(at(1_001)), "its turn is in ten minutes");
    controller.handle(at(1), Input::Reload(web(1, Probe::Tcp).into()));
    let due = controller.next_deadline();
    assert!(due > Some(at(1)) && due <= Some(at(1_001)), "{due:?}");
    controller.handle(at(2), Input::Reload(web(600, Probe::Tcp).into()));
    assert_eq!(controller.next_deadline(), due, "a longer one begins after it");
    assert!(drain(&mut controller).checks.is_empty());
    controller.handle(at(3), Input::Reload(web(600, Probe::Tls).into()));
    assert_eq!(drain(&mut controller).checks.len(), 1, "of what it asks nothing is known");
}
