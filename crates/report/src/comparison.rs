//! Two load runs beside each other: how sure each figure is, and whether the second is worse.
//!
//! A figure has regressed when the whole 95 % interval of its change is for the worse by more
//! than the threshold. So a run too short to tell is never called a regression, nor is it called
//! the same. The intervals and their sources are in [`loadline_measure::statistics`]; each run is
//! taken for as many independent requests as the swings of its mean over time allow.
//!
//! What stays outside the intervals is how a service differs from one run to the next: two runs
//! show that these runs differ. Repeat both, in turns, before believing a small difference.

use loadline_core::{time::Duration, units::Bytes};
use loadline_measure::{
    record::{
        ComparedFigure, ComparedRun, ComparisonRecord, Finding, LoadModel, LoadPlanRecord,
        LoadRecord, Measured, Moment,
    },
    statistics::{self, Batches, Estimate, Interval},
};

use crate::{
    figures::digits,
    table::{Align, Cell, Table},
};

/// What may be worse without being a regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// By what share a time may be longer or a rate lower.
    pub threshold: f64,
    /// By what the share of errors may be higher, as a share of all requests.
    pub error_threshold: f64,
}

impl Default for Limits {
    /// 5 %, and one request in a thousand.
    fn default() -> Self {
        Self { threshold: 0.05, error_threshold: 0.001 }
    }
}

/// Compares the run `b` with the run `a`, each with its name.
#[must_use]
pub fn compare_runs(
    a: (&str, &LoadRecord),
    b: (&str, &LoadRecord),
    limits: Limits,
) -> ComparisonRecord {
    let warnings = warnings(a, b);
    // What an interrupted run cut off was no failure of its service.
    let (rest_of_a, rest_of_b) = (a.1.without_cut_off(), b.1.without_cut_off());
    let (first, second) = (Side::new(&rest_of_a), Side::new(&rest_of_b));
    let times = ["mean", "p50", "p90", "p99", "max"];
    let mut figures = vec![
        judge("rate", "per_s", [first.rate(), second.rate()], limits),
        judge("errors", "share", [first.errors(), second.errors()], limits),
    ];
    figures
        .extend(times.map(|name| judge(name, "ms", [first.time(name), second.time(name)], limits)));
    let regressed = figures.iter().any(|figure| figure.finding == Finding::Worse);
    ComparisonRecord {
        a: compared(a),
        b: compared(b),
        confidence: CONFIDENCE,
        threshold: limits.threshold,
        error_threshold: limits.error_threshold,
        figures,
        warnings,
        regressed,
    }
}

/// In what the plans of two runs differ; none where they asked the same of the service.
#[must_use]
pub fn plan_difference(a: &LoadRecord, b: &LoadRecord) -> Option<String> {
    let seedless = |model: &LoadModel| match model.clone() {
        LoadModel::Open { rate, arrivals, stages, .. } => {
            LoadModel::Open { rate, arrivals, seed: 0, stages }
        }
        closed @ LoadModel::Closed { .. } => closed,
    };
    let (a, b) = (seedless(&a.model), seedless(&b.model));
    (a != b).then(|| format!("{} against {}", crate::runs::plan(&a), crate::runs::plan(&b)))
}

/// The comparison as a table of at most 80 columns.
#[must_use]
pub fn comparison_table(record: &ComparisonRecord) -> Table {
    let caption = format!(
        "{:.0} % intervals in brackets; judged beyond {} %, errors beyond {} points",
        record.confidence * 100.0,
        Trimmed(record.threshold * 100.0),
        Trimmed(record.error_threshold * 100.0),
    );
    let mut table = Table::new(caption, &["", "A", "B", "B / A", "B is"]);
    for column in table.columns.iter_mut().skip(4) {
        column.align = Align::Left;
    }
    for figure in &record.figures {
        let (unit, scale) = shown_in(figure);
        let quotient = figure.unit != "share";
        let change = figure.change.unwrap_or_default();
        let change = if quotient { shown(change, 1.0, false) } else { shown(change, 100.0, true) };
        table.push([
            format!("{}, {unit}", figure.name).into(),
            shown(figure.a, scale, false).into(),
            shown(figure.b, scale, false).into(),
            change.into(),
            word(figure.finding),
        ]);
    }
    table
}

