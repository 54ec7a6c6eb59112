//! `loadline report`.

use std::process::ExitCode;

/// Draw records as one self-contained HTML page
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
