//! The excess, only the excess: budgets are used up before requests overflow.

use std::sync::Arc;

use loadline_core::{
    decide::{
        budget::default_burst_of_batches,
        plan::{Decision, PickContext, Plan, QueuedDecision},
    },
    fleet::{Capacity, Overflow, Service},
    time::{Duration, Instant},
    units::Rate,
};

use crate::{
    fleets::{group, started},
    simulation::draws::Draws,
};

/// Independent batches of `size` requests on average, of geometric sizes, for so many seconds.
fn arrivals(draws: &mut Draws, per_sec: f64, size: f64, seconds: f64) -> Vec<Instant> {
    let (mut now, mut arrivals) = (0.0, Vec::new());
    loop {
        now -= draws.uniform().ln() * size / per_sec;
        if now > seconds {
            return arrivals;
        }
        let at = Instant::from_nanos((now * 1e9) as u64);
        arrivals.push(at);
        while draws.uniform() >= 1.0 / size {
            arrivals.push(at);
        }
    }
}

fn even(per_sec: u64, seconds: u64) -> Vec<Instant> {
    let nth = |n| Instant::from_nanos(n * 1_000_000_000 / per_sec);
    (0..per_sec * seconds).map(nth).collect()
}

/// Groups of these rates, each farther than the one before, and one without a limit behind them.
fn regions(rates: &[Rate]) -> Arc<Plan> {
    let limited = |(n, rate): (usize, &Rate)| {
        let capacity = Capacity { max_rate: Some(*rate), ..Capacity::default() };
        group(&format!("{}", ('a'..).nth(n).unwrap()), n as u64 * 50, 1, capacity)
    };
    let mut groups: Vec<_> = rates.iter().enumerate().map(limited).collect();
    groups.push(group("z", 1_000, 1, Capacity::default()));
    started(Service { groups, ..Service::named("web") }).1
}

/// When each group was given a request.
fn given(plan: &Plan, arrivals: &[Instant]) -> Vec<Vec<Instant>> {
    let mut given = vec![Vec::new(); plan.services[0].groups.len()];
    for now in arrivals {
        let ask = PickContext { now: *now, key: 0, draw: 0, tried: &[], stick: None };
        match plan.services[0].pick(&ask) {
            Decision::Send(permit) => given[permit.place().0].push(*now),
            other => panic!("the last group has no limit: {other:?}"),
        }
    }
    given
}

fn counts(plan: &Plan, arrivals: &[Instant]) -> Vec<usize> {
    given(plan, arrivals).iter().map(Vec::len).collect()
}

#[test]
fn three_regions_of_7_13_and_40_a_second_are_filled_one_after_the_other() {
    let rates = [7, 13, 40].map(Rate::per_sec);
    for seed in 0..20 {
        let arrivals = arrivals(&mut Draws(seed), 30.0, 1.0, 40.0);
        let counts = counts(&regions(&rates), &arrivals);
        assert!(counts[0] >= 270 && counts[1] >= 505, "seed {seed}: {counts:?}");
        assert!(counts[0] <= 280 + 36 && counts[1] <= 520 + 36, "seed {seed}: {counts:?}");
    }
    let counts = counts(&regions(&rates), &even(15, 40));
    assert!((280..=292).contains(&counts[0]), "even: {counts:?}");
    assert_eq!(counts[0] + counts[1], 600, "even: {counts:?}");
}

#[test]
fn a_budget_is_used_up_where_a_tenth_more_comes_at_random_or_in_batches() {
    for milli in [500, 7_000, 100_000, 10_000_000] {
        let rate = Rate::milli_per_sec(milli);
        let seconds = 40_000.0 / rate.as_per_sec_f64();
        for size in [1.0, 3.0, 5.0] {
            let demand = rate.as_per_sec_f64() * 1.1;
            let arrivals = arrivals(&mut Draws(milli), demand, size, seconds);
            let near = &given(&regions(&[rate]), &arrivals)[0];
            let used = near.len() as f64 / 40_000.0;
            assert!(used >= 0.98, "{rate}, batches of {size}: {:.1} %", used * 100.0);
            // Requests less what the rate allows until then: how far it rises is the burst.
            let over = |(n, at): (usize, &Instant)| {
                n as f64 - at.as_nanos() as f64 / 1e9 * rate.as_per_sec_f64()
            };
            let (mut lowest, mut burst) = (f64::INFINITY, 0.0f64);
            for over in near.iter().enumerate().map(over) {
                lowest = lowest.min(over);
                burst = burst.max(over - lowest + 1.0);
            }
            let most = default_burst_of_batches(rate) as f64;
            assert!(burst <= most + 1e-3, "{rate}, batches of {size}: {burst} at once");
        }
    }
}

#[test]
fn soonest_waits_for_a_rate_that_is_due_sooner_than_far_is_reached() {
    let limited =
        Capacity { max_rate: Some(Rate::per_sec(10)), burst: Some(1), ..Capacity::default() };
    let groups = vec![group("near", 0, 1, limited), group("far", 80, 1, Capacity::default())];
    let service = Service { groups, overflow: Overflow::Soonest, ..Service::named("web") };
    let (_, plan) = started(service);
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let pick = |now| {
        let ask = PickContext { now, key: 0, draw: 0, tried: &[], stick: None };
        (plan.services[0].pick(&ask), plan.services[0].pick_queued(&ask))
    };
    let (Decision::Send(first), _) = pick(at(0)) else { panic!("near is idle") };
    assert_eq!(first.place().0, 0);
    let (Decision::Send(early), _) = pick(at(15)) else { panic!("85 ms are longer than 80") };
    assert_eq!(early.place().0, 1);
    let (waits, until) = pick(at(60));
    assert!(matches!(waits, Decision::Queue(_)), "40 ms are shorter than 80: {waits:?}");
    assert!(matches!(until, QueuedDecision::Wait(until) if until == Some(at(100))), "{until:?}");
}
