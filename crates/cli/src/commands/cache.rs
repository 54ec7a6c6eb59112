//! `loadline cache`: what the cache of a running edge holds, and taking things out of it.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Subcommand;
use loadline_control::admin::read_token;
use loadline_core::state::{CacheShare, CachedObject, DiskCache, Purge, Purged};
use serde::Deserialize;

use super::{administration::Administration, series, size, wrong_usage};

/// Show what the cache of a running loadline holds, or purge from it
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show how much is stored, and how often it is used
    #[command(after_help = STATS_HELP)]
    Stats(Place),
    /// Show the responses that are used most
    #[command(after_help = TOP_HELP)]
    Top(Top),
    /// Purge responses, or mark them stale
    #[command(after_help = PURGE_HELP)]
    Purge(PurgeArgs),
}

/// Where the edge is asked.
#[derive(clap::Args)]
struct Place {
    /// The admin interface of a running loadline: an address or the path of its socket
    #[arg(long = "at", value_name = "ADDR", default_value = "127.0.0.1:9090")]
    place: Administration,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Top {
    #[command(flatten)]
    place: Place,

    /// Maximum number of responses
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(clap::Args)]
struct PurgeArgs {
    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    what: Names,

    /// Mark responses stale instead of removing them: they are served only as stale responses, and
    /// revalidated
    #[arg(long)]
    soft: bool,

    /// The file with the token of the admin interface (admin.token_file)
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Names {
    /// A complete URL
    url: Option<String>,

    /// A prefix of URLs
    #[arg(long)]
    prefix: Option<String>,

    /// A tag from the header Cache-Tag or Surrogate-Key
    #[arg(long)]
    tag: Option<String>,
}

/// What the edge tells of its responses.
#[derive(Deserialize)]
struct Objects {
    objects: Vec<CachedObject>,
}

/// Runs the command.
///
/// # Errors
/// Where the admin interface cannot be reached, or refuses.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Stats(place) => stats(place)?,
        Action::Top(top) => self::top(top)?,
        Action::Purge(purge) => return self::purge(purge),
    }
    Ok(ExitCode::SUCCESS)
}

fn stats(args: &Place) -> anyhow::Result<()> {
    let state = args.place.state()?;
    let cache = state.cache.context("no route of this edge has a cache")?;
    if args.json {
        return series::print(&(serde_json::to_string_pretty(&cache)? + "\n"));
    }
    let mut text = format!(
        "objects {}, {} of {}, arriving {}, sending {}, fetches {}, evicted {}\n",
        cache.objects,
        size(cache.bytes as f64),
        size(cache.memory_bytes as f64),
        size(cache.arriving_bytes as f64),
        size(cache.sending_bytes as f64),
        cache.fetches,
        cache.evicted,
    );
    cache.disk.iter().try_for_each(|disk| write_disk(&mut text, disk))?;
    for service in &state.services {
        let percent =
            |ratio: Option<f64>| ratio.map_or("-".into(), |it| format!("{:.1} %", it * 100.0));
        let share = CacheShare::of(&service.counts.counters);
        writeln!(
            text,
            "{}: hit ratio {} of requests to routes with a cache, {} of bytes",
            service.name,
            percent(share.map(|it| it.requests)),
            percent(share.and_then(|it| it.bytes)),
        )?;
    }
    series::print(&text)
}

fn write_disk(text: &mut String, disk: &DiskCache) -> std::fmt::Result {
    let state = if disk.up { "" } else { " (does not work, or is not open yet)" };
    writeln!(
        text,
        "disk{state}: objects {}, {} of {}, index {}, queued {}, hits {}, written {}, refused {}, \
         failed {}, damaged {}",
        disk.objects,
        size(disk.bytes as f64),
        size(disk.size_bytes as f64),
        size(disk.index_bytes as f64),
        size(disk.queued_bytes as f64),
        disk.hits,
        disk.written,
        disk.writes_refused + disk.reads_refused,
        disk.writes_failed,
        disk.damaged,
    )
}

fn top(args: &Top) -> anyhow::Result<()> {
    let path = format!("/api/cache/objects?limit={}", args.limit);
    let Objects { objects } = args.place.place.get(&path)?;
    if args.place.json {
        return series::print(&(serde_json::to_string_pretty(&objects)? + "\n"));
    }
    let mut text = format!("{:>10} {:>10} {:>8} {:>8}  URL\n", "hits", "bytes", "age", "ttl");
    for it in objects {
        let bytes = size(it.bytes as f64);
        writeln!(
            text,
            "{:>10} {bytes:>10} {:>7}s {:>7}s  {}",
            it.hits, it.age_s, it.ttl_s, it.url
        )?;
    }
    series::print(&text)
}

fn purge(args: &PurgeArgs) -> anyhow::Result<ExitCode> {
    let Names { url, prefix, tag } = &args.what;
    let purge =
        Purge { url: url.clone(), prefix: prefix.clone(), tag: tag.clone(), soft: args.soft };
    if !purge.is_clear() {
        return Ok(wrong_usage("say what is to be purged"));
    }
    if purge.normalized().is_none() {
        return Ok(wrong_usage(Purge::NO_URL));
    }
    let token = read_token(&args.token_file)?;
    let body = serde_json::to_string(&purge)?;
    let purged: Purged = args.place.place.post("/api/cache/purge", &token, &body)?;
    let done = if args.soft { "marked stale" } else { "purged" };
    series::print(&match args.place.json {
        true => serde_json::to_string(&purged)? + "\n",
        false => format!("{done}: {}, fetches under way: {}\n", purged.objects, purged.fetches),
    })?;
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Examples:
  loadline cache stats
  loadline cache top --limit 50 --at 127.0.0.1:9090
  loadline cache purge --token-file admin.token https://example.com/a
  loadline cache purge --token-file admin.token --prefix https://example.com/img/
  loadline cache purge --token-file admin.token --tag product-7 --soft

A purge covers everything that is stored; what is being fetched at that moment is not stored.
Exit codes: 0 done, 1 wrong usage, 2 the admin interface cannot be reached or refused; of `stats`
also where the edge has no cache.";

const STATS_HELP: &str = "\
Examples:
  loadline cache stats
  loadline cache stats --at /run/loadline.sock --json | jq .bytes

Exit codes: 0 shown, 1 wrong usage, 2 the admin interface cannot be reached, or the edge has no
cache.";

const TOP_HELP: &str = "\
Examples:
  loadline cache top
  loadline cache top --limit 50 --at 127.0.0.1:9090

Exit codes: 0 shown, 1 wrong usage, 2 the admin interface cannot be reached.";

const PURGE_HELP: &str = "\
Examples:
  loadline cache purge --token-file admin.token https://example.com/a
  loadline cache purge --token-file admin.token --prefix https://example.com/img/
  loadline cache purge --token-file admin.token --tag product-7 --soft

A purge covers everything that is stored; what is being fetched at that moment is not stored.
Exit codes: 0 done, whether anything was stored or not, 1 wrong usage, 2 the token file has no
token, or the admin interface cannot be reached or refused.";
