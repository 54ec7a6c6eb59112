//! The commands, one file each: arguments, help and exit code.

use std::process::ExitCode;

use loadline_core::units::Bytes;
use loadline_spanned::FileErrors;

mod administration;
pub(crate) mod bench;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod l4;
pub(crate) mod lab;
pub(crate) mod man;
pub(crate) mod outside;
pub(crate) mod ping;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod schema;
mod series;
pub(crate) mod serve;
pub(crate) mod switches;
pub(crate) mod top;
pub(crate) mod ttfb;
pub(crate) mod upgrade;
pub(crate) mod watch;
pub(crate) mod worker;
pub(crate) mod xdp_mode;

/// Wrong usage or configuration.
pub(crate) const EXIT_USAGE: u8 = 1;
/// Something failed while running.
pub(crate) const EXIT_FAILED: u8 = 2;
/// The command ran and a verdict it gave is FAIL.
pub(crate) const EXIT_VERDICT: u8 = 3;

/// Says what failed and why, and gives the exit code for it.
#[expect(clippy::print_stderr, reason = "this is where errors are told")]
pub(crate) fn report_error(error: &anyhow::Error) -> ExitCode {
    eprintln!("loadline: {}", chain(error));
    ExitCode::from(EXIT_FAILED)
}

/// Prints the errors of a file with the lines they point at, and gives the exit code for them.
#[expect(clippy::print_stderr, reason = "this is where errors of files are told")]
pub(crate) fn print_errors(errors: FileErrors) -> ExitCode {
    eprintln!("{:?}", miette::Report::new(errors));
    ExitCode::from(EXIT_USAGE)
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
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    // Where nobody listens any more there is nobody to tell.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 })
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
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot listen: {source}; ports below 1024 are for root")]
    struct ListenError {
        source: io::Error,
    }

    #[test]
    fn a_cause_is_said_once() {
        let told = anyhow::Error::new(ListenError { source: io::Error::other("in use") });
        assert_eq!(chain(&told), "cannot listen: in use; ports below 1024 are for root");
        let told = told.context("starting");
        assert!(chain(&told).starts_with("starting: cannot listen: in use; ports"));
    }
}
