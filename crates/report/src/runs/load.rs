//! Load runs: all in one table and over each other, then one by one.

use std::collections::BTreeMap;

use loadline_core::{
    time::Duration,
    units::{Bytes, Ratio},
};
use loadline_measure::record::{Latency, LoadModel, LoadRecord, Percentiles, Phases, Spread};

use super::{Run, part, picture, plan, simulation, text, timeline};
use crate::{
    figures::{digits, millis, per_second, percent, utc},
    page::{Block, Section},
    plot::{
        PlotError, Tone,
        layers::Layers,
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
        picture::Picture,
    },
    table::{Align, Cell, Table},
};

/// The sections of all load runs; none where there are none.
pub(super) fn sections(runs: &[Run<'_>]) -> Result<Vec<Section>, PlotError> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let mut sections = vec![summary(runs)];
    if let Some(curves) = against_rate(runs)? {
        sections.push(part("Response time against rate", vec![picture(curves)]));
    }
    sections.push(latency(runs)?);
    if let Some(phases) = phases(runs)? {
        sections.push(phases);
    }
    if let Some(overlaid) = timeline::overlaid(runs)? {
        sections.push(part("Over time", vec![picture(overlaid)]));
    }
    for run in runs {
        sections.push(alone(run)?);
    }
    sections.extend(simulation::sections(runs)?);
    Ok(sections)
}

fn summary(runs: &[Run<'_>]) -> Section {
    let headings = [
        "run", "plan", "achieved", "requests", "errors", "p50", "p99", "max", "valid", "objective",
    ];
    let mut table = Table::new(
        "Response times of all requests; one that failed counts as never answered",
        &headings,
    );
    table.columns[1].align = Align::Left;
    for Run { label, record } in runs {
        let failed = record.outcomes.failed();
        let all = record.response_of_all();
        let of_all = |time: fn(&Percentiles) -> Duration| {
            all.as_ref().map_or_else(|| "-".into(), |all| late(time(all)))
        };
        let errors = percent(Ratio::part(failed, record.outcomes.total()));
        table.push([
            label.as_str().into(),
            plan(&record.model).into(),
            per_second(record.achieved_rate()).into(),
            record.planned.to_string().into(),
            if failed == 0 { "0".into() } else { Cell::Bad(format!("{failed} ({errors})")) },
            of_all(|all| all.p50),
            of_all(|all| all.p99),
            of_all(|all| all.max),
            if record.is_valid() { "yes".into() } else { Cell::Bad("INVALID".into()) },
            objective(record),
        ]);
    }
    let mut blocks = vec![Block::Table(table)];
    for Run { label, record } in runs {
        let faults = record.generator.faults.iter();
        let told = faults.map(|fault| format!("{label}: {}; {}.", fault.what, fault.advice));
        blocks.extend(told.map(Block::Warning));
        blocks.extend(breaches(label, record));
    }
    blocks.push(Block::Details(outcomes(runs)));
    part("Runs", blocks)
}

fn late(time: Duration) -> Cell {
    if time == Duration::MAX { Cell::Bad("never".into()) } else { millis(time).into() }
}

fn objective(record: &LoadRecord) -> Cell {
    match &record.objective {
        None => "-".into(),
        Some(objective) if objective.is_met() => Cell::Good("met".into()),
        Some(_) if record.shows_nothing() => "not judged".into(),
        Some(_) => Cell::Bad("breached".into()),
    }
}

/// Which criteria were not met, and by what figures.
fn breaches(label: &str, record: &LoadRecord) -> Option<Block> {
    let objective = record.objective.as_ref().filter(|_| !record.shows_nothing())?;
    let breached = objective.criteria.iter().filter(|criterion| !criterion.met);
    let sure = |confidence: &str| match confidence {
        "" => String::new(),
        told => format!(", {told}"),
    };
    let told: Vec<_> = breached
        .map(|one| format!("{} (measured {}{})", one.text, one.measured, sure(&one.confidence)))
        .collect();
    (!told.is_empty()).then(|| text(format!("{label} breached {}.", told.join(", "))))
}

/// What became of all requests, class by class; the classes that never occurred are left out.
fn outcomes(runs: &[Run<'_>]) -> Table {
    let all: Vec<_> = runs.iter().map(|run| run.record.outcomes.classes()).collect();
    let occurred: Vec<usize> =
        (0..10).filter(|class| all.iter().any(|classes| classes[*class].1 > 0)).collect();
    let names = occurred.iter().filter_map(|class| all.first().map(|classes| classes[*class].0));
    let headings: Vec<_> = ["run"].into_iter().chain(names).chain(["sum", "planned"]).collect();
    let mut table = Table::new("What became of every request", &headings);
    for (run, classes) in runs.iter().zip(&all) {
        let counts = occurred.iter().map(|class| classes[*class].1);
        let sums = [run.record.outcomes.total(), run.record.planned];
        let counts = counts.chain(sums).map(|count| count.to_string().into());
        table.push([run.label.as_str().into()].into_iter().chain(counts));
    }
    table
}

/// Every run a point, runs of one target and one kind of loop a curve unless several have one rate:
/// runs that differ in something else are no curve. None where all have one rate.
fn against_rate(runs: &[Run<'_>]) -> Result<Option<Picture>, PlotError> {
    let mut groups: BTreeMap<(bool, String), Vec<(f64, &Latency)>> = BTreeMap::new();
    let one_target = runs.iter().all(|run| run.record.target == runs[0].record.target);
    for Run { record, .. } in runs.iter().filter(|run| run.record.response.count > 0) {
        let Some((rate, kind)) = rate(record) else { continue };
        let target = if one_target { "" } else { record.target.as_str() };
        let name = format!("{target} {kind}").trim().to_owned();
        groups.entry((!record.is_valid(), name)).or_default().push((rate, &record.response));
    }
    let mut rates: Vec<_> = groups.values().flatten().map(|point| point.0).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if rates.len() < 2 {
        return Ok(None);
    }
    let mut lines = Vec::new();
    for (index, ((invalid, name), mut points)) in groups.into_iter().enumerate() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.extend(curve(&name, !invalid, index, &points));
    }
    let description = lines.iter().map(described).collect::<Vec<_>>().join(" ");
    Lines {
        title: "Mean and p99 of response time against rate".into(),
        description,
        x_title: "requests per second".into(),
        x: Along::Even,
        charts: vec![Chart { title: "response time, ms".into(), lines, kind: Kind::Even }],
        marks: Vec::new(),
    }
    .draw()
    .map(Some)
}

/// What was offered, or with a closed loop achieved; none where the rate is not one.
fn rate(record: &LoadRecord) -> Option<(f64, &'static str)> {
    match &record.model {
        LoadModel::Open { stages, .. } if !stages.is_empty() => None,
        LoadModel::Open { rate, .. } => Some((rate.as_per_sec_f64(), "")),
        LoadModel::Closed { .. } => {
            Some((record.achieved_rate().as_per_sec_f64(), "closed loop, achieved rate"))
        }
    }
}

fn curve(name: &str, valid: bool, index: usize, points: &[(f64, &Latency)]) -> [Line; 2] {
    let invalid = if valid { "" } else { " (invalid)" };
    let is_curve = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let line = |what: &str, stroke, of: &dyn Fn(&Latency) -> f64| {
        let dots = points.iter().map(|(rate, latency)| (*rate, of(latency)));
        // Where it has no value a line is broken.
        let apart = dots.clone().flat_map(|dot| [dot, (dot.0, f64::NAN)]);
        Line {
            name: format!("{what} {name}{invalid}").replace("  ", " ").trim().to_owned(),
            tone: if valid { Tone::Run(index) } else { Tone::Quiet },
            stroke,
            points: if is_curve { dots.collect() } else { apart.collect() },
            dots: true,
        }
    };
    [
        line("p99", Stroke::Thin, &|latency| latency.p99.as_millis_f64()),
        line("mean", Stroke::Thick, &|latency| latency.mean.as_millis_f64()),
    ]
}

fn described(line: &Line) -> String {
    let point = |(rate, ms): &(f64, f64)| format!("{} ms at {}/s", digits(*ms), digits(*rate));
    let points = line.points.iter().filter(|point| !point.1.is_nan());
    let points: Vec<_> = points.map(point).collect();
    format!("{}: {}.", line.name, points.join(", "))
}

fn latency(runs: &[Run<'_>]) -> Result<Section, PlotError> {
    let headings = ["run", "", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
    let caption = "Percentiles of successful requests; of all: one that failed as never answered";
    let mut table = Table::new(caption, &headings);
    table.columns[1].align = Align::Left;
    for Run { label, record } in runs {
        let kinds =
            [("response", &record.response), ("service", &record.service), ("lag", &record.lag)];
        for (kind, latency) in kinds.into_iter().filter(|(_, latency)| latency.count > 0) {
            table.push(percentile_row(label, kind, latency));
        }
        if record.outcomes.failed() > 0
            && let Some(all) = record.response_of_all()
        {
            let Percentiles { p50, p90, p95, p99, p999, max } = all;
            let times = [p50, p90, p95, p99, p999, max].map(late);
            let start = [label.as_str().into(), "response of all".into(), "-".into()];
            table.push(start.into_iter().chain(times));
        }
    }
    let mut blocks = Vec::new();
    if let Some(plot) = by_percentile(runs)? {
        blocks.push(picture(plot));
    }
    blocks.push(Block::Table(table));
    Ok(part("Latency by percentile", blocks))
}

fn percentile_row(label: &str, kind: &str, latency: &Latency) -> [Cell; 9] {
    let Latency { mean, p50, p90, p95, p99, p999, max, .. } = latency;
    let times = [mean, p50, p90, p95, p99, p999, max].map(|time| Cell::from(millis(*time)));
    let [mean, p50, p90, p95, p99, p999, max] = times;
    [label.into(), kind.into(), mean, p50, p90, p95, p99, p999, max]
}

/// As the plots of HdrHistogram: the rarer, the further right, a step for every nine.
fn by_percentile(runs: &[Run<'_>]) -> Result<Option<Picture>, PlotError> {
    let mut lines = Vec::new();
    for (index, Run { label, record }) in runs.iter().enumerate() {
        let spreads = &record.spreads;
        let tone = Tone::Run(index);
        if let Some(points) = quantiles(&spreads.response) {
            let name = format!("{label}, response");
            lines.push(Line { name, tone, stroke: Stroke::Thick, points, dots: false });
        }
        // Where users wait for responses the two are the same, and more lines than that confuse.
        let apart = matches!(record.model, LoadModel::Open { .. }) && runs.len() <= 3;
        if apart && let Some(points) = quantiles(&spreads.service) {
            let name = format!("{label}, service");
            lines.push(Line { name, tone, stroke: Stroke::Dashed, points, dots: false });
        }
    }
    if lines.is_empty() {
        return Ok(None);
    }
    Lines {
        title: "Latency by percentile".into(),
        description: "The same figures stand in the table below.".into(),
        x_title: "percentile of requests, %".into(),
        x: Along::Nines,
        charts: vec![Chart { title: "latency, ms".into(), lines, kind: Kind::Fitting }],
        marks: Vec::new(),
    }
    .draw()
    .map(Some)
}

/// The quantiles of a spread at even distances of their nines, up to its maximum: that is the
/// quantile of whatever is beyond all requests but one.
fn quantiles(spread: &Spread) -> Option<Vec<(f64, f64)>> {
    let nines = (2.0 * spread.count() as f64).log10();
    let at = |step: u32| {
        let share = 1.0 - 10f64.powf(-nines * f64::from(step) / f64::from(STEPS));
        spread.quantile(share).map(|time| (share, time.as_millis_f64()))
    };
    (0..=STEPS).map(at).collect()
}

fn phases(runs: &[Run<'_>]) -> Result<Option<Section>, PlotError> {
    let bars: Vec<_> = runs
        .iter()
        .filter(|run| run.record.response.count > 0)
        .map(|run| (run.label.clone(), phase_means(run.record)))
        // Those of simulated runs and of older versions have no phases.
        .filter(|(_, means)| means[1..].iter().any(|mean| *mean > 0.0))
        .collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let names = ["waits to be sent", "DNS", "connect", "TLS", "first byte", "body"];
    let mut table = Table::new(
        "Mean by phase, spread over all successful requests, ms",
        &[&["run"][..], &names].concat(),
    );
    for (label, means) in &bars {
        let means = means.iter().map(|mean| digits(*mean).into());
        table.push([label.as_str().into()].into_iter().chain(means));
    }
    let tones = [Tone::Quiet, Tone::Run(4), Tone::Run(6), Tone::Run(3), Tone::Run(0), Tone::Run(2)];
    let layers = Layers {
        title: "Where the time goes".into(),
        description: "The same figures stand in the table below.".into(),
        quantity: "mean response time by phase, ms".into(),
        parts: names.into_iter().map(str::to_owned).zip(tones).collect(),
        bars,
    };
    let blocks = vec![picture(layers.draw()?), Block::Details(table)];
    Ok(Some(part("Phases", blocks)))
}

/// What each phase adds to the mean response time; a phase that only some requests went through
/// adds less than it took them.
pub(super) fn phase_means(record: &LoadRecord) -> Vec<f64> {
    let wait = record.response.mean.saturating_sub(record.service.mean).as_millis_f64();
    let phases = shares(&record.phases, record.response.count);
    [wait].into_iter().chain(phases).collect()
}

/// The mean of each phase over so many requests.
pub(super) fn shares(phases: &Phases, requests: u64) -> [f64; 5] {
    let Phases { dns, connect, tls, first_byte, body } = phases;
    [dns, connect, tls, first_byte, body].map(|phase| {
        let part = phase.count as f64 / requests.max(1) as f64;
        phase.mean.as_millis_f64() * part.min(1.0)
    })
}

fn alone(run: &Run<'_>) -> Result<Section, PlotError> {
    let mut blocks = Vec::new();
    if !run.record.is_valid() {
        blocks.push(Block::Warning("This run is invalid: the generator stood in its way.".into()));
    }
    if let Some(plot) = timeline::of_run(run)? {
        blocks.push(picture(plot));
    }
    if let Some(resources) = &run.record.resources {
        blocks.extend(super::resources::verdict(resources));
    }
    blocks.push(Block::Details(facts(run.record)));
    let began = began(run.record).map_or_else(String::new, |at| format!(", {at}"));
    blocks.insert(0, text(format!("{}{began}.", run.record.target)));
    Ok(part(format!("Run {}", run.label), blocks))
}

/// When a run began; a simulated one did at no time.
fn began(record: &LoadRecord) -> Option<String> {
    (record.started_unix_ms > 0).then(|| utc(record.started_unix_ms))
}

fn facts(record: &LoadRecord) -> Table {
    let mut table = Table::new("The run in figures", &["", ""]);
    table.columns[1].align = Align::Left;
    let counts = |counts: &mut dyn Iterator<Item = (String, u64)>| {
        let each: Vec<_> = counts.map(|(name, count)| format!("{name}: {count}")).collect();
        if each.is_empty() { "-".to_owned() } else { each.join(", ") }
    };
    let generator = &record.generator;
    let rows = [
        ("target", record.target.clone()),
        ("protocol", record.protocol.clone()),
        ("began", began(record).unwrap_or_default()),
        ("plan", plan(&record.model)),
        ("lasted", format!("{:.2} s", record.elapsed.as_secs_f64())),
        ("interrupted", if record.interrupted { "yes" } else { "no" }.into()),
        ("connections opened", record.connections.to_string()),
        ("found closed and sent again", record.stale.to_string()),
        ("answers read", Bytes::new(record.bytes_read).to_string()),
        ("statuses", counts(&mut record.statuses.iter().map(|(s, n)| (s.to_string(), *n)))),
        ("by header", counts(&mut record.by_header.iter().map(|(h, n)| (h.clone(), *n)))),
        ("CPU of the generator", format!("{} % of a core", digits(generator.cpu_share * 100.0))),
        ("planned rate sent", format!("{} %", digits(generator.sent_share * 100.0))),
    ];
    for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
        table.push([name.into(), value.into()]);
    }
    table
}

/// Points of a percentile plot.
const STEPS: u32 = 200;

#[cfg(test)]
mod tests {
    use loadline_measure::record::Bin;

    use super::*;

    #[test]
    fn the_percentiles_of_four_requests_end_at_the_longest() {
        let bin = |ms| Bin { up_to: Duration::from_millis(ms), count: 1 };
        let spread = Spread([1, 2, 3, 11].map(bin).to_vec());
        let points = quantiles(&spread).unwrap();
        assert_eq!(points.last().map(|point| point.1), Some(11.0));
    }

    /// As before and after a change, and one more at another rate.
    #[test]
    fn runs_of_which_two_have_one_rate_are_dots_without_a_line() {
        let took = |ms| Latency { mean: Duration::from_millis(ms), ..Latency::default() };
        let (before, after, other) = (took(50), took(20), took(80));
        let lengths = |points: &[(f64, &Latency)]| -> Vec<usize> {
            let [_, mean] = curve("", true, 0, points);
            let pieces = mean.points.split(|point| point.1.is_nan());
            pieces.map(<[_]>::len).filter(|length| *length > 0).collect()
        };
        let twice = [(100.0, &before), (100.0, &after), (200.0, &other)];
        assert_eq!(lengths(&twice), [1; 3]);
        assert_eq!(lengths(&twice[1..]), [2]);
        let [_, mean] = curve("", true, 0, &twice);
        assert_eq!(described(&mean), "mean: 50.0 ms at 100/s, 20.0 ms at 100/s, 80.0 ms at 200/s.");
    }
}
