//! Two load runs beside each other: how sure each figure is, and whether the second is worse.
//!
//! A figure has regressed when the whole 95 % interval of its change is for the worse by more
//! than the threshold. So a run too short to tell is never called a regression, nor is it called
//! the same. The intervals and their sources are in [`loadline_core::statistics`]; each run is
//! taken for as many independent requests as the swings of its mean over time allow.
//!
//! What stays outside the intervals is how a service differs from one run to the next: two runs
//! show that these runs differ. Repeat both, in turns, before believing a small difference.

use loadline_core::{
    record::{
        ComparedFigure, ComparedRun, ComparisonRecord, Finding, LoadModel, LoadRecord, Measured,
        Moment,
    },
    statistics::{self, Batches, Estimate, Interval},
    time::Duration,
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
    let (first, second) = (Side::new(a.1), Side::new(b.1));
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
        "Response times, {:.0} % intervals in brackets; judged beyond {} % (errors: {} points)",
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
    /// How many independent answers its answers are worth.
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
        let pieces = self.record.moments.iter().map(|moment| {
            let lasted = moment.at.saturating_sub(before);
            before = moment.at;
            (moment.outcomes.ok as f64, lasted.as_secs_f64())
        });
        let interval = Batches::of(&pieces.collect::<Vec<_>>()).map_or_else(
            // Without batches the answers are taken for independent of each other (Poisson).
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
        let response = &self.record.response;
        match name {
            _ if response.count == 0 => Measured::default(),
            "mean" => self.mean(),
            "p50" => self.quantile(0.5, response.p50),
            "p90" => self.quantile(0.9, response.p90),
            "p99" => self.quantile(0.99, response.p99),
            _ => Measured { value: Some(response.max.as_millis_f64()), interval: None },
        }
    }

    fn mean(&self) -> Measured {
        let response = &self.record.response;
        let mean = response.mean.as_millis_f64();
        let interval = times(self.record).map_or_else(
            || {
                let stddev = response.stddev.as_millis_f64();
                statistics::mean(mean, stddev, response.count as f64, CONFIDENCE)
            },
            |batches| batches.interval(CONFIDENCE),
        );
        measured(mean, interval)
    }

    fn quantile(&self, share: f64, value: Duration) -> Measured {
        let ranks = statistics::quantile_ranks(self.worth as u64, share, CONFIDENCE);
        // Half a rank less than the rank is between it and the one before: no rounding of the
        // division can make it the next.
        let at = |rank: u64| {
            self.record.spreads.response.quantile((rank as f64 - 0.5) / self.worth.floor())
        };
        let interval = match ranks {
            (Some(low), Some(high)) => at(low).zip(at(high)),
            _ => None,
        };
        let interval = interval.map(|(low, high)| Interval {
            low: low.min(value).as_millis_f64(),
            high: high.max(value).as_millis_f64(),
        });
        Measured { value: Some(value.as_millis_f64()), interval }
    }
}

/// The sums of response times and their numbers, from moment to moment.
fn times(record: &LoadRecord) -> Option<Batches> {
    let piece = |moment: &Moment| {
        let count = moment.outcomes.ok as f64;
        (moment.mean.as_millis_f64() * count, count)
    };
    Batches::of(&record.moments.iter().map(piece).collect::<Vec<_>>())
}

fn measured(value: f64, interval: Interval) -> Measured {
    Measured { value: Some(value), interval: Some(interval) }
}

fn judge(name: &str, unit: &str, [a, b]: [Measured; 2], limits: Limits) -> ComparedFigure {
    let change = if unit == "share" { difference(a, b) } else { quotient(a, b) };
    let interval = change.and_then(|change| change.interval);
    let finding = interval.map_or(Finding::NotJudged, |interval| match unit {
        "share" => finding(interval, -limits.error_threshold, limits.error_threshold),
        "ms" => finding(interval, 1.0 / (1.0 + limits.threshold), 1.0 + limits.threshold),
        // Of a rate more is better.
        _ => {
            let inverse = Interval { low: 1.0 / interval.high, high: 1.0 / interval.low };
            finding(inverse, 1.0 / (1.0 + limits.threshold), 1.0 + limits.threshold)
        }
    });
    ComparedFigure { name: name.into(), unit: unit.into(), a, b, change, finding }
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
            record.moments.len(),
            statistics::FEWEST,
        ));
    }
    warnings
}

/// The unit to show a figure in, and its factor, so that neither run has more than four digits.
fn shown_in(figure: &ComparedFigure) -> (&'static str, f64) {
    let values = [figure.a.value, figure.b.value].into_iter().flatten();
    let largest = values.fold(0.0, f64::max);
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
