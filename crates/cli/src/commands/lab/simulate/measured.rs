//! What the lab measured of a study: the record of a run, or the page that was made of one.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};
use loadline_measure::record::{Document, Reading, Record, StudyFigure, StudyLab};

/// Figures of the lab.
#[derive(Default)]
pub(super) struct Measured {
    /// Where they are from.
    pub(super) source: String,
    pub(super) figures: Vec<StudyFigure>,
}

/// Reads the figures of the study that was simulated from a folder: its `record.json`, or the page
/// with the name of the study.
pub(super) fn read(folder: &Path, simulated: &StudyLab) -> anyhow::Result<Measured> {
    let record = folder.join("record.json");
    let page = folder.join(format!("{}.md", simulated.name));
    if record.is_file() {
        let figures = from_record(&record, simulated)?;
        return Ok(Measured { source: record.display().to_string(), figures });
    }
    if !page.is_file() {
        bail!("there is neither {} nor {}", record.display(), page.display());
    }
    if simulated.quick {
        bail!("{} is of a run without --quick", page.display());
    }
    let text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    Ok(Measured { source: page.display().to_string(), figures: from_page(&text, simulated) })
}

fn from_record(path: &Path, simulated: &StudyLab) -> anyhow::Result<Vec<StudyFigure>> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| name.clone())?;
    let document =
        Document::read(text.as_bytes()).with_context(|| format!("{name} is no record"))?;
    let lab = match document.record {
        Record::Study(study) => study.lab.unwrap_or_default(),
        _ => bail!("{name} is no record of a study in the lab"),
    };
    if lab.name != simulated.name {
        bail!("{name} is of the study `{}`", lab.name);
    }
    if lab.quick != simulated.quick {
        bail!("one of both is of `--quick`, and the other is not");
    }
    Ok(lab.figures)
}

/// The figures of a page, which has them rounded, for those that the simulator knows.
fn from_page(text: &str, simulated: &StudyLab) -> Vec<StudyFigure> {
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        match cells.as_slice() {
            ["", title, row, _, measured, _, ""] => Some((*title, *row, *measured)),
            _ => None,
        }
    });
    let rows: Vec<_> = rows.collect();
    let figures = simulated.figures.iter().filter_map(|figure| {
        let mut rows = rows.iter();
        let (.., measured) =
            rows.find(|(title, row, _)| *title == figure.title && *row == figure.row)?;
        let measured = Some(reading(measured, &figure.unit)?);
        Some(StudyFigure { measured, ..figure.clone() })
    });
    figures.collect()
}

/// `380 ms`, `5.26/s`, `network`; nothing where nothing was measured.
fn reading(text: &str, unit: &str) -> Option<Reading> {
    let number = text.strip_suffix(unit).unwrap_or(text).trim();
    match number.parse() {
        Ok(number) => Some(Reading::Number(number)),
        Err(_) if matches!(text, "" | "-") => None,
        Err(_) => Some(Reading::Text(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_figures_that_it_was_made_of() {
        let figure = |title: &str, unit: &str| StudyFigure {
            title: title.into(),
            row: "loadline".into(),
            unit: unit.into(),
            ..StudyFigure::default()
        };
        let known = vec![figure("average", "ms"), figure("rate", "/s"), figure("gone", "ms")];
        let simulated = StudyLab { figures: known, ..StudyLab::default() };
        let page = "|  | row | published | measured | verdict |\n| --- | --- | --: | --: | --: |\n\
                    | average | loadline | 384 ms | 380 ms | PASS |\n\
                    | average | peer |  | 381 ms |  |\n| rate | loadline |  | 5.26/s |  |\n\
                    | gone | loadline |  | - |  |\n";
        let figures = from_page(page, &simulated);
        let read: Vec<_> = figures.iter().map(|figure| figure.measured.clone().unwrap()).collect();
        assert_eq!(read, [Reading::Number(380.0), Reading::Number(5.26)]);
    }
}
