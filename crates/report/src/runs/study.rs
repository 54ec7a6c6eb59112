//! A study of the lab: published beside measured, its pictures, and how far it can be trusted.

use std::collections::BTreeMap;

use loadline_core::time::Duration;
use loadline_measure::record::{
    LoadRecord, ProbeRecord, Reading, Record, StudyFigure, StudyFinding, StudyLab, StudyPhase,
    StudyPlot, StudyPlotKind, StudyRecord,
};

use super::{Run, agreement, part, picture, resources, text, timeline};
use crate::{
    figures::{digits, utc},
    page::{Block, Page, Section},
    plot::{
        PlotError, Tone,
        bars::{Bars, Group},
        lines::{Along, Chart, Kind, Line, Lines},
        panel::Stroke,
        picture::Picture,
        scatter::{Dot, Dots, times_by_number},
    },
    table::{Align, Cell, Table},
};

const FIGURES: &str = "Published and measured";
const PICTURES: &str = "Pictures";
const CHECKS: &str = "What the published figures say of each other";
const BELIEF: &str = "Validity of the runs";

/// What the page of a study may have; what stands under any other heading people wrote.
pub(crate) const HEADINGS: [&str; 4] = [FIGURES, PICTURES, CHECKS, BELIEF];

/// The page of one study: what was published, what was measured, what differs and why.
///
/// # Errors
/// [`PlotError`] where the drawing library fails.
pub fn study_page(record: &StudyRecord) -> Result<Page, PlotError> {
    let lab = record.lab.as_deref();
    let mut lead: Vec<String> = lab.map(|lab| lab.about.clone()).unwrap_or_default();
    lead.extend(lab.into_iter().flat_map(|lab| &lab.sources).map(|one| format!("Source: {one}")));
    Ok(Page {
        title: record.title.clone(),
        lead,
        verdicts: record.verdicts.clone(),
        sections: sections(record)?,
        footer: format!("Measured and drawn by loadline {}.", env!("CARGO_PKG_VERSION")),
    })
}

/// The sections of a study, for its own page or among others.
pub(super) fn sections(record: &StudyRecord) -> Result<Vec<Section>, PlotError> {
    let Some(lab) = record.lab.as_deref() else { return Ok(Vec::new()) };
    let mut sections = vec![part(FIGURES, figures(record, lab))];
    sections.extend(agreement::sections(lab));
    let mut pictures = Vec::new();
    for plot in &lab.plots {
        pictures.extend(draw(lab, plot)?);
    }
    if !pictures.is_empty() {
        sections.push(part(PICTURES, pictures));
    }
    if !lab.checks.is_empty() {
        sections.push(part(CHECKS, checks(lab)));
    }
    sections.push(part(BELIEF, belief(lab)));
    Ok(sections)
}

/// The tables of a study for a terminal: figures, checks and delays.
#[must_use]
pub fn study_tables(record: &StudyRecord) -> Vec<Table> {
    let Some(lab) = record.lab.as_deref() else { return Vec::new() };
    let mut tables = vec![figure_table(lab)];
    if !lab.checks.is_empty() {
        tables.push(check_table(lab));
    }
    tables.extend((!lab.delays.is_empty()).then(|| delay_table(lab)));
    tables
}

/// How a study was run otherwise than it was published, a sentence each.
#[must_use]
pub fn study_notes(record: &StudyRecord) -> Vec<String> {
    let Some(lab) = record.lab.as_deref() else { return Vec::new() };
    let mut notes = Vec::new();
    if lab.quick {
        notes.push(
            "Shortened (--quick): runs are fewer, shorter or with less load than titles say; what \
             cannot be compared then has no published value."
                .to_owned(),
        );
    }
    if lab.speed != 1.0 {
        let speed = digits(lab.speed);
        notes.push(format!(
            "The lab ran {speed} times as fast as what was published; measured times are \
             multiplied by {speed} and rates divided by it."
        ));
    }
    notes
}

