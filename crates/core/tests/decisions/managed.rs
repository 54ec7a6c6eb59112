//! Weights that the manager makes: they follow what servers have to do, and nothing else moves
//! them.

use std::sync::Arc;

use loadline_core::{
    decide::{
        controller::{Controller, Input},
        manager::{DEFAULT, Manager, Proportions},
        permit::Permit,
        plan::{Decision, PickContext, Plan},
    },
    fleet::{Capacity, PolicyKind, Service},
    time::{Duration, Instant},
    units::Ratio,
};

use crate::fleets::{self, check, drain, fleet, group};

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn managed(manager: Manager, servers: u8) -> Service {
    let groups = vec![group("near", 0, servers, Capacity::default())];
    Service { policy: PolicyKind::Managed, manager, groups, ..Service::named("web") }
}

/// Sends so many requests; permits by the server that was chosen.
fn send(plan: &Plan, now: Instant, count: usize) -> Vec<Vec<Permit>> {
    let mut permits: Vec<Vec<Permit>> = (0..2).map(|_| Vec::new()).collect();
    for _ in 0..count {
        let ask = PickContext { now, key: 0, draw: 0, tried: &[], stick: None };
        let Decision::Send(permit) = plan.services[0].pick(&ask) else { panic!("not sent") };
        let server = usize::from(permit.address().to_string().contains(".0.1:80"));
        permits[server].push(permit);
    }
    permits
}

/// Lets the manager look; gives the plan that came of it, if any.
fn look(controller: &mut Controller, now: Instant) -> Option<Arc<Plan>> {
    controller.handle(now, Input::Tick);
    controller.check_invariants();
    drain(controller).plan
}

#[test]
fn a_server_that_does_not_get_done_is_given_less() {
    let mut controller = Controller::new(Instant::ZERO, fleet(managed(DEFAULT, 2)));
    let plan = drain(&mut controller).plan.unwrap();
    let mut permits = send(&plan, at(0), 40);
    assert_eq!(permits.iter().map(Vec::len).collect::<Vec<_>>(), [20, 20]);
    // The first server answers all but two, the second none.
    permits[0].truncate(2);
    assert!(look(&mut controller, at(1)).is_none(), "it is not time yet");
    assert_eq!(controller.next_deadline(), Some(at(2)));
    let plan = look(&mut controller, at(2)).expect("weights that differ by more than 5 %");
    let given: Vec<usize> = send(&plan, at(2), 40).iter().map(Vec::len).collect();
    assert_eq!(given, [28, 12], "2 and 20 in flight, 20 new each: 2 and 0.86 of the weight");
}

#[test]
fn weights_of_servers_that_do_alike_are_left_alone() {
    let mut controller = Controller::new(Instant::ZERO, fleet(managed(DEFAULT, 2)));
    let plan = drain(&mut controller).plan.unwrap();
    let _under_way = send(&plan, at(0), 40);
    for seconds in [2, 4, 6] {
        assert!(look(&mut controller, at(seconds)).is_none(), "after {seconds} s");
    }
}

#[test]
fn slow_checks_count_where_the_file_says_so() {
    let by_check = Proportions { active: Ratio::ZERO, new: Ratio::ZERO, ..DEFAULT.proportions };
    let by_check = Proportions { check: Ratio::ONE, ..by_check };
    let manager = Manager { proportions: by_check, smoothing: 1.0, ..DEFAULT };
    let service = Service { health: Some(check()), ..managed(manager, 2) };
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let checks = drain(&mut controller).checks;
    for ((server, _), millis) in checks.into_iter().zip([10, 30]) {
        let passed = Ok(fleets::passed(millis));
        controller.handle(at(0), Input::Checked { server, passed });
    }
    let plan = look(&mut controller, at(2)).unwrap();
    let given: Vec<usize> = send(&plan, at(2), 40).iter().map(Vec::len).collect();
    assert_eq!(given, [30, 10], "20 ms on average: twice the weight, and two thirds of it");
}
