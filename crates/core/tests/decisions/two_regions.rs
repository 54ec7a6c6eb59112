//! Two regions of three servers, two cores of 38 ms each, the far one 30 ms away: the load of the
//! published study, in simulated time, on the decision code that the proxy runs.

use loadline_core::{
    fleet::{Capacity, Overflow, PolicyKind, Server, Service},
    units::Rate,
};

use crate::simulation::{
    Simulation,
    draws::Draws,
    station::{Station, Weather},
};

/// Seconds a request takes on a core.
const WORK: f64 = 0.038;

/// One run: response times in milliseconds, and how many requests were sent far.
struct Run {
    responses: Vec<f64>,
    far: usize,
}

impl Run {
    fn mean_ms(&self) -> f64 {
        self.responses.iter().sum::<f64>() / self.responses.len() as f64
    }

    fn max_ms(&self) -> f64 {
        self.responses.iter().copied().fold(0.0, f64::max)
    }
}

fn service(overflow: Overflow, near: Capacity, far: Capacity) -> Service {
    let groups =
        vec![crate::fleets::group("near", 0, 3, near), crate::fleets::group("far", 30, 3, far)];
    Service { overflow, groups, ..Service::named("web") }
}

/// Two requests at a time on each near server, its cores; three on each far one: as this edge sees
/// it a request takes 68 ms there in place of 38, so that one more is on its way meanwhile.
fn soonest() -> Service {
    let mut service = service(Overflow::Soonest, Capacity::default(), Capacity::default());
    for (group, places) in service.groups.iter_mut().zip([2, 3]) {
        let limit = |server: &mut Server| server.capacity.max_in_flight = Some(places);
        group.servers.iter_mut().for_each(limit);
    }
    service.policy = PolicyKind::RoundRobin;
    service
}

fn run(service: &Service, rate: Rate, poisson: bool, seed: u64) -> Run {
    let mut simulation = Simulation::new(service, 1, &Station::new(2, Weather::default()), seed);
    let mut arrivals = Draws(seed ^ 0xa5a5);
    let gap = 1.0 / rate.as_per_sec_f64();
    let mut at = 1.0;
    for _ in 0..500 {
        at += if poisson { arrivals.exponential() * gap } else { gap };
        simulation.arrive(at, 0, (WORK, true));
    }
    let outcomes = simulation.run();
    let answered: Vec<_> = outcomes.iter().filter_map(|it| Some((it.came, it.answered?))).collect();
    assert_eq!(answered.len(), 500, "every request is answered");
    let response =
        |(came, (at, _)): &(_, (loadline_core::time::Instant, _))| at.since(*came).as_millis_f64();
    Run {
        responses: answered.iter().map(response).collect(),
        far: answered.iter().filter(|(_, (_, (group, _)))| *group == 1).count(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn at_twice_its_rate_a_region_keeps_its_share_and_the_first_second_is_right() {
    let capacity = Capacity { max_rate: Some(Rate::per_sec(100)), ..Capacity::default() };
    let at_rate =
        run(&service(Overflow::Capacity, capacity, capacity), Rate::per_sec(100), false, 1);
    assert_eq!(at_rate.far, 0, "nothing overflows at the line");
    let twice = run(&service(Overflow::Capacity, capacity, capacity), Rate::per_sec(200), false, 1);
    assert!((235..=250).contains(&twice.far), "{} of 500 sent far", twice.far);
    assert!(twice.mean_ms() <= 1.5 * at_rate.mean_ms(), "{}", twice.mean_ms());
    assert!(twice.max_ms() < 5.0 * at_rate.mean_ms(), "{}", twice.max_ms());
}

#[test]
fn soonest_keeps_random_arrivals_near_at_half_load() {
    let far = |seed| run(&soonest(), Rate::per_sec(80), true, seed).far;
    let sent: usize = (0..100).map(far).sum();
    let share = sent as f64 / (100.0 * 500.0);
    assert!(share <= 0.005, "{:.2} % sent far", share * 100.0);
}

#[test]
fn soonest_knows_the_rate_of_servers_as_it_knows_that_of_their_group() {
    let rate =
        Capacity { max_rate: Some(Rate::per_sec(20)), burst: Some(1), ..Capacity::default() };
    let web = |of_group, of_server| {
        let mut near = crate::fleets::group("near", 0, 1, of_group);
        near.servers[0].capacity = of_server;
        let far = crate::fleets::group("far", 200, 1, Capacity::default());
        let groups = vec![near, far];
        Service { overflow: Overflow::Soonest, groups, ..Service::named("web") }
    };
    let far = |of_group, of_server| {
        let service = web(of_group, of_server);
        let far = |seed| run(&service, Rate::per_sec(12), true, seed).far;
        (0..10).map(far).sum::<usize>()
    };
    let of_group = far(rate, Capacity::default());
    let of_server = far(Capacity::default(), rate);
    assert_eq!(of_server, of_group, "of 5000");
    assert!(of_server <= 1_000, "{of_server} of 5000 sent far");
}

#[test]
fn soonest_is_ahead_of_every_peer_at_a_quarter_over_the_near_capacity() {
    let at = |seed| run(&soonest(), Rate::per_sec(200), true, seed);
    let runs: Vec<Run> = (0..101).map(at).collect();
    let mean = median(runs.iter().map(Run::mean_ms).collect());
    let max = median(runs.iter().map(Run::max_ms).collect());
    assert!(mean <= 52.0, "mean {mean:.1} ms");
    assert!(max <= 90.0, "max {max:.1} ms");
}
