//! Figures: taken from runs, worked out from other figures, or where a curve reaches a level.

use std::collections::BTreeSet;

use loadline_measure::{
    record::{Reading, StudyFigure, StudyFinding, StudyLab, StudyPhase, StudyRow},
    statistics::sample,
};
use loadline_spanned::At;
use serde_json::Value;

use super::{band, formula};
use crate::study::{file::FigureEntry, place::Word, read::Study, take::readings};

/// Everything figures are worked out from.
pub(super) struct FigureEvaluator<'b> {
    pub(super) study: &'b Study,
    pub(super) rows: &'b [StudyRow],
    pub(super) phases: &'b [StudyPhase],
    pub(super) outputs: &'b [Value],
}

/// What was found, and from how many runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) reading: Option<Reading>,
    pub(super) runs: u64,
    pub(super) invalid: u64,
    /// Whether a value of `along` has invalid runs only.
    pub(super) has_gap: bool,
    /// Why each run that gave nothing did not.
    pub(super) failures: Vec<String>,
    pub(super) reason: String,
}

impl<'b> FigureEvaluator<'b> {
    pub(super) fn new(
        study: &'b Study,
        rows: &'b [StudyRow],
        phases: &'b [StudyPhase],
        outputs: &'b [Value],
    ) -> Self {
        Self { study, rows, phases, outputs }
    }

    /// Every figure of every row that was run, in the order of the file.
    pub(super) fn figures(&self) -> Vec<StudyFigure> {
        let mut figures = Vec::new();
        for entry in &self.study.file.figure {
            let entry = &entry.value;
            if is_over_rows(entry) {
                figures.extend(self.figure(entry, None));
                continue;
            }
            let run = self.rows.iter().filter(|row| row.skipped.is_none());
            figures.extend(run.filter_map(|row| self.figure(entry, Some(row))));
        }
        figures
    }

    /// One figure of one row; none where the row does not have it.
    fn figure(&self, entry: &FigureEntry, row: Option<&StudyRow>) -> Option<StudyFigure> {
        let name = row.map_or("", |row| &row.name);
        let own = |rows: &[At<String>]| rows.is_empty() || rows.iter().any(|one| one.value == name);
        if row.is_some() && !(own(&entry.rows) && self.is_measured(entry, name)) {
            return None;
        }
        let found = self.find(entry, name, 0);
        let published = entry.published.as_ref().filter(|_| self.is_comparable(entry));
        let published = published.and_then(|by_row| by_row.value.of(name));
        let figure = StudyFigure {
            name: text(&entry.name).to_owned(),
            title: entry.title.clone().unwrap_or_else(|| text(&entry.name).to_owned()),
            row: name.to_owned(),
            unit: entry.unit.clone(),
            published,
            source: entry.source.clone().unwrap_or_default(),
            measured: found.reading,
            runs: found.runs,
            invalid: found.invalid,
            failed: found.failures.len() as u64,
            reason: found.reason,
            ..StudyFigure::default()
        };
        Some(self.judged(entry, row, figure, found.failures))
    }

    /// Whether a figure is of what was published: one without a band for `--quick` is not of the
    /// size that its title says.
    fn is_comparable(&self, entry: &FigureEntry) -> bool {
        !(self.study.is_quick() && entry.quick.as_ref().is_some_and(band::is_empty))
    }

