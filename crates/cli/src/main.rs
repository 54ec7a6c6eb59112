//! The binary `loadline`: one command for each task.
#![forbid(unsafe_code)]

mod commands;
mod process_log;

/// jemalloc, since what tokio keeps for each connection begins on a cache line: the allocator of
/// glibc leaves holes in between, 300 of the 1,070 bytes that an idle connection costs with it, and
/// keeps what it once had.
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use commands::Command;

/// A load balancer that keeps every group of servers at or under the load it can carry.
#[derive(Parser)]
#[command(name = "loadline", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return commands::report_usage(error),
    };
    commands::set_up_reports();
    let _log = process_log::start(cli.command.log_format());
    // Each connection is a descriptor, and a shell's default is a thousand.
    if let Err(error) = loadline_load::raise_descriptor_limit() {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    let outcome = cli.command.run(Cli::command());
    outcome.unwrap_or_else(|error| commands::report_error(&error))
}

const AFTER_HELP: &str = "\
Examples:
  loadline serve --listen :8080 --to http://10.0.0.1:80 --to http://10.0.0.2:80
  loadline serve loadline.toml
  loadline bench http://127.0.0.1:8080/ --rate 100 --duration 60s
  loadline demo

Exit codes: 0 done, 1 wrong usage or configuration, 2 failed while running, 3 a verdict failed.";
