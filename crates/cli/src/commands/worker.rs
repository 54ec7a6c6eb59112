//! `loadline worker`: run a test server.

use std::process::ExitCode;

/// Run a test server
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