/// One run, cut into batches.
struct Side<'r> {
    record: &'r LoadRecord,
    /// How many independent answers its responses are worth.
    worth: f64,
}

impl<'r> Side<'r> {
    fn new(record: &'r LoadRecord) -> Self {
        let count = record.response.count as f64;
        let variance = record.response.stddev.as_millis_f64().powi(2);
        let worth = times(record).map_or(count, |batches| batches.worth(variance, count));
        Self { record, worth }
    }

    fn rate(&self) -> Measured {
        let (ok, seconds) = (self.record.outcomes.ok as f64, self.record.elapsed.as_secs_f64());
        if ok <= 0.0 || seconds <= 0.0 {
            return Measured { value: (seconds > 0.0).then_some(0.0), interval: None };
        }
        let rate = ok / seconds;
        let mut before = Duration::ZERO;
        let moments = self.record.moments_until_end();
        let pieces = moments.iter().zip(1..).map(|(moment, number)| {
            // The last one goes on to the end of the run.
            let at = if number < moments.len() { moment.at } else { self.record.elapsed };
            let lasted = at.saturating_sub(before);
            before = at;
            (moment.outcomes.ok as f64, lasted.as_secs_f64())
        });
        let interval = Batches::of(&pieces.collect::<Vec<_>>()).map_or_else(
            // Without batches the responses are taken for independent of each other (Poisson).
            || statistics::mean(rate, rate, ok, CONFIDENCE),
            |batches| batches.interval(CONFIDENCE),
        );
        measured(rate, interval)
    }

    fn errors(&self) -> Measured {
        let total = self.record.outcomes.total() as f64;
        if total <= 0.0 {
            return Measured::default();
        }
        let share = self.record.outcomes.failed() as f64 / total;
        let piece =
            |moment: &Moment| (moment.outcomes.failed() as f64, moment.outcomes.total() as f64);
        let pieces: Vec<_> = self.record.moments.iter().map(piece).collect();
        let worth = Batches::of(&pieces)
            .map_or(total, |batches| batches.worth(share * (1.0 - share), total));
        measured(share, statistics::share(share, worth, CONFIDENCE))
    }

    fn time(&self, name: &str) -> Measured {
        let answered = self.record.response.count;
        let Some(all) = self.record.response_of_all() else { return Measured::default() };
        match name {
            "mean" if answered > 0 => self.mean(),
            "mean" => Measured::default(),
            // Where all failed there is no other time.
            _ if answered == 0 => Measured { value: Some(f64::INFINITY), interval: None },
            "p50" => self.quantile(0.5, all.p50),
            "p90" => self.quantile(0.9, all.p90),
            "p99" => self.quantile(0.99, all.p99),
            _ => Measured { value: Some(ms(all.max)), interval: None },
        }
    }

    /// Without an interval where there is one response: one says nothing of how they vary.
    fn mean(&self) -> Measured {
        let response = &self.record.response;
        let mean = response.mean.as_millis_f64();
        if response.count < 2 {
            return Measured { value: Some(mean), interval: None };
        }
        let interval = times(self.record).map_or_else(
            || {
                let stddev = response.stddev.as_millis_f64();
                statistics::mean(mean, stddev, response.count as f64, CONFIDENCE)
            },
            |batches| batches.interval(CONFIDENCE),
        );
        measured(mean, interval)
    }

    /// A percentile of all requests. Without an interval where the run is too short for one, and
    /// where even its lower end is among the requests that failed.
    fn quantile(&self, share: f64, value: Duration) -> Measured {
        let (count, failed) = (self.record.response.count, self.record.outcomes.failed());
        let worth = self.worth * count.saturating_add(failed) as f64 / count as f64;
        let ranks = statistics::quantile_ranks(worth as u64, share, CONFIDENCE);
        // Half a rank less than the rank is between it and the one before: no rounding of the
        // division can make it the next.
        let at = |rank: u64| {
            let share = (rank as f64 - 0.5) / worth.floor();
            self.record.spreads.response.quantile_with_failed(share, failed)
        };
        let interval = match ranks {
            (Some(low), Some(high)) => {
                Some(Interval { low: ms(at(low).min(value)), high: ms(at(high).max(value)) })
            }
            _ => None,
        };
        let interval = interval.filter(|interval| interval.low.is_finite());
        Measured { value: Some(ms(value)), interval }
    }
}

