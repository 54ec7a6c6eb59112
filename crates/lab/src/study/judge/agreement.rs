//! The lab beside the simulator: figure by figure, each with a band.
//!
//! Averages, counts and rates may be 10 % apart, percentiles and extremes 15 %, as a share of what
//! the lab measured; a level that a curve reaches has to be reached at the same step. A word has to
//! be the same.

use std::collections::BTreeSet;

use loadline_measure::record::{
    Agreement, NotSimulated, Reading, SimulatedFigure, StudyFigure, StudyLab, StudySimulation,
};

use crate::study::{file::FigureEntry, read::Study};

/// How far apart both may be.
enum Band {
    /// This share of what was measured.
    Share(f64),
    /// Between the same two of these steps.
    Step(Vec<f64>),
}

/// Holds a simulated study against measured figures, which are from `source`.
#[must_use]
pub fn compare(
    study: &Study,
    (source, measured): (&str, &[StudyFigure]),
    simulated: &StudyLab,
) -> StudySimulation {
    let key = |figure: &StudyFigure| (figure.name.clone(), figure.row.clone());
    let same = |figures: &[StudyFigure], of: &StudyFigure| {
        figures.iter().find(|one| key(one) == key(of)).cloned()
    };
    let mut figures = Vec::new();
    for figure in &simulated.figures {
        let measured = same(measured, figure).and_then(|figure| figure.measured);
        figures.push(hold(study, figure, measured));
    }
    let only_measured = measured.iter().filter(|one| same(&simulated.figures, one).is_none());
    figures.extend(only_measured.map(|figure| SimulatedFigure {
        measured: figure.measured.clone(),
        reason: "not simulated".to_owned(),
        ..named(figure)
    }));
    StudySimulation {
        measured: source.to_owned(),
        seed: simulated.seed,
        figures,
        not_simulated: not_simulated(simulated),
    }
}

fn hold(study: &Study, figure: &StudyFigure, measured: Option<Reading>) -> SimulatedFigure {
    let simulated = figure.measured.clone();
    let entry = study.file.figure.iter().map(|at| &at.value);
    let entry =
        entry.into_iter().find(|it| it.name.as_ref().is_some_and(|it| it.value == figure.name));
    let mut held = SimulatedFigure { measured, simulated, ..named(figure) };
    let (Some(measured), Some(simulated)) = (&held.measured, &held.simulated) else {
        held.reason.clone_from(&figure.reason);
        return held;
    };
    let band = entry.map_or(Band::Share(AVERAGES), |entry| band_of(study, entry, &figure.row));
    if matches!(&band, Band::Step(steps) if steps.is_empty()) {
        held.reason = "its phase runs for no steps that are numbers".to_owned();
        return held;
    }
    held.band = match band {
        Band::Share(share) => format!("{:.0} %", share * 100.0),
        Band::Step(_) => "the same step".to_owned(),
    };
    held.agreement = if agree(&band, measured, simulated) {
        Agreement::Agrees
    } else if let Some(reason) = entry.and_then(|entry| entry.simulation_differs.as_ref()) {
        held.reason.clone_from(reason);
        Agreement::Explained
    } else {
        Agreement::Differs
    };
    held
}

fn named(figure: &StudyFigure) -> SimulatedFigure {
    SimulatedFigure {
        name: figure.name.clone(),
        title: figure.title.clone(),
        row: figure.row.clone(),
        unit: figure.unit.clone(),
        ..SimulatedFigure::default()
    }
}

fn band_of(study: &Study, entry: &FigureEntry, row: &str) -> Band {
    if let (Some(along), Some(phase)) = (&entry.along, &entry.phase) {
        return Band::Step(steps(study, (&phase.value, row), &along.value));
    }
    let take = entry.take.as_ref().map_or("", |take| &take.value);
    let of = entry.of.as_ref().map_or("", |of| &of.value);
    let is_tail = TAILS.iter().any(|tail| take.contains(tail)) || matches!(of, "min" | "max");
    Band::Share(if is_tail { PERCENTILES } else { AVERAGES })
}

/// The values that a phase of a row runs for.
fn steps(study: &Study, (phase, row): (&str, &str), along: &str) -> Vec<f64> {
    let phases = study.file.phase.iter().map(|at| &at.value);
    let mut own = phases.filter(|one| {
        let has_row = one.rows.is_empty() || one.rows.iter().any(|it| it.value == row);
        has_row && one.name.as_ref().is_some_and(|it| it.value == phase)
    });
    let Some(entry) = own.next() else { return Vec::new() };
    let quick = entry.quick.sweep.iter().filter(|_| study.is_quick());
    let values = quick.chain(&entry.sweep).find(|(name, _)| name.value == along);
    let values = values.into_iter().flat_map(|(_, values)| &values.value);
    let mut steps: Vec<f64> = values.filter_map(|word| word.0.parse().ok()).collect();
    steps.sort_by(f64::total_cmp);
    steps
}

