//! `loadline check`: check a configuration without running it.

use std::{path::PathBuf, process::ExitCode};

use loadline_control::{Moment, describe, discovery};
use loadline_measure::record::{CheckRecord, Document, Problem, Record, Severity};
use loadline_spanned::{FileError, SHOWN_MAX};

use super::{EXIT_USAGE, outside};

/// Check a configuration file without running it
///
/// Describes what the file does: for each service the groups in the order in which they are filled,
/// with distance and capacity. Every error has line, column and a correction. What `serve` could
/// not use is an error too: certificates and keys, the token, lists of servers, directories and
/// users that the file names.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration
    file: PathBuf,
    /// Print errors and warnings as JSON: a record of the kind `check`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = outside::load(&args.file, Moment::Check);
    if args.json {
        let found = match &loaded {
            Ok(loaded) => &loaded.warnings,
            Err(errors) => errors.errors(),
        };
        let record = CheckRecord {
            file: args.file.display().to_string(),
            problems: found.iter().map(problem).collect(),
        };
        let text = serde_json::to_string_pretty(&Document::new(Record::Check(record)))? + "\n";
        super::print(&text)?;
        return Ok(if loaded.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_USAGE) });
    }
    match loaded {
        Ok(loaded) => {
            print_warnings(&loaded.warnings);
            let lists = match discovery::read(&loaded.fleet) {
                Ok(lists) => lists,
                Err(error) => {
                    super::report_error(&error.into());
                    return Ok(ExitCode::from(EXIT_USAGE));
                }
            };
            let (name, fleet) = (args.file.display(), lists.applied_to(&loaded.fleet));
            let (counts, plan) = (loadline_control::counts(&fleet), describe(&fleet));
            let mut text = format!("{name}: ok, {counts}\n\n{plan}");
            if lists.sources().any(|source| source.place.is_name()) {
                text += &format!("\nnames are asked of {}\n", loaded.names);
            }
            super::print(&text)?;
        }
        Err(errors) => return Ok(super::print_errors(errors)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the warnings of a file with the lines they point at.
pub(crate) fn print_warnings(warnings: &[FileError]) {
    for warning in warnings.iter().take(SHOWN_MAX) {
        super::tell(&format!("{:?}", miette::Report::new(warning.clone())));
    }
    print_rest(warnings.len());
}

/// Says how many of `all` problems were not printed.
pub(crate) fn print_rest(all: usize) {
    if let Some(rest @ 1..) = all.checked_sub(SHOWN_MAX) {
        super::tell(&format!(
            "  and {rest} more; `loadline check --json` lists all of a configuration\n"
        ));
    }
}

/// Errors on one line, with their places and what would be right.
pub(crate) fn on_one_line(errors: &[FileError]) -> String {
    let told = errors.iter().take(ON_ONE_LINE_MAX).map(|error| {
        let (file, line, message) = (error.file(), error.line(), error.message());
        let place = if line == 0 { String::new() } else { format!("{file}:{line}: ") };
        let help = error.help_text();
        let help = if help.is_empty() { String::new() } else { format!(" ({help})") };
        format!("{place}{message}{help}")
    });
    let mut text = told.collect::<Vec<_>>().join("; ");
    if let Some(rest @ 1..) = errors.len().checked_sub(ON_ONE_LINE_MAX) {
        text += &format!("; and {rest} more");
    }
    text.replace('\n', " ")
}

fn problem(error: &FileError) -> Problem {
    Problem {
        severity: if error.is_warning() { Severity::Warning } else { Severity::Error },
        file: error.file().to_owned(),
        line: error.line() as u64,
        column: error.column() as u64,
        message: error.message().to_owned(),
        help: error.help_text().to_owned(),
    }
}

/// As many as can be read where there are no lines.
const ON_ONE_LINE_MAX: usize = 10;

const AFTER_HELP: &str = "\
Example:
  loadline check loadline.toml

Exit codes: 0 the file is right (it may have warnings), 1 it is not.";
