//! Runs counted together: what all of them spent of what the objective allows.
//!
//! A load holds where the objective holds over all runs at it. Since more load never helps, runs at
//! neighbouring rates that contradict each other (a lower one breached, a higher one held) are
//! pooled until what was spent rises with the rate: isotonic regression by pooling adjacent
//! violators (Ayer, Brunk, Ewing, Reid, Silverman 1955). So no lucky run stands for itself.

use std::collections::BTreeMap;

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::objective::Spent;

/// A valid run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) rate: Rate,
    /// The rate that the plan came to: random arrivals are a little more or less than planned.
    pub(super) offered: Rate,
    /// Since the search began.
    pub(super) begun: Duration,
    pub(super) lasts: Duration,
    pub(super) spent: Vec<Spent>,
    /// When requests were late, and about how many.
    pub(super) late: Vec<(Duration, f64)>,
}

#[cfg(test)]
impl Run {
    /// A run of ten seconds at so many requests per second, in which nothing was late.
    pub(super) fn at(per_sec: u64) -> Self {
        let rate = Rate::per_sec(per_sec);
        Self {
            rate,
            offered: rate,
            begun: Duration::ZERO,
            lasts: Duration::from_secs(10),
            spent: Vec::new(),
            late: Vec::new(),
        }
    }
}

/// The highest rate that holds and the lowest that does not; the first is below the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lower: Option<Rate>,
    pub(super) upper: Option<Rate>,
}

/// What `runs` spent together, as a multiple of what they were allowed, by the worst criterion.
pub(super) fn pressure<'r>(runs: impl IntoIterator<Item = &'r Run>) -> f64 {
    worst(&spending(runs))
}

/// What `runs` spent together of each criterion.
pub(super) fn spending<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Vec<Spent> {
    let mut sums: Vec<Spent> = Vec::new();
    for run in runs {
        add(&mut sums, &run.spent);
    }
    sums
}

/// The bounds that `runs` show.
pub(super) fn bounds(runs: &[&Run]) -> Bounds {
    let mut by_rate: BTreeMap<Rate, Vec<Spent>> = BTreeMap::new();
    for run in runs {
        add(by_rate.entry(run.rate).or_default(), &run.spent);
    }
    let mut pools: Vec<(Rate, Rate, Vec<Spent>)> = Vec::new();
    for (rate, sums) in by_rate {
        let mut pool = (rate, rate, sums);
        while let Some(below) = pools.pop_if(|below| worst(&below.2) > worst(&pool.2)) {
            add(&mut pool.2, &below.2);
            pool.0 = below.0;
        }
        pools.push(pool);
    }
    let holds = |pool: &&(Rate, Rate, Vec<Spent>)| worst(&pool.2) <= 1.0;
    Bounds {
        lower: pools.iter().rev().find(holds).map(|pool| pool.1),
        upper: pools.iter().find(|pool| !holds(pool)).map(|pool| pool.0),
    }
}

fn add(sums: &mut Vec<Spent>, more: &[Spent]) {
    sums.resize(sums.len().max(more.len()), Spent::default());
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.plus(*more);
    }
}

/// What was spent as a multiple of what was allowed, by the worst criterion.
pub(super) fn worst(sums: &[Spent]) -> f64 {
    sums.iter().map(|sum| sum.pressure()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: u64, late: f64) -> Run {
        Run { spent: vec![Spent { spent: late, allowed: 10.0 }], ..Run::at(rate) }
    }

    #[test]
    fn one_lucky_run_among_breached_ones_holds_nothing() {
        let runs = [run(50, 5.0), run(58, 13.0), run(58, 14.0), run(58, 12.0), run(58, 8.0)];
        let runs: Vec<_> = runs.iter().collect();
        assert!(pressure(runs[1..].iter().copied()) > 1.0);
        let bounds = bounds(&runs);
        let wanted = (Some(Rate::per_sec(50)), Some(Rate::per_sec(58)));
        assert_eq!((bounds.lower, bounds.upper), wanted);
    }

    #[test]
    fn a_rate_that_held_above_one_that_did_not_is_counted_with_it() {
        let runs = [run(50, 11.0), run(52, 8.0), run(54, 16.0)];
        let found = bounds(&runs.iter().collect::<Vec<_>>());
        let wanted = (Some(Rate::per_sec(52)), Some(Rate::per_sec(54)));
        assert_eq!((found.lower, found.upper), wanted, "19 of 20 at 50 and 52");
        assert_eq!(bounds(&[]), Bounds::default());
    }
}
