//! `loadline watch`.

use std::process::ExitCode;

/// Watch what a machine's resources do while a command runs
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
