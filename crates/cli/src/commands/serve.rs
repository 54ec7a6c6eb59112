//! `loadline serve`: run the load balancer.

use std::process::ExitCode;

/// Run the load balancer
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