fn figures(record: &StudyRecord, lab: &StudyLab) -> Vec<Block> {
    let mut blocks = vec![Block::Table(figure_table(lab))];
    blocks.extend(study_notes(record).into_iter().map(text));
    let mut reasons: Vec<String> = Vec::new();
    for figure in lab.figures.iter().filter(|figure| !figure.reason.is_empty()) {
        let reason = match figure.finding {
            StudyFinding::NotReproduced => {
                format!("{}: not reproduced. {}", figure.title, figure.reason)
            }
            _ => format!("{}{}: {}", row_of(figure), figure.title, figure.reason),
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    blocks.extend(reasons.into_iter().map(text));
    blocks
}

fn figure_table(lab: &StudyLab) -> Table {
    let mut table =
        Table::new("Published and measured", &["", "row", "published", "measured", "verdict"]);
    table.columns[1].align = Align::Left;
    for figure in &lab.figures {
        let published = figure.published.map(|value| with_unit(&Reading::Number(value), figure));
        let measured = figure.measured.as_ref().map(|reading| with_unit(reading, figure));
        table.push([
            figure.title.as_str().into(),
            figure.row.as_str().into(),
            published.unwrap_or_default().into(),
            measured.unwrap_or_else(|| "-".to_owned()).into(),
            finding(figure.finding),
        ]);
    }
    table
}

fn finding(finding: StudyFinding) -> Cell {
    match finding {
        StudyFinding::Pass => Cell::Pass(true),
        StudyFinding::Fail => Cell::Pass(false),
        StudyFinding::NotReproduced => "not reproduced".into(),
        StudyFinding::Shown => "".into(),
        StudyFinding::Invalid => Cell::Bad("invalid".to_owned()),
    }
}

fn with_unit(reading: &Reading, figure: &StudyFigure) -> String {
    match reading {
        Reading::Text(text) => text.clone(),
        Reading::Number(number) if figure.unit.starts_with('/') || figure.unit.is_empty() => {
            format!("{}{}", digits(*number), figure.unit)
        }
        Reading::Number(number) => format!("{} {}", digits(*number), figure.unit),
    }
}

fn row_of(figure: &StudyFigure) -> String {
    if figure.row.is_empty() { String::new() } else { format!("{}: ", figure.row) }
}

fn checks(lab: &StudyLab) -> Vec<Block> {
    let mut blocks = vec![Block::Table(check_table(lab))];
    let notes = lab.checks.iter().filter(|check| !check.note.is_empty());
    blocks.extend(notes.map(|check| text(format!("{}: {}", check.title, check.note))));
    blocks
}

fn check_table(lab: &StudyLab) -> Table {
    let headings = ["", "worked out", "printed", "verdict"];
    let mut table = Table::new("Published figures, worked out from each other", &headings);
    for check in &lab.checks {
        let unit = |value: f64| format!("{} {}", digits(value), check.unit).trim().to_owned();
        let verdict = match check.agrees {
            true => Cell::Good("agree".to_owned()),
            false => Cell::Bad("contradict".to_owned()),
        };
        table.push([
            check.title.as_str().into(),
            format!("{} = {}", check.formula, unit(check.computed)).into(),
            unit(check.printed).into(),
            verdict,
        ]);
    }
    table
}

fn draw(lab: &StudyLab, plot: &StudyPlot) -> Result<Vec<Block>, PlotError> {
    if is_empty(lab, plot) {
        return Ok(Vec::new());
    }
    let drawn = match plot.kind {
        StudyPlotKind::Curve => vec![curve(plot)?],
        StudyPlotKind::Bars | StudyPlotKind::Beside => vec![bars(plot)?],
        StudyPlotKind::Series => vec![series(lab, plot)?],
        StudyPlotKind::Time => return over_time(lab, plot),
    };
    Ok(drawn.into_iter().map(picture).collect())
}

/// Whether nothing was measured or published of what it is to show.
fn is_empty(lab: &StudyLab, plot: &StudyPlot) -> bool {
    match plot.kind {
        StudyPlotKind::Curve | StudyPlotKind::Bars | StudyPlotKind::Beside => {
            plot.lines.iter().flat_map(|line| &line.points).all(|(_, value)| value.is_none())
        }
        StudyPlotKind::Series | StudyPlotKind::Time => shown(lab, plot).is_empty(),
    }
}

fn curve(plot: &StudyPlot) -> Result<Picture, PlotError> {
    let line = |(index, line): (usize, &loadline_measure::record::StudyLine)| Line {
        name: line.name.clone(),
        tone: Tone::Run(index),
        stroke: Stroke::Thick,
        points: line
            .points
            .iter()
            .filter_map(|(x, y)| Some((x.parse().ok()?, y.unwrap_or(f64::NAN))))
            .collect(),
        dots: true,
    };
    Lines {
        title: plot.title.clone(),
        description: described(plot),
        x_title: plot.x_title.clone(),
        x: Along::Even,
        charts: vec![Chart {
            title: plot.unit.clone(),
            lines: plot.lines.iter().enumerate().map(line).collect(),
            kind: Kind::Fitting,
        }],
        marks: Vec::new(),
    }
    .draw()
}

fn bars(plot: &StudyPlot) -> Result<Picture, PlotError> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, line) in plot.lines.iter().enumerate() {
        for (name, value) in &line.points {
            let found = groups.iter().position(|group| group.name == *name);
            let at = found.unwrap_or_else(|| {
                groups.push(Group { name: name.clone(), values: vec![None; plot.lines.len()] });
                groups.len() - 1
            });
            groups[at].values[index] = *value;
        }
    }
    let tone = |(index, line): (usize, &loadline_measure::record::StudyLine)| {
        let published = line.name == "published";
        (line.name.clone(), if published { Tone::Quiet } else { Tone::Run(index) })
    };
    Bars {
        title: plot.title.clone(),
        description: described(plot),
        quantity: plot.unit.clone(),
        each: plot.x_title.clone(),
        parts: plot.lines.iter().enumerate().map(tone).collect(),
        groups,
    }
    .draw()
}

