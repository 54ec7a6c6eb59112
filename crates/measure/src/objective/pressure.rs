//! How close a run came to its objective, as a number.

use super::{Criterion, Figure, Objective};
use crate::record::{LoadModel, LoadRecord};

impl Objective {
    /// The worst measured value as a multiple of its bound: 1 at the edge of the objective, above
    /// it where a criterion is breached by so much. A criterion that asks for at least something
    /// counts the other way round. None where a value was not measured or a bound is zero.
    #[must_use]
    pub fn pressure(&self, record: &LoadRecord) -> Option<f64> {
        let mut worst = 0.0;
        for criterion in &self.criteria {
            worst = f64::max(worst, criterion.pressure(record)?);
        }
        worst.is_finite().then_some(worst)
    }
}

impl Criterion {
    fn pressure(&self, record: &LoadRecord) -> Option<f64> {
        if record.planned == 0 {
            return None;
        }
        let of_planned = |count: u64| count as f64 / record.planned as f64;
        let (measured, bound) = match self.figure {
            Figure::Time { of, statistic, bound } => {
                (statistic.of_all(of, record)?.as_nanos() as f64, bound.as_nanos() as f64)
            }
            Figure::Errors(bound) => (of_planned(record.outcomes.failed()), bound.as_f64()),
            // What is missing to all of them rises with the load; what is there hardly falls.
            Figure::Availability(bound) => {
                return ratio(of_planned(record.outcomes.failed()), 1.0 - bound.as_f64());
            }
            Figure::Rate(bound) => {
                (record.achieved_rate().as_per_sec_f64(), bound.as_per_sec_f64())
            }
            Figure::RateOfTarget(bound) => match record.model {
                LoadModel::Open { rate, .. } => (
                    record.achieved_rate().as_per_sec_f64(),
                    bound.as_f64() * rate.as_per_sec_f64(),
                ),
                LoadModel::Closed { .. } => return None,
            },
        };
        if self.relation.limits_above() { ratio(measured, bound) } else { ratio(bound, measured) }
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Bin, Latency, Outcomes, Spread, Spreads};
    use loadline_core::time::Duration;

    fn run() -> LoadRecord {
        let response =
            Latency { count: 990, p99: Duration::from_millis(150), ..Latency::default() };
        LoadRecord {
            planned: 1_000,
            outcomes: Outcomes { ok: 990, timeout: 10, ..Outcomes::default() },
            elapsed: Duration::from_secs(10),
            response,
            spreads: Spreads {
                response: Spread(vec![Bin { up_to: Duration::from_millis(150), count: 990 }]),
                ..Spreads::default()
            },
            ..LoadRecord::default()
        }
    }

    #[test]
    fn the_worst_criterion_says_how_close_it_was() {
        for (text, pressure) in [
            ("p99<300ms", Some(0.5)),
            ("p99<100ms, errors<2%", Some(1.5)),
            ("p99<300ms, errors<0.5%", Some(2.0)),
            ("availability>=98%", Some(0.5)),
            ("rate>=198/s", Some(2.0)),
            ("errors<0%", None),
            ("service-p99<1s", None),
            ("rate>=0.99*target", None),
        ] {
            let measured = text.parse::<Objective>().unwrap().pressure(&run());
            let close = match (measured, pressure) {
                (Some(measured), Some(pressure)) => (measured - pressure).abs() < 1e-9,
                (measured, pressure) => measured == pressure,
            };
            assert!(close, "{text}: {measured:?}");
        }
    }
}
