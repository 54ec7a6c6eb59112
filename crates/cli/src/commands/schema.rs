//! `loadline schema`: print the JSON Schema of the configuration.

use std::process::ExitCode;

/// Print the JSON Schema of the configuration
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