/// Milliseconds; infinite for what never came.
fn ms(time: Duration) -> f64 {
    if time == Duration::MAX { f64::INFINITY } else { time.as_millis_f64() }
}

/// The sums of response times and their numbers, from moment to moment.
fn times(record: &LoadRecord) -> Option<Batches> {
    let piece = |moment: &Moment| {
        let count = moment.outcomes.ok as f64;
        (moment.mean.as_millis_f64() * count, count)
    };
    Batches::of(&record.moments_until_end().iter().map(piece).collect::<Vec<_>>())
}

/// No rate, share or time is below zero, though the arithmetic of few responses gets there.
fn measured(value: f64, Interval { low, high }: Interval) -> Measured {
    Measured { value: Some(value), interval: Some(Interval { low: low.max(0.0), high }) }
}

fn judge(name: &str, unit: &str, [a, b]: [Measured; 2], limits: Limits) -> ComparedFigure {
    if [a, b].iter().any(|of| of.value == Some(f64::INFINITY)) {
        // Of a maximum there is no interval, whatever it is.
        let finding = match name {
            "max" => Finding::NotJudged,
            _ => finding_of_never([a, b], limits),
        };
        return ComparedFigure {
            name: name.into(),
            unit: unit.into(),
            a,
            b,
            change: None,
            finding,
        };
    }
    let change = if unit == "share" { difference(a, b) } else { quotient(a, b) };
    let finding = match change.and_then(|change| change.interval) {
        Some(interval) => finding_of_change(interval, unit, limits),
        None if name == "rate" => finding_of_no_rate([a, b]),
        None => Finding::NotJudged,
    };
    ComparedFigure { name: name.into(), unit: unit.into(), a, b, change, finding }
}

fn finding_of_change(interval: Interval, unit: &str, limits: Limits) -> Finding {
    match unit {
        "share" => finding(interval, -limits.error_threshold, limits.error_threshold),
        "ms" => finding(interval, 1.0 / (1.0 + limits.threshold), 1.0 + limits.threshold),
        // Of a rate more is better.
        _ => {
            let inverse = Interval { low: 1.0 / interval.high, high: 1.0 / interval.low };
            finding(inverse, 1.0 / (1.0 + limits.threshold), 1.0 + limits.threshold)
        }
    }
}

/// What can be said of two rates where one run had no answer, and so no interval of its rate.
fn finding_of_no_rate([a, b]: [Measured; 2]) -> Finding {
    let is_shown = |of: Measured| of.interval.is_some_and(|interval| interval.low > 0.0);
    match (a.value, b.value) {
        (_, Some(0.0)) if is_shown(a) => Finding::Worse,
        (Some(0.0), _) if is_shown(b) => Finding::Better,
        _ => Finding::NotJudged,
    }
}

/// What can be said of two times of which one at least is that of a request that failed.
fn finding_of_never([a, b]: [Measured; 2], limits: Limits) -> Finding {
    let ends = |of: Measured| match of {
        Measured { interval: Some(Interval { low, high }), .. } => Some((low, high)),
        Measured { value: Some(f64::INFINITY), .. } => Some((f64::INFINITY, f64::INFINITY)),
        _ => None,
    };
    match (ends(a), ends(b)) {
        (Some(a), Some(b)) if b.0 > a.1 * (1.0 + limits.threshold) => Finding::Worse,
        (Some(a), Some(b)) if a.0 > b.1 * (1.0 + limits.threshold) => Finding::Better,
        (Some(_), Some(_)) => Finding::NotShown,
        _ => Finding::NotJudged,
    }
}