fn described(plot: &StudyPlot) -> String {
    let point = |(x, y): &(String, Option<f64>)| {
        format!("{} at {x}", y.map_or_else(|| "nothing".to_owned(), digits))
    };
    let line = |line: &loadline_measure::record::StudyLine| {
        let points: Vec<_> = line.points.iter().map(point).collect();
        format!("{}: {}.", line.name, points.join(", "))
    };
    plot.lines.iter().map(line).collect::<Vec<_>>().join(" ")
}

/// The first run of each row that is valid and fits the plot.
fn shown<'l>(lab: &'l StudyLab, plot: &'l StudyPlot) -> Vec<&'l StudyPhase> {
    let fits = |phase: &&StudyPhase| {
        let at = plot.at.iter().all(|(name, value)| phase.at.get(name) == Some(value));
        phase.phase == plot.phase && at && phase.is_valid()
    };
    let first = |row: &String| lab.phases.iter().filter(fits).find(|phase| phase.row == *row);
    plot.rows.iter().filter_map(first).collect()
}

fn series(lab: &StudyLab, plot: &StudyPlot) -> Result<Picture, PlotError> {
    let mut dots = Vec::new();
    for phase in shown(lab, plot) {
        if let Some(Record::Probe(record)) = phase.record.as_deref() {
            dots.extend(dots_of(&phase.row, record, lab.speed));
        }
    }
    times_by_number(&plot.title, &dots)
}

fn dots_of(row: &str, record: &ProbeRecord, speed: f64) -> Vec<Dots> {
    let scaled = |time: Duration| time.scale(speed);
    let all = record.targets.iter().map(|target| Dots {
        name: match record.targets.len() {
            1 => row.to_owned(),
            _ => format!("{row} {}", target.target),
        },
        points: target
            .samples
            .iter()
            .map(|sample| Dot {
                number: sample.number,
                time: sample.good_time().map(scaled),
                cold: record.keepalive && !sample.reused,
            })
            .collect(),
    });
    all.collect()
}

