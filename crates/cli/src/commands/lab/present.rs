//! What a study found, on the terminal and as an exit code.

use std::process::ExitCode;

use loadline_lab::study::Study;
use loadline_measure::record::{
    Agreement, Reading, SimulatedFigure, StudyFigure, StudyFinding, StudyRecord, StudyVerdict,
};
use loadline_report::{agreement_reasons, agreement_table, digits, study_notes, study_tables};

use crate::commands::{EXIT_INVALID, EXIT_VERDICT};

/// The tables and one line for each figure that is judged.
pub(super) fn text(record: &StudyRecord) -> String {
    let mut text = format!("{}\n", record.title);
    for table in study_tables(record) {
        text += &format!("\n  {}:\n{table}", table.caption);
    }
    text.push('\n');
    for note in study_notes(record) {
        text += &format!("{note}\n");
    }
    let lab = record.lab.iter();
    if record.verdicts.is_empty() {
        text += "NOTHING JUDGED: no figure with a band was measured\n";
    }
    for figure in lab.clone().flat_map(|lab| &lab.figures) {
        text += &line(figure).map(|line| line + "\n").unwrap_or_default();
    }
    for row in lab.flat_map(|lab| &lab.rows) {
        let told = |reason: &&String| row.peer.is_some() || *reason != "not asked for";
        if let Some(reason) = row.skipped.as_ref().filter(told) {
            text += &format!("SKIPPED {} ({reason})\n", row.title);
        }
    }
    text
}

/// What the simulator says of a study, beside the lab; nothing where it was not simulated.
pub(super) fn agreement(record: &StudyRecord) -> String {
    let Some(lab) = record.lab.as_deref() else { return String::new() };
    let Some(simulation) = lab.simulation.as_deref() else { return String::new() };
    let mut text = format!("\n{}\n", record.title);
    if let Some(table) = agreement_table(lab) {
        text += &format!("\n  {}:\n{table}\n", table.caption);
    }
    text += &simulation.figures.iter().filter_map(agreement_line).collect::<String>();
    for reason in agreement_reasons(simulation) {
        text += &format!("{reason}\n");
    }
    text
}

fn agreement_line(figure: &SimulatedFigure) -> Option<String> {
    let word = match figure.agreement {
        Agreement::Differs => "DIFFERS",
        Agreement::Explained => "EXPLAINED",
        Agreement::Agrees | Agreement::NotCompared => return None,
    };
    let row = if figure.row.is_empty() { String::new() } else { format!("{}: ", figure.row) };
    let shown = |reading: &Option<Reading>| match reading {
        Some(Reading::Number(number)) => {
            format!("{} {}", digits(*number), figure.unit).replace(" /", "/").trim().to_owned()
        }
        Some(Reading::Text(text)) => text.clone(),
        None => "-".to_owned(),
    };
    let (lab, simulated) = (shown(&figure.measured), shown(&figure.simulated));
    let title = &figure.title;
    Some(format!("{word} {row}{title}: lab {lab}, simulation {simulated} ({})\n", figure.band))
}

/// 0, 3 where a verdict failed or none of those that the study has could be given, 98 where only
/// invalid runs stand in the way of one.
pub(super) fn exit_code(study: &Study, record: &StudyRecord) -> ExitCode {
    let found = |finding| {
        let figures = record.lab.iter().flat_map(|lab| &lab.figures);
        figures.clone().any(|figure| figure.finding == finding)
    };
    let mut rows = record.lab.iter().flat_map(|lab| &lab.rows);
    let ran = rows.any(|row| row.skipped.is_none() && row.peer.is_none());
    let judged_nothing = study.has_bands() && ran && record.verdicts.is_empty();
    if found(StudyFinding::Fail) || judged_nothing {
        ExitCode::from(EXIT_VERDICT)
    } else if found(StudyFinding::Invalid) {
        ExitCode::from(EXIT_INVALID)
    } else {
        ExitCode::SUCCESS
    }
}

fn line(figure: &StudyFigure) -> Option<String> {
    let row = if figure.row.is_empty() { String::new() } else { format!("{}: ", figure.row) };
    let name = format!("{row}{}", figure.title);
    let measured = match &figure.measured {
        Some(Reading::Number(number)) => format!("{} {}", digits(*number), figure.unit),
        Some(Reading::Text(text)) => text.clone(),
        None => "not measured".to_owned(),
    };
    let measured = measured.replace(" /", "/").trim().to_owned();
    let with = |pass| {
        let reason = if figure.reason.is_empty() { "" } else { "; " };
        let target = format!("{}{reason}{}", figure.target, figure.reason);
        Some(StudyVerdict::new(&*name, &*measured, target, pass).to_string())
    };
    match figure.finding {
        StudyFinding::Pass => with(true),
        StudyFinding::Fail => with(false),
        StudyFinding::Shown => None,
        StudyFinding::Invalid => Some(format!("INVALID {name} ({})", figure.reason)),
        StudyFinding::NotReproduced => {
            let said = |it| format!("published {} {}", digits(it), figure.unit).trim().to_owned();
            let published = figure.published.map_or_else(String::new, |it| said(it) + "; ");
            Some(format!("NOT-REPRODUCED {name} {measured} ({published}{})", figure.reason))
        }
    }
}
