//! `loadline l4`: packet forwarding, as a running edge does it.

mod decapsulate;
mod flows;
mod keepalived;
mod report;
mod status;

use std::process::ExitCode;

use clap::Subcommand;

/// Show what packet forwarding does: packets, connections, standby
///
/// Listeners with `forward = "mac"`, `"nat"` or `"ipip"` have their packets forwarded by the
/// kernel, before its network stack. docs/forwarding.md tells how to set it up.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Report(report::Args),
    Flows(flows::Args),
    Status(status::Args),
    Keepalived(keepalived::Args),
    Decapsulate(decapsulate::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Report(args) => report::run(args),
        Command::Flows(args) => flows::run(args),
        Command::Status(args) => status::run(args),
        Command::Keepalived(args) => keepalived::run(args),
        Command::Decapsulate(args) => decapsulate::run(args),
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline l4 report
  loadline l4 status
  loadline l4 flows --method nat --client 10.0.3.7

Exit codes: 0 done, 1 wrong usage, 2 failed while running.";
