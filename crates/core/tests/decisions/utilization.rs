//! `max_utilization` in simulated time: how much of what comes is let in, second by second.

use loadline_core::{
    fleet::{Capacity, Service, Then, WhenFull},
    time::Duration,
    units::Ratio,
};

use crate::{
    fleets::group,
    simulation::{
        Simulation,
        draws::Draws,
        station::{Station, Weather},
        traffic::Arrivals,
    },
};

/// Cores of the server, and seconds that a request takes on one.
const CORES: usize = 8;
const WORK: f64 = 0.02;

/// What 80 % of it is, in requests per second.
const TARGET: f64 = 0.8 * CORES as f64 / WORK;

const QUEUE: WhenFull =
    WhenFull::Queue { timeout: Duration::from_secs(1), length: 200, then: Then::Shed };

/// Responses in each second from the tenth on, where this times the target comes at random and the
/// limit is the group's or its server's.
fn responses(times: f64, when_full: WhenFull, of_server: bool) -> Vec<usize> {
    let capacity = Capacity { max_utilization: Some(Ratio::percent(80)), ..Capacity::default() };
    let mut near = group("near", 0, 1, Capacity::default());
    match of_server {
        true => near.servers[0].capacity = capacity,
        false => near.capacity = capacity,
    }
    let service = Service { groups: vec![near], when_full, ..Service::named("web") };
    let station = Station::new(CORES, Weather::default());
    let mut simulation = Simulation::new(&service, 1, &station, 1);
    simulation.report_utilization();
    let mut draws = Draws(7);
    for at in Arrivals::Poisson(vec![(times * TARGET, 40.0)]).times(&mut draws) {
        simulation.arrive(at, 0, (WORK, true));
    }
    let mut seconds = vec![0; 40];
    for (at, _) in simulation.run().iter().filter_map(|outcome| outcome.answered) {
        let second = (at.as_nanos() / 1_000_000_000) as usize;
        seconds.iter_mut().skip(second).take(1).for_each(|count| *count += 1);
    }
    seconds.split_off(10)
}

#[test]
fn a_group_and_a_server_stay_at_their_utilization_while_requests_wait_or_are_refused() {
    for times in [1.17, 1.6] {
        for (when_full, of_server) in
            [(QUEUE, false), (QUEUE, true), (WhenFull::Shed, false), (WhenFull::Shed, true)]
        {
            let seconds = responses(times, when_full, of_server);
            let case = format!("{times} times, {when_full:?}, {of_server}: {seconds:?}");
            let mean = seconds.iter().sum::<usize>() as f64 / seconds.len() as f64;
            assert!((mean / TARGET - 1.0).abs() <= 0.06, "{mean} on average; {case}");
            let near = |count: &usize| (*count as f64 / TARGET - 1.0).abs() <= 0.25;
            assert!(seconds.iter().all(near), "{case}");
        }
    }
}
