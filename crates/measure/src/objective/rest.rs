//! Whether the last responses of a run are worth waiting for.
//!
//! What is later than each limit of time can still do one thing: succeed instead of fail. So it is
//! waited for where that decides, as of `errors<1%` where 0.5 % have failed and 1 % are under way,
//! and not where a percentile is breached by far already by what is late.

use super::{Criterion, Figure, Objective, Statistic};
use loadline_core::units::Ratio;

/// How a run stands when its plan is over, and every limit of time has passed.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// All requests.
    pub planned: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that have not ended.
    pub in_flight: u64,
}

impl Objective {
    /// Whether it depends on how the requests under way end, and on nothing else.
    #[must_use]
    pub fn depends_on(&self, rest: Rest) -> bool {
        let late = rest.failed + rest.in_flight;
        let is_open = |it: &Criterion| it.allows(rest.failed, rest) != it.allows(late, rest);
        let is_lost = |it: &Criterion| !it.allows(rest.failed, rest) && !it.allows(late, rest);
        let is_late = |it: &Criterion| it.is_far_exceeded(late, rest.planned);
        self.criteria.iter().any(is_open)
            && !self.criteria.iter().any(|it| is_lost(it) || is_late(it))
    }
}

impl Criterion {
    /// Whether it may hold where so many requests failed.
    fn allows(&self, failed: u64, rest: Rest) -> bool {
        let share = |part: u64, bound: Ratio| {
            let scaled = |count: u64, by: u64| u128::from(count) * u128::from(by);
            let bound = scaled(rest.planned, u64::from(bound.as_ppm()));
            self.relation.holds(scaled(part, 1_000_000), bound)
        };
        match self.figure {
            Figure::Errors(bound) => share(failed, bound),
            Figure::Availability(bound) | Figure::RateOfTarget(bound) => {
                share(rest.planned.saturating_sub(failed), bound)
            }
            // A mean is `never` as soon as one failed.
            Figure::Time { statistic: Statistic::Mean, .. } if self.relation.limits_above() => {
                failed == 0
            }
            Figure::Time { .. } | Figure::Rate(_) => true,
        }
    }

    /// Whether so many late requests breach a limit of time, in several runs together, too.
    fn is_far_exceeded(&self, late: u64, planned: u64) -> bool {
        let Figure::Time { statistic, .. } = self.figure else { return false };
        if !self.relation.limits_above() || statistic == Statistic::Mean {
            return false;
        }
        let allowed = statistic.share().map_or(0.0, |share| 1.0 - share);
        late as f64 > FAR * allowed * planned as f64
    }
}

/// Runs that are judged together scatter: a single one that is late so many times as often as is
/// allowed is not saved by the others.
const FAR: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_waited_for_where_whether_it_fails_decides() {
        let depends = |text: &str, failed, in_flight| {
            let rest = Rest { planned: 1_000, failed, in_flight };
            text.parse::<Objective>().unwrap().depends_on(rest)
        };
        // 0.5 % take longer than the limit, which the percentile allows.
        assert!(depends("p99<2s, errors<0.1%", 0, 5));
        assert!(!depends("p99<2s, errors<1%", 0, 5), "all of them may fail");
        assert!(!depends("p99<2s, errors<0.1%", 2, 3), "too many have failed");
        assert!(!depends("p99<2s, errors<0.1%", 0, 200), "far too many are late");
        assert!(!depends("max<2s, errors<0.1%", 0, 1), "one is late");
        assert!(depends("errors<1%", 0, 10) && !depends("errors<=1%", 0, 10));
        assert!(depends("availability>=99.9%", 0, 500) && depends("mean<1s", 0, 1));
        assert!(depends("rate>=0.99*target", 0, 500) && !depends("rate>=10/s", 0, 500));
        assert!(!depends("p50<1s", 0, 100) && !depends("errors<1%", 0, 0));
    }
}
