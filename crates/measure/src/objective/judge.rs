//! A criterion beside the record of a run.

use super::{
    Criterion, Figure, Of, Relation, Statistic,
    confidence::{self, Times},
};
use crate::record::{self, Latency, LoadModel, LoadRecord, Moment, Percentiles, Spread};
use loadline_core::{
    time::Duration,
    units::{Count, Rate, Ratio},
};

/// The value of a figure, and whether it meets its bound.
struct Finding {
    measured: String,
    met: bool,
    confidence: String,
}

impl Criterion {
    pub(super) fn judge(&self, record: &LoadRecord) -> record::Criterion {
        let finding = match self.figure {
            _ if record.shows_nothing() => missing("nothing had ended when the run did"),
            _ if record.planned == 0 => missing("nothing was planned"),
            Figure::Time { of, statistic, bound } => {
                time(self.relation, statistic, bound, of, record)
            }
            Figure::Errors(bound) => share(self.relation, bound, record.outcomes.failed(), record),
            Figure::Availability(bound) => share(self.relation, bound, record.outcomes.ok, record),
            Figure::Rate(bound) => {
                let achieved = record.achieved_rate();
                let measured = format!("{:.1}/s", achieved.as_per_sec_f64());
                let met = self.relation.holds(achieved, bound);
                Finding { measured, met, confidence: String::new() }
            }
            Figure::RateOfTarget(bound) => of_target(self.relation, bound, record),
        };
        let Finding { measured, met, confidence } = finding;
        record::Criterion { text: self.text.clone(), measured, met, confidence }
    }
}

fn missing(measured: &str) -> Finding {
    Finding { measured: measured.to_string(), met: false, confidence: String::new() }
}

fn time(
    relation: Relation,
    statistic: Statistic,
    bound: Duration,
    of: Of,
    record: &LoadRecord,
) -> Finding {
    let Some(time) = statistic.of_all(of, record) else {
        return missing("no successful answer");
    };
    let failed = record.outcomes.failed();
    let measured = match failed {
        0 => millis(time),
        failed => format!("{} ({failed} of {} failed)", millis(time), record.planned),
    };
    let met = relation.holds(time, bound);
    let (_, spread) = of.times(record);
    let times = Times { spread, failed };
    let confidence = statistic.share().filter(|_| spread.count() > 0).map(|share| {
        let is_at_most = relation.limits_above() == met;
        let (words, limit, beyond) = if is_at_most {
            ("at most", times.percentile_at_most(share), share)
        } else {
            ("at least", times.percentile_at_least(share), 1.0 - share)
        };
        match limit {
            // It lies among the requests that failed.
            Some(Duration::MAX) if is_at_most => {
                "not sure: no bound with 95 % confidence".to_owned()
            }
            Some(Duration::MAX) => "never, with 95 % confidence".to_owned(),
            Some(limit) => {
                let sure = relation.holds(limit, bound) == met;
                said(sure, words, &millis(limit))
            }
            None => {
                let needed = confidence::times_needed(beyond);
                format!("{} requests are too few to be sure, {needed} are needed", times.count())
            }
        }
    });
    Finding { measured, met, confidence: confidence.unwrap_or_default() }
}

impl Statistic {
    /// What it is of all requests, those that failed as infinitely late: [`Duration::MAX`] where
    /// it falls among them, as the longest and the mean do as soon as one failed. None where
    /// nothing was answered.
    pub(super) fn of_all(self, of: Of, record: &LoadRecord) -> Option<Duration> {
        let (latency, spread) = of.times(record);
        let failed = record.outcomes.failed();
        if latency.count == 0 {
            return None;
        }
        let all = Percentiles::of_all(latency, spread, failed);
        Some(match self {
            Self::P50 => all.p50,
            Self::P90 => all.p90,
            Self::P95 => all.p95,
            Self::P99 => all.p99,
            Self::P999 => all.p999,
            Self::Max => all.max,
            Self::Mean if failed > 0 => Duration::MAX,
            Self::Mean => latency.mean,
        })
    }
}

