//! Many services: what happens to one of them touches no other.

use std::{cell::Cell, collections::BTreeSet, sync::Arc};

use loadline_core::{
    decide::{
        controller::{Controller, Input, Output},
        ledger::ServerId,
        plan::{Decision, PickContext, Plan},
        reason::Reason,
        request::{Action, At, Event, Failed, Kind, Machine, Progress, Subject},
        service_plans::Exchanged,
    },
    fleet::{Capacity, Class, Fleet, PolicyKind, Service},
    time::{Duration, Instant},
    units::Ratio,
};
use proptest::prelude::*;

use crate::fleets::{self, after, check, drain, fleet, group};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A service of this name with two groups.
fn service(name: &str, near: u8, far: u8) -> Service {
    let mut groups = vec![
        group("near", 0, near, Capacity::default()),
        group("far", 30, far, Capacity::default()),
    ];
    groups[1].rtt = None;
    Service { groups, health: Some(check()), ..Service::named(name) }
}

fn of(services: Vec<Service>) -> Fleet {
    Fleet { services: services.into(), ..fleet(Service::named("none")) }
}

fn many(count: usize) -> Vec<Service> {
    (0..count).map(|n| service(&format!("s{n}"), 3, 2)).collect()
}

fn ids(plan: &Plan, service: usize) -> Vec<ServerId> {
    let mut ids: Vec<ServerId> = plan.services[service]
        .groups
        .iter()
        .flat_map(|group| group.servers.iter().map(|server| server.state().id()))
        .collect();
    ids.sort_unstable();
    ids
}

fn checked(server: ServerId, millis: Option<u64>) -> Input {
    let passed = millis.map(fleets::passed).ok_or_else(|| "refused".to_owned());
    Input::Checked { server, passed }
}

#[test]
fn a_health_change_makes_the_plan_of_its_service_anew_and_of_no_other() {
    let mut controller = Controller::new(at(0), of(many(200)));
    let before = drain(&mut controller).plan.unwrap();
    let down = checked(ids(&before, 70)[0], None);
    let plan = after(&mut controller, before.clone(), at(1), down);
    let changed: Vec<usize> = plan.services.changed_since(&before.services).collect();
    assert_eq!(changed, [70]);
    assert_eq!(plan.services[70].groups.iter().map(|it| it.servers.len()).sum::<usize>(), 4);
}

#[test]
fn one_plan_follows_when_all_servers_of_a_rack_fail_at_once() {
    let mut controller = Controller::new(at(0), of(vec![service("web", 200, 1)]));
    let plan = drain(&mut controller).plan.unwrap();
    let servers = ids(&plan, 0).into_iter().take(150);
    let failed = servers.flat_map(|server| [checked(server, None), checked(server, None)]);
    controller.handle_all(at(1), failed);
    let plans = core::iter::from_fn(|| controller.poll())
        .filter_map(|output| match output {
            Output::Publish(plan) => Some(plan),
            _ => None,
        })
        .collect::<Vec<_>>();
    assert_eq!(plans.len(), 1);
    assert_eq!(ids(&plans[0], 0).len(), 51);
}

#[test]
fn a_reload_that_comes_with_a_failed_check_finds_each_at_its_place() {
    let mut controller = Controller::new(at(0), of(many(3)));
    let plan = drain(&mut controller).plan.unwrap();
    let down = ids(&plan, 2)[0];
    let reload = Input::Reload(of(many(1)).into());
    controller.handle_all(at(1), [checked(down, None), reload, checked(down, None)]);
    let plan = drain(&mut controller).plan.unwrap();
    assert_eq!(ids(&plan, 0).len(), 5);
    assert!(plan.services.get(1).is_none());
}

#[test]
fn a_reload_of_one_service_keeps_the_plans_of_the_others_wherever_they_stand_now() {
    let mut controller = Controller::new(at(0), of(many(100)));
    let before = drain(&mut controller).plan.unwrap();
    let mut services = many(100);
    services[3].groups[0].servers[0].weight = 7;
    services.insert(0, service("new", 1, 1));
    let plan = after(&mut controller, before.clone(), at(1), Input::Reload(of(services).into()));
    let same = |n: &usize| {
        Arc::ptr_eq(before.services.get(*n).unwrap(), plan.services.get(n + 1).unwrap())
    };
    assert_eq!((0..100).filter(|n| !same(n)).collect::<Vec<_>>(), [3]);
}

