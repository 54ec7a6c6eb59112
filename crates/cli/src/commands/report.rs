//! `loadline report`: records as one page that needs nothing but itself.

pub(crate) mod read;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::ValueHint;

use read::Source;

/// Draw records as one self-contained HTML page
///
/// Load runs are drawn in one plot each: response time by rate, latency by percentile, phases; and
/// each run over time, with the use of the machine. Capacity searches, probes, watches, comparisons
/// and formulas get a section each. The page loads nothing and runs no script.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Files that --json wrote; NAME=FILE gives one a name
    #[arg(required = true, value_name = "[NAME=]FILE", value_parser = Source::parse)]
    #[arg(value_hint = ValueHint::FilePath)]
    records: Vec<Source>,
    /// Write the page to this file; `-` is the standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// The heading of the page
    #[arg(long, default_value = "loadline report")]
    title: String,
}

/// Runs the command.
///
/// # Errors
/// What kept the page from being drawn or written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let records = match read::read_all(&args.records) {
        Ok(records) => records,
        Err(error) => {
            super::report_error(&error.into());
            return Ok(ExitCode::from(super::EXIT_USAGE));
        }
    };
    let page = loadline_report::runs_page(&args.title, &records)?.html();
    if args.output.as_os_str() == "-" {
        super::print(&page)?;
    } else {
        let path = args.output.display();
        std::fs::write(&args.output, page).with_context(|| format!("cannot write `{path}`"))?;
        tracing::info!("wrote {path}");
    }
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Examples:
  loadline bench 127.0.0.1:8080 --rate 100 --json > at-100.json
  loadline bench 127.0.0.1:8080 --rate 200 --json > at-200.json
  loadline report at-100.json at-200.json -o report.html
  loadline report before=a/run.json after=b/run.json --title 'New kernel'

Exit codes: 0 written, 1 wrong usage or a file that is no record, 2 could not be written.";