/// What an interval says of a figure of which less is better.
fn finding(change: Interval, better: f64, worse: f64) -> Finding {
    match change {
        Interval { low, .. } if low > worse => Finding::Worse,
        Interval { high, .. } if high < better => Finding::Better,
        Interval { low, high } if better <= low && high <= worse => Finding::Same,
        _ => Finding::NotShown,
    }
}

fn quotient(a: Measured, b: Measured) -> Option<Measured> {
    let (first, second) = (a.value?, b.value?);
    if first <= 0.0 {
        return None;
    }
    let interval = estimates(a, b).map(|(a, b)| statistics::quotient(a, b));
    Some(Measured { value: Some(second / first), interval })
}

fn difference(a: Measured, b: Measured) -> Option<Measured> {
    let interval = estimates(a, b).map(|(a, b)| statistics::difference(a, b));
    Some(Measured { value: Some(b.value? - a.value?), interval })
}

fn estimates(a: Measured, b: Measured) -> Option<(Estimate, Estimate)> {
    let estimate = |of: Measured| Some(Estimate { value: of.value?, interval: of.interval? });
    estimate(a).zip(estimate(b))
}

fn compared((name, record): (&str, &LoadRecord)) -> ComparedRun {
    ComparedRun {
        name: name.into(),
        target: record.target.clone(),
        started_unix_ms: record.started_unix_ms,
        valid: record.is_valid(),
    }
}

/// Why the comparison is to be read with care.
fn warnings(a: (&str, &LoadRecord), b: (&str, &LoadRecord)) -> Vec<String> {
    let mut warnings: Vec<_> = [a, b].into_iter().flat_map(warnings_of).collect();
    let (first, second) = (a.1, b.1);
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            warnings.push(format!("different {what}: {a} and {b}"));
        }
    };
    differ("targets", &first.target, &second.target);
    differ("protocols", &first.protocol, &second.protocol);
    if let (Some(a), Some(b)) = (&first.plan, &second.plan) {
        for ((what, a), (_, b)) in beside_model(a).into_iter().zip(beside_model(b)) {
            differ(what, &a, &b);
        }
    }
    if let Some(plans) = plan_difference(first, second) {
        warnings.push(format!("different plans: {plans}"));
    } else if first.model != second.model {
        warnings.push("different seeds: the instants of the two plans are not the same".into());
    }
    let (short, long) = (first.elapsed.min(second.elapsed), first.elapsed.max(second.elapsed));
    if short.as_secs_f64() < LIKE * long.as_secs_f64() {
        warnings.push(format!(
            "different lengths: {:.1} s and {:.1} s",
            first.elapsed.as_secs_f64(),
            second.elapsed.as_secs_f64(),
        ));
    }
    warnings
}

