//! Whether the figures of a study can be worked out, and the arithmetic of published ones.

use std::collections::BTreeSet;

use loadline_measure::record::StudyCheck;
use loadline_spanned::{At, Problems, Span, known};

use super::{band, formula};
use crate::study::{
    file::{Band, CheckEntry, FigureEntry, File, PhaseEntry},
    formula::Formula,
    place::Word,
    read::Study,
};

/// Notes what is wrong with figures, checks and plots.
pub(crate) fn check(study: &Study, problems: &mut Problems) {
    let mut desk = Checker { study, file: &study.file, problems };
    desk.figures();
    desk.checks();
    desk.plots();
}

/// Every check, worked out.
pub(super) fn checks(study: &Study) -> Vec<StudyCheck> {
    study.file.check.iter().filter_map(|entry| worked_out(&entry.value)).collect()
}

fn worked_out(entry: &CheckEntry) -> Option<StudyCheck> {
    let text = &entry.compute.as_ref()?.value;
    let none = |name: &str| Err(format!("a check has numbers only, not `{name}`"));
    let computed = formula(text)?.value(&none).ok()?;
    let printed = entry.printed.as_ref()?.value;
    Some(StudyCheck {
        title: entry.title.as_ref()?.value.clone(),
        formula: text.clone(),
        computed,
        printed,
        unit: entry.unit.clone(),
        source: entry.source.clone(),
        agrees: agrees(computed, printed),
        note: entry.note.clone(),
    })
}

/// Whether they are one figure as far as three digits go, or within the rounding of the last digit
/// that is printed.
fn agrees(computed: f64, printed: f64) -> bool {
    let text = printed.to_string();
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let rounding = 0.5 * 10f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX));
    (computed - printed).abs() <= rounding.max(printed.abs() * 0.005)
}

/// The figures that a figure is worked out from.
fn sources(entry: &FigureEntry) -> Vec<String> {
    let compute = entry.compute.iter().map(|it| it.value.as_str());
    let formulas = compute.chain(entry.reaches.iter().map(|it| it.value.0.as_str()));
    let formulas: Vec<Formula> = formulas.filter_map(formula).collect();
    let names = formulas.iter().flat_map(Formula::names);
    names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}

struct Checker<'d> {
    study: &'d Study,
    file: &'d File,
    problems: &'d mut Problems,
}

