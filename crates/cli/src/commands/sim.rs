//! `loadline sim`: simulate a configuration, without a server and without waiting.

mod args;
mod explain;
mod huge_pages;
mod inputs;
mod left_out;
mod page;
mod plan;
mod policies;
mod what_if;

use std::{path::Path, process::ExitCode};

use anyhow::Context as _;
use loadline_measure::record::{Document, LoadRecord, ObjectiveRecord, Record};
use loadline_report::Named;

use super::{EXIT_USAGE, bench::EXIT_BREACHED, print_errors};
pub(crate) use args::Args;
use args::{Command, Common};
use inputs::{InputError, Inputs};

/// Runs the command.
///
/// # Errors
/// What kept the result from being printed or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    huge_pages::use_huge_pages();
    let ran = match (&args.command, &args.common) {
        (Some(Command::WhatIf(args)), _) => what_if::run(args),
        (Some(Command::Plan(args)), _) => plan::run(args),
        (Some(Command::Policies(args)), _) => policies::run(args),
        (Some(Command::Explain(args)), _) => explain::run(args),
        (None, common) => simulate(common),
    };
    let Err(error) = ran else { return ran };
    match error.downcast::<InputError>() {
        Ok(InputError::File(errors)) => {
            print_errors(errors);
        }
        Ok(error) => {
            super::report_error(&error.into());
        }
        Err(error) => return Err(error),
    }
    Ok(ExitCode::from(EXIT_USAGE))
}

fn simulate(common: &Common) -> anyhow::Result<ExitCode> {
    let inputs = Inputs::read(common)?;
    let mut record = inputs.simulate(&inputs.traffic);
    inputs.came(&record)?;
    record.objective = common.slo.as_ref().map(|objective| objective.judge(&record));
    write_report(common, &[("simulation", &record)])?;
    let text = if common.json { json(&record)? } else { page::write(&inputs.traffic, &record) };
    crate::commands::print(&text)?;
    Ok(exit_code(&record))
}

fn json(record: &LoadRecord) -> anyhow::Result<String> {
    let document = Document::new(Record::Load(record.clone()));
    Ok(serde_json::to_string_pretty(&document).context("writing the record as JSON")? + "\n")
}

/// Writes the page of these runs where one is asked for.
fn write_report(common: &Common, runs: &[(&str, &LoadRecord)]) -> anyhow::Result<()> {
    let Some(path) = &common.report else { return Ok(()) };
    let named = runs.iter().map(|(name, record)| Named {
        name: (*name).to_owned(),
        record: Record::Load((*record).clone()),
    });
    write_page(common, path, &named.collect::<Vec<_>>())
}

fn write_page(common: &Common, path: &Path, records: &[Named]) -> anyhow::Result<()> {
    let title = format!("loadline sim {}", common.file().display());
    let page = loadline_report::runs_page(&title, records)?.html();
    let shown = path.display();
    std::fs::write(path, page).with_context(|| format!("cannot write `{shown}`"))?;
    tracing::info!("wrote {shown}");
    Ok(())
}

fn exit_code(record: &LoadRecord) -> ExitCode {
    let is_met = record.objective.as_ref().is_none_or(ObjectiveRecord::is_met);
    if is_met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_BREACHED) }
}
