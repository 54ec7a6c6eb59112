//! `loadline check`: check a configuration without running it.

use std::{
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use loadline_control::{ConfigError, ConfigErrors, Loaded};
use loadline_proxy::tls::Keys;
use serde_json::{Value, json};

use super::EXIT_USAGE;

/// Check a configuration file without running it
///
/// Prints what the file says in words: for each service the groups in the order in which they are
/// filled, with distance and capacity. Every error is told with line, column and what would be
/// right.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration
    file: PathBuf,
    /// Print errors and warnings as JSON: an array of {severity, line, column, message, help}
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = loadline_control::load(&args.file);
    let code = if loaded.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_USAGE) };
    if args.json {
        let found = match &loaded {
            Ok(loaded) => &loaded.warnings,
            Err(errors) => errors.errors(),
        };
        let found: Vec<Value> = found.iter().map(as_json).collect();
        let text = serde_json::to_string_pretty(&found).context("writing JSON")? + "\n";
        stdout().write_all(text.as_bytes()).context("printing the errors")?;
        return Ok(code);
    }
    match loaded {
        Ok(loaded) => {
            print_warnings(&loaded);
            if let Err(error) = Keys::load(&loaded.fleet) {
                super::report_error(&error.into());
                return Ok(ExitCode::from(EXIT_USAGE));
            }
            let name = args.file.display();
            let plan = loadline_control::describe(&loaded.fleet);
            let text = format!("{name}: ok, {}\n\n{plan}", loadline_control::counts(&loaded.fleet));
            stdout().write_all(text.as_bytes()).context("printing the plan")?;
        }
        Err(errors) => print_errors(errors),
    }
    Ok(code)
}

/// Prints the errors of a configuration with the lines they point at.
#[expect(clippy::print_stderr, reason = "this is where errors of the configuration are told")]
pub(crate) fn print_errors(errors: ConfigErrors) {
    eprintln!("{:?}", miette::Report::new(errors));
}

/// Prints the warnings of a configuration with the lines they point at.
#[expect(clippy::print_stderr, reason = "this is where warnings of the configuration are told")]
pub(crate) fn print_warnings(loaded: &Loaded) {
    for warning in &loaded.warnings {
        eprintln!("{:?}", miette::Report::new(warning.clone()));
    }
}

fn as_json(error: &ConfigError) -> Value {
    json!({
        "severity": if error.is_warning() { "warning" } else { "error" },
        "line": error.line(),
        "column": error.column(),
        "message": error.message(),
        "help": error.help_text(),
    })
}

const AFTER_HELP: &str = "\
Example:
  loadline check loadline.toml

Exit codes: 0 the file is right (it may have warnings), 1 it is not.";