#[test]
fn what_a_configuration_exchanges_is_found_wherever_the_other_services_have_moved() {
    let mut controller = Controller::new(at(0), of(many(200)));
    let mut plan = drain(&mut controller).plan.unwrap();
    let mut services = many(200);
    let mut exchanged = |services: &[Service]| {
        let reload = Input::Reload(of(services.to_vec()).into());
        let next = after(&mut controller, plan.clone(), at(1), reload);
        let exchanged = next.services.exchanged_since(&plan.services);
        plan = next;
        (exchanged.before, exchanged.now)
    };
    services[3].groups[0].servers[0].weight = 7;
    services.insert(0, service("new", 1, 1));
    assert_eq!(exchanged(&services), (vec![3], vec![0, 4]));
    services.swap(20, 150);
    assert_eq!(exchanged(&services), (vec![], vec![]));
    services.remove(100);
    assert_eq!(exchanged(&services), (vec![100], vec![]));
    services.insert(190, service("late", 1, 1));
    services.remove(10);
    assert_eq!(exchanged(&services), (vec![10], vec![189]));
    services[199].groups.pop();
    assert_eq!(exchanged(&services), (vec![199], vec![199]));
}

#[test]
fn of_two_lists_no_more_is_compared_than_has_changed() {
    let asked = &Cell::new(0);
    let list = |count: usize| {
        let element = move |place: usize| {
            asked.set(asked.get() + 1);
            (place < count).then_some(place)
        };
        (count, element)
    };
    let none = Exchanged::between(list(10_000), list(10_000), [7, 5_000].into_iter());
    assert_eq!(none, Exchanged::default());
    assert_eq!(asked.get(), 4);
}

#[test]
fn servers_that_leave_are_told_without_those_of_services_that_stay() {
    let mut controller = Controller::new(at(0), of(many(200)));
    let before = drain(&mut controller).plan.unwrap();
    let servers = ids(&before, 70);
    let mut services = many(200);
    services[70].groups[0].servers[0].weight = 0;
    services[70].groups[0].servers.remove(1);
    services.insert(10, service("new", 1, 0));
    let plan = after(&mut controller, before.clone(), at(1), Input::Reload(of(services).into()));
    let new = ids(&plan, 10);
    let others = plan.services.other_servers_since(&before.services);
    assert_eq!(others, BTreeSet::from([servers[1], new[0]]));
    let leaving = plan.services.leaving_since(&before.services);
    assert_eq!(leaving, BTreeSet::from([servers[0], servers[1], new[0]]));
    // As a walk over all servers finds them.
    let staying: BTreeSet<ServerId> = plan.staying().collect();
    let closed = before.server_ids().filter(|server| !staying.contains(server));
    assert!(closed.eq([servers[0], servers[1]]));
}

#[test]
fn what_was_measured_of_managed_servers_goes_with_their_service_and_its_policy() {
    let mut services = many(3);
    services.iter_mut().for_each(|service| service.policy = PolicyKind::Managed);
    let mut controller = Controller::new(at(0), of(services.clone()));
    let plan = drain(&mut controller).plan.unwrap();
    plan.server_ids().for_each(|id| controller.handle(at(1), checked(id, Some(1))));
    drain(&mut controller);
    services.remove(0);
    services[1].policy = PolicyKind::RoundRobin;
    services[0].groups[1].servers.pop();
    controller.handle(at(2), Input::Reload(of(services).into()));
    // It looks for what is left.
    assert!(drain(&mut controller).plan.is_some());
}

#[test]
fn a_change_of_one_service_touches_its_plan_and_the_checks_of_its_servers_alone() {
    let file = of(many(100));
    let mut controller = Controller::new(at(0), file.clone());
    let before = drain(&mut controller).plan.unwrap();
    let mut hear = |millis, input| {
        controller.handle(at(millis), input);
        let outputs = drain(&mut controller);
        let checks: Vec<ServerId> = outputs.checks.into_iter().map(|(server, _)| server).collect();
        (outputs.plan, checks)
    };
    let mut changed = file.clone();
    changed.services[70].groups[0].servers.remove(0);
    changed.services[70].groups[0].servers[0].weight = 7;
    assert!((0..100).all(|n| changed.services.share(n, &file.services) == (n != 70)));
    let reloads = [(1, changed), (2, file)].map(|(millis, fleet)| {
        let (plan, checks) = hear(millis, Input::Reload(fleet.into()));
        let plan = plan.unwrap();
        assert_eq!(plan.services.changed_since(&before.services).collect::<Vec<_>>(), [70]);
        (plan, checks)
    });
    let [(without, early), (plan, at_once)] = reloads;
    assert_eq!(ids(&without, 70), ids(&before, 70)[1..]);
    let (_, later) = hear(3_000, Input::Tick);
    let checks = [early, at_once, later].concat();
    let all: BTreeSet<ServerId> = plan.server_ids().collect();
    assert_eq!((checks.len(), checks.into_iter().collect()), (500, all), "each server once");
}

