//! `loadline bench`: put load on a service and measure it.
//!
//! The command line becomes a plan ([`args`]), the plan a record, and the record a page or another
//! form ([`formats`]). With an objective the exit code says whether it was met.

mod args;
mod display;
mod formats;
pub(crate) mod page;
mod request;
mod transport;
mod usage;

use std::process::ExitCode;

use loadline_load::{LoadError, LoadPlan, watch::WatchError};
use loadline_measure::record::LoadRecord;

use super::{EXIT_INVALID, generators, output_file::OutputFile, stop_signal::StopSignal, watch};
pub(crate) use args::Args;
use display::Display;
use formats::Format;
pub(crate) use request::RequestArgs;
pub(crate) use transport::TransportArgs;
pub(crate) use usage::UsageError;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (record, file) = match plan_and_measure(args) {
        Ok(both) => both,
        Err(error) => {
            let code = super::report_error(&error);
            return Ok(if is_usage(&error) { ExitCode::from(super::EXIT_USAGE) } else { code });
        }
    };
    let format = if args.output.prints_record() { Format::Json } else { args.output.format };
    let mut text = format.write(&record)?;
    if let (Format::Text, Some(resources)) = (format, &record.resources) {
        text += "\n";
        text += &watch::write_page(resources);
    }
    let printed = super::print(&text);
    if format != Format::Text {
        warn_of_faults(&record);
    }
    if let Some(mut file) = file {
        file.write(&formats::json(&record)?)?;
    }
    printed?;
    Ok(exit_code(&record))
}

fn plan_and_measure(args: &Args) -> anyhow::Result<(LoadRecord, Option<OutputFile>)> {
    let plan = args.plan()?;
    let file = OutputFile::asked(args.output.output.as_deref())?;
    Ok((measure(args, &plan)?, file))
}

fn measure(args: &Args, plan: &LoadPlan) -> anyhow::Result<LoadRecord> {
    let output = &args.output;
    if !output.quiet && !args.with.is_given() {
        notify(plan);
    }
    let display = Display::new(output.quiet);
    let watcher = output
        .watch
        .as_ref()
        .map(|subjects| watch::beside(&plan.asked(), subjects, &output.net_limit));
    let watcher = watcher.transpose()?;
    let measured = loadline_load::runtime()?.block_on(async {
        let mut stop = StopSignal::new()?;
        let mut generators = args.with.connect(&mut stop).await?;
        generators.measure(plan, |progress| display.show(progress), stop.received()).await
    });
    display.clear();
    let mut record = measured?;
    record.resources = watcher.map(|watcher| watch::judged(watcher, &record));
    record.objective = output.slo.as_ref().map(|objective| objective.judge(&record));
    Ok(record)
}

/// Says before a run what may keep it from being carried out.
fn notify(plan: &LoadPlan) {
    for notice in loadline_load::preflight(plan) {
        super::tell(&format!("loadline: {notice}"));
    }
}

/// Says on the standard error why a run is not to be trusted; the page says it itself.
fn warn_of_faults(record: &LoadRecord) {
    for fault in &record.generator.faults {
        let (what, advice) = (&fault.what, &fault.advice);
        super::tell(&format!("loadline: the run is invalid: {what}; {advice}"));
    }
}

/// An invalid run is judged by nothing, so that it comes before a breached objective.
fn exit_code(record: &LoadRecord) -> ExitCode {
    let lost = record.agents.iter().any(|agent| agent.lost.is_some());
    match &record.objective {
        _ if lost => ExitCode::from(EXIT_INVALID),
        Some(_) if !record.is_valid() || record.shows_nothing() => ExitCode::from(EXIT_INVALID),
        Some(objective) if !objective.is_met() => ExitCode::from(EXIT_BREACHED),
        _ => ExitCode::SUCCESS,
    }
}

fn is_usage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LoadError::Plan(_)))
        || matches!(error.downcast_ref(), Some(WatchError::NoProcess { .. }))
        || error.downcast_ref::<UsageError>().is_some()
        || generators::is_usage(error)
}

/// The objective was not met; as k6 has it.
pub(crate) const EXIT_BREACHED: u8 = 99;
