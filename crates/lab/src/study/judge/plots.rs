//! The pictures of a study: which points they show.

use loadline_measure::record::{Reading, StudyLine, StudyPhase, StudyPlot, StudyPlotKind};
use loadline_spanned::At;

use super::figure::FigureEvaluator;
use crate::study::file::PlotEntry;

pub(super) fn plots(board: &FigureEvaluator<'_>) -> Vec<StudyPlot> {
    board.study.file.plot.iter().map(|entry| plot(board, &entry.value)).collect()
}

fn plot(board: &FigureEvaluator<'_>, entry: &PlotEntry) -> StudyPlot {
    let word = |text: &Option<At<String>>| {
        text.as_ref().map(|text| text.value.clone()).unwrap_or_default()
    };
    let kind = match word(&entry.kind).as_str() {
        "bars" => StudyPlotKind::Bars,
        "series" => StudyPlotKind::Series,
        "time" => StudyPlotKind::Time,
        "beside" => StudyPlotKind::Beside,
        _ => StudyPlotKind::Curve,
    };
    let run = board.rows.iter().filter(|row| row.skipped.is_none());
    let own = |name: &str| entry.rows.is_empty() || entry.rows.iter().any(|one| one.value == name);
    let rows: Vec<String> = run.map(|row| row.name.clone()).filter(|name| own(name)).collect();
    let (phase, x) = (word(&entry.phase), word(&entry.x));
    let lines = match kind {
        StudyPlotKind::Curve | StudyPlotKind::Bars => lines(board, entry, &rows, &phase, &x),
        StudyPlotKind::Beside => beside(board, entry),
        StudyPlotKind::Series | StudyPlotKind::Time => Vec::new(),
    };
    StudyPlot {
        title: word(&entry.title),
        kind,
        x_title: entry.x_title.clone().unwrap_or_else(|| x.clone()),
        phase,
        x,
        unit: entry.unit.clone(),
        lines,
        rows,
        at: entry.at.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect(),
    }
}

/// A line for each path of each row.
fn lines(
    board: &FigureEvaluator<'_>,
    entry: &PlotEntry,
    rows: &[String],
    phase: &str,
    x: &str,
) -> Vec<StudyLine> {
    let mut values = board.values_of(phase, x);
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lines = Vec::new();
    for row in rows {
        for take in &entry.take.0 {
            let point = |(_, word): &(f64, String)| {
                let at = |run: &StudyPhase| run.at.get(x) == Some(word) && is_at(run, entry);
                let found = board.taken(phase, row, &at, take, "mean", &entry.unit);
                (word.clone(), number(found.reading.as_ref()))
            };
            let name = match entry.take.0.len() {
                1 => row.clone(),
                _ => format!("{row}, {take}"),
            };
            lines.push(StudyLine { name, points: values.iter().map(point).collect() });
        }
    }
    lines.retain(|line| line.points.iter().any(|(_, value)| value.is_some()));
    lines
}

/// Whether a run was made where the plot is.
fn is_at(run: &StudyPhase, entry: &PlotEntry) -> bool {
    entry.at.iter().all(|(name, value)| run.at.get(name) == Some(&value.0))
}

/// The published figures and the measured ones of each row.
fn beside(board: &FigureEvaluator<'_>, entry: &PlotEntry) -> Vec<StudyLine> {
    let named = |name: &str| entry.figures.iter().any(|figure| figure.value == name);
    let mut figures = board.figures();
    figures.retain(|figure| named(&figure.name));
    let mut lines: Vec<StudyLine> = Vec::new();
    let mut add = |line: String, figure: String, value: Option<f64>| {
        if let Some(found) = lines.iter_mut().find(|one| one.name == line) {
            if found.points.iter().all(|(name, _)| *name != figure) {
                found.points.push((figure, value));
            }
            return;
        }
        lines.push(StudyLine { name: line, points: vec![(figure, value)] });
    };
    for figure in figures {
        // Where it was published for all rows alike it stands once.
        add("published".to_owned(), figure.title.clone(), figure.published);
        add(figure.row, figure.title, number(figure.measured.as_ref()));
    }
    lines
}

fn number(reading: Option<&Reading>) -> Option<f64> {
    match reading {
        Some(Reading::Number(number)) => Some(*number),
        _ => None,
    }
}