/// What a plan says beside its model, with the name of each.
fn beside_model(plan: &LoadPlanRecord) -> [(&'static str, String); 6] {
    let limit = |limit: Option<u32>| limit.map_or("no limit".to_owned(), |most| most.to_string());
    let kept = if plan.keepalive { "kept" } else { "one for each request" };
    [
        ("methods", plan.method.clone()),
        ("request bodies", Bytes::new(plan.body_bytes).to_string()),
        ("timeouts", plan.timeout.to_string()),
        ("connections", kept.to_owned()),
        ("limits of connections", limit(plan.connections)),
        ("limits in flight", limit(plan.max_in_flight)),
    ]
}

fn warnings_of((name, record): (&str, &LoadRecord)) -> Vec<String> {
    let mut warnings: Vec<_> = record
        .generator
        .faults
        .iter()
        .map(|fault| format!("{name} is invalid: {}; {}", fault.what, fault.advice))
        .collect();
    if record.interrupted {
        warnings.push(format!("{name} was interrupted"));
    }
    if record.response.count > 0 && times(record).is_none() {
        warnings.push(format!(
            "{name} is too short to see how its answers hang together ({} moments, {} needed): \
             they are taken for independent, so its intervals may be too narrow",
            record.moments_until_end().len(),
            statistics::FEWEST,
        ));
    }
    warnings
}

/// The unit to show a figure in, and its factor, so that neither run has more than four digits.
fn shown_in(figure: &ComparedFigure) -> (&'static str, f64) {
    let most = |of: Measured| [of.interval.map(|interval| interval.high), of.value];
    let all = [figure.a, figure.b].into_iter().flat_map(most).flatten();
    let largest = all.filter(|value| value.is_finite()).fold(0.0, f64::max);
    match figure.unit.as_str() {
        "share" => ("%", 100.0),
        "ms" if largest >= 9_999.5 => ("s", 1e-3),
        "ms" if largest < 0.9995 => ("us", 1e3),
        "ms" => ("ms", 1.0),
        _ if largest >= 9_999.5 => ("k/s", 1e-3),
        _ => ("/s", 1.0),
    }
}

fn shown(measured: Measured, scale: f64, signed: bool) -> String {
    let Some(value) = measured.value else {
        return "-".to_owned();
    };
    if value.is_infinite() {
        return "never".to_owned();
    }
    let sign = if signed && value > 0.0 { "+" } else { "" };
    let value = short(value * scale);
    match measured.interval {
        Some(Interval { low, high }) => {
            format!("{sign}{value} ({}..{})", short(low * scale), short(high * scale))
        }
        None => format!("{sign}{value}"),
    }
}

/// Four characters below 10,000: `0.38`, `38.4`, `3840`.
fn short(value: f64) -> String {
    if value.is_infinite() {
        return "∞".to_owned();
    }
    if value.abs() < 0.005 {
        return "0".to_owned();
    }
    if value.abs() < 0.9995 { format!("{value:.2}") } else { digits(value) }
}

fn word(finding: Finding) -> Cell {
    match finding {
        Finding::Better => Cell::Good("better".into()),
        Finding::Worse => Cell::Bad("worse".into()),
        Finding::Same => "the same".into(),
        Finding::NotShown => "unclear".into(),
        Finding::NotJudged => "-".into(),
    }
}

/// A number with its decimals only where they say something.
struct Trimmed(f64);

impl std::fmt::Display for Trimmed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.3}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// How sure the intervals are: what everybody expects.
const CONFIDENCE: f64 = 0.95;
/// The shorter run is at least this share of the longer one.
const LIKE: f64 = 0.8;

#[cfg(test)]
mod tests {
    use loadline_core::units::Rate;
    use loadline_measure::record::{Arrivals, Bin, Fault, Latency, Outcomes, Spread};

    use super::*;

    /// A minute at 100/s, even seconds a little faster and odd ones a little slower than `ms`; of
    /// every hundred requests so many fail.
    fn run(ms: f64, failed: u64) -> LoadRecord {
        let time = |ms: f64| Duration::from_nanos((ms * 1e6) as u64);
        let outcomes = |seconds| Outcomes {
            ok: (100 - failed) * seconds,
            timeout: failed * seconds,
            ..Outcomes::default()
        };
        let moment = |second: u64| Moment {
            at: Duration::from_secs(second),
            planned: 100,
            outcomes: outcomes(1),
            mean: time(if second.is_multiple_of(2) { ms * 0.97 } else { ms * 1.03 }),
            ..Moment::default()
        };
        let count = outcomes(60).ok;
        let bin = |factor: f64| Bin { up_to: time(ms * factor), count: count / 100 };
        LoadRecord {
            model: LoadModel::Open {
                rate: Rate::per_sec(100),
                arrivals: Arrivals::Constant,
                seed: 1,
                stages: Vec::new(),
            },
            elapsed: Duration::from_secs(60),
            planned: 6_000,
            outcomes: outcomes(60),
            response: Latency {
                count,
                mean: time(ms),
                stddev: time(ms * 0.1),
                p50: time(ms),
                p90: time(ms * 1.08),
                p99: time(ms * 1.098),
                max: time(ms * 1.1),
                ..Latency::default()
            },
            spreads: loadline_measure::record::Spreads {
                response: Spread(
                    (1..=100).map(|step| bin(0.9 + 0.002 * f64::from(step))).collect(),
                ),
                ..Default::default()
            },
            moments: (1..=60).map(moment).collect(),
            ..LoadRecord::default()
        }
    }

