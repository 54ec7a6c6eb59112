//! `loadline check`: check a configuration without running it.

use std::process::ExitCode;

/// Check a configuration file
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