fn agree(band: &Band, measured: &Reading, simulated: &Reading) -> bool {
    let (Reading::Number(measured), Reading::Number(simulated)) = (measured, simulated) else {
        return measured == simulated;
    };
    match band {
        Band::Share(share) => (measured - simulated).abs() <= share * measured.abs(),
        Band::Step(steps) => {
            let step = |value: &f64| steps.iter().filter(|step| *step < value).count();
            step(measured) == step(simulated)
        }
    }
}

/// Every phase that was not simulated, each row and reason once.
fn not_simulated(lab: &StudyLab) -> Vec<NotSimulated> {
    let rows = lab
        .rows
        .iter()
        .filter_map(|row| Some((row.name.clone(), String::new(), row.skipped.clone()?)));
    let phases = lab.phases.iter().filter(|phase| phase.skipped).map(|phase| {
        (phase.row.clone(), phase.phase.clone(), phase.failed.clone().unwrap_or_default())
    });
    let mut known = BTreeSet::new();
    let all = rows.chain(phases).filter(|one| known.insert(one.clone()));
    all.map(|(row, phase, reason)| NotSimulated { row, phase, reason }).collect()
}

/// Allowed difference of averages, as a share of what the lab measured.
const AVERAGES: f64 = 0.10;
const PERCENTILES: f64 = 0.15;

/// Paths of percentiles and extremes.
const TAILS: [&str; 6] = ["p50", "p90", "p95", "p99", "max", "min"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Mode;

    const TWO_ROWS: &str = r#"
title = "Two rows"
[row.one]
[row.other]
[host.a]
[[phase]]
name = "load"
rows = ["one"]
host = "a"
for = { rate = [5, 10, 20], users = [1, 2] }
quick = { for = { users = [1] } }
run = ["true", "{rate}", "{users}"]
[[phase]]
name = "load"
rows = ["other"]
host = "a"
for = { rate = [7], policy = ["random"] }
run = ["true", "{rate}", "{policy}"]
"#;

    #[test]
    fn steps_are_those_of_the_row_and_not_lost_where_quick_replaces_another_variable() {
        let study = |mode| Study::parse("two.toml", TWO_ROWS, mode).unwrap();
        let of = |mode, row, along| steps(&study(mode), ("load", row), along);
        assert_eq!(of(Mode::Quick, "one", "rate"), [5.0, 10.0, 20.0]);
        assert_eq!(of(Mode::Quick, "one", "users"), [1.0]);
        assert_eq!(of(Mode::Full, "one", "users"), [1.0, 2.0]);
        assert_eq!(of(Mode::Full, "other", "rate"), [7.0]);
    }

    #[test]
    fn what_runs_for_no_steps_is_not_compared() {
        let figure = "[[figure]]\nname = \"knee\"\nphase = \"load\"\ntake = \"a\"\n\
                      along = \"policy\"\nreaches = 1\n";
        let study = Study::parse("two.toml", &(TWO_ROWS.to_owned() + figure), Mode::Full).unwrap();
        let measured = Some(Reading::Number(1.0));
        let (name, row) = ("knee".to_owned(), "other".to_owned());
        let figure = StudyFigure { name, row, measured, ..StudyFigure::default() };
        let held = hold(&study, &figure, Some(Reading::Number(99.0)));
        assert_eq!(held.agreement, Agreement::NotCompared);
        assert!(held.reason.contains("no steps"), "{}", held.reason);
    }

    #[test]
    fn both_agree_within_the_share_or_at_the_same_step() {
        let number = Reading::Number;
        let tenth = Band::Share(0.1);
        assert!(agree(&tenth, &number(100.0), &number(110.0)));
        assert!(!agree(&tenth, &number(100.0), &number(111.0)));
        assert!(agree(&tenth, &number(0.0), &number(0.0)), "nothing is nothing");
        let steps = Band::Step(vec![10.0, 12.0, 15.0]);
        assert!(agree(&steps, &number(12.1), &number(14.9)), "both between 12 and 15");
        assert!(!agree(&steps, &number(11.9), &number(12.1)));
        let word = |word: &str| Reading::Text(word.to_owned());
        assert!(agree(&tenth, &word("network"), &word("network")));
        assert!(!agree(&tenth, &word("network"), &word("cpu")));
    }
}