/// For each row a run over time, and what was watched beside it.
fn over_time(lab: &StudyLab, plot: &StudyPlot) -> Result<Vec<Block>, PlotError> {
    let mut blocks = Vec::new();
    for phase in shown(lab, plot) {
        let at: String = phase.at.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        let label = format!("{}: {}{at}", plot.title, phase.row);
        if let Some(Record::Load(load)) = phase.record.as_deref() {
            blocks.extend(load_over_time(label.clone(), load)?);
        }
        for (name, record) in &phase.beside {
            if let Record::Resources(record) = record {
                blocks.extend(resources::section(name, record)?.blocks);
            }
        }
    }
    Ok(blocks)
}

fn load_over_time(label: String, record: &LoadRecord) -> Result<Option<Block>, PlotError> {
    let run = Run { label, record };
    Ok(timeline::of_run(&run)?.map(picture))
}

fn belief(lab: &StudyLab) -> Vec<Block> {
    let mut blocks = Vec::new();
    let invalid: Vec<_> = lab.phases.iter().filter(|phase| !phase.is_valid()).collect();
    if !invalid.is_empty() {
        let (some, all) = (invalid.len(), lab.phases.len());
        blocks.push(Block::Warning(format!("{some} of {all} runs are invalid and in no figure.")));
    }
    if !lab.delays.is_empty() {
        blocks.push(Block::Table(delay_table(lab)));
    }
    let left_out = lab.rows.iter().filter_map(|row| Some((row, row.skipped.as_ref()?)));
    blocks.extend(left_out.map(|(row, why)| text(format!("Left out: {}, {why}.", row.title))));
    blocks.push(Block::Details(runs(lab)));
    blocks.push(Block::Details(conditions(lab)));
    blocks
}

fn delay_table(lab: &StudyLab) -> Table {
    let headings = ["between", "row", "asked, ms", "median, ms", "p90, ms", "off by, ms"];
    let mut table = Table::new("Round trips of the lab before the load", &headings);
    table.columns[1].align = Align::Left;
    for delay in &lab.delays {
        table.push([
            delay.between.join(" and ").into(),
            delay.row.as_str().into(),
            format!("{:.3}", delay.asked_ms).into(),
            format!("{:.3}", delay.p50_ms).into(),
            format!("{:.3}", delay.p90_ms).into(),
            format!("{:+.3}", delay.p50_ms - delay.asked_ms).into(),
        ]);
    }
    table
}

fn runs(lab: &StudyLab) -> Table {
    let headings = ["run", "row", "took", "steal", "router late, p99", ""];
    let mut table = Table::new("Every run", &headings);
    table.columns[1].align = Align::Left;
    table.columns[5].align = Align::Left;
    for phase in &lab.phases {
        let at: String = phase.at.iter().map(|(name, value)| format!(", {name} {value}")).collect();
        let late = phase.lateness_p99_ms.map(|late| format!("{late:.2} ms"));
        let fault = phase.failed.iter().chain(&phase.faults).next();
        table.push([
            format!("{}{at}, run {}", phase.phase, phase.repeat).into(),
            phase.row.as_str().into(),
            format!("{:.1} s", phase.elapsed_s).into(),
            format!("{:.1} %", phase.steal_share * 100.0).into(),
            late.unwrap_or_else(|| "-".to_owned()).into(),
            fault.map_or_else(|| "".into(), |fault| Cell::Bad(fault.clone())),
        ]);
    }
    table
}

