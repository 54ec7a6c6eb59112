//! `loadline compare`.

use std::process::ExitCode;

/// Compare two runs, with confidence intervals
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
