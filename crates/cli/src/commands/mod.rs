//! The commands, one file each: arguments, help and exit code.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{
    Subcommand,
    error::{ContextKind, ContextValue},
};
use loadline_core::{
    time::Duration,
    units::{Bytes, Rate, UnitError},
};
use loadline_spanned::FileErrors;

use crate::process_log::{LogFormat, has_colours, tell};

mod administration;
mod agent;
mod bench;
mod cache;
mod capacity;
mod change;
mod check;
mod cluster;
mod compare;
mod completions;
mod demo;
mod explain;
mod generators;
mod import;
mod l4;
mod lab;
mod man;
mod output_file;
pub(crate) mod outside;
mod ping;
mod plan;
mod report;
mod schema;
mod series;
mod serve;
mod sim;
mod stop_signal;
pub(crate) mod switches;
mod top;
mod ttfb;
mod upgrade;
mod watch;
mod worker;
pub(crate) mod xdp_mode;

#[derive(Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Upgrade(upgrade::Args),
    L4(l4::Args),
    Top(top::Args),
    Cache(cache::Args),
    Cluster(cluster::Args),
    Drain(change::Drain),
    Maintenance(change::Maintenance),
    Activate(change::Activate),
    Weight(change::Weight),
    Scaler(change::Scaler),
    Check(check::Args),
    Explain(explain::Args),
    Import(import::Args),
    Schema(schema::Args),
    Worker(worker::Args),
    Bench(bench::Args),
    Agent(agent::Args),
    Capacity(capacity::Args),
    Watch(watch::Args),
    Ttfb(ttfb::Args),
    Ping(ping::Args),
    Plan(plan::Args),
    Sim(sim::Args),
    Report(report::Args),
    Compare(compare::Args),
    Demo(demo::Args),
    Lab(lab::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// How it writes its log.
    pub(crate) const fn log_format(&self) -> LogFormat {
        match self {
            Self::Serve(args) => args.log_format,
            _ => LogFormat::Text,
        }
    }

    /// Runs it. `program` is the whole command line.
    pub(crate) fn run(self, program: clap::Command) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve(args) => serve::run(&args),
            Self::Upgrade(args) => upgrade::run(&args),
            Self::L4(args) => l4::run(&args),
            Self::Top(args) => top::run(&args),
            Self::Cache(args) => cache::run(&args),
            Self::Cluster(args) => cluster::run(&args),
            Self::Drain(args) => change::drain(&args),
            Self::Maintenance(args) => change::maintenance(&args),
            Self::Activate(args) => change::activate(&args),
            Self::Weight(args) => change::weight(&args),
            Self::Scaler(args) => change::scaler(&args),
            Self::Check(args) => check::run(&args),
            Self::Explain(args) => explain::run(&args),
            Self::Import(args) => import::run(&args),
            Self::Schema(args) => schema::run(&args),
            Self::Worker(args) => worker::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Agent(args) => agent::run(&args),
            Self::Capacity(args) => capacity::run(&args),
            Self::Watch(args) => watch::run(&args),
            Self::Ttfb(args) => ttfb::run(&args),
            Self::Ping(args) => ping::run(&args),
            Self::Plan(args) => plan::run(&args),
            Self::Sim(args) => sim::run(&args),
            Self::Report(args) => report::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Demo(args) => demo::run(&args),
            Self::Lab(args) => lab::run(&args),
            Self::Completions(args) => completions::run(&args, program),
            Self::Man(args) => man::run(&args, program),
        }
    }
}

/// Wrong usage or configuration.
pub(crate) const EXIT_USAGE: u8 = 1;
/// Something failed while running.
pub(crate) const EXIT_FAILED: u8 = 2;
/// The command ran and a verdict it gave is FAIL.
pub(crate) const EXIT_VERDICT: u8 = 3;
/// There is no verdict: the load generator was the bottleneck, or nothing came of its run.
pub(crate) const EXIT_INVALID: u8 = 98;

/// Says what failed and why, and gives the exit code for it.
pub(crate) fn report_error(error: &anyhow::Error) -> ExitCode {
    tell(&format!("loadline: {}", chain(error)));
    ExitCode::from(EXIT_FAILED)
}

/// Reports about files are wrapped where a terminal shows them; in a log or a pipe a sentence stays
/// on one line, so that it can be searched for. Colours are as in the log, and frames of the
/// letters that the locale has.
pub(crate) fn set_up_reports() {
    let (wrap, colours, ascii) = (io::stderr().is_terminal(), has_colours(), is_ascii_locale());
    let options = move || {
        let options = miette::MietteHandlerOpts::new().wrap_lines(wrap).color(colours);
        if ascii { options.unicode(false) } else { options }
    };
    miette::set_hook(Box::new(move |_| Box::new(options().build())))
        .expect("nothing was printed before");
}

/// Whether a locale is given that has no letters beyond ASCII, such as `C`.
fn is_ascii_locale() -> bool {
    let given = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).unwrap_or_default());
    let locale = given.into_iter().find(|it| !it.is_empty()).unwrap_or_default().to_uppercase();
    !locale.is_empty() && !locale.contains("UTF-8") && !locale.contains("UTF8")
}

