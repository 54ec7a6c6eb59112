//! Which policy is best for a scenario, and why: each is run on the same requests.
//!
//! A request carries its work with it, so policies differ in nothing but where requests go (common
//! random numbers). They are compared seed by seed: with `d` the logarithm of a policy's p99 over
//! that of the first with the same seed, its mean lies within `t * s / sqrt(n)` of what is measured
//! (Student). Where more than 1 % failed there is no p99, and the shares that failed are compared,
//! then the p50. Why the first is first is read off what happened to requests on the way.

mod reason;

use std::{cmp::Ordering, num::NonZero, slice, sync::Arc};

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
    /// The logarithm of the p99 of each run, and of its p50.
    p99s: Vec<f64>,
    p50s: Vec<f64>,
    /// The share of each run that failed.
    failed: Vec<f64>,
}

impl PolicyRuns {
    fn of(policy: PolicyKind, runs: Vec<LoadRecord>, objective: Option<&Objective>) -> Self {
        let met = runs.iter().filter(|run| objective.is_some_and(|it| it.judge(run).is_met()));
        let p99s = runs.iter().map(|run| libm::log(p99(run)));
        let p50s = runs.iter().map(|run| libm::log(p50(run)));
        let failed = runs.iter().map(|run| failed(slice::from_ref(run)));
        Self {
            policy,
            met: met.count() as u32,
            p99s: p99s.collect(),
            p50s: p50s.collect(),
            failed: failed.collect(),
            runs,
        }
    }

    /// Whether every run has a p99: 1 % failed at most.
    fn has_p99(&self) -> bool {
        self.runs.iter().all(|run| finite(p99(run)).is_some())
    }

    fn has_p50(&self) -> bool {
        self.runs.iter().all(|run| finite(p50(run)).is_some())
    }

    /// The better one first.
    fn order(&self, other: &Self) -> Ordering {
        let by =
            |of: fn(&Self) -> &[f64]| sample::mean(of(self)).total_cmp(&sample::mean(of(other)));
        let (has, has_other) = (self.has_p99(), other.has_p99());
        let met = other.met.cmp(&self.met).then(has_other.cmp(&has));
        let of_all = if has { by(|it| &it.p99s) } else { by(|it| &it.failed) };
        met.then(of_all).then_with(|| by(|it| &it.p50s))
    }
}

/// A policy beside the first.
#[derive(Clone, Debug, Default)]
struct Compared {
    ranked: RankedPolicy,
    /// How much more of the requests it fails, seed by seed, where one of the two has no p99.
    fails_more: Option<Interval>,
    /// How many times as long its p50 is then.
    p50_times: Option<Interval>,
}

impl Compared {
    fn of(tried: &PolicyRuns, first: &PolicyRuns, judged: bool) -> Self {
        let ranked = ranked(tried, first, judged);
        if tried.policy == first.policy || ranked.times_the_first.is_some() {
            return Self { ranked, ..Self::default() };
        }
        let has_p50 = tried.has_p50() && first.has_p50();
        Self {
            ranked,
            fails_more: Some(interval(&differences(&tried.failed, &first.failed))),
            p50_times: has_p50.then(|| times(&tried.p50s, &first.p50s)),
        }
    }

