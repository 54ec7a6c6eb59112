//! The binary `loadline`: one command each for the jobs of the house.
#![forbid(unsafe_code)]

mod commands;
mod process_log;

/// jemalloc, since what tokio keeps for each connection begins on a cache line: the allocator of
/// glibc leaves holes in between, 300 of the 1,070 bytes that an idle connection costs with it, and
/// keeps what it once had.
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{
    bench, capacity, check, compare, completions, demo, l4, lab, man, ping, plan, report, schema,
    serve, top, ttfb, upgrade, watch, worker,
};
use process_log::LogFormat;

/// A load balancer that keeps every group of servers at or under the load it can carry.
#[derive(Parser)]
#[command(name = "loadline", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    Upgrade(upgrade::Args),
    L4(l4::Args),
    Top(top::Args),
    Check(check::Args),
    Schema(schema::Args),
    Worker(worker::Args),
    Bench(bench::Args),
    Capacity(capacity::Args),
    Watch(watch::Args),
    Ttfb(ttfb::Args),
    Ping(ping::Args),
    Plan(plan::Args),
    Report(report::Args),
    Compare(compare::Args),
    Demo(demo::Args),
    Lab(lab::Args),
    Completions(completions::Args),
    Man(man::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return commands::report_usage(&error),
    };
    process_log::start(match &cli.command {
        Command::Serve(args) => args.log_format,
        _ => LogFormat::Text,
    });
    // Each connection is a descriptor, and a shell's default is a thousand.
    if let Err(error) = loadline_load::raise_descriptor_limit() {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Upgrade(args) => upgrade::run(&args),
        Command::L4(args) => l4::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Ttfb(args) => ttfb::run(&args),
        Command::Ping(args) => ping::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
    };
    outcome.unwrap_or_else(|error| commands::report_error(&error))
}

const AFTER_HELP: &str = "\
Examples:
  loadline serve --listen :8080 --to http://10.0.0.1:80 --to http://10.0.0.2:80
  loadline serve loadline.toml
  loadline bench http://127.0.0.1:8080/ --rate 100 --duration 60s
  loadline demo

Exit codes: 0 done, 1 wrong usage or configuration, 2 failed while running, 3 a verdict failed.";