    fn judged(
        &self,
        entry: &FigureEntry,
        row: Option<&StudyRow>,
        mut figure: StudyFigure,
        mut failures: Vec<String>,
    ) -> StudyFigure {
        let band = band::band_of(entry, self.study.is_quick());
        if let Some(reason) = &entry.not_reproduced {
            figure.finding = StudyFinding::NotReproduced;
            figure.reason.clone_from(reason);
            return figure;
        }
        if band::is_empty(&band) || row.is_some_and(|row| row.peer.is_some()) {
            return figure;
        }
        let Some(measured) = &figure.measured else {
            if self.is_skipped(entry, &figure.row) {
                return figure;
            }
            let invalid = self.lacks_valid_runs(entry, &figure.row, 0);
            figure.finding = if invalid { StudyFinding::Invalid } else { StudyFinding::Fail };
            figure.target = "a figure".to_owned();
            return figure;
        };
        let value = |name: &str| self.value(name, &figure.row, 1);
        let held = band::hold(&band, measured, figure.published, &figure.unit, &value);
        let reason;
        (figure.target, figure.finding, reason) = held;
        if !reason.is_empty() {
            figure.reason = reason;
            if self.any_is_skipped(&band::names(&band), &figure.row) {
                figure.finding = StudyFinding::Shown;
            } else if self.any_lacks_valid_runs(&band::names(&band), &figure.row, 0) {
                figure.finding = StudyFinding::Invalid;
            }
        }
        failures.extend(self.failures_of(&band::names(&band), &figure.row, 0));
        let judged = matches!(figure.finding, StudyFinding::Pass | StudyFinding::Fail);
        if let (true, Some(first)) = (judged, failures.first()) {
            let all = figure.runs + figure.invalid + figure.failed;
            figure.finding = StudyFinding::Fail;
            figure.reason = match figure.failed {
                failed if all > failed => format!("{failed} of {all} runs failed: {first}"),
                _ => format!("a run that it stands on failed: {first}"),
            };
        }
        figure
    }

    /// Why runs failed that these figures stand on.
    fn failures_of(&self, names: &[String], row: &str, depth: usize) -> Vec<String> {
        if depth > DEPTH {
            return Vec::new();
        }
        let of = |name: &String| {
            let (name, row) = name.split_once('@').unwrap_or((name, row));
            let entry = self.entry(name);
            entry.map_or_else(Vec::new, |entry| self.find(entry, row, depth + 1).failures)
        };
        names.iter().flat_map(of).collect()
    }

    /// Whether the row has the phase of a figure; figures worked out from others follow these.
    fn is_measured(&self, entry: &FigureEntry, row: &str) -> bool {
        let has = |phase: &str| self.phases.iter().any(|run| run.row == row && run.phase == phase);
        match &entry.phase {
            Some(phase) => has(&phase.value),
            None => self.names(entry).iter().all(|name| {
                let entry = self.entry(name.trim_start_matches("published."));
                name.contains('@') || entry.is_some_and(|entry| self.is_measured(entry, row))
            }),
        }
    }

    /// Whether a tool was missing, or a row not run, for a figure or for one that it is worked out
    /// from.
    fn is_skipped(&self, entry: &FigureEntry, row: &str) -> bool {
        let skipped = |phase: &str| {
            let mut runs = self.phases.iter().filter(|run| run.row == row && run.phase == phase);
            runs.any(|run| run.skipped)
        };
        match &entry.phase {
            Some(phase) => skipped(&phase.value),
            None => self.any_is_skipped(&self.names(entry), row),
        }
    }

    fn any_is_skipped(&self, names: &[String], row: &str) -> bool {
        names.iter().any(|name| {
            let (name, row) = name.split_once('@').unwrap_or((name, row));
            let entry = self.entry(name.trim_start_matches("published."));
            self.rows.iter().any(|one| one.name == row && one.skipped.is_some())
                || entry.is_some_and(|entry| self.is_skipped(entry, row))
        })
    }

    /// Whether invalid runs are why a figure is not known: its own, or those of a figure that it is
    /// worked out from.
    fn lacks_valid_runs(&self, entry: &FigureEntry, row: &str, depth: usize) -> bool {
        let found = self.find(entry, row, depth);
        let own = found.has_gap || found.runs == 0 && found.invalid > 0;
        found.reading.is_none()
            && (own || self.any_lacks_valid_runs(&self.names(entry), row, depth))
    }

    fn any_lacks_valid_runs(&self, names: &[String], row: &str, depth: usize) -> bool {
        let lacks = |name: &String| {
            let (name, row) = name.split_once('@').unwrap_or((name, row));
            let entry = self.entry(name);
            entry.is_some_and(|entry| self.lacks_valid_runs(entry, row, depth + 1))
        };
        depth <= DEPTH && names.iter().any(lacks)
    }

    /// The figures that one is worked out from.
    fn names(&self, entry: &FigureEntry) -> Vec<String> {
        let compute = entry.compute.as_ref().and_then(|text| formula(&text.value));
        let level = entry.reaches.as_ref().and_then(|level| formula(&level.value.0));
        let names = compute.iter().chain(&level).flat_map(|formula| formula.names());
        names.map(str::to_owned).collect()
    }

