//! `loadline cluster`: the edges that share a store, and the configuration that all of them run.

mod page;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Subcommand;
use loadline_control::{
    Moment,
    cluster::{EdgeInfo, Overview, Published, Settings, Store, StoreError},
};
use loadline_core::{time, units::UnitError};
use tokio::time::sleep;

use super::{
    EXIT_USAGE, EXIT_VERDICT, check, outside, print_errors, report_error, series, wrong_usage,
};

/// Publish a configuration to all edges of a cluster, roll it back, or show the edges
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Put a configuration in force at every edge
    #[command(after_help = PUBLISH_HELP)]
    Publish(Publish),
    /// Put an older version in force again
    #[command(after_help = ROLLBACK_HELP)]
    Rollback(Rollback),
    /// Show the edges, what each runs, and the store
    #[command(after_help = STATUS_HELP)]
    Status(Status),
}

/// Where the store is.
#[derive(clap::Args)]
struct Place {
    /// The configuration file of an edge, with the table [cluster]
    #[arg(long, value_name = "FILE", default_value = "/etc/loadline/loadline.toml")]
    edge: PathBuf,
}

#[derive(clap::Args)]
struct Publish {
    /// The file to publish; together with the file of the edge it has to be a valid configuration
    file: PathBuf,

    #[command(flatten)]
    place: Place,

    /// Time to wait for the edges; a number without a unit is seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = wait_of)]
    wait: time::Duration,
}

#[derive(clap::Args)]
struct Rollback {
    /// The version [the one before the version in force]
    version: Option<u64>,

    #[command(flatten)]
    place: Place,

    /// Time to wait for the edges; a number without a unit is seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = wait_of)]
    wait: time::Duration,
}

#[derive(clap::Args)]
struct Status {
    #[command(flatten)]
    place: Place,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the store cannot be reached, or refuses.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let place = match &args.action {
        Action::Publish(args) => &args.place,
        Action::Rollback(args) => &args.place,
        Action::Status(args) => &args.place,
    };
    let settings = match loadline_control::load_cluster(&place.edge) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            let edge = place.edge.display();
            return Ok(wrong_usage(&format!("there is no [cluster] in {edge}")));
        }
        Err(errors) => return Ok(print_errors(errors)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &args.action {
        Action::Publish(args) => {
            let Some((text, services)) = checked(args)? else {
                return Ok(ExitCode::from(EXIT_USAGE));
            };
            runtime.block_on(publish(&settings, args, &text, services))
        }
        Action::Rollback(args) => runtime.block_on(roll_back(&settings, args)),
        Action::Status(args) => runtime.block_on(status(&settings, args)),
    }
}

/// The text and the names of the services, if an edge can run with it; what is wrong has been told.
fn checked(args: &Publish) -> anyhow::Result<Option<(String, Vec<String>)>> {
    let (file, edge) = (&args.file, &args.place.edge);
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            let what = format!("cannot read `{}`", file.display());
            report_error(&anyhow::Error::new(error).context(what));
            return Ok(None);
        }
    };
    let name = Some(file.display().to_string());
    let published = Published { version: 0, text: text.clone(), name };
    match outside::load_with(edge, Some(&published), Moment::Check) {
        Ok(loaded) => {
            check::print_warnings(&loaded.warnings);
            let services = loaded.fleet.services.iter().map(|service| service.name.clone());
            Ok(Some((text, services.collect())))
        }
        Err(errors) => {
            print_errors(errors);
            Ok(None)
        }
    }
}

async fn publish(
    settings: &Settings,
    args: &Publish,
    text: &str,
    services: Vec<String>,
) -> anyhow::Result<ExitCode> {
    let store = open(settings).await?;
    let by = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let version = store.publish(text, services, &by).await.map_err(helped)?;
    series::print(&format!("published version {version} of {}\n", args.file.display()))?;
    followed(&store, version, args.wait).await
}

