//! `loadline demo`: the main job, shown.

use std::process::ExitCode;

/// Show the main job: two regions held at their capacity
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
