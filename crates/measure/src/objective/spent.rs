//! What a run spent of what its objective allows, so that runs can be counted together.
//!
//! A percentile allows a share of the requests to be late: `p95<300ms` one in twenty. How many were
//! late and how many might have been are sums, so those of several runs are added, which their
//! percentiles cannot be. The objective holds over all of them where no criterion spent more than
//! it was allowed:
//!
//! | criterion | spent | allowed |
//! |---|---|---|
//! | `p95<300ms` | requests of 300 ms or longer, or failed | 5 % of all |
//! | `max<1s` | the same | none |
//! | `mean<50ms` | the sum of times over 50 ms | requests |
//! | `errors<1%`, `availability>99%` | requests that failed | 1 % of all |
//! | `rate>=0.99*target` | requests not answered in time | 1 % of all |
//! | `rate>=450/s` | 450/s for as long as the run took | requests answered |
//!
//! A criterion that asks for at least something of a time counts the other way round.

use super::{Criterion, Figure, Objective, Of, Relation, Statistic, judge};
use crate::record::{LoadModel, LoadRecord, Moment};
use loadline_core::time::Duration;

/// What one criterion spent and was allowed, in requests or fractions of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// What was spent; infinite where nothing makes up for it.
    pub spent: f64,
    /// What was allowed.
    pub allowed: f64,
}

impl Spent {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { spent: self.spent + other.spent, allowed: self.allowed + other.allowed }
    }

    /// What was spent as a multiple of what was allowed: above 1 where the criterion is breached.
    #[must_use]
    pub fn pressure(self) -> f64 {
        // A share such as 0.9 is not exact: a millionth of a request is none.
        let over = self.spent - self.allowed;
        if over <= EXACT && self.allowed <= 0.0 {
            return 0.0;
        }
        let pressure = self.spent / self.allowed.max(f64::MIN_POSITIVE);
        if over <= EXACT { pressure.min(1.0) } else { pressure }
    }
}

impl Objective {
    /// What each criterion spent in a run, in their order.
    #[must_use]
    pub fn spent(&self, record: &LoadRecord) -> Vec<Spent> {
        self.criteria.iter().map(|criterion| criterion.spent(record)).collect()
    }

    /// The response time that counts as late: the shortest that a criterion limits.
    #[must_use]
    pub fn late_after(&self) -> Option<Duration> {
        self.time_limits().min()
    }

    /// The longest response time that a criterion limits: what takes longer meets none.
    #[must_use]
    pub fn late_for_all_after(&self) -> Option<Duration> {
        self.time_limits().max()
    }

    fn time_limits(&self) -> impl Iterator<Item = Duration> {
        self.criteria.iter().filter_map(|criterion| match criterion.figure {
            Figure::Time { bound, .. } if criterion.relation.limits_above() => Some(bound),
            _ => None,
        })
    }

    /// The moments of a run in which requests failed or, as far as the run counted them, were late,
    /// and how many.
    #[must_use]
    pub fn late(&self, record: &LoadRecord) -> Vec<(Duration, f64)> {
        let late = |moment: &Moment| moment.late.unwrap_or(0) + moment.outcomes.failed();
        let moments = record.moments.iter().map(|moment| (moment.at, late(moment) as f64));
        moments.filter(|(_, late)| *late > 0.0).collect()
    }
}

impl Criterion {
    fn spent(&self, record: &LoadRecord) -> Spent {
        let planned = record.planned as f64;
        let failed = record.outcomes.failed() as f64;
        let turned = |spent: Spent, turn| match turn {
            true => Spent { spent: spent.allowed, allowed: spent.spent },
            false => spent,
        };
        match self.figure {
            _ if record.planned == 0 => Spent { spent: 1.0, allowed: 0.0 },
            Figure::Time { of, statistic, bound } => {
                time(self.relation, statistic, bound, of, record)
            }
            Figure::Errors(bound) => {
                let spent = Spent { spent: failed, allowed: bound.as_f64() * planned };
                turned(spent, !self.relation.limits_above())
            }
            Figure::Availability(bound) => {
                let spent = Spent { spent: failed, allowed: (1.0 - bound.as_f64()) * planned };
                turned(spent, self.relation.limits_above())
            }
            Figure::Rate(bound) => {
                let wanted = bound.as_per_sec_f64() * record.elapsed.as_secs_f64();
                let spent = Spent { spent: wanted, allowed: record.outcomes.ok as f64 };
                turned(spent, self.relation.limits_above())
            }
            Figure::RateOfTarget(bound) => {
                let LoadModel::Open { rate, .. } = record.model else { return Spent::default() };
                let (answered, due) = judge::while_planned(record, rate);
                let spent = due.saturating_sub(answered) as f64;
                let spent = Spent { spent, allowed: (1.0 - bound.as_f64()) * due as f64 };
                turned(spent, self.relation.limits_above())
            }
        }
    }
}

