//! The benchmark: loadline beside a floor, HAProxy, nginx and Envoy, all driven as processes.
//!
//! `make bench` runs it. It uses none of loadline's crates, so that what it measures is what users
//! run, by means that do not share its faults. `run` puts the parts together: `cost` (CPU time per
//! request), `fixed_rate` (time added at a rate that all can carry), `overflow` (between two
//! regions), `overload` (two and four times the capacity), `healthy` (services that are not in
//! overload), `outage` (a server dies or hangs), `hitless` (reloads and upgrades), `slow` (clients
//! that drip), `pick` (a single decision),
//! `generator` (the load generator beside wrk), `idle` (memory of connections that wait), `scale`
//! (thousands of services), `http3` (beside Caddy and Envoy), `cached` (the cache beside nginx,
//! Varnish and Traffic Server).
// unsafe: `floor` sets an option of sockets for which there is no safe function.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod backend;
mod cached;
mod caddy;
mod config;
mod cost;
mod envoy;
mod fixed_rate;
mod floor;
mod generator;
mod h2load;
mod healthy;
mod hitless;
mod http3;
mod idle;
mod open_loop;
mod outage;
mod overflow;
mod overload;
mod peers;
mod pick;
mod process;
mod run;
mod scale;
mod slow;
mod stats;
mod steal;
mod tunnels;
mod verdict;
mod worker;
mod wrk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// loadline beside HAProxy, nginx and Envoy
#[derive(Debug, Parser)]
#[command(name = "loadline-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Backend(backend::Args),
    Station(healthy::Args),
    Floor(floor::Args),
    Pace(fixed_rate::Args),
    Slow(slow::Args),
    Flood(http3::flood::Args),
    Plot(scale::plot::Args),
}

/// 0: done, and every verdict is good. 1: a verdict is not. 2: something went wrong on the way.
fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Pace(args) => fixed_rate::pace(&args).map(|()| true),
        Command::Plot(args) => scale::plot::print(&args).map(|()| true),
        Command::Slow(args) => slow::be_slow(&args).map(|()| true),
        Command::Flood(args) => http3::flood::be_flood(&args).map(|()| true),
        Command::Floor(args) => floor::serve(&args).map(|()| true),
        Command::Backend(args) => backend::serve(&args).map(|()| true),
        Command::Station(args) => healthy::serve(&args).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("loadline-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}