    fn findings(a: &LoadRecord, b: &LoadRecord) -> Vec<(String, Finding)> {
        let record = compare_runs(("a", a), ("b", b), Limits::default());
        record.figures.into_iter().map(|figure| (figure.name, figure.finding)).collect()
    }

    fn finding_of(name: &str, a: &LoadRecord, b: &LoadRecord) -> Finding {
        findings(a, b).into_iter().find(|(figure, _)| figure == name).unwrap().1
    }

    #[test]
    fn a_run_is_the_same_as_itself_and_its_maximum_is_not_judged() {
        for (name, finding) in findings(&run(10.0, 1), &run(10.0, 1)) {
            let expected = match name.as_str() {
                "max" => Finding::NotJudged,
                // One in a hundred fails, so the p99 may be that of one that failed.
                "errors" | "p99" => Finding::NotShown,
                _ => Finding::Same,
            };
            assert_eq!(finding, expected, "{name}");
        }
    }

    #[test]
    fn a_request_that_times_out_after_the_plan_makes_no_rate_worse() {
        let (a, mut b) = (run(10.0, 0), run(10.0, 0));
        (b.outcomes.ok, b.outcomes.timeout) = (b.outcomes.ok - 1, 1);
        b.moments[59].outcomes.ok -= 1;
        b.moments.extend((61..=90).map(|second| Moment {
            at: Duration::from_secs(second),
            outcomes: Outcomes { timeout: u64::from(second == 90), ..Outcomes::default() },
            ..Moment::default()
        }));
        let record = compare_runs(("a", &a), ("b", &b), Limits::default());
        let rate = record.figures.iter().find(|figure| figure.name == "rate").unwrap();
        assert_eq!(rate.finding, Finding::Same, "{rate:?}");
        assert!(rate.b.interval.unwrap().holds(rate.b.value.unwrap()), "{rate:?}");
    }

    #[test]
    fn a_third_slower_is_a_regression_and_the_other_way_round_it_is_better() {
        let (fast, slow) = (run(30.0, 0), run(40.0, 0));
        for name in ["mean", "p50", "p90", "p99"] {
            assert_eq!(finding_of(name, &fast, &slow), Finding::Worse, "{name}");
            assert_eq!(finding_of(name, &slow, &fast), Finding::Better, "{name}");
        }
        let record = compare_runs(("a", &fast), ("b", &slow), Limits::default());
        assert!(record.regressed);
        let lenient = Limits { threshold: 0.5, ..Limits::default() };
        assert!(!compare_runs(("a", &fast), ("b", &slow), lenient).regressed);
    }

    #[test]
    fn errors_are_judged_in_points_and_take_their_part_of_the_rate() {
        let (good, bad) = (run(10.0, 0), run(10.0, 20));
        assert_eq!(finding_of("errors", &good, &bad), Finding::Worse);
        assert_eq!(finding_of("rate", &good, &bad), Finding::Worse);
        assert_eq!(finding_of("errors", &bad, &good), Finding::Better);
        assert_eq!(finding_of("errors", &good, &good), Finding::Same);
    }

    #[test]
    fn a_run_that_fails_often_is_not_faster_by_the_few_that_it_answers() {
        let (slow, failing) = (run(10.0, 0), run(1.0, 60));
        for name in ["p50", "p90", "p99"] {
            assert_eq!(finding_of(name, &slow, &failing), Finding::Worse, "{name}");
            assert_eq!(finding_of(name, &failing, &slow), Finding::Better, "{name}");
            assert_eq!(finding_of(name, &failing, &failing), Finding::NotShown, "{name}");
        }
        let record = compare_runs(("a", &slow), ("b", &failing), Limits::default());
        assert!(comparison_table(&record).to_string().contains("never"));
        let p99 = record.figures.iter().find(|figure| figure.name == "p99").unwrap();
        assert_eq!(serde_json::to_value(p99).unwrap()["b"]["value"], serde_json::Value::Null);
    }