    fn entry(&self, name: &str) -> Option<&FigureEntry> {
        let mut entries = self.study.file.figure.iter().map(|at| &at.value);
        entries.find(|entry| text(&entry.name) == name)
    }

    fn find(&self, entry: &FigureEntry, row: &str, depth: usize) -> Found {
        if let Some(compute) = &entry.compute {
            let formula = formula(&compute.value);
            let value = |name: &str| self.value(name, row, depth + 1);
            let failures = self.failures_of(&self.names(entry), row, depth);
            let found = Found { failures, ..Found::default() };
            return match formula.map(|formula| formula.value(&value)) {
                Some(Ok(number)) if number.is_finite() => {
                    Found { reading: Some(Reading::Number(number)), ..found }
                }
                Some(Err(reason)) => Found { reason, ..found },
                _ => Found { reason: "it is no number".to_owned(), ..found },
            };
        }
        if let Some(reaches) = &entry.reaches {
            let level = formula(&reaches.value.0);
            let level =
                level.map(|level| level.value(&|name: &str| self.value(name, row, depth + 1)));
            let mut found = match level {
                Some(Ok(level)) => self.reaches(entry, row, level),
                Some(Err(reason)) => Found { reason, ..Found::default() },
                None => Found::default(),
            };
            found.failures.extend(self.failures_of(&self.names(entry), row, depth));
            return found;
        }
        let at = |run: &StudyPhase| is_of(run, entry);
        self.taken(text(&entry.phase), row, &at, text(&entry.take), of(entry), &entry.unit)
    }

    /// What a path finds in the valid runs of a phase, as one reading.
    pub(super) fn taken(
        &self,
        phase: &str,
        row: &str,
        at: &dyn Fn(&StudyPhase) -> bool,
        take: &str,
        of: &str,
        unit: &str,
    ) -> Found {
        let mut found = Found::default();
        let mut all = Vec::new();
        for (run, output) in self.phases.iter().zip(self.outputs) {
            if run.row != row || run.phase != phase || !at(run) {
                continue;
            }
            if run.skipped {
                found.reason = run.failed.clone().unwrap_or_default();
                continue;
            }
            if run.failed.is_none()
                && let Some(fault) = run.faults.first()
            {
                found.invalid += 1;
                found.reason.clone_from(fault);
                continue;
            }
            let read = || readings(output, take).map_err(|error| error.to_string());
            match run.failed.clone().map_or_else(read, Err) {
                Ok(readings) => {
                    found.runs += 1;
                    all.extend(readings);
                }
                Err(failure) => {
                    found.reason.clone_from(&failure);
                    found.failures.push(failure);
                }
            }
        }
        if found.runs > 0 {
            let scaled = |number| StudyLab::scaled(self.study.speed(), number, unit);
            found.reading = one_of(&all, of, scaled);
        }
        found
    }

