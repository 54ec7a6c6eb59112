//! How requests were planned, as a load test says it.

use loadline_core::{
    time::{Duration, Instant},
    units::{Count, Rate},
};
use loadline_measure::record::{Arrivals as ArrivalsRecord, LoadModel};

use crate::{
    arrivals::{Arrivals, Factor, Spacing, users_times},
    scenario::{Scenario, Source},
};

/// The model of a scenario of which so many requests came in that time. A rate that stays the same
/// is the one that was asked for, as in a load test, and not what came by chance.
pub(super) fn model(scenario: &Scenario, planned: u64, lasts: Duration) -> LoadModel {
    if let Some(closed) = closed(scenario) {
        return closed;
    }
    LoadModel::Open {
        rate: rate(scenario).unwrap_or_else(|| Count::new(planned) / lasts),
        arrivals: arrivals(&scenario.sources),
        seed: scenario.seed,
        stages: Vec::new(),
    }
}

/// All users, with what they think on average; none unless every source has users.
fn closed(scenario: &Scenario) -> Option<LoadModel> {
    let users = scenario.sources.iter().map(|source| match source.arrivals {
        Arrivals::Closed { users, think, .. } => {
            Some((users_times(users, factor(scenario, source).0), think))
        }
        Arrivals::Open { .. } | Arrivals::Listed(_) => None,
    });
    let users = users.collect::<Option<Vec<(u32, Duration)>>>()?;
    let all: u64 = users.iter().map(|(users, _)| u64::from(*users)).sum();
    let think =
        |(users, think): &(u32, Duration)| u128::from(*users) * u128::from(think.as_nanos());
    let mean = users.iter().map(think).sum::<u128>().checked_div(u128::from(all))?;
    let think = Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX));
    Some(LoadModel::Closed { users: u32::try_from(all).unwrap_or(u32::MAX), think })
}

/// The sum of the rates of all sources; none unless each has one that stays the same.
fn rate(scenario: &Scenario) -> Option<Rate> {
    let rates = scenario.sources.iter().map(|source| {
        let Arrivals::Open { stages, .. } = &source.arrivals else { return None };
        let rate = stages.first()?.from;
        let (factor, is_all) = factor(scenario, source);
        let stays = is_all && stages.iter().all(|it| (it.from, it.to) == (rate, rate));
        stays.then(|| rate.as_per_sec_f64() * factor)
    });
    let per_sec: f64 = rates.sum::<Option<f64>>()?;
    Some(Rate::milli_per_sec(libm::round(per_sec * 1e3) as u64))
}

/// What the traffic of a source is multiplied by throughout, and whether nothing else changes it.
fn factor(scenario: &Scenario, source: &Source) -> (f64, bool) {
    let factors = scenario.traffic_factors(source);
    let is_throughout = |(begin, end, _): &&Factor| *begin == Instant::ZERO && end.is_none();
    let throughout = factors.iter().filter(is_throughout);
    (throughout.clone().map(|(.., factor)| factor).product(), throughout.count() == factors.len())
}

/// Several sources at random are one at random; other mixtures, and bursts, have no word of their
/// own.
fn arrivals(sources: &[Source]) -> ArrivalsRecord {
    let is = |source: &Source, of: Spacing| match source.arrivals {
        Arrivals::Open { spacing, .. } => spacing == of,
        Arrivals::Closed { .. } | Arrivals::Listed(_) => false,
    };
    match sources {
        all if all.iter().all(|it| is(it, Spacing::Poisson)) => ArrivalsRecord::Poisson,
        [one] if is(one, Spacing::Constant) => ArrivalsRecord::Constant,
        _ => ArrivalsRecord::Listed,
    }
}