    #[test]
    fn a_run_that_answers_nothing_is_a_regression() {
        let (good, down) = (run(10.0, 0), run(10.0, 100));
        // Errors of any number are no regression of themselves.
        let limits = Limits { error_threshold: 10.0, ..Limits::default() };
        let found = |a, b| {
            let record = compare_runs(("a", a), ("b", b), limits);
            let of = |figure: ComparedFigure| (figure.name, figure.finding);
            record.figures.into_iter().map(of).collect::<Vec<_>>()
        };
        for (name, finding) in found(&good, &down) {
            let expected = match name.as_str() {
                "rate" | "p50" | "p90" | "p99" => Finding::Worse,
                "errors" => Finding::Same,
                _ => Finding::NotJudged,
            };
            assert_eq!(finding, expected, "{name}");
        }
        for (name, finding) in found(&down, &good) {
            if ["rate", "p50", "p90", "p99"].contains(&name.as_str()) {
                assert_eq!(finding, Finding::Better, "{name}");
            }
        }
        assert!(found(&down, &down).iter().all(|(_, finding)| *finding != Finding::Worse));
        let record = compare_runs(("a", &good), ("b", &down), Limits::default());
        assert!(comparison_table(&record).to_string().contains("never"));
    }

    #[test]
    fn a_difference_at_the_threshold_is_not_shown_either_way() {
        let (fast, slow) = (run(10.0, 0), run(10.5, 0));
        assert_eq!(finding_of("mean", &fast, &slow), Finding::NotShown);
    }

    #[test]
    fn too_few_answers_have_no_interval_for_their_p99() {
        let mut short = run(10.0, 0);
        short.response.count = 300;
        short.moments.clear();
        let record = compare_runs(("a", &short), ("b", &short), Limits::default());
        let p99 = record.figures.iter().find(|figure| figure.name == "p99").unwrap();
        assert_eq!((p99.a.interval, p99.finding), (None, Finding::NotJudged));
        assert!(record.warnings[0].contains("0 moments, 8 needed"), "{:?}", record.warnings);
    }

    /// A run of a second with these response times and no moments.
    fn few(times: [f64; 2], count: u64) -> LoadRecord {
        let time = |ms: f64| Duration::from_nanos((ms * 1e6) as u64);
        let mut run = run(times[0].midpoint(times[1]), 0);
        (run.elapsed, run.planned) = (Duration::from_secs(1), count);
        run.outcomes = Outcomes { ok: count, ..Outcomes::default() };
        run.response.count = count;
        run.response.stddev = time((times[0] - times[1]).abs() / 2.0);
        run.moments.clear();
        run
    }

    #[test]
    fn one_slow_response_is_no_regression() {
        let (fast, slow) = (few([10.0; 2], 1), few([20.0; 2], 1));
        let record = compare_runs(("a", &fast), ("b", &slow), Limits::default());
        let mean = record.figures.iter().find(|figure| figure.name == "mean").unwrap();
        assert_eq!((mean.b.interval, mean.finding), (None, Finding::NotJudged));
        assert!(!record.regressed, "{:?}", record.figures);
    }

    #[test]
    fn no_interval_of_a_mean_or_a_rate_goes_below_zero() {
        let two = few([10.0, 800.0], 2);
        let record = compare_runs(("a", &two), ("b", &two), Limits::default());
        for name in ["mean", "rate"] {
            let figure = record.figures.iter().find(|figure| figure.name == name).unwrap();
            let interval = figure.a.interval.unwrap();
            assert_eq!(interval.low, 0.0, "{name}: {interval:?}");
            assert!(interval.holds(figure.a.value.unwrap()), "{name}: {interval:?}");
        }
    }

    #[test]
    fn a_comparison_drawn_from_its_record_still_says_never() {
        let (good, down) = (run(10.0, 0), run(10.0, 100));
        let record = compare_runs(("a", &good), ("b", &down), Limits::default());
        let text = serde_json::to_string(&record).unwrap();
        let read: ComparisonRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(comparison_table(&read).to_string(), comparison_table(&record).to_string());
    }

