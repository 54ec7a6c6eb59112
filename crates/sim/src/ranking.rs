//! Which policy is best for a scenario, and why: each is run on the same requests.
//!
//! A request carries its work with it, so policies differ in nothing but where requests go (common
//! random numbers). They are compared seed by seed: with `d` the logarithm of a policy's p99 over
//! that of the first with the same seed, its mean lies within `t * s / sqrt(n)` of what is measured
//! (Student). Why the first is first is read off what happened to requests on the way.

mod reason;

use std::{num::NonZero, sync::Arc};

use loadline_core::fleet::PolicyKind;
use loadline_measure::{
    objective::Objective,
    record::{LoadRecord, RankedPolicy, RankingRecord, RunCount},
    statistics::{Interval, sample, student_quantile},
};

use crate::{parallel, scenario::Scenario, simulation::Simulation};

/// What was found, and the run of the first seed of each policy, best first.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// What was found.
    pub record: RankingRecord,
    /// By the name of the policy.
    pub runs: Vec<(String, LoadRecord)>,
}

/// The runs of one policy.
struct PolicyRuns {
    policy: PolicyKind,
    runs: Vec<LoadRecord>,
    met: u32,
    /// The logarithm of the p99 of each run.
    logarithms: Vec<f64>,
}

impl PolicyRuns {
    fn of(policy: PolicyKind, runs: Vec<LoadRecord>, objective: Option<&Objective>) -> Self {
        let met = runs.iter().filter(|run| objective.is_some_and(|it| it.judge(run).is_met()));
        let logarithms = runs.iter().map(|run| libm::log(p99(run)));
        Self { policy, met: met.count() as u32, logarithms: logarithms.collect(), runs }
    }
}

/// Runs every policy with so many seeds, from that of the scenario on, on so many threads, and
/// tells `progress` of each run that has ended.
pub fn rank(
    scenario: &Scenario,
    seeds: u32,
    objective: Option<&Objective>,
    threads: NonZero<u16>,
    progress: &mut dyn FnMut(PolicyKind),
) -> Ranking {
    let each = seeds.max(1) as usize;
    let policy = |at: usize| PolicyKind::ALL[at / each];
    let run = |at: usize| {
        let seed = scenario.seed.wrapping_add((at % each) as u64);
        Simulation::new(with(scenario, policy(at), seed)).run()
    };
    let count = PolicyKind::ALL.len() * each;
    let mut runs = parallel::map(threads, count, run, &mut |at| progress(policy(at))).into_iter();
    let of_policy = PolicyKind::ALL.iter().map(|policy| {
        let runs: Vec<LoadRecord> = runs.by_ref().take(each).collect();
        PolicyRuns::of(*policy, runs, objective)
    });
    let mut tried: Vec<PolicyRuns> = of_policy.collect();
    let mean = |it: &PolicyRuns| sample::mean(&it.logarithms);
    tried.sort_by(|a, b| b.met.cmp(&a.met).then(mean(a).total_cmp(&mean(b))));
    let policies: Vec<RankedPolicy> =
        tried.iter().map(|it| ranked(it, &tried[0], objective.is_some())).collect();
    let alike = policies.iter().take_while(|it| is_alike(it, &policies[0])).count().max(1) as u32;
    let mut configured: Vec<String> =
        scenario.edges[0].services.iter().map(|it| it.policy.name().to_owned()).collect();
    configured.dedup();
    let reason = reason::reason(&policies, alike, &configured);
    let objective = objective.map(ToString::to_string);
    let record = RankingRecord { objective, seeds, configured, policies, alike, reason };
    let first = |it: PolicyRuns| Some((it.policy.name().to_owned(), it.runs.into_iter().next()?));
    Ranking { record, runs: tried.into_iter().filter_map(first).collect() }
}

/// The scenario with another policy and seed.
fn with(scenario: &Scenario, policy: PolicyKind, seed: u64) -> Scenario {
    let edge = |edge: &Arc<loadline_core::fleet::Fleet>| {
        let mut fleet = (**edge).clone();
        fleet.services.iter_mut().for_each(|service| service.policy = policy);
        Arc::new(fleet)
    };
    Scenario { edges: scenario.edges.iter().map(edge).collect(), seed, ..scenario.clone() }
}

/// Whether nothing but chance tells a policy from the first: as many runs meet the objective, and
/// the p99 may be the same.
fn is_alike(it: &RankedPolicy, first: &RankedPolicy) -> bool {
    let may_be_as_fast = it.times_the_first.is_none_or(|times| times.low <= 1.0);
    it.met == first.met && may_be_as_fast && it.p99_ms.is_some()
}