    /// Where the curve over the variable `along` first reaches a level, by straight lines between
    /// its points. None of them leads past a value that has invalid runs only.
    fn reaches(&self, entry: &FigureEntry, row: &str, level: f64) -> Found {
        let (phase, along, take) = (text(&entry.phase), text(&entry.along), text(&entry.take));
        let mut values: Vec<(f64, String)> = self.values_of(phase, along);
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut sum, mut last) = (Found::default(), None::<(f64, f64)>);
        let mut gap = Vec::new();
        for (x, word) in values {
            let at = |run: &StudyPhase| run.at.get(along) == Some(&word) && is_of(run, entry);
            let found = self.taken(phase, row, &at, take, of(entry), unit_of(take));
            sum.runs += found.runs;
            sum.invalid += found.invalid;
            if found.runs == 0 && found.invalid > 0 {
                sum.has_gap = true;
                gap.push(word.clone());
            }
            sum.failures.extend(found.failures);
            let Some(Reading::Number(y)) = found.reading else { continue };
            if y < level {
                last = Some((x, y));
                gap.clear();
                continue;
            }
            match last {
                Some(_) if !gap.is_empty() => {
                    sum.reason = format!("all runs at {} are invalid", gap.join(", "));
                }
                Some((x0, y0)) => {
                    let x = x0 + (x - x0) * (level - y0) / (y - y0);
                    sum.reading = Some(Reading::Number(x));
                }
                None => {
                    sum.reason = format!(
                        "already at the level at {word}, the lowest value with a valid run"
                    );
                }
            }
            return sum;
        }
        sum.reason = format!("it does not reach {}", band::figure(level, ""));
        sum
    }

    /// The values that a phase ran for, as numbers and as they are written.
    pub(super) fn values_of(&self, phase: &str, variable: &str) -> Vec<(f64, String)> {
        let runs = self.phases.iter().filter(|run| run.phase == phase);
        let words: BTreeSet<&String> = runs.filter_map(|run| run.at.get(variable)).collect();
        words.into_iter().map(|word| (word.parse().unwrap_or(f64::NAN), word.clone())).collect()
    }

    /// What a name in a formula stands for.
    fn value(&self, whole: &str, row: &str, depth: usize) -> Result<f64, String> {
        if depth > DEPTH {
            return Err(format!("`{whole}` is worked out from itself"));
        }
        let (name, row) = whole.split_once('@').unwrap_or((whole, row));
        let published = name.strip_prefix("published.");
        let bare = published.unwrap_or(name);
        let entry = self.entry(bare).ok_or_else(|| format!("there is no figure `{bare}`"))?;
        if published.is_some() {
            let published = entry.published.as_ref().and_then(|by_row| by_row.value.of(row));
            return published.ok_or_else(|| format!("`{bare}` was not published for `{row}`"));
        }
        let found = self.find(entry, row, depth);
        match found.reading {
            Some(Reading::Number(number)) => Ok(number),
            Some(Reading::Text(text)) => Err(format!("`{bare}` is `{text}`, not a number")),
            None if found.reason.is_empty() => Err(format!("`{whole}` was not measured")),
            None => Err(format!("`{whole}` was not measured: {}", found.reason)),
        }
    }
}

/// Whether a figure is over several rows: all names in its formula say of which.
fn is_over_rows(entry: &FigureEntry) -> bool {
    let compute = entry.compute.as_ref().and_then(|text| formula(&text.value));
    compute.is_some_and(|formula| {
        let names = formula.names();
        !names.is_empty() && names.iter().all(|name| name.contains('@'))
    })
}

/// Whether a run is one that the figure is about.
fn is_of(run: &StudyPhase, entry: &FigureEntry) -> bool {
    let fits =
        |(name, value): &(At<String>, At<Word>)| run.at.get(&name.value) == Some(&value.value.0);
    entry.at.iter().all(fits) && entry.run.is_none_or(|number| run.repeat == number)
}

/// How several readings become one.
fn of(entry: &FigureEntry) -> &str {
    entry.of.as_ref().map_or("mean", |of| &of.value)
}

/// The unit that a path ends in. That of a figure along a variable is the variable's.
fn unit_of(take: &str) -> &str {
    match take.rsplit_once('_') {
        Some((rate, "s")) if rate.ends_with("_per") => "/s",
        Some((_, unit)) => unit,
        None => "",
    }
}

/// One reading of several; words by their first.
fn one_of(all: &[Reading], of: &str, scaled: impl Fn(f64) -> f64) -> Option<Reading> {
    let number = |reading: &Reading| match reading {
        Reading::Number(number) => Some(*number),
        Reading::Text(_) => None,
    };
    let mut numbers: Vec<f64> = all.iter().filter_map(number).collect();
    if of == "count" {
        return Some(Reading::Number(all.len() as f64));
    }
    if numbers.len() < all.len() {
        return all.first().cloned();
    }
    let sum = numbers.iter().sum::<f64>();
    let one = match of {
        "first" => numbers.first().copied(),
        "last" => numbers.last().copied(),
        "sum" => (!numbers.is_empty()).then_some(sum),
        "mean" => (!numbers.is_empty()).then(|| sample::mean(&numbers)),
        of => {
            numbers.sort_by(f64::total_cmp);
            match of {
                "min" => numbers.first().copied(),
                "max" => numbers.last().copied(),
                _ => sample::median(&numbers),
            }
        }
    };
    one.map(|number| Reading::Number(scaled(number)))
}

fn text(text: &Option<At<String>>) -> &str {
    text.as_ref().map_or("", |text| &text.value)
}

/// Figures worked out from figures go no deeper.
const DEPTH: usize = 16;
