//! From measurements to a record: figures, their verdicts, checks and the points of plots.
//!
//! Pure: the same measurements give the same record. A figure is worked out for every row; runs
//! that are invalid are counted and left out. Names in formulas are figures of the same row,
//! `name@row` those of another, `published.name` what was published.

mod agreement;
mod band;
mod check;
mod figure;
mod merge;
mod plots;
mod valid;

use std::collections::BTreeMap;

use loadline_measure::record::{
    StudyDelay, StudyFigure, StudyFinding, StudyLab, StudyPhase, StudyRecord, StudyRow,
    StudyVerdict,
};
use serde_json::Value;

pub use agreement::compare;
pub(crate) use check::check;
use figure::FigureEvaluator;
pub use merge::merge;

use super::{formula::Formula, read::Study};

/// What is known of the circumstances of a study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// The rows, those left out included.
    pub rows: Vec<StudyRow>,
    /// What everything random was drawn from.
    pub seed: u64,
    /// When it began, in milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    /// How long it took, in seconds.
    pub elapsed_s: f64,
    /// The machine, its kernel and the versions of the programs, by name.
    pub environment: BTreeMap<String, String>,
    /// Round trips before the load.
    pub delays: Vec<StudyDelay>,
}

/// Judges what was measured.
#[must_use]
pub fn judge(study: &Study, conditions: Conditions, phases: Vec<StudyPhase>) -> StudyRecord {
    let outputs: Vec<Value> = phases.iter().map(output).collect();
    let board = FigureEvaluator::new(study, &conditions.rows, &phases, &outputs);
    let figures = board.figures();
    let plots = plots::plots(&board);
    let verdicts: Vec<_> = figures.iter().filter_map(verdict).collect();
    StudyRecord {
        title: study.title().to_owned(),
        pass: !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict.pass),
        verdicts,
        runs: Vec::new(),
        lab: Some(Box::new(StudyLab {
            name: study.short_name().to_owned(),
            about: study.about(),
            sources: study.sources().to_vec(),
            quick: study.is_quick(),
            speed: study.speed(),
            seed: conditions.seed,
            started_unix_ms: conditions.started_unix_ms,
            elapsed_s: conditions.elapsed_s,
            environment: conditions.environment,
            rows: conditions.rows,
            delays: conditions.delays,
            phases,
            figures,
            checks: check::checks(study),
            plots,
            simulation: None,
        })),
    }
}

impl Study {
    /// Whether any figure is judged.
    #[must_use]
    pub fn has_bands(&self) -> bool {
        let mut figures = self.file.figure.iter().map(|at| &at.value);
        figures.any(|figure| {
            let band = band::band_of(figure, self.is_quick());
            figure.not_reproduced.is_none() && !band::is_empty(&band)
        })
    }
}

/// The verdict on a figure that is to be judged.
fn verdict(figure: &StudyFigure) -> Option<StudyVerdict> {
    let (pass, invalid) = match figure.finding {
        StudyFinding::Pass => (true, false),
        StudyFinding::Fail => (false, false),
        StudyFinding::Invalid => (false, true),
        StudyFinding::NotReproduced | StudyFinding::Shown => return None,
    };
    let row = if figure.row.is_empty() { String::new() } else { format!("{}: ", figure.row) };
    let measured = figure.measured.as_ref().map(|reading| band::shown(reading, &figure.unit));
    Some(StudyVerdict {
        name: format!("{row}{}", figure.title),
        measured: measured.unwrap_or_else(|| figure.reason.clone()),
        target: figure.target.clone(),
        pass,
        invalid,
    })
}

/// Everything that paths can find in a phase: its record, what ran beside it, its readings.
fn output(phase: &StudyPhase) -> Value {
    let record = phase.record.as_ref().and_then(|record| serde_json::to_value(record).ok());
    let mut output = match record {
        Some(Value::Object(keys)) => keys,
        _ => serde_json::Map::new(),
    };
    for (name, record) in &phase.beside {
        output.insert(name.clone(), serde_json::to_value(record).unwrap_or_default());
    }
    for (name, reading) in &phase.readings {
        output.insert(name.clone(), serde_json::to_value(reading).unwrap_or_default());
    }
    output.insert("elapsed_of_phase_s".to_owned(), phase.elapsed_s.into());
    let mut output = Value::Object(output);
    forget_times_of_nothing(&mut output);
    output
}

/// Takes the times out of every distribution that nothing was recorded in: they are zero there,
/// and faster than anything.
fn forget_times_of_nothing(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(forget_times_of_nothing),
        Value::Object(keys) => {
            let is_empty = keys.get("count").is_some_and(|count| count.as_u64() == Some(0));
            for (name, value) in keys {
                if is_empty && name.ends_with("_ms") {
                    *value = Value::Null;
                }
                forget_times_of_nothing(value);
            }
        }
        _ => {}
    }
}

/// A formula or a number where either may stand.
fn formula(text: &str) -> Option<Formula> {
    Formula::parse(text).ok()
}