impl Of {
    pub(super) fn times(self, record: &LoadRecord) -> (&Latency, &Spread) {
        match self {
            Self::Response => (&record.response, &record.spreads.response),
            Self::Service => (&record.service, &record.spreads.service),
        }
    }
}

/// `part` of the planned requests against a bound, compared without rounding.
fn share(relation: Relation, bound: Ratio, part: u64, record: &LoadRecord) -> Finding {
    let scaled = |count: u64, by: u64| u128::from(count) * u128::from(by);
    let met =
        relation.holds(scaled(part, 1_000_000), scaled(record.planned, u64::from(bound.as_ppm())));
    let (words, limit) = if relation.limits_above() == met {
        ("at most", confidence::share_at_most(part, record.planned))
    } else {
        ("at least", confidence::share_at_least(part, record.planned))
    };
    let sure = relation.holds(limit, bound.as_f64()) == met;
    let measured = format!("{} ({part} of {})", percent(part, record.planned), record.planned);
    Finding { measured, met, confidence: said(sure, words, &format!("{:.2} %", limit * 100.0)) }
}

/// The words about a bound of 95 % confidence: whether it leaves the verdict as it is.
fn said(sure: bool, words: &str, limit: &str) -> String {
    let sure = if sure { "" } else { "not sure: " };
    format!("{sure}{words} {limit} with 95 % confidence")
}

fn of_target(relation: Relation, bound: Ratio, record: &LoadRecord) -> Finding {
    let LoadModel::Open { rate, .. } = record.model else {
        return missing("a closed loop has no planned rate");
    };
    let (answered, planned) = while_planned(record, rate);
    let scaled = |count: u64, by: u64| u128::from(count) * u128::from(by);
    let met =
        relation.holds(scaled(answered, 1_000_000), scaled(planned, u64::from(bound.as_ppm())));
    let measured = format!("{} of {:.1}/s", percent(answered, planned), rate.as_per_sec_f64());
    Finding { measured, met, confidence: String::new() }
}

/// Successful answers and planned requests while the plan went on.
///
/// Left out are the moments before the median answer to the first request could come and the one
/// in which the plan ended. Where no moment is left, the run as a whole stands for them: all
/// answers over the time that the median one leaves, beside the planned rate over the same time.
pub(super) fn while_planned(record: &LoadRecord, rate: Rate) -> (u64, u64) {
    let median = record.response.p50;
    let moments = &record.moments;
    let Some(last) = moments.iter().rposition(|moment| moment.planned > 0) else {
        return whole(record, rate);
    };
    let inner = moments.windows(2).take(last.saturating_sub(1));
    let kept = inner.filter(|pair| pair[0].at >= median).map(|pair| &pair[1]);
    let add = |(ok, planned): (u64, u64), moment: &Moment| {
        (ok + moment.outcomes.ok, planned + moment.planned)
    };
    match kept.fold((0, 0), add) {
        (_, 0) => whole(record, rate),
        both => both,
    }
}

fn whole(record: &LoadRecord, rate: Rate) -> (u64, u64) {
    let span = record.elapsed.saturating_sub(record.response.p50);
    let due: Count = rate * span;
    (record.outcomes.ok, due.get().max(record.planned))
}

