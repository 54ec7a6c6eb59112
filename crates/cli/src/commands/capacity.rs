//! `loadline capacity`.

use std::process::ExitCode;

/// Find the load line: the highest rate at which a service still meets its objective
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
