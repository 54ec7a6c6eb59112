//! Servers that work in batches: the more wait, the more are answered a second, and many at once.

use super::*;
use crate::simulation::station::Batches;

/// What came of an overload of thirty seconds, from the fifth second on.
#[derive(Debug)]
struct Kept {
    /// Answers a second as part of what the servers can do.
    answers: f64,
    /// How long after its end a request was refused, in seconds.
    recovery: f64,
    /// Requests that were refused before it.
    early: usize,
}

/// Servers with batches of so many at most, which take 80 ms and 2 ms a request, at so many times
/// what they can do, at a third of it before and at four fifths afterwards.
fn kept((servers, most): (u8, usize), times: f64, when_full: WhenFull, seed: u64) -> Kept {
    let batches = Batches::new(0.08, 0.002, most);
    let capacity = batches.capacity() * f64::from(servers);
    let phases = vec![(capacity * 0.3, 5.0), (capacity * times, 30.0), (capacity * 0.8, 20.0)];
    let arrivals = Arrivals::Poisson(phases);
    let case = Case { servers, ..case("batches", 1, Work::Constant(0.1), arrivals) };
    let mut simulation = case.edge(when_full, seed);
    for station in simulation.stations.values_mut() {
        station.batches = Some(batches.clone());
    }
    for (at, work) in case.jobs(seed) {
        simulation.arrive(at, 0, work);
    }
    let outcomes = simulation.run();
    let during = |at: &Instant| (5.0..35.0).contains(&seconds(*at));
    let answers = outcomes.iter().filter_map(|it| it.answered).filter(|(at, _)| during(at));
    let refused = outcomes.iter().filter(|it| it.refused.is_some()).map(|it| seconds(it.came));
    Kept {
        answers: answers.count() as f64 / 30.0 / capacity,
        early: refused.clone().filter(|at| *at < 5.0).count(),
        recovery: refused.fold(35.0, f64::max) - 35.0,
    }
}

#[test]
fn servers_that_work_in_batches_stay_busy_in_overload_and_refuse_nobody_after_it() {
    for (servers, most, least) in
        [(1, 32, 0.9), (1, 64, 0.9), (2, 32, 0.9), (2, 64, 0.8), (4, 32, 0.9), (4, 64, 0.9)]
    {
        for (times, seed) in [1.5, 4.0].into_iter().flat_map(|it| (1..=3).map(move |n| (it, n))) {
            for when_full in [WhenFull::Shed, Service::named("web").when_full] {
                let kept = kept((servers, most), times, when_full, seed);
                let name = format!("{servers} with {most} at most, {times} times, seed {seed}");
                assert!(kept.answers >= least, "{name}, {when_full:?}: {kept:?}");
                assert!(kept.recovery <= 5.0, "{name}, {when_full:?}: {kept:?}");
                assert_eq!(kept.early, 0, "{name}, {when_full:?}: {kept:?}");
            }
        }
    }
}