/// Three digits that matter, as on the page.
fn millis(span: Duration) -> String {
    match span.as_millis_f64() {
        _ if span == Duration::MAX => "never".to_string(),
        ms if ms < 0.995 => format!("{ms:.2} ms"),
        ms if ms < 99.95 => format!("{ms:.1} ms"),
        ms => format!("{ms:.0} ms"),
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", part as f64 / whole.max(1) as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use crate::{
        objective::Objective,
        record::{
            Arrivals, Bin, Criterion, Latency, LoadModel, LoadRecord, Moment, Outcomes, Spread,
            Spreads,
        },
    };
    use loadline_core::{time::Duration, units::Rate};
    use proptest::prelude::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A run at 100/s for 10 s: one in a hundred took 400 ms, the others 40 ms; two failed.
    fn run() -> LoadRecord {
        let bins = vec![Bin { up_to: ms(40), count: 988 }, Bin { up_to: ms(400), count: 10 }];
        let response = Latency {
            count: 998,
            mean: ms(44),
            p50: ms(40),
            p99: ms(400),
            max: ms(400),
            ..Latency::default()
        };
        LoadRecord {
            model: LoadModel::Open {
                rate: Rate::per_sec(100),
                arrivals: Arrivals::Constant,
                seed: 0,
                stages: vec![],
            },
            planned: 1_000,
            outcomes: Outcomes { ok: 998, timeout: 2, ..Outcomes::default() },
            elapsed: ms(10_300),
            service: Latency { p99: ms(300), ..response.clone() },
            spreads: Spreads {
                response: Spread(bins),
                service: Spread(vec![
                    Bin { up_to: ms(40), count: 988 },
                    Bin { up_to: ms(300), count: 10 },
                ]),
                ..Spreads::default()
            },
            response,
            ..LoadRecord::default()
        }
    }

    fn judge(text: &str, record: &LoadRecord) -> Criterion {
        let judged = text.parse::<Objective>().unwrap().judge(record);
        judged.criteria.into_iter().next().unwrap()
    }

    #[test]
    fn each_figure_is_compared_with_its_bound() {
        for (text, met, measured) in [
            ("p99<300ms", false, "400 ms (2 of 1000 failed)"),
            ("p99<400ms", false, "400 ms (2 of 1000 failed)"),
            ("p99<=400ms", true, "400 ms (2 of 1000 failed)"),
            ("p50>=40ms", true, "40.0 ms (2 of 1000 failed)"),
            ("p50>40ms", false, "40.0 ms (2 of 1000 failed)"),
            ("service-p99<=300ms", true, "300 ms (2 of 1000 failed)"),
            ("errors<0.2%", false, "0.20 % (2 of 1000)"),
            ("errors<=0.2%", true, "0.20 % (2 of 1000)"),
            ("availability>=99.8%", true, "99.80 % (998 of 1000)"),
            ("rate>=96/s", true, "96.9/s"),
            ("rate>=97/s", false, "96.9/s"),
        ] {
            let criterion = judge(text, &run());
            assert_eq!((criterion.met, &*criterion.measured), (met, measured), "{text}");
        }
    }

    /// Two of 1,000 requests failed, and eight were under way when somebody had seen enough.
    #[test]
    fn what_an_interrupted_run_cut_off_is_no_error_of_the_server() {
        let ended_early = |interrupted| LoadRecord {
            planned: 1_008,
            outcomes: Outcomes { cut_off: 8, ..run().outcomes },
            interrupted,
            ..run()
        };
        for text in ["errors<=0.2%", "p99<=400ms", "availability>=99.8%", "p99.9>300ms"] {
            let criterion = judge(text, &ended_early(true));
            assert!(criterion.met, "{criterion:?}");
            assert!(criterion.measured.contains("of 1000"), "{criterion:?}");
        }
        let whole = judge("errors<=0.2%", &ended_early(false));
        assert_eq!((whole.met, &*whole.measured), (false, "0.99 % (10 of 1008)"));
        let none = LoadRecord {
            planned: 8,
            outcomes: Outcomes { cut_off: 8, ..Outcomes::default() },
            interrupted: true,
            ..LoadRecord::default()
        };
        let unknown = judge("errors<1%", &none);
        assert!(!unknown.met && none.shows_nothing(), "nothing is known");
        assert_eq!(unknown.measured, "nothing had ended when the run did");
        assert!(!ended_early(true).shows_nothing());
    }

    /// Of 1,000 requests 900 time out, and the others are answered at once.
    #[test]
    fn a_run_that_times_out_meets_no_percentile_by_the_few_that_were_answered() {
        let times = Latency { count: 100, mean: ms(5), p99: ms(5), max: ms(5), ..run().response };
        let bins = Spread(vec![Bin { up_to: ms(5), count: 100 }]);
        let record = LoadRecord {
            outcomes: Outcomes { ok: 100, timeout: 900, ..Outcomes::default() },
            service: times.clone(),
            response: times,
            spreads: Spreads { response: bins.clone(), service: bins, ..Spreads::default() },
            ..run()
        };
        let never = "never (900 of 1000 failed)";
        for text in ["p50<1h", "p99<300ms", "p99.9<300ms", "mean<1s", "max<1s", "service-p90<1h"] {
            let criterion = judge(text, &record);
            assert!(!criterion.met && criterion.measured == never, "{text}: {criterion:?}");
        }
        let judged = judge("p99<300ms", &record).confidence;
        assert_eq!(judged, "never, with 95 % confidence");
        let pressure = "p99<300ms".parse::<Objective>().unwrap().pressure(&record).unwrap();
        assert!(pressure > 1e6, "{pressure}");
        let judged = judge("p99>=1ms", &record);
        assert!(judged.met && judged.confidence == "never, with 95 % confidence", "{judged:?}");
        let few = Outcomes { ok: 995, timeout: 5, ..Outcomes::default() };
        let bins = Spread(vec![Bin { up_to: ms(5), count: 995 }]);
        let spreads = Spreads { response: bins.clone(), service: bins, ..Spreads::default() };
        let judged = judge("p99<300ms", &LoadRecord { outcomes: few, spreads, ..record });
        assert!(judged.met, "{judged:?}");
        assert_eq!(judged.confidence, "not sure: no bound with 95 % confidence");
    }

    /// One in a hundred fails: below it the percentile is among the responses, above it is not.
    #[test]
    fn a_percentile_counts_answers_and_failures_together() {
        let bins: Vec<_> = (1..=990).map(|n| Bin { up_to: ms(n), count: 1 }).collect();
        let record = LoadRecord {
            outcomes: Outcomes { ok: 990, reset: 10, ..Outcomes::default() },
            spreads: Spreads { response: Spread(bins), ..Spreads::default() },
            ..run()
        };
        for (text, met, measured) in [
            ("p99<=990ms", true, "990 ms (10 of 1000 failed)"),
            ("p99<990ms", false, "990 ms (10 of 1000 failed)"),
            ("p95<=950ms", true, "950 ms (10 of 1000 failed)"),
            ("p99.9<1h", false, "never (10 of 1000 failed)"),
        ] {
            let criterion = judge(text, &record);
            assert_eq!((criterion.met, &*criterion.measured), (met, measured), "{text}");
        }
    }

    #[test]
    fn one_criterion_breached_is_the_objective_breached() {
        let objective: Objective = "p99<1s, errors<0.1%".parse().unwrap();
        let judged = objective.judge(&run());
        let met: Vec<bool> = judged.criteria.iter().map(|criterion| criterion.met).collect();
        assert_eq!((met, judged.is_met()), (vec![true, false], false));
        assert_eq!(judged.text, "p99<1s, errors<0.1%");
    }

    #[test]
    fn a_verdict_says_how_sure_it_is() {
        for (text, said) in [
            ("p99<=400ms", "at most 400 ms with 95 % confidence"),
            ("p99<300ms", "not sure: at least 40.0 ms with 95 % confidence"),
            ("p99.9<1s", "not sure: at least 400 ms with 95 % confidence"),
            ("errors<1%", "at most 0.60 % with 95 % confidence"),
            ("errors<0.3%", "not sure: at most 0.60 % with 95 % confidence"),
            ("max<1s", ""),
        ] {
            assert_eq!(judge(text, &run()).confidence, said, "{text}");
        }
        let outcomes = Outcomes { ok: 998, ..Outcomes::default() };
        let said = judge("p99.9<1s", &LoadRecord { outcomes, ..run() }).confidence;
        assert_eq!(said, "998 requests are too few to be sure, 2995 are needed");
    }

    #[test]
    fn a_run_without_a_successful_answer_meets_no_criterion_of_time() {
        let outcomes = Outcomes { server_error: 10, ..Outcomes::default() };
        let silent = LoadRecord { planned: 10, outcomes, ..LoadRecord::default() };
        for text in ["p99<300ms", "p99>=0s", "service-max>=0s", "mean<1h"] {
            let criterion = judge(text, &silent);
            assert!(!criterion.met && criterion.measured == "no successful answer", "{text}");
        }
        for text in ["errors<=100%", "rate>=0/s", "p50<1s"] {
            assert!(!judge(text, &LoadRecord::default()).met, "nothing planned: {text}");
        }
    }

    /// The second of a run that begins at `at`: requests planned, and those that went well.
    fn second(at: u64, planned: u64, ok: u64) -> Moment {
        Moment {
            at: Duration::from_secs(at),
            planned,
            outcomes: Outcomes { ok, ..Outcomes::default() },
            ..Moment::default()
        }
    }

    /// At 10 s the plan ends; the last responses come 300 ms later, which is nobody's fault.
    #[test]
    fn the_tail_after_the_plan_does_not_count_against_the_rate() {
        let mut record = run();
        record.moments = vec![second(1, 100, 70)];
        record.moments.extend((2..=10).map(|at| second(at, 100, 100)));
        record.moments.push(second(11, 0, 28));
        let criterion = judge("rate>=0.99*target", &record);
        assert!(criterion.met, "{criterion:?}");
        assert_eq!(criterion.measured, "100.00 % of 100.0/s");
    }

    /// A server that manages 95 of 100 per second answers the rest after the plan.
    #[test]
    fn a_server_that_falls_behind_misses_the_target_though_it_answers_all() {
        let mut record = run();
        record.moments = (1..=10).map(|at| second(at, 100, 95)).collect();
        record.moments.push(second(11, 0, 48));
        assert_eq!(judge("rate>=0.99*target", &record).measured, "95.00 % of 100.0/s");
        record.moments.clear();
        record.elapsed = ms(20_000);
        assert!(!judge("rate>=0.99*target", &record).met, "without moments: the whole run");
    }

    proptest! {
        /// Of a bound and its opposite exactly one is met.
        #[test]
        fn a_criterion_or_its_opposite_is_met(
            ok in 1u64..5_000, failed in 0u64..50, p99 in 1u64..2_000, bound in 1u64..2_000,
            ppm in 0u32..100_000,
        ) {
            let record = LoadRecord {
                planned: ok + failed,
                outcomes: Outcomes { ok, reset: failed, ..Outcomes::default() },
                elapsed: Duration::from_secs(10),
                response: Latency { count: ok, p99: ms(p99), ..Latency::default() },
                spreads: Spreads {
                    response: Spread(vec![Bin { up_to: ms(p99), count: ok }]),
                    ..Spreads::default()
                },
                ..LoadRecord::default()
            };
            let share = loadline_core::units::Ratio::ppm(ppm / 10 * 10);
            for (figure, bound) in [
                ("p99", format!("{bound}ms")),
                ("errors", format!("{share}")),
                ("availability", format!("{share}")),
                ("rate", format!("{bound}/s")),
            ] {
                let met = |sign| judge(&format!("{figure}{sign}{bound}"), &record).met;
                prop_assert_ne!(met("<"), met(">="));
                prop_assert_ne!(met("<="), met(">"));
                prop_assert!(!met("<") || met("<="));
            }
        }
    }
}