/// Says what is wrong with the arguments, and gives the exit code for it.
pub(crate) fn wrong_usage(why: &str) -> ExitCode {
    tell(&format!("loadline: {why}"));
    ExitCode::from(EXIT_USAGE)
}

/// Prints the errors of a file with the lines they point at, and gives the exit code for them.
pub(crate) fn print_errors(errors: FileErrors) -> ExitCode {
    let all = errors.errors().len();
    tell(&format!("{:?}", miette::Report::new(errors)));
    check::print_rest(all);
    ExitCode::from(EXIT_USAGE)
}

/// Prints a result. Whoever has read enough of it, as `head` has, hears no complaint.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_to(io::stdout(), text)
}

/// Prints a result to the standard error, since the standard output is that of a command.
pub(crate) fn print_aside(text: &str) -> anyhow::Result<()> {
    print_to(io::stderr(), text)
}

fn print_to(mut output: impl io::Write, text: &str) -> anyhow::Result<()> {
    heard(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

/// What came of printing. Whoever has read enough is told of no failure.
fn heard(printed: io::Result<()>) -> anyhow::Result<()> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot print the result"),
    }
}

/// An error and its causes on one line. Some errors say their cause themselves; it is not said
/// again then.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
    }
    text
}

/// Prints what clap has to say: help and version are no failure, anything else is wrong usage.
pub(crate) fn report_usage(mut error: clap::Error) -> ExitCode {
    mend_tip(&mut error);
    let printed = error.print().and_then(|()| io::stdout().flush());
    if error.use_stderr() {
        // Where nobody listens any more there is nobody to tell.
        return ExitCode::from(EXIT_USAGE);
    }
    heard(printed).map_or_else(|error| report_error(&error), |()| ExitCode::SUCCESS)
}

/// clap takes `-5` for a flag and says how it could be passed nevertheless, which leads nowhere.
fn mend_tip(error: &mut clap::Error) {
    let is_number = |text: &str| {
        text.strip_prefix('-').is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()))
    };
    let invalid = error.get(ContextKind::InvalidArg);
    if matches!(invalid, Some(ContextValue::String(text)) if is_number(text)) {
        let tip = ContextValue::StyledStrs(vec!["no quantity can be below zero".into()]);
        error.insert(ContextKind::Suggested, tip);
    }
}

/// A rate as httperf takes it, a bare number per second, or with its unit.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let text = text.trim();
    let text = if text.contains('/') { text.to_owned() } else { format!("{text}/s") };
    let rate: Rate = text.parse().map_err(|error: UnitError| error.to_string())?;
    if Rate::is_cut(&text) {
        return Err(format!("it would be cut to {rate}; {}", Rate::STEPS));
    }
    Ok(rate)
}

/// As [`rate`], and not zero.
pub(crate) fn rate_above_zero(text: &str) -> Result<Rate, String> {
    rate(text).and_then(above_zero)
}

/// A time with its unit that is not zero.
pub(crate) fn time_above_zero(text: &str) -> Result<Duration, String> {
    text.parse::<Duration>().map_err(|error| error.to_string()).and_then(above_zero)
}

fn above_zero<T: Default + PartialEq>(given: T) -> Result<T, String> {
    let is_zero = given == T::default();
    if is_zero { Err("it must be above zero".to_owned()) } else { Ok(given) }
}

/// A size with one decimal, as people read it.
pub(crate) fn size(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes / unit),
        None => Bytes::new(bytes as u64).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        _command: Command,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot listen: {source}; ports below 1024 are for root")]
    struct ListenError {
        source: io::Error,
    }

    #[test]
    fn a_rate_needs_no_unit() {
        assert_eq!(rate("10"), Ok(Rate::per_sec(10)));
        assert_eq!(rate("0.5"), Ok(Rate::milli_per_sec(500)));
        assert_eq!(rate("30/m"), Ok(Rate::milli_per_sec(500)));
        assert!(rate("fast").unwrap_err().contains("100/s"));
    }

    #[test]
    fn a_rate_that_would_be_cut_to_another_one_is_refused_with_a_right_one() {
        for (text, cut) in [("7/h", "cut to 0.001/s; "), ("1/h", "cut to 0/s; ")] {
            let told = rate(text).unwrap_err();
            assert!(told.contains(cut) && told.contains("write 0.001/s"), "{told}");
        }
        assert_eq!(rate("1/m"), Ok(Rate::milli_per_sec(16)));
    }

    #[test]
    fn every_rate_on_the_command_line_needs_no_unit() {
        for line in [
            "bench localhost --rate 50",
            "capacity localhost --slo p99<1s --max-rate 500",
            "agent --token-file token --max-rate 500",
            "plan queue --service 10ms --rate 50",
            "plan bandwidth --rate 50",
            "plan replication --rate 50",
        ] {
            let words = ["loadline"].into_iter().chain(line.split(' '));
            assert!(Line::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let told = anyhow::Error::new(ListenError { source: io::Error::other("in use") });
        assert_eq!(chain(&told), "cannot listen: in use; ports below 1024 are for root");
        let told = told.context("starting");
        assert!(chain(&told).starts_with("starting: cannot listen: in use; ports"));
    }
}