fn ranked(tried: &PolicyRuns, first: &PolicyRuns, judged: bool) -> RankedPolicy {
    let runs = &tried.runs;
    let p99s: Option<Vec<f64>> = runs.iter().map(|run| finite(p99(run))).collect();
    let p50s: Option<Vec<f64>> =
        runs.iter().map(|run| finite(of_all(run, |it| it.p50.as_millis_f64()))).collect();
    let is_first = tried.policy == first.policy;
    let firsts = first.runs.iter().all(|run| finite(p99(run)).is_some());
    let ratios = tried.logarithms.iter().zip(&first.logarithms).map(|(one, other)| one - other);
    let ratios: Vec<f64> = ratios.collect();
    let times = (!is_first && firsts && p99s.is_some()).then(|| interval(&ratios));
    RankedPolicy {
        policy: tried.policy.name().to_owned(),
        met: judged.then_some(RunCount { runs: tried.met, of: runs.len() as u32 }),
        p50_ms: p50s.map(|values| sample::mean(&values)),
        p99_ms: p99s.as_deref().map(sample::mean),
        p99_interval: p99s.as_deref().map(interval),
        times_the_first: times
            .map(|Interval { low, high }| Interval { low: libm::exp(low), high: libm::exp(high) }),
        failed: share(runs, |run| run.outcomes.failed(), |run| run.planned),
        found_busy: share(runs, |run| sum(run, |it| it.found_busy), given),
        to_slow: share(runs, |run| sum(run, |it| it.to_slow), given),
        imbalance: sample::mean(&runs.iter().map(imbalance).collect::<Vec<_>>()),
    }
}

/// Where the mean of these lies; themselves where there is but one.
fn interval(values: &[f64]) -> Interval {
    let (mean, freedom) = (sample::mean(values), values.len() as f64 - 1.0);
    if freedom < 1.0 {
        return Interval { low: mean, high: mean };
    }
    let reach = student_quantile(0.975, freedom) * sample::deviation(values) / libm::sqrt(freedom);
    Interval { low: mean - reach, high: mean + reach }
}

/// Milliseconds; what failed is late for ever.
fn p99(run: &LoadRecord) -> f64 {
    of_all(run, |it| it.p99.as_millis_f64())
}

fn of_all(run: &LoadRecord, figure: fn(&loadline_measure::record::Percentiles) -> f64) -> f64 {
    run.response_of_all.as_ref().map_or(0.0, figure).max(1e-6)
}

/// The figure, unless it stands for ever.
fn finite(millis: f64) -> Option<f64> {
    (millis < FOR_EVER_MS).then_some(millis)
}

fn share(
    runs: &[LoadRecord],
    part: impl Fn(&LoadRecord) -> u64,
    whole: impl Fn(&LoadRecord) -> u64,
) -> f64 {
    let (part, whole): (u64, u64) = (runs.iter().map(part).sum(), runs.iter().map(whole).sum());
    part as f64 / whole.max(1) as f64
}

fn given(run: &LoadRecord) -> u64 {
    sum(run, |group| group.requests)
}

fn sum(run: &LoadRecord, of: fn(&loadline_measure::record::SimulatedGroup) -> u64) -> u64 {
    run.simulation.iter().flat_map(|it| &it.groups).map(of).sum()
}

fn imbalance(run: &LoadRecord) -> f64 {
    let groups = run.simulation.iter().flat_map(|it| &it.groups);
    groups.map(|group| group.imbalance).fold(0.0, f64::max)
}

/// Longer than any run.
const FOR_EVER_MS: f64 = 1e12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_meets_the_objective_less_often_is_not_alike_the_first() {
        let of = |met: u32, times: Option<(f64, f64)>| RankedPolicy {
            met: Some(RunCount { runs: met, of: 5 }),
            times_the_first: times.map(|(low, high)| Interval { low, high }),
            p99_ms: Some(1.0),
            ..RankedPolicy::default()
        };
        let first = of(5, None);
        assert!(is_alike(&first, &first) && is_alike(&of(5, Some((0.9, 1.1))), &first));
        assert!(!is_alike(&of(4, Some((0.9, 1.1))), &first), "it misses the objective");
        assert!(!is_alike(&of(5, Some((1.1, 1.2))), &first), "it is slower");
    }
}