    /// Whether nothing but chance tells a policy from the first: as many runs meet the objective,
    /// and what they are ranked by may be the same.
    fn is_alike(&self, first: &Self) -> bool {
        let may_be = |than: Option<Interval>, same: f64| than.is_none_or(|it| it.low <= same);
        self.ranked.met == first.ranked.met
            && may_be(self.ranked.times_the_first, 1.0)
            && may_be(self.fails_more, 0.0)
            && may_be(self.p50_times, 1.0)
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
    tried.sort_by(PolicyRuns::order);
    let judged = objective.is_some();
    let policies: Vec<Compared> =
        tried.iter().map(|it| Compared::of(it, &tried[0], judged)).collect();
    let alike = policies.iter().take_while(|it| it.is_alike(&policies[0])).count() as u32;
    let mut configured: Vec<String> =
        scenario.edges[0].services.iter().map(|it| it.policy.name().to_owned()).collect();
    configured.dedup();
    let reason = reason::reason(&policies, alike, &configured);
    let objective = objective.map(ToString::to_string);
    let policies = policies.into_iter().map(|it| it.ranked).collect();
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

fn ranked(tried: &PolicyRuns, first: &PolicyRuns, judged: bool) -> RankedPolicy {
    let runs = &tried.runs;
    let p99s: Option<Vec<f64>> = runs.iter().map(|run| finite(p99(run))).collect();
    let p50s: Option<Vec<f64>> = runs.iter().map(|run| finite(p50(run))).collect();
    let is_first = tried.policy == first.policy;
    let have_p99 = first.has_p99() && p99s.is_some();
    RankedPolicy {
        policy: tried.policy.name().to_owned(),
        met: judged.then_some(RunCount { runs: tried.met, of: runs.len() as u32 }),
        p50_ms: p50s.map(|values| sample::mean(&values)),
        p99_ms: p99s.as_deref().map(sample::mean),
        p99_interval: p99s.as_deref().map(interval),
        times_the_first: (!is_first && have_p99).then(|| times(&tried.p99s, &first.p99s)),
        failed: failed(runs),
        found_busy: share(runs, |run| sum(run, |it| it.found_busy), given),
        to_slow: share(runs, |run| sum(run, |it| it.to_slow), given),
        imbalance: sample::mean(&runs.iter().map(imbalance).collect::<Vec<_>>()),
    }
}

/// How many times as long one is, seed by seed, of the logarithms of both.
fn times(one: &[f64], other: &[f64]) -> Interval {
    let Interval { low, high } = interval(&differences(one, other));
    Interval { low: libm::exp(low), high: libm::exp(high) }
}

fn differences(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one - other).collect()
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

fn p50(run: &LoadRecord) -> f64 {
    of_all(run, |it| it.p50.as_millis_f64())
}

fn of_all(run: &LoadRecord, figure: fn(&loadline_measure::record::Percentiles) -> f64) -> f64 {
    run.response_of_all.as_ref().map_or(0.0, figure).max(1e-6)
}

/// The figure, unless it stands for ever.
fn finite(millis: f64) -> Option<f64> {
    (millis < FOR_EVER_MS).then_some(millis)
}

fn failed(runs: &[LoadRecord]) -> f64 {
    share(runs, |run| run.outcomes.failed(), |run| run.planned)
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
    use loadline_core::time::Duration;
    use loadline_measure::record::{Outcomes, Percentiles};

    #[test]
    fn a_policy_that_meets_the_objective_less_often_is_not_alike_the_first() {
        let of = |met: u32, times: Option<(f64, f64)>| Compared {
            ranked: RankedPolicy {
                met: Some(RunCount { runs: met, of: 5 }),
                times_the_first: times.map(|(low, high)| Interval { low, high }),
                p99_ms: Some(1.0),
                ..RankedPolicy::default()
            },
            ..Compared::default()
        };
        let first = of(5, None);
        assert!(first.is_alike(&first) && of(5, Some((0.9, 1.1))).is_alike(&first));
        assert!(!of(4, Some((0.9, 1.1))).is_alike(&first), "it misses the objective");
        assert!(!of(5, Some((1.1, 1.2))).is_alike(&first), "it is slower");
    }

    /// Runs of 1000 requests each, of which so many failed, and a p50 of so many milliseconds.
    fn runs(policy: PolicyKind, failed: [u64; 3], p50: u64) -> PolicyRuns {
        let run = |failed: u64| LoadRecord {
            planned: 1_000,
            outcomes: Outcomes { ok: 1_000 - failed, server_error: failed, ..Outcomes::default() },
            response_of_all: Some(Percentiles {
                p50: Duration::from_millis(p50),
                p99: if failed > 10 { Duration::MAX } else { Duration::from_millis(90) },
                ..Percentiles::default()
            }),
            ..LoadRecord::default()
        };
        PolicyRuns::of(policy, failed.map(run).into(), None)
    }

    #[test]
    fn where_every_policy_fails_too_much_for_a_p99_the_one_that_fails_least_is_first() {
        let mut tried = [
            runs(PolicyKind::RoundRobin, [150, 152, 154], 10),
            runs(PolicyKind::PeakEwma, [58, 56, 59], 30),
            runs(PolicyKind::LeastRequests, [58, 57, 57], 10),
            runs(PolicyKind::Prequal, [56, 57, 58], 10),
            runs(PolicyKind::LowestLatency, [12, 9, 8], 10),
            runs(PolicyKind::Random, [9, 9, 8], 10),
        ];
        tried.sort_by(PolicyRuns::order);
        let order: Vec<_> = tried.iter().map(|it| it.policy).collect();
        let wanted = [
            PolicyKind::Random,
            PolicyKind::LowestLatency,
            PolicyKind::Prequal,
            PolicyKind::LeastRequests,
            PolicyKind::PeakEwma,
            PolicyKind::RoundRobin,
        ];
        assert_eq!(order, wanted);
        let beside = |it: usize, first: usize| {
            let of = |it: usize| Compared::of(&tried[it], &tried[first], false);
            of(it).is_alike(&of(first))
        };
        assert!(beside(3, 2), "as many fail, and they are as fast");
        assert!(!beside(4, 2), "its p50 is longer");
        assert!(!beside(5, 2) && !beside(2, 0), "more fail");
    }
}