fn time(
    relation: Relation,
    statistic: Statistic,
    bound: Duration,
    of: Of,
    record: &LoadRecord,
) -> Spent {
    let (latency, spread) = of.times(record);
    let all = record.planned as f64;
    let above = relation.limits_above();
    let within = spread.0.iter().filter(|bin| relation.holds(bin.up_to, bound));
    let within = within.map(|bin| bin.count).sum::<u64>() as f64;
    let failed = record.outcomes.failed() as f64;
    // What failed is later than any bound.
    let beyond = if above { all - within } else { all - within - failed };
    match statistic.share() {
        Some(share) => {
            let allowed = if above { 1.0 - share } else { share };
            Spent { spent: beyond, allowed: allowed * all }
        }
        None if statistic == Statistic::Max && above => Spent { spent: beyond, allowed: 0.0 },
        None if statistic == Statistic::Max => Spent { spent: 0.0, allowed: 1.0 },
        None => {
            let mean = if failed > 0.0 { f64::INFINITY } else { latency.mean.as_secs_f64() };
            let times = mean / bound.as_secs_f64().max(1e-9);
            if above {
                Spent { spent: times * all, allowed: all }
            } else {
                Spent { spent: all, allowed: times * all }
            }
        }
    }
}

/// Less than any part of a request that counts.
const EXACT: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Bin, Latency, Outcomes, Spread, Spreads};
    use proptest::prelude::*;

    fn run(times: &[u64], failed: u64) -> LoadRecord {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let bins = sorted.iter().map(|ms| Bin { up_to: Duration::from_millis(*ms), count: 1 });
        let spread = Spread(bins.collect());
        let count = times.len() as u64;
        let of = |share| spread.quantile(share).unwrap_or_default();
        let response = Latency {
            count,
            mean: Duration::from_millis(sorted.iter().sum()) / count.max(1),
            p50: of(0.5),
            p90: of(0.9),
            p95: of(0.95),
            p99: of(0.99),
            p999: of(0.999),
            max: of(1.0),
            ..Latency::default()
        };
        LoadRecord {
            planned: count + failed,
            outcomes: Outcomes { ok: count, timeout: failed, ..Outcomes::default() },
            elapsed: Duration::from_secs(10),
            response,
            spreads: Spreads { response: spread, ..Spreads::default() },
            ..LoadRecord::default()
        }
    }

    #[test]
    fn two_runs_together_hold_what_one_of_them_breaches() {
        let objective: Objective = "p90<100ms".parse().unwrap();
        let (good, bad) = (run(&[50; 20], 0), run(&[[50; 8], [200; 8]].concat(), 0));
        let (good, bad) = (objective.spent(&good)[0], objective.spent(&bad)[0]);
        assert_eq!((good.pressure(), bad.spent), (0.0, 8.0));
        assert!((bad.pressure() - 5.0).abs() < 1e-9 && good.plus(bad).pressure() > 2.0);
        let many = (0..5).fold(bad, |sum, _| sum.plus(good));
        assert!(many.pressure() < 1.0, "8 of 116 are late: {many:?}");
    }

    #[test]
    fn what_failed_is_late_and_moments_tell_when() {
        let objective: Objective = "p90<100ms, errors<5%".parse().unwrap();
        let spent = objective.spent(&run(&[50; 9], 1));
        assert_eq!((spent[0].spent, spent[0].pressure()), (1.0, 1.0));
        assert!((spent[1].pressure() - 2.0).abs() < 1e-9);
        let moment = |at, late, failed| Moment {
            at: Duration::from_secs(at),
            late: Some(late),
            outcomes: Outcomes { ok: 10, timeout: failed, ..Outcomes::default() },
            ..Moment::default()
        };
        let moments = vec![moment(1, 0, 0), moment(2, 1, 0), moment(3, 0, 2)];
        let late = objective.late(&LoadRecord { moments, ..LoadRecord::default() });
        assert_eq!(late, [(Duration::from_secs(2), 1.0), (Duration::from_secs(3), 2.0)]);
        assert_eq!(objective.late_after(), Some(Duration::from_millis(100)));
        let two: Objective = "p50<100ms, p99<2s, max>=5s".parse().unwrap();
        let ends = (two.late_after(), two.late_for_all_after());
        assert_eq!(ends, (Some(Duration::from_millis(100)), Some(Duration::from_secs(2))));
    }

    proptest! {
        /// Of one run the sums say what its percentiles do.
        #[test]
        fn a_run_spends_too_much_where_it_breaches(
            times in prop::collection::vec(1u64..100, 1..300),
            failed in 0u64..20,
            bound in 1u64..100,
            figure in prop::sample::select(vec![
                "p50<=", "p90<=", "p99<=", "p99.9<=", "max<=", "mean<=", "p90>=", "p50>=",
            ]),
        ) {
            let objective: Objective = format!("{figure}{bound}ms").parse().unwrap();
            let record = run(&times, failed);
            let met = objective.judge(&record).is_met();
            let pressure = objective.spent(&record)[0].pressure();
            // A percentile from below is met at the rank itself, one request earlier.
            if figure.ends_with('<') || figure.contains('<') {
                prop_assert_eq!(met, pressure <= 1.0, "{} {}", objective, pressure);
            } else {
                prop_assert!(!met || pressure <= 1.0, "{} {}", objective, pressure);
            }
        }
    }
}