#[test]
fn numbers_of_servers_that_left_are_given_again_once_nobody_holds_them() {
    let mut controller = Controller::new(at(0), of(many(10)));
    let mut plan = drain(&mut controller).plan.unwrap();
    let ask = PickContext { now: at(0), key: 0, draw: 0, tried: &[], stick: None };
    let Decision::Send(held) = plan.services[0].pick(&ask) else { panic!("not sent") };
    for turn in 1..50 {
        let mut services = many(10);
        for group in services.iter_mut().flat_map(|service| &mut service.groups) {
            group.servers.iter_mut().for_each(|server| server.address.set_port(80 + turn));
        }
        plan = after(&mut controller, plan, at(1), Input::Reload(of(services).into()));
        assert!((0..10).all(|n| !ids(&plan, n).contains(&held.server())), "it is another's");
    }
    let highest = (0..10).flat_map(|n| ids(&plan, n)).max().unwrap();
    assert!(highest.index() < 200, "{highest:?} of 50 servers at a time, and 2,500 in all");
}

#[test]
fn one_late_syn_reorders_nothing() {
    let mut both = service("web", 1, 1);
    both.groups.iter_mut().for_each(|group| group.rtt = None);
    both.groups[0].region = "other".into();
    let mut controller = Controller::new(at(0), of(vec![both]));
    let outputs = drain(&mut controller);
    let (mut plan, checks) = (outputs.plan.unwrap(), outputs.checks);
    let [nearer, farther] = [checks[0].0, checks[1].0];
    for turn in 0..20 {
        // A SYN that is lost is sent again after a second.
        let late = if turn == 12 { 1_000 } else { 0 };
        plan = after(&mut controller, plan, at(turn * 100), checked(nearer, Some(20 + late)));
        plan = after(&mut controller, plan, at(turn * 100), checked(farther, Some(30)));
        let order: Vec<u16> = plan.services[0].groups.iter().map(|group| group.index).collect();
        assert_eq!(order, [0, 1], "after {turn} checks");
        assert!(plan.generation <= 3, "the distances of both, and that all are known");
    }
}

#[test]
fn first_checks_of_many_servers_are_spread_over_their_interval_and_stay_so() {
    let mut controller = Controller::new(at(0), of(many(400)));
    let mut most = 0;
    for turn in 0..300 {
        controller.handle(at(turn * 10), Input::Tick);
        let due = drain(&mut controller).checks;
        most = most.max(due.len());
        due.iter().for_each(|(id, _)| controller.handle(at(turn * 10 + 1), checked(*id, Some(1))));
        drain(&mut controller);
    }
    assert!(most <= 24, "{most} at once of 2,000 servers, which is 20 every 10 ms");
}

#[test]
fn checks_that_all_began_at_once_are_spread_from_the_second_on() {
    let mut controller = Controller::new(at(0), of(many(40)));
    let first = drain(&mut controller).checks;
    assert_eq!(first.len(), 200, "of few servers it is known at once who answers");
    first.iter().for_each(|(id, _)| controller.handle(at(1), checked(*id, Some(1))));
    drain(&mut controller);
    controller.handle(at(501), Input::Tick);
    let half = drain(&mut controller).checks.len();
    assert!((90..=110).contains(&half), "{half} of 200 in half of the interval");
}

#[test]
fn what_cannot_be_ejected_is_told_ten_times_a_second_and_not_at_every_request() {
    let mut alone = service("web", 1, 1);
    alone.groups.pop();
    alone.health = None;
    let mut controller = Controller::new(at(0), of(vec![alone]));
    let plan = drain(&mut controller).plan.unwrap();
    let refused = Failed { reason: Reason::ConnectionRefused, progress: Progress::NOTHING };
    let mut heard = 0;
    for micros in (0..1_000_000).step_by(100) {
        let now = Instant::from_nanos(micros * 1_000);
        controller.handle(now, Input::Tick);
        let at = At { now, draw: 0, plan: Some(&plan.services[0]), lag: Duration::ZERO };
        let mut request = Machine::new(MESSAGE);
        assert!(matches!(request.handle(&at, Event::Arrived), Action::Send));
        assert!(matches!(request.handle(&at, Event::Failed(refused)), Action::End));
        if let Some(report) = request.poll_report() {
            heard += 1;
            controller.handle(now, report);
            assert!(controller.poll().is_none(), "it is the only one");
        }
    }
    assert_eq!(heard, 10, "of 10,000 failures");
}

