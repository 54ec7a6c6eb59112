//! `loadline compare`: two load runs beside each other, and whether the second is worse.

use std::{fmt::Write as _, process::ExitCode};

use clap::ValueHint;
use loadline_measure::record::{ComparedRun, ComparisonRecord, Document, Record};
use loadline_report::{Limits, compare_runs, comparison_table, plan_difference, utc};

use super::report::read::{self, ReadError, Source};

/// Compare two load runs, with confidence intervals
///
/// Prints rate, errors, mean, p50, p90, p99 and maximum of both runs with 95 % intervals, and the
/// quotient B / A with its interval. B is a regression if the whole interval of a quotient is
/// beyond the threshold, and `unclear` if the runs are too short to tell. Responses close in time
/// are alike, so a run whose mean swings over time counts as fewer responses than it has.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The run to compare with (baseline): a file that `bench --json` wrote
    #[arg(value_name = "[NAME=]A", value_parser = Source::parse, value_hint = ValueHint::FilePath)]
    a: Source,
    /// The run that is judged
    #[arg(value_name = "[NAME=]B", value_parser = Source::parse, value_hint = ValueHint::FilePath)]
    b: Source,
    /// Share by which a time may be longer or a rate lower
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    threshold: f64,
    /// Difference by which the share of errors may be higher
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = share)]
    error_threshold: f64,
    /// Compare even runs of different plans
    #[arg(long)]
    force: bool,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum CompareError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(
        "the runs had different plans ({0}): what differs is not the service; compare runs of \
             the same plan, or use --force"
    )]
    Plans(String),
    #[error("no request of {0} was answered and none failed: there is nothing to compare")]
    Nothing(String),
}

/// Runs the command.
///
/// # Errors
/// What kept the result from being printed.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let record = match compare(args) {
        Ok(record) => record,
        Err(error) => {
            super::report_error(&error.into());
            return Ok(ExitCode::from(super::EXIT_USAGE));
        }
    };
    for warning in &record.warnings {
        tracing::warn!("{warning}");
    }
    let regressed = record.regressed;
    let text = if args.json {
        serde_json::to_string_pretty(&Document::new(Record::Comparison(record)))? + "\n"
    } else {
        page(&record)
    };
    super::print(&text)?;
    Ok(if regressed { ExitCode::from(super::EXIT_VERDICT) } else { ExitCode::SUCCESS })
}

fn compare(args: &Args) -> Result<ComparisonRecord, CompareError> {
    let (a, b) = (args.a.read_load()?, args.b.read_load()?);
    if !args.force
        && let Some(difference) = plan_difference(&a, &b)
    {
        return Err(CompareError::Plans(difference));
    }
    let names = read::names(&[args.a.clone(), args.b.clone()]);
    for (name, run) in names.iter().zip([&a, &b]) {
        if run.without_cut_off().outcomes.total() == 0 {
            return Err(CompareError::Nothing(name.clone()));
        }
    }
    let limits = Limits { threshold: args.threshold, error_threshold: args.error_threshold };
    Ok(compare_runs((&names[0], &a), (&names[1], &b), limits))
}

/// The result for a terminal of 80 columns.
fn page(record: &ComparisonRecord) -> String {
    let mut page = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(page, "{text}").expect("a String takes everything");
    };
    for (letter, run) in [("A", &record.a), ("B", &record.b)] {
        let ComparedRun { name, target, started_unix_ms, valid } = run;
        let invalid = if *valid { "" } else { ", INVALID" };
        let began = match started_unix_ms {
            0 => "simulated".to_owned(),
            at => utc(*at),
        };
        line(format_args!("{letter}  {name}{invalid}: {target}, {began}"));
    }
    let table = comparison_table(record);
    line(format_args!("\n{table}"));
    line(format_args!("{}.", table.caption));
    line(format_args!("{}", if record.regressed { REGRESSED } else { NO_REGRESSION }));
    page
}

/// A share as `5%`, `0.1 %` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text.trim(), 1.0),
    };
    let share = number.parse::<f64>().ok().map(|number| number / scale);
    share
        .filter(|share| (0.0..=10.0).contains(share))
        .ok_or_else(|| format!("`{text}` is not a share; write it like `5%` or `0.05`"))
}

const REGRESSED: &str = "B is a regression.";
const NO_REGRESSION: &str = "No regression is shown.";

const AFTER_HELP: &str = "\
Examples:
  loadline bench 127.0.0.1:8080 --rate 200 -d 60s --json > before.json
  loadline bench 127.0.0.1:8080 --rate 200 -d 60s --json > after.json
  loadline compare before.json after.json
  loadline compare before.json after.json --threshold 10% --json

The mean is of the response times of successful requests. Percentiles and the maximum are of all
requests: one that failed is `never`. `the same`: the whole interval is within the threshold;
`unclear`: it holds changes within and beyond. A maximum is one request and is not judged. Two runs
show that these two differ; repeat both, in turns, before believing little.

Exit codes: 0 no regression shown, 1 wrong usage, no record, different plans, or nothing to compare
(no request answered or failed), 2 could not be printed, 3 B is a regression.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_with_and_without_percent() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0.1 %"), Ok(0.001));
        assert_eq!(share("0.05"), Ok(0.05));
        for wrong in ["", "five", "-1%", "nan", "2000%"] {
            assert!(share(wrong).unwrap_err().contains("5%"), "{wrong}");
        }
    }
}
