//! Whether the figures of a study can be worked out, and the arithmetic of published ones.

use loadline_measure::record::StudyCheck;
use serde_spanned::Spanned;

use super::{band, formula};
use crate::study::{
    error::{Problems, known},
    file::{CheckEntry, FigureEntry, File},
    formula::Formula,
    place::{Span, Text},
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
    study.file.check.iter().filter_map(|entry| worked_out(entry.get_ref())).collect()
}

fn worked_out(entry: &CheckEntry) -> Option<StudyCheck> {
    let text = entry.compute.as_ref()?.get_ref();
    let none = |name: &str| Err(format!("a check has numbers only, not `{name}`"));
    let computed = formula(text)?.value(&none).ok()?;
    let printed = *entry.printed.as_ref()?.get_ref();
    Some(StudyCheck {
        title: entry.title.as_ref()?.get_ref().clone(),
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
            let entry = spanned.get_ref();
            let start = spanned.span().start;
            let here = start..start + 1;
            match &entry.name {
                None => {
                    self.problems.note(here.clone(), "`name` is missing here", "name the figure");
                }
                Some(name) if !is_name(name.get_ref()) => {
                    let help = "a name is small letters, digits and `_`, so that formulas have it";
                    self.problems.note(
                        name.span(),
                        format!("`{}` is no name", name.get_ref()),
                        help,
                    );
                }
                Some(name) if names.contains(&name.get_ref().as_str()) => {
                    self.problems.note(name.span(), "two figures have this name", "rename one");
                }
                Some(name) => names.push(name.get_ref()),
            }
            self.origin(entry, &here);
            self.bands(entry, &here);
            self.rows(&entry.rows);
            for row in entry.published.iter().flat_map(|by_row| by_row.get_ref().rows()) {
                self.row(row);
            }
        }
    }

    /// Where a figure comes from.
    fn origin(&mut self, entry: &FigureEntry, here: &Span) {
        match (&entry.phase, &entry.compute) {
            (Some(phase), None) => {
                self.phase(phase);
                if entry.take.is_none() {
                    let help = "write `take = \"response.mean_ms\"`: a path in the record";
                    self.problems.note(here.clone(), "`take` is missing here", help);
                }
            }
            (None, Some(compute)) => self.formula(compute),
            _ => {
                let help = "write `phase` and `take`, or `compute` over other figures";
                self.problems.note(here.clone(), "a figure comes from one place", help);
            }
        }
        if let Some(of) = &entry.of
            && !WAYS.contains(&of.get_ref().as_str())
        {
            let help = known(of.get_ref(), WAYS);
            self.problems.note(of.span(), format!("`{}` is no way to sum up", of.get_ref()), help);
        }
        if entry.along.is_some() != entry.reaches.is_some() {
            let help = "write `along = \"rate\"` and `reaches = \"2 * at_10\"`";
            self.problems.note(here.clone(), "`along` and `reaches` go together", help);
        }
        for (name, _) in &entry.at.0 {
            self.variable(entry.phase.as_ref(), name);
        }
        if let Some(along) = &entry.along {
            self.variable(entry.phase.as_ref(), along);
        }
        if let Some(reaches) = &entry.reaches {
            let text = Text::new(reaches.span(), reaches.get_ref().0.clone());
            self.formula(&text);
        }
    }

    fn bands(&mut self, entry: &FigureEntry, here: &Span) {
        for quick in [false, true] {
            let band = band::band_of(entry, quick);
            for level in [&band.at_least, &band.at_most].into_iter().flatten() {
                self.formula(&Text::new(level.span(), level.get_ref().0.clone()));
            }
            if let Some(within) = &band.within {
                if band::share(within.get_ref()).is_none() {
                    let message = format!("`{}` is no share", within.get_ref());
                    self.problems.note(within.span(), message, "write it like \"5%\"");
                }
                if entry.published.is_none() {
                    let help = "write `published = ...`, or `at_least` and `at_most`";
                    self.problems.note(here.clone(), "`within` needs a published figure", help);
                }
            }
        }
        if entry.published.is_some() && entry.source.is_none() {
            let help = "write `source = \"document, place in it\"`";
            self.problems.note(here.clone(), "a published figure has a source", help);
        }
    }

    fn checks(&mut self) {
        for spanned in &self.file.check {
            let start = spanned.span().start;
            let entry = spanned.get_ref();
            if entry.title.is_none() || entry.compute.is_none() || entry.printed.is_none() {
                let help = "write `title`, `compute = \"80 / 14.45\"` and `printed = 5.05`";
                self.problems.note(start..start + 1, "a check lacks a part", help);
            } else if worked_out(entry).is_none()
                && let Some(compute) = &entry.compute
            {
                let help = "a check is arithmetic with numbers: `80 / 14.45`";
                self.problems.note(compute.span(), "this cannot be worked out", help);
            }
        }
    }

    fn plots(&mut self) {
        let file = self.file;
        for spanned in &file.plot {
            let entry = spanned.get_ref();
            let start = spanned.span().start;
            let here = start..start + 1;
            self.rows(&entry.rows);
            let kind = entry.kind.as_ref().map_or("", |kind| kind.get_ref());
            if !PLOTS.contains(&kind) || entry.title.is_none() {
                let help = format!("write `title` and `kind`, one of {}", PLOTS.join(", "));
                self.problems.note(here.clone(), "a plot has a title and a kind", help);
            }
            match &entry.phase {
                Some(phase) => self.phase(phase),
                None if kind == "beside" => {}
                None => {
                    let help = "write `phase = \"...\"`";
                    self.problems.note(here.clone(), "`phase` is missing here", help);
                }
            }
            if ["curve", "bars"].contains(&kind) && (entry.x.is_none() || entry.take.0.is_empty()) {
                let help = "write `x = \"rate\"`, a variable of `for`, and `take`";
                self.problems.note(here, "a curve or bars need `x` and `take`", help);
            }
            if let Some(x) = &entry.x {
                self.variable(entry.phase.as_ref(), x);
            }
            for figure in &entry.figures {
                self.figure(figure.get_ref(), figure.span());
            }
        }
    }

    fn formula(&mut self, text: &Text) {
        match Formula::parse(text.get_ref()) {
            Ok(formula) => formula.names().iter().for_each(|name| self.name(name, text.span())),
            Err(error) => {
                let help = "write numbers, names of figures, + - * / and brackets";
                self.problems.note(text.span(), error.to_string(), help);
            }
        }
    }

    fn name(&mut self, name: &str, span: Span) {
        let (name, row) = name.split_once('@').map_or((name, None), |(a, b)| (a, Some(b)));
        if let Some(row) = row {
            self.row(&Text::new(span.clone(), row.to_owned()));
        }
        self.figure(name.trim_start_matches("published."), span);
    }

    fn figure(&mut self, name: &str, span: Span) {
        let names = self.file.figure.iter().filter_map(|entry| entry.get_ref().name.as_ref());
        let names: Vec<&str> = names.map(|name| name.get_ref().as_str()).collect();
        if !names.contains(&name) {
            let help = known(name, names);
            self.problems.note(span, format!("there is no figure `{name}`"), help);
        }
    }

    fn phase(&mut self, phase: &Text) {
        let names = self.file.phase.iter().filter_map(|entry| entry.get_ref().name.as_ref());
        let names: Vec<&str> = names.map(|name| name.get_ref().as_str()).collect();
        if !names.contains(&phase.get_ref().as_str()) {
            let help = known(phase.get_ref(), names);
            self.problems.note(
                phase.span(),
                format!("there is no phase `{}`", phase.get_ref()),
                help,
            );
        }
    }

    fn variable(&mut self, phase: Option<&Text>, name: &Text) {
        let Some(phase) = phase else { return };
        let own = self.file.phase.iter().map(Spanned::get_ref);
        let own = own.filter(|entry| {
            entry.name.as_ref().is_some_and(|name| name.get_ref() == phase.get_ref())
        });
        let names: Vec<&str> =
            own.flat_map(|entry| &entry.sweep.0).map(|(name, _)| name.get_ref().as_str()).collect();
        if !names.contains(&name.get_ref().as_str()) {
            let message = format!("the phase has no `for` called `{}`", name.get_ref());
            let help = known(name.get_ref(), names);
            self.problems.note(name.span(), message, help);
        }
    }

    fn rows(&mut self, rows: &[Text]) {
        rows.iter().for_each(|row| self.row(row));
    }

    fn row(&mut self, row: &Text) {
        let names = || self.study.rows().iter().map(|row| row.name.as_str());
        if !names().any(|name| name == row.get_ref()) {
            let help = known(row.get_ref(), names());
            self.problems.note(row.span(), format!("there is no row `{}`", row.get_ref()), help);
        }
    }
}

fn is_name(name: &str) -> bool {
    let fits =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    name.starts_with(|first: char| first.is_ascii_lowercase()) && name.chars().all(fits)
}

const WAYS: [&str; 8] = ["mean", "median", "min", "max", "first", "last", "sum", "count"];
const PLOTS: [&str; 5] = ["curve", "bars", "series", "time", "beside"];