async fn roll_back(settings: &Settings, args: &Rollback) -> anyhow::Result<ExitCode> {
    let store = open(settings).await?;
    let version = store.roll_back(args.version).await.map_err(helped)?;
    series::print(&format!("version {version} is in force again\n"))?;
    followed(&store, version, args.wait).await
}

async fn status(settings: &Settings, args: &Status) -> anyhow::Result<ExitCode> {
    let overview = open(settings).await?.overview().await.map_err(helped)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&overview)? + "\n",
        false => page::page(&overview),
    };
    series::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Waits until every edge runs the version or has refused it, or another is in force, and tells.
async fn followed(store: &Store, version: u64, wait: time::Duration) -> anyhow::Result<ExitCode> {
    let deadline = Instant::now() + wait.to_std();
    loop {
        let overview = store.overview().await.map_err(helped)?;
        let is_settled = overview.edges.iter().all(|edge| settled(&overview, edge, version));
        let is_over = is_settled || overview.superseded(version).is_some();
        if is_over || Instant::now() >= deadline {
            series::print(&page::outcome(&overview, version))?;
            let runs = |edge: &EdgeInfo| overview.is_run_by(&edge.member, version);
            let all = overview.edges.iter().all(runs);
            return Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(EXIT_VERDICT) });
        }
        sleep(LOOK_INTERVAL).await;
    }
}

fn settled(overview: &Overview, edge: &EdgeInfo, version: u64) -> bool {
    overview.is_run_by(&edge.member, version)
        || overview.refusal_by(&edge.member, version).is_some()
}

/// A time; a number without a unit is seconds.
fn wait_of(text: &str) -> Result<time::Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(time::Duration::from_secs(seconds.into())),
        Err(_) => text.parse().map_err(|error: UnitError| error.to_string()),
    }
}

async fn open(settings: &Settings) -> anyhow::Result<Store> {
    Store::open(settings).await.map_err(helped)
}

/// With what would be right.
fn helped(error: StoreError) -> anyhow::Error {
    match &error {
        StoreError::Fault(fault) => match fault.help() {
            Some(help) => anyhow::anyhow!("{error}; {help}"),
            None => error.into(),
        },
        _ => error.into(),
    }
}

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

const AFTER_HELP: &str = "\
Examples:
  loadline cluster publish site.toml
  loadline cluster status
  loadline cluster rollback
  loadline cluster rollback 7 --edge edge.toml

A published file has services, regions, routes and whatever else is the same at all edges. It may
not have `include`, [edge], [admin] and [cluster]: each edge has these in a file of its own. It is
checked as by `loadline check`, together with the file of the edge. An edge that cannot run it keeps
its old configuration, and the reason is printed here.
Exit codes: 0 done, 1 wrong usage or configuration, 2 the store cannot be reached or refuses,
3 an edge refused the version or has not answered in time, or another version superseded it.";

const PUBLISH_HELP: &str = "\
Examples:
  loadline cluster publish site.toml
  loadline cluster publish site.toml --edge edge.toml --wait 1m

Exit codes: 0 every edge runs it, 1 wrong usage or configuration, 2 the store cannot be reached or
refuses, 3 an edge refused the version or has not answered in time, or another superseded it.";

const ROLLBACK_HELP: &str = "\
Examples:
  loadline cluster rollback
  loadline cluster rollback 7 --edge edge.toml

Exit codes: 0 every edge runs it, 1 wrong usage or configuration, 2 there is no such version, or
the store cannot be reached, 3 an edge refused the version or has not answered in time, or another
superseded it.";

const STATUS_HELP: &str = "\
Examples:
  loadline cluster status
  loadline cluster status --edge edge.toml --json

Exit codes: 0 shown, 1 wrong usage or configuration, 2 the store cannot be reached.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seconds_or_a_time_with_its_unit() {
        for (text, seconds) in [("60", 60), ("2s", 2), ("1m30s", 90)] {
            assert_eq!(wait_of(text), Ok(time::Duration::from_secs(seconds)), "{text}");
        }
        assert!(wait_of("soon").is_err() && wait_of("").is_err());
    }
}