const MESSAGE: Subject =
    Subject { kind: Kind::Message, key: 0, class: Class::Normal, stick: None, idempotent: true };

#[derive(Clone, Debug)]
enum Op {
    Check { service: usize, server: usize, millis: Option<u64> },
    Fail { service: usize, server: usize, silent: bool },
    Err { service: usize, server: usize, count: u8 },
    Reload { near: [u8; 3], policy: usize, region: bool },
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let server = || (0usize..3, 0usize..6);
    let millis = prop::option::weighted(0.7, 1u64..90);
    prop_oneof![
        6 => (server(), millis)
            .prop_map(|((service, server), millis)| Op::Check { service, server, millis }),
        3 => (server(), any::<bool>())
            .prop_map(|((service, server), silent)| Op::Fail { service, server, silent }),
        2 => (server(), 1u8..20)
            .prop_map(|((service, server), count)| Op::Err { service, server, count }),
        2 => (prop::array::uniform3(0u8..4), 0..PolicyKind::ALL.len(), prop::bool::weighted(0.1))
            .prop_map(|(near, policy, region)| Op::Reload { near, policy, region }),
        6 => (0u64..1_500).prop_map(Op::Pass),
    ]
}

/// Three services: the first starts servers slowly, the second is managed or not checked.
fn three(near: [u8; 3], policy: PolicyKind, elsewhere: bool) -> Fleet {
    let mut services: Vec<Service> =
        (0..3).map(|n| service(&format!("s{n}"), near[n], 2)).collect();
    services[0].slow_start = Duration::from_secs(5);
    services[1].policy = policy;
    services[1].health = services[1].health.take().filter(|_| near[1] > 1);
    services[2].groups[1].scaler = if near[2] > 2 { Ratio::ZERO } else { Ratio::ONE };
    services.rotate_left(usize::from(near[0]) % 3);
    let mut fleet = of(services);
    if elsewhere {
        fleet.edge.region = "far".into();
    }
    fleet
}

struct World {
    controller: Controller,
    plan: Arc<Plan>,
    now: Instant,
}

impl World {
    fn hear(&mut self, input: Input) {
        self.controller.handle(self.now, input);
        while let Some(output) = self.controller.poll() {
            if let Output::Publish(plan) = output {
                self.plan = plan;
            }
        }
        self.controller.check_invariants();
        let due = self.controller.next_deadline();
        assert!(due.is_none_or(|due| due > self.now), "what is due has been done");
    }

    fn server(&self, service: usize, server: usize) -> Option<ServerId> {
        self.plan.server_ids().nth(service * 5 + server)
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Check { service, server, millis } => {
                let Some(server) = self.server(service, server) else { return };
                self.hear(checked(server, millis));
            }
            Op::Fail { service, server, silent } => {
                let Some(server) = self.server(service, server) else { return };
                self.hear(match silent {
                    true => Input::Silent { server, suspicions: 3 },
                    false => {
                        let reason = Reason::EmptyReply;
                        Input::Failing { server, errors_in_a_row: 3, reason }
                    }
                });
            }
            Op::Err { service, server, count } => {
                let Some(server) = self.server(service, server) else { return };
                let (now, plan) = (self.now, self.plan.clone());
                for draw in 0..u64::from(count) {
                    let stick = Some(server);
                    let ask = PickContext { now, key: draw, draw, tried: &[], stick };
                    for service in plan.services.iter() {
                        let Decision::Send(permit) = service.pick(&ask) else { continue };
                        let _ = permit.answered_5xx(now);
                    }
                }
                self.hear(Input::Errs { server });
            }
            Op::Reload { near, policy, region } => {
                self.hear(Input::Reload(three(near, PolicyKind::ALL[policy], region).into()));
            }
            Op::Pass(millis) => {
                self.now = self.now + Duration::from_millis(millis);
                self.hear(Input::Tick);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// `check_invariants` makes every plan from nothing, and compares.
    #[test]
    fn plans_are_what_they_would_be_if_made_from_nothing(
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let now = at(1);
        let mut controller = Controller::new(now, three([3, 3, 3], PolicyKind::RoundRobin, false));
        let plan = drain(&mut controller).plan.expect("a first plan");
        let mut world = World { controller, plan, now };
        for op in &ops {
            world.apply(op);
        }
    }
}