fn conditions(lab: &StudyLab) -> Table {
    let mut table = Table::new("The machine and the programs", &["", ""]);
    table.columns[1].align = Align::Left;
    let own: BTreeMap<String, String> = [
        ("seed", lab.seed.to_string()),
        ("began", utc(lab.started_unix_ms)),
        ("took", format!("{:.0} s", lab.elapsed_s)),
        ("shortened", if lab.quick { "yes" } else { "no" }.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (name, value) in own.iter().chain(&lab.environment) {
        table.push([name.as_str().into(), value.as_str().into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use loadline_measure::record::{StudyCheck, StudyLine, StudyRow};

    use super::*;

    fn record() -> StudyRecord {
        let figure = StudyFigure {
            title: "average at 10/s".into(),
            row: "loadline".into(),
            unit: "ms".into(),
            published: Some(500.0),
            measured: Some(Reading::Number(512.3)),
            finding: StudyFinding::Pass,
            ..StudyFigure::default()
        };
        let missing = StudyFigure {
            measured: None,
            finding: StudyFinding::NotReproduced,
            reason: "the client's own cost is not known".into(),
            ..figure.clone()
        };
        let check = StudyCheck {
            title: "transaction rate".into(),
            formula: "80 / 14.45".into(),
            computed: 5.536,
            printed: 5.05,
            unit: "/s".into(),
            ..StudyCheck::default()
        };
        let line = |name: &str| StudyLine {
            name: name.into(),
            points: vec![("300".into(), Some(4.0)), ("400".into(), None)],
        };
        let plot = |kind| StudyPlot {
            title: format!("{kind:?}"),
            kind,
            lines: vec![line("published"), line("one")],
            ..StudyPlot::default()
        };
        let kinds = [StudyPlotKind::Curve, StudyPlotKind::Bars, StudyPlotKind::Beside];
        StudyRecord {
            title: "Capacity".into(),
            lab: Some(Box::new(StudyLab {
                speed: 10.0,
                figures: vec![figure, missing],
                checks: vec![check],
                plots: kinds.map(plot).to_vec(),
                rows: vec![StudyRow {
                    title: "HAProxy".into(),
                    skipped: Some("haproxy is not installed".into()),
                    ..StudyRow::default()
                }],
                ..StudyLab::default()
            })),
            ..StudyRecord::default()
        }
    }

    #[test]
    fn the_page_tells_what_was_published_measured_and_left_out() {
        let html = study_page(&record()).unwrap().html().replace('\u{a0}', " ");
        let told = [
            "500 ms",
            "512 ms",
            "not reproduced. the client&#39;s own cost",
            "80 / 14.45 = 5.54 /s",
            "contradict",
            "multiplied by 10",
            "Left out: HAProxy, haproxy is not installed.",
        ];
        for part in told {
            assert!(html.contains(part) || html.contains(&part.replace("&#39;", "'")), "{part}");
        }
        assert_eq!(html.matches("<svg").count(), 6, "three pictures in two widths");
    }

    #[test]
    fn a_shortened_study_says_that_it_is() {
        let mut record = record();
        let shortened = |record: &StudyRecord| {
            let html = study_page(record).unwrap().html();
            let notes = study_notes(record).concat();
            [html, notes].map(|text| text.contains("Shortened (--quick): runs are fewer"))
        };
        assert_eq!(shortened(&record), [false; 2]);
        record.lab.as_mut().unwrap().quick = true;
        assert_eq!(shortened(&record), [true; 2]);
    }

    #[test]
    fn a_picture_without_data_is_left_out() {
        let mut record = record();
        let lab = record.lab.as_mut().unwrap();
        for plot in &mut lab.plots {
            let points = plot.lines.iter_mut().flat_map(|line| &mut line.points);
            points.for_each(|(_, value)| *value = None);
        }
        lab.plots.push(StudyPlot { kind: StudyPlotKind::Series, ..StudyPlot::default() });
        let html = study_page(&record).unwrap().html();
        assert!(!html.contains("<svg") && !html.contains(PICTURES), "{html}");
    }

    #[test]
    fn the_tables_of_the_terminal_are_those_of_the_page() {
        let tables = study_tables(&record());
        let text: String = tables.iter().map(ToString::to_string).collect();
        assert!(text.contains("500 ms    512 ms"), "{text}");
        assert!(text.contains("contradict"), "{text}");
    }
}
