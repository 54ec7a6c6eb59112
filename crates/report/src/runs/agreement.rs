//! A study in the lab beside itself in the simulator.

use loadline_measure::record::{
    Agreement, Reading, SimulatedFigure, StudyLab, StudyRecord, StudySimulation,
};

use super::{part, text};
use crate::{
    figures::digits,
    page::{Block, Page, Section},
    table::{Align, Cell, Table},
};

/// What the heading of such a section begins with.
pub(crate) const SIMULATION: &str = "Lab and simulation";

/// The page of several studies in the lab and in the simulator.
#[must_use]
pub fn agreement_page(records: &[StudyRecord]) -> Page {
    let section = |record: &StudyRecord| {
        let lab = record.lab.as_deref()?;
        let blocks = agreement(lab);
        let heading = format!("{SIMULATION}: {}", record.title);
        (!blocks.is_empty()).then_some(Section { heading, blocks })
    };
    Page {
        title: "The lab and the simulator agree, or it is said why not".to_owned(),
        lead: vec![LEAD.to_owned()],
        verdicts: Vec::new(),
        sections: records.iter().filter_map(section).collect(),
        footer: format!("Simulated and written by loadline {}.", env!("CARGO_PKG_VERSION")),
    }
}

/// The section of a study that was simulated; none where it was not.
pub(super) fn sections(lab: &StudyLab) -> Vec<Section> {
    let blocks = agreement(lab);
    if blocks.is_empty() { Vec::new() } else { vec![part(SIMULATION, blocks)] }
}

/// What lab and simulator say of each figure that is one in both; nothing where it was not
/// simulated.
#[must_use]
pub fn agreement_table(lab: &StudyLab) -> Option<Table> {
    let simulation = lab.simulation.as_deref()?;
    let headings = ["", "row", "lab", "simulation", "apart", "band", "verdict"];
    let mut table = Table::new("In the lab and in the simulator", &headings);
    table.columns[1].align = Align::Left;
    let has_lab = !simulation.measured.is_empty();
    for figure in simulation.figures.iter().filter(|figure| is_shown(figure, has_lab)) {
        table.push([
            figure.title.as_str().into(),
            figure.row.as_str().into(),
            shown(figure.measured.as_ref(), &figure.unit).into(),
            shown(figure.simulated.as_ref(), &figure.unit).into(),
            apart(figure).into(),
            figure.band.as_str().into(),
            verdict(figure.agreement),
        ]);
    }
    Some(table)
}

/// Why figures differ, and why phases were not simulated, a line each.
#[must_use]
pub fn agreement_reasons(simulation: &StudySimulation) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for figure in &simulation.figures {
        if figure.agreement == Agreement::Explained {
            push(&mut lines, format!("{}: {}", figure.title, figure.reason));
        }
    }
    for (reason, of) in by_reason(simulation) {
        push(&mut lines, format!("Not simulated: {of}. {reason}."));
    }
    lines
}

/// The phases that were not simulated, by the reason.
fn by_reason(simulation: &StudySimulation) -> Vec<(String, String)> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for one in &simulation.not_simulated {
        let of = match one.phase.is_empty() {
            true => format!("row {}", one.row),
            false => format!("{} of {}", one.phase, one.row),
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == one.reason) {
            Some((_, known)) => known.push(of),
            None => reasons.push((one.reason.clone(), vec![of])),
        }
    }
    reasons.into_iter().map(|(reason, of)| (reason, of.join(", "))).collect()
}

fn agreement(lab: &StudyLab) -> Vec<Block> {
    let Some(simulation) = lab.simulation.as_deref() else { return Vec::new() };
    let mut blocks = Vec::new();
    if !simulation.measured.is_empty() {
        let of =
            |agreement| simulation.figures.iter().filter(|it| it.agreement == agreement).count();
        blocks.push(text(format!(
            "Of {} figures that both have, {} agree, {} differ for a reason that is given, and {} \
             differ. The figures of the lab are from {}.",
            of(Agreement::Agrees) + of(Agreement::Explained) + of(Agreement::Differs),
            of(Agreement::Agrees),
            of(Agreement::Explained),
            of(Agreement::Differs),
            simulation.measured,
        )));
    }
    blocks.extend(agreement_table(lab).map(Block::Table));
    blocks.extend(agreement_reasons(simulation).into_iter().map(text));
    blocks
}

/// Figures that neither has, or only a row that was not simulated, are told by their reasons.
fn is_shown(figure: &SimulatedFigure, has_lab: bool) -> bool {
    figure.simulated.is_some() && (figure.measured.is_some() || !has_lab)
}

fn push(lines: &mut Vec<String>, line: String) {
    if !lines.contains(&line) {
        lines.push(line);
    }
}

fn shown(reading: Option<&Reading>, unit: &str) -> String {
    match reading {
        None => "-".to_owned(),
        Some(Reading::Text(text)) => text.clone(),
        Some(Reading::Number(number)) if unit.starts_with('/') || unit.is_empty() => {
            format!("{}{unit}", digits(*number))
        }
        Some(Reading::Number(number)) => format!("{} {unit}", digits(*number)),
    }
}

/// The simulation over the lab, less one.
fn apart(figure: &SimulatedFigure) -> String {
    match (&figure.measured, &figure.simulated) {
        (Some(Reading::Number(lab)), Some(Reading::Number(simulated))) if *lab != 0.0 => {
            format!("{:+.1} %", (simulated / lab - 1.0) * 100.0)
        }
        _ => String::new(),
    }
}

fn verdict(agreement: Agreement) -> Cell {
    match agreement {
        Agreement::Agrees => Cell::Good("agrees".to_owned()),
        Agreement::Differs => Cell::Bad("differs".to_owned()),
        Agreement::Explained => "explained".into(),
        Agreement::NotCompared => "".into(),
    }
}

const LEAD: &str = "Each study of the lab runs in the simulator too, from the same file: the same \
     configuration, the same requests at the same instants, the servers of the study as models. \
     Averages, counts and rates may be 10 % apart, percentiles and extremes 15 %; a level that a \
     curve reaches has to be reached at the same step. What was not simulated is named with the \
     reason.";
