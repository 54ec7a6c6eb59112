//! `loadline bench`: put load on a service and measure it.

use std::process::ExitCode;

/// Put load on a service and measure it
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
