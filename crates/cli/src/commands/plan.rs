//! `loadline plan`.

use std::process::ExitCode;

/// Work out what a formula of the source documents predicts
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
