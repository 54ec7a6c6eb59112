//! A run on its time axis: what was offered and achieved, what was under way, how long responses
//! took, what became of requests, and what the machine did meanwhile.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::LoadRecord;

use super::{
    Run, resources,
    slices::{Slice, slices},
};
use crate::{
    figures::{millis, per_second},
    plot::{
        PlotError, Tone,
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
        picture::Picture,
    },
};

/// One run; none where it has no moments.
pub(super) fn of_run(run: &Run<'_>) -> Result<Option<Picture>, PlotError> {
    let slices = slices(&run.record.moments, run.record.elapsed);
    if slices.is_empty() {
        return Ok(None);
    }
    let mut charts = vec![rates(&slices), in_flight(&slices), percentiles(&slices)];
    charts.push(outcomes(&slices));
    if let Some(resources) = &run.record.resources {
        let offset = resources.started_unix_ms as f64 - run.record.started_unix_ms as f64;
        charts.extend(resources::charts(resources, offset / 1e3));
    }
    let lines = Lines {
        title: format!("{} over time", run.label),
        description: describe(run.record, &slices),
        x_title: "seconds since the plan began".into(),
        x: Along::Until(end(&slices)),
        charts,
        marks: Vec::new(),
    };
    lines.draw().map(Some)
}

/// Several runs over each other; none where fewer than two have moments.
pub(super) fn overlaid(runs: &[Run<'_>]) -> Result<Option<Picture>, PlotError> {
    let sliced = |run: &Run<'_>| slices(&run.record.moments, run.record.elapsed);
    let cut: Vec<_> = runs.iter().map(sliced).collect();
    if cut.iter().filter(|slices| !slices.is_empty()).count() < 2 {
        return Ok(None);
    }
    let chart = |title: &str, kind, of: &dyn Fn(&Slice) -> f64| {
        let all = runs.iter().zip(&cut).enumerate();
        let line = |(index, (run, slices)): (usize, (&Run<'_>, &Vec<Slice>))| {
            line(&run.label, Tone::Run(index), Stroke::Thin, slices, of)
        };
        Chart { title: title.into(), lines: all.map(line).collect(), kind }
    };
    let lines = Lines {
        title: "All runs over time".into(),
        description: "The figures of each run stand in the tables above.".into(),
        x_title: "seconds since each plan began".into(),
        x: Along::Until(cut.iter().map(|slices| end(slices)).fold(0.0, f64::max)),
        charts: vec![
            chart("achieved, requests/s", Kind::Even, &|slice| slice.per_second(slice.outcomes.ok)),
            chart("p99 of response time, ms", Kind::Fitting, &|slice| {
                slice.millis(|slice| slice.p99)
            }),
            chart("in flight", Kind::Fitting, &|slice| slice.in_flight as f64),
        ],
        marks: Vec::new(),
    };
    lines.draw().map(Some)
}

fn rates(slices: &[Slice]) -> Chart {
    let offered = |slice: &Slice| slice.per_second(slice.planned);
    let achieved = |slice: &Slice| slice.per_second(slice.outcomes.ok);
    Chart {
        title: "requests/s".into(),
        lines: vec![
            line("offered", Tone::Warm, Stroke::Thick, slices, &offered),
            line("achieved", Tone::Cool, Stroke::Thin, slices, &achieved),
        ],
        kind: Kind::Even,
    }
}

fn in_flight(slices: &[Slice]) -> Chart {
    let level = |slice: &Slice| slice.in_flight as f64;
    let lines = vec![line("", Tone::Cool, Stroke::Thin, slices, &level)];
    Chart { title: "in flight".into(), lines, kind: Kind::Even }
}

fn percentiles(slices: &[Slice]) -> Chart {
    let time = |name, tone, stroke, of: fn(&Slice) -> Duration| {
        line(name, tone, stroke, slices, &move |slice| slice.millis(of))
    };
    let lines = vec![
        time("max", Tone::Run(1), Stroke::Thin, |slice| slice.max),
        time("p99", Tone::Run(3), Stroke::Thick, |slice| slice.p99),
        time("p50", Tone::Run(0), Stroke::Thick, |slice| slice.p50),
    ];
    Chart { title: "response time, ms".into(), lines, kind: Kind::Fitting }
}

/// What ended, by what became of it; classes that never occurred are left out.
fn outcomes(slices: &[Slice]) -> Chart {
    let classes = slices.first().map_or_else(Vec::new, |slice| slice.outcomes.classes().to_vec());
    let occurred =
        |class: &usize| slices.iter().any(|slice| slice.outcomes.classes()[*class].1 > 0);
    let layer = |class: usize| {
        let count = move |slice: &Slice| slice.per_second(slice.outcomes.classes()[class].1);
        let layer = line(classes[class].0, OUTCOME_TONES[class], Stroke::Thick, slices, &count);
        to_the_ends(layer, end(slices))
    };
    let lines = (0..classes.len()).filter(occurred).map(layer).collect();
    Chart { title: "ended, requests/s".into(), lines, kind: Kind::Stacked }
}

/// An area begins with the run and ends with it, not in the middle of a slice.
fn to_the_ends(line: Line, end: f64) -> Line {
    let at = |x: f64, point: Option<&(f64, f64)>| point.map(|point| (x, point.1));
    let (first, last) = (at(0.0, line.points.first()), at(end, line.points.last()));
    let points = first.into_iter().chain(line.points).chain(last).collect();
    Line { points, ..line }
}

/// Where the last slice ends, in seconds.
fn end(slices: &[Slice]) -> f64 {
    slices.last().map_or(0.0, |slice| slice.until.as_secs_f64())
}

fn line(
    name: &str,
    tone: Tone,
    stroke: Stroke,
    slices: &[Slice],
    of: &dyn Fn(&Slice) -> f64,
) -> Line {
    let points = slices.iter().map(|slice| (slice.middle(), of(slice))).collect();
    Line { name: name.to_owned(), tone, stroke, points, dots: false }
}

fn describe(record: &LoadRecord, slices: &[Slice]) -> String {
    let most = slices.iter().map(|slice| slice.in_flight).max().unwrap_or_default();
    let slowest = slices.iter().map(|slice| slice.max).max().unwrap_or_default();
    let rates = slices.iter().map(|slice| slice.per_second(slice.outcomes.ok));
    let rate = Rate::milli_per_sec((rates.fold(0.0, f64::max) * 1e3).round() as u64);
    format!(
        "{} of {} requests succeeded, at most {}; at most {most} were under way; the slowest \
         answer took {}.",
        record.outcomes.ok,
        record.planned,
        per_second(rate),
        millis(slowest),
    )
}

/// The colours of the classes in the order of [`Outcomes::classes`]: what went well is blue.
///
/// [`Outcomes::classes`]: loadline_measure::record::Outcomes::classes
const OUTCOME_TONES: [Tone; 10] = [
    Tone::Run(0),
    Tone::Run(4),
    Tone::Run(1),
    Tone::Run(3),
    Tone::Run(6),
    Tone::Run(5),
    Tone::Run(2),
    Tone::Run(7),
    Tone::Quiet,
    Tone::Run(7),
];

#[cfg(test)]
mod tests {
    use loadline_measure::record::{Moment, Outcomes};

    use super::*;

    #[test]
    fn what_ended_in_one_slice_is_an_area_over_the_whole_run() {
        let moment = Moment {
            at: Duration::from_micros(2_700),
            planned: 1,
            outcomes: Outcomes { ok: 1, ..Outcomes::default() },
            ..Moment::default()
        };
        let slices = slices(&[moment], Duration::from_secs(1));
        assert_eq!(outcomes(&slices).lines[0].points, [(0.0, 1.0), (0.5, 1.0), (1.0, 1.0)]);
        assert_eq!(rates(&slices).lines[0].points, [(0.5, 1.0)]);
        assert!(describe(&LoadRecord::default(), &slices).contains("at most 1/s;"));
    }
}
