//! `loadline capacity`: find the load line of a service.
//!
//! The search itself is [`loadline_load::search`]; here are its command line ([`args`]), the shell
//! that runs what it asks for ([`drive`]), and the page of what it found ([`page`], [`plot`]).

mod args;
mod drive;
mod page;
mod plot;

use std::{path::Path, process::ExitCode};

use loadline_control::EditError;
use loadline_core::units::Rate;
use loadline_load::LoadError;
use loadline_measure::record::{CapacityRecord, Document, Record, Verdict};

use super::{
    EXIT_INVALID,
    bench::UsageError,
    output_file::{OutputFile, is_printed},
};
pub(crate) use args::Args;

/// Runs the command.
///
/// # Errors
/// What kept it from printing what it found.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (record, file) = match search(args) {
        Ok(both) => both,
        Err(error) => {
            let code = super::report_error(&error);
            return Ok(if is_usage(&error) { ExitCode::from(super::EXIT_USAGE) } else { code });
        }
    };
    let is_printed = is_printed(args.json, args.output.as_deref());
    let text = if is_printed { json(&record)? } else { page::write(&record) };
    let printed = super::print(&text);
    let written = file.map(|mut file| file.write(&json(&record)?)).transpose();
    if let Some((path, group)) = args.edit() {
        write_max_rate(path, group, &record)?;
    }
    written.and(printed)?;
    Ok(ExitCode::from(exit_code(record.verdict, args.edit().is_some())))
}

fn search(args: &Args) -> anyhow::Result<(CapacityRecord, Option<OutputFile>)> {
    let plan = args.plan()?;
    // A search takes minutes: what it is to be written to is looked at before.
    if let Some((path, group)) = args.edit() {
        check_edit(path, group)?;
    }
    let file = OutputFile::asked(args.output.as_deref())?;
    let (config, objective) = (args.config(&plan), args.objective());
    let record = drive::run(config, &objective, &plan, &args.pace(), &args.with)?;
    Ok((record, file))
}

fn check_edit(path: &Path, group: &str) -> Result<(), EditError> {
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|source| EditError::Read { path: path.to_owned(), source })?;
    let name = path.display().to_string();
    loadline_control::edit_max_rate(&name, &text, group, Rate::per_sec(1)).map(|_| ())
}

fn write_max_rate(path: &Path, group: &str, record: &CapacityRecord) -> anyhow::Result<()> {
    let name = path.display();
    let told = match (&record.found, record.verdict) {
        (Some(line), _) => {
            loadline_control::write_max_rate(path, group, line.max_rate)?;
            format!("{name}: max_rate of {group} is now {}", line.max_rate)
        }
        (None, Verdict::AtLeast) => {
            format!("only a lower bound was found (--max-rate): {name} is left as it is")
        }
        (None, _) => format!("no load line was found: {name} is left as it is"),
    };
    super::tell(&format!("loadline: {told}"));
    Ok(())
}

fn json(record: &CapacityRecord) -> anyhow::Result<String> {
    let document = Document::new(Record::Capacity(record.clone()));
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// A lower bound is a result, unless a load line was to be written into a file.
fn exit_code(verdict: Verdict, is_to_be_written: bool) -> u8 {
    match verdict {
        Verdict::AtLeast if is_to_be_written => EXIT_INVALID,
        Verdict::Found | Verdict::AtLeast => 0,
        Verdict::NoLoadMeets | Verdict::Unconfirmed | Verdict::OutOfTime => EXIT_BREACHED,
        Verdict::GeneratorInvalid => EXIT_INVALID,
        Verdict::Interrupted => super::EXIT_FAILED,
    }
}

fn is_usage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LoadError::Plan(_)))
        || error.downcast_ref::<UsageError>().is_some()
        || error.downcast_ref::<EditError>().is_some()
        || super::generators::is_usage(error)
}

/// No load, or none that could be confirmed, meets the objective; as k6 has it.
const EXIT_BREACHED: u8 = 99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_bound_is_no_result_where_a_load_line_was_to_be_written() {
        assert_eq!(exit_code(Verdict::AtLeast, false), 0);
        assert_eq!(exit_code(Verdict::AtLeast, true), EXIT_INVALID);
        assert_eq!(exit_code(Verdict::Found, true), 0);
    }
}