impl Checker<'_> {
    fn figures(&mut self) {
        let file = self.file;
        let mut names: Vec<&str> = Vec::new();
        for spanned in &file.figure {
            let entry = &spanned.value;
            let start = spanned.span.start;
            let here = start..start + 1;
            match &entry.name {
                None => {
                    self.problems.error(&here, "`name` is missing here", "here", "name the figure");
                }
                Some(name) if !is_name(&name.value) => {
                    let help = "a name is small letters, digits and `_`, so that formulas have it";
                    self.problems.error(
                        &name.span,
                        format!("`{}` is no name", name.value),
                        "here",
                        help,
                    );
                }
                Some(name) if names.contains(&name.value.as_str()) => {
                    self.problems
                        .error(&name.span, "two figures have this name", "here", "rename one");
                }
                Some(name) => names.push(&name.value),
            }
            self.origin(entry, &here);
            self.circle(entry);
            self.bands(entry, &here);
            self.rows(&entry.rows);
            for row in entry.published.iter().flat_map(|by_row| by_row.value.rows()) {
                self.row(row);
            }
        }
    }

    /// Where a figure comes from.
    fn origin(&mut self, entry: &FigureEntry, here: &Span) {
        match (&entry.phase, &entry.compute) {
            (Some(phase), None) => {
                self.phase(phase);
                self.common_row(phase, &entry.rows);
                if entry.take.is_none() {
                    let help = "write `take = \"response.mean_ms\"`: a path in the record";
                    self.problems.error(here, "`take` is missing here", "here", help);
                }
            }
            (None, Some(compute)) => self.formula(&compute.value, &compute.span),
            _ => {
                let help = "write `phase` and `take`, or `compute` over other figures";
                self.problems.error(here, "a figure comes from one place", "here", help);
            }
        }
        if let Some(of) = &entry.of
            && !WAYS.contains(&of.value.as_str())
        {
            let help = known(&of.value, &WAYS);
            self.problems.error(
                &of.span,
                format!("`{}` is no way to sum up", of.value),
                "here",
                help,
            );
        }
        if entry.along.is_some() != entry.reaches.is_some() {
            let help = "write `along = \"rate\"` and `reaches = \"2 * at_10\"`";
            self.problems.error(here, "`along` and `reaches` go together", "here", help);
        }
        for (name, _) in &entry.at {
            self.variable(entry.phase.as_ref(), name);
        }
        if let Some(along) = &entry.along {
            self.variable(entry.phase.as_ref(), along);
        }
        if let Some(reaches) = &entry.reaches {
            self.formula(&reaches.value.0, &reaches.span);
        }
    }

    /// Refuses a figure that is worked out from itself, by whatever others.
    fn circle(&mut self, entry: &FigureEntry) {
        let Some(own) = &entry.name else { return };
        let (mut open, mut seen) = (sources(entry), BTreeSet::new());
        while let Some(next) = open.pop() {
            if next == own.value {
                let message = format!("`{next}` is worked out from itself");
                let help = "write it as a formula over figures that are measured";
                return self.problems.error(&own.span, message, "here", help);
            }
            let of = |it: &&FigureEntry| it.name.as_ref().is_some_and(|name| name.value == next);
            if let Some(entry) = self.file.figure.iter().map(|it| &it.value).find(of) {
                open.extend(if seen.insert(next) { sources(entry) } else { Vec::new() });
            }
        }
    }

    fn bands(&mut self, entry: &FigureEntry, here: &Span) {
        for quick in [false, true] {
            let band = band::band_of(entry, quick);
            self.possible(&band);
            for level in [&band.at_least, &band.at_most].into_iter().flatten() {
                self.formula(&level.value.0, &level.span);
            }
            if let Some(within) = &band.within {
                if band::share(&within.value).is_none() {
                    let message = format!("`{}` is no share", within.value);
                    self.problems.error(&within.span, message, "here", "write it like \"5%\"");
                }
                if entry.published.is_none() {
                    let help = "write `published = ...`, or `at_least` and `at_most`";
                    self.problems.error(here, "`within` needs a published figure", "here", help);
                }
            }
        }
        if entry.published.is_some() && entry.source.is_none() {
            let help = "write `source = \"document, place in it\"`";
            self.problems.error(here, "a published figure has a source", "here", help);
        }
    }

    /// Notes a band that nothing is in.
    fn possible(&mut self, band: &Band) {
        let none = |_: &str| Err(());
        let level = |level: &At<Word>| formula(&level.value.0)?.value(&none).ok();
        let (Some(least), Some(at_most)) = (&band.at_least, &band.at_most) else { return };
        let (Some(least), Some(most)) = (level(least), level(at_most)) else { return };
        if least > most {
            let message = format!("nothing is at least {least} and at most {most}");
            let help = "write the smaller number as `at_least`";
            self.problems.error(&at_most.span, message, "here", help);
        }
    }

    fn checks(&mut self) {
        for spanned in &self.file.check {
            let start = spanned.span.start;
            let entry = &spanned.value;
            if entry.title.is_none() || entry.compute.is_none() || entry.printed.is_none() {
                let help = "write `title`, `compute = \"80 / 14.45\"` and `printed = 5.05`";
                self.problems.error(&(start..start + 1), "a check lacks a part", "here", help);
            } else if worked_out(entry).is_none()
                && let Some(compute) = &entry.compute
            {
                let help = "a check is arithmetic with numbers: `80 / 14.45`";
                self.problems.error(&compute.span, "this cannot be worked out", "here", help);
            }
        }
    }

    fn plots(&mut self) {
        let file = self.file;
        for spanned in &file.plot {
            let entry = &spanned.value;
            let start = spanned.span.start;
            let here = start..start + 1;
            self.rows(&entry.rows);
            let kind = entry.kind.as_ref().map_or("", |kind| &kind.value);
            if !PLOTS.contains(&kind) || entry.title.is_none() {
                let help = format!("write `title` and `kind`, one of {}", PLOTS.join(", "));
                self.problems.error(&here, "a plot has a title and a kind", "here", help);
            }
            match &entry.phase {
                Some(phase) => self.phase(phase),
                None if kind == "beside" => {}
                None => {
                    let help = "write `phase = \"...\"`";
                    self.problems.error(&here, "`phase` is missing here", "here", help);
                }
            }
            if ["curve", "bars"].contains(&kind) && (entry.x.is_none() || entry.take.0.is_empty()) {
                let help = "write `x = \"rate\"`, a variable of `for`, and `take`";
                self.problems.error(&here, "a curve or bars need `x` and `take`", "here", help);
            }
            if let Some(x) = &entry.x {
                self.variable(entry.phase.as_ref(), x);
            }
            for figure in &entry.figures {
                self.figure(&figure.value, &figure.span);
            }
        }
    }

    fn formula(&mut self, text: &str, span: &Span) {
        match Formula::parse(text) {
            Ok(formula) => formula.names().iter().for_each(|name| self.name(name, span)),
            Err(error) => {
                let help = "write numbers, names of figures, + - * / and brackets";
                self.problems.error(span, error.to_string(), "here", help);
            }
        }
    }

    fn name(&mut self, name: &str, span: &Span) {
        let (name, row) = name.split_once('@').map_or((name, None), |(a, b)| (a, Some(b)));
        if let Some(row) = row {
            self.row(&At { value: row.to_owned(), span: span.clone() });
        }
        self.figure(name.trim_start_matches("published."), span);
    }

    fn figure(&mut self, name: &str, span: &Span) {
        let names = self.file.figure.iter().filter_map(|entry| entry.value.name.as_ref());
        let names: Vec<&str> = names.map(|name| name.value.as_str()).collect();
        self.one_of("figure", name, span, &names);
    }

    fn phase(&mut self, phase: &At<String>) {
        let names = self.file.phase.iter().filter_map(|entry| entry.value.name.as_ref());
        let names: Vec<&str> = names.map(|name| name.value.as_str()).collect();
        self.one_of("phase", &phase.value, &phase.span, &names);
    }

    /// Notes a figure of a phase that no row has with it.
    fn common_row(&mut self, phase: &At<String>, rows: &[At<String>]) {
        let named =
            |entry: &&PhaseEntry| entry.name.as_ref().is_some_and(|name| name.value == phase.value);
        let phases: Vec<_> = self.file.phase.iter().map(|at| &at.value).filter(named).collect();
        let has = |row: &At<String>| {
            phases.iter().any(|phase| {
                phase.rows.is_empty() || phase.rows.iter().any(|own| own.value == row.value)
            })
        };
        if phases.is_empty() || rows.is_empty() || rows.iter().any(has) {
            return;
        }
        let own = phases.iter().flat_map(|phase| &phase.rows).map(|row| row.value.as_str());
        let message = format!("no row of this figure has the phase `{}`", phase.value);
        let help = format!("rows with it are {}", own.collect::<Vec<_>>().join(", "));
        self.problems.error(&phase.span, message, "here", help);
    }

    fn one_of(&mut self, what: &str, name: &str, span: &Span, names: &[&str]) {
        if !names.contains(&name) {
            let message = format!("there is no {what} `{name}`");
            self.problems.error(span, message, "here", known(name, names));
        }
    }

    fn variable(&mut self, phase: Option<&At<String>>, name: &At<String>) {
        let Some(phase) = phase else { return };
        let own = self.file.phase.iter().map(|at| &at.value);
        let own =
            own.filter(|entry| entry.name.as_ref().is_some_and(|name| name.value == phase.value));
        let names: Vec<&str> =
            own.flat_map(|entry| &entry.sweep).map(|(name, _)| name.value.as_str()).collect();
        if !names.contains(&name.value.as_str()) {
            let message = format!("the phase has no `for` called `{}`", name.value);
            let help = known(&name.value, &names);
            self.problems.error(&name.span, message, "here", help);
        }
    }

    fn rows(&mut self, rows: &[At<String>]) {
        rows.iter().for_each(|row| self.row(row));
    }

    fn row(&mut self, row: &At<String>) {
        self.study.check_row(row, self.problems);
    }
}

fn is_name(name: &str) -> bool {
    let fits =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    name.starts_with(|first: char| first.is_ascii_lowercase()) && name.chars().all(fits)
}

const WAYS: [&str; 8] = ["mean", "median", "min", "max", "first", "last", "sum", "count"];
const PLOTS: [&str; 5] = ["curve", "bars", "series", "time", "beside"];
