//! The load of a step as the lab's generator would send it: each request with its target and the
//! instant it is planned for.

use clap::Parser as _;
use loadline_core::time::Duration;
use loadline_load::{LoadPlan, Pattern, Turns, Until};

use super::row_hosts::{RowHosts, file_name};
use crate::commands::bench;

/// When the requests of one target come.
pub(super) enum Coming {
    /// At these times since the start.
    At(Vec<Duration>),
    /// From users who wait for their responses.
    Users {
        users: u32,
        think: Duration,
        /// In all; until `lasts` has passed if none.
        requests: Option<u64>,
        lasts: Duration,
    },
}

#[derive(clap::Parser)]
struct BenchLine {
    #[command(flatten)]
    args: bench::Args,
}

/// The plan of a `loadline bench`.
///
/// # Errors
/// Why the command is none that can be simulated.
pub(super) fn plan(hosts: &RowHosts, arguments: &[String]) -> Result<LoadPlan, String> {
    let rest = hosts.own(arguments)?;
    match rest.first().map(String::as_str) {
        Some("bench") => {}
        Some(other) => return Err(format!("only `bench` is simulated, not `{other}`")),
        None => return Err("it says nothing to do".to_owned()),
    }
    let line = BenchLine::try_parse_from(inline_urls(hosts, rest)?);
    let args = line.map_err(|error| error.to_string())?.args;
    args.plan().map_err(|error| error.to_string())
}

/// The requests of each target of a plan, in the order of its targets.
///
/// # Errors
/// What of it is not simulated.
pub(super) fn coming(plan: &LoadPlan) -> Result<Vec<Coming>, String> {
    let (timetable, until) = match &plan.pattern {
        Pattern::Open { max_in_flight: Some(_), .. } => {
            return Err("a limit of requests in flight is not simulated".to_owned());
        }
        Pattern::Open { timetable, until, .. } => (timetable, *until),
        Pattern::Closed { users, think, until } => return users_of(plan, *users, *think, *until),
    };
    let mut lists = vec![Vec::new(); plan.targets.len()];
    let turns = Turns::new(plan.targets.iter().map(|(_, weight)| *weight));
    for at in timetable.instants(until) {
        lists[turns.next()].push(at);
    }
    Ok(lists.into_iter().map(Coming::At).collect())
}

fn users_of(
    plan: &LoadPlan,
    users: u32,
    think: Duration,
    until: Until,
) -> Result<Vec<Coming>, String> {
    if until == Until::Requests(1) {
        let mut lists = vec![Vec::new(); plan.targets.len()];
        let turns = Turns::new(plan.targets.iter().map(|(_, weight)| *weight));
        (0..users).for_each(|_| lists[turns.next()].push(Duration::ZERO));
        return Ok(lists.into_iter().map(Coming::At).collect());
    }
    if plan.targets.len() > 1 {
        return Err("users who go from one target to the next are not simulated".to_owned());
    }
    let (requests, lasts) = match until {
        Until::Requests(each) => (Some(each * u64::from(users)), LONGEST),
        Until::Elapsed(lasts) => (None, lasts),
    };
    Ok(vec![Coming::Users { users, think, requests, lasts }])
}

/// The arguments with the URLs of a file of the study in the place of `--urls FILE`.
fn inline_urls(hosts: &RowHosts, arguments: &[String]) -> Result<Vec<String>, String> {
    let Some(at) = arguments.iter().position(|one| one == "--urls") else {
        return Ok(arguments.to_vec());
    };
    let path = arguments.get(at + 1).map_or("", String::as_str);
    let text = hosts.files.get(file_name(path)).ok_or("its file of URLs is not in the study")?;
    let mut filled = arguments[..at].to_vec();
    let mut weights = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (url, weight) = line.split_once(' ').unwrap_or((line, "1"));
        filled.push(url.to_owned());
        weights.push(weight.to_owned());
    }
    filled.extend(["--weights".to_owned(), weights.join(",")]);
    filled.extend_from_slice(&arguments[at + 2..]);
    Ok(filled)
}

/// Longer than any phase: users who send so many requests are done before.
const LONGEST: Duration = Duration::from_secs(3600);