    #[test]
    fn runs_without_answers_compare_without_figures() {
        let none = LoadRecord::default();
        for (name, finding) in findings(&none, &run(10.0, 0)) {
            assert_eq!(finding, Finding::NotJudged, "{name}");
        }
    }

    #[test]
    fn what_speaks_against_a_comparison_is_told() {
        let (a, mut b) = (run(10.0, 0), run(10.0, 0));
        assert_eq!(compare_runs(("a", &a), ("b", &b), Limits::default()).warnings, [""; 0]);
        let fault = Fault { what: "out of ports".into(), advice: "keep connections".into() };
        b.generator.faults.push(fault);
        b.interrupted = true;
        b.elapsed = Duration::from_secs(30);
        b.target = "other".into();
        b.model = LoadModel::Closed { users: 4, think: Duration::ZERO };
        let warnings = compare_runs(("a", &a), ("b", &b), Limits::default()).warnings.join("; ");
        for told in [
            "b is invalid: out of ports; keep connections",
            "b was interrupted",
            "different targets",
            "different plans: 100/s constant against 4 users",
            "different lengths: 60.0 s and 30.0 s",
        ] {
            assert!(warnings.contains(told), "{told:?} is not in {warnings:?}");
        }
    }

    #[test]
    fn a_run_whose_connections_were_used_otherwise_is_told_so() {
        let (mut a, mut b) = (run(10.0, 0), run(10.0, 0));
        let plan = LoadPlanRecord {
            method: "GET".into(),
            timeout: Duration::from_secs(30),
            keepalive: true,
            ..LoadPlanRecord::default()
        };
        a.plan = Some(Box::new(plan.clone()));
        let warnings = |b: &LoadRecord| {
            compare_runs(("a", &a), ("b", b), Limits::default()).warnings.join("; ")
        };
        assert_eq!(warnings(&b), "", "an older record says nothing of it");
        b.plan = Some(Box::new(LoadPlanRecord {
            keepalive: false,
            connections: Some(2),
            body_bytes: 100,
            ..plan
        }));
        let expected = "different request bodies: 0B and 100B; different connections: kept and one \
                        for each request; different limits of connections: no limit and 2";
        assert_eq!(warnings(&b), expected);
    }

    /// As the first, with 600 requests under way when somebody had seen enough.
    #[test]
    fn a_run_that_was_interrupted_is_no_regression() {
        let (a, mut b) = (run(10.0, 0), run(10.0, 0));
        (b.interrupted, b.outcomes.cut_off, b.planned) = (true, 600, 6_600);
        let last = b.moments.last_mut().unwrap();
        last.outcomes.cut_off = 600;
        let record = compare_runs(("a", &a), ("b", &b), Limits::default());
        assert!(!record.regressed, "{:?}", record.figures);
        assert!(record.figures.iter().all(|it| it.b.value != Some(f64::INFINITY)));
        b.interrupted = false;
        let record = compare_runs(("a", &a), ("b", &b), Limits::default());
        assert!(record.regressed, "what a whole run cut off did fail");
    }

    #[test]
    fn plans_differ_by_what_they_ask_and_not_by_their_seed() {
        let (a, mut b) = (run(10.0, 0), run(10.0, 0));
        if let LoadModel::Open { seed, .. } = &mut b.model {
            *seed = 2;
        }
        assert_eq!(plan_difference(&a, &b), None);
        b.model = LoadModel::default();
        assert_eq!(plan_difference(&a, &b).as_deref(), Some("100/s constant against 1 user"));
    }

    #[test]
    fn the_table_fits_a_terminal_whatever_the_figures() {
        for (ms, failed) in [(0.012, 0), (0.9, 1), (10.0, 50), (9_999.0, 3), (123_456.0, 99)] {
            for factor in [0.01, 1.0, 60.0] {
                let (a, b) = (run(ms, failed), run(ms * factor, 99 - failed));
                let record = compare_runs(("a", &a), ("b", &b), Limits::default());
                let table = comparison_table(&record).to_string();
                let widest = table.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(80), "{widest:?}\n{table}");
            }
        }
    }
}
