//! The command line of `loadline sim`.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
};

use loadline_core::{
    fleet::{ServerAddress, ServerAddressError},
    time::{Duration, Instant},
    units::{Ratio, UnitError},
};
use loadline_measure::objective::Objective;
use loadline_sim::{
    OutageKind,
    explanation::Meant,
    scenario::{Fault, Selector, Trouble},
};

/// Simulate a configuration under given traffic
///
/// The code that decides is that of `serve`, in virtual time: choice of group and server, queues,
/// retries, health checks, ejection. Servers, clients and networks are models, described in the
/// traffic file. Without one, each service gets 70 % of its capacity as random arrivals for a
/// minute. The same seed gives the same run, to the byte.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(clap::Subcommand)]
pub(super) enum Command {
    WhatIf(WhatIf),
    Plan(Plan),
    Policies(Policies),
    Explain(Explain),
}

#[derive(clap::Args)]
pub(super) struct Common {
    /// The configuration
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// The traffic file, or a factor of the traffic such as x1.5; repeat to give both
    #[arg(long = "traffic", value_name = "FILE|xN")]
    pub(super) traffic: Vec<TrafficArg>,
    /// Seed of the run [that of the traffic file]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Duration of the traffic [that of the traffic file]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(super) duration: Option<Duration>,
    /// The objective, like `p99<300ms, errors<0.1%`; the exit code says whether it was met
    #[arg(long, value_name = "TEXT")]
    pub(super) slo: Option<Objective>,
    /// Print the record as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write a page with pictures to this file
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

impl Common {
    /// The configuration.
    pub(super) fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(""))
    }
}

/// Simulate the same traffic with and without a change
#[derive(clap::Args)]
#[command(after_help = WHAT_IF_HELP, group(clap::ArgGroup::new("change").multiple(true)))]
pub(super) struct WhatIf {
    #[command(flatten)]
    pub(super) common: Common,
    /// What fails: servers, with the edge of a region (region=, service=, group=, server=); the
    /// contents of caches (cache, cache=REGION); or the store of the cluster (store)
    #[arg(long, value_name = "KEY=NAME,...", group = "change")]
    pub(super) lose: Vec<Losing>,
    /// Servers that become slower by a factor: server=10.0.0.1:80,factor=3
    #[arg(long, value_name = "KEY=NAME,...,factor=N", group = "change")]
    pub(super) slow: Vec<Slowing>,
    /// When the change begins [a third of the duration]
    #[arg(long, value_name = "TIME", requires = "change")]
    pub(super) at: Option<Duration>,
    /// How long the change lasts [to the end]
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, requires = "change")]
    pub(super) lasts: Option<Duration>,
    #[command(flatten)]
    pub(super) threads: Threads,
}

impl WhatIf {
    /// What goes wrong, if the traffic lasts so long.
    pub(super) fn faults(&self, duration: Duration) -> Vec<Fault> {
        let at = Instant::ZERO + self.at.unwrap_or(duration / 3).max(Duration::from_nanos(1));
        let fault =
            |what, whom: &Selector| Fault { at, lasts: self.lasts, what, whom: whom.clone() };
        let losing = self.lose.iter().map(|Losing { whom, what }| fault(*what, whom));
        let slowing = self.slow.iter().map(|Slowing(whom, by)| fault(Trouble::Slow(*by), whom));
        losing.chain(slowing).collect()
    }
}

/// Find how many servers each group needs to meet an objective, even after a loss
///
/// Groups are made larger and smaller until no group can do with one server less; the limits of a
/// group grow with its servers. Each loss (--survive) lasts for a whole run, and requests count
/// once health checks have noticed it. Runs with other seeds confirm the result.
#[derive(clap::Args)]
#[command(after_help = PLAN_HELP)]
pub(super) struct Plan {
    #[command(flatten)]
    pub(super) common: Common,
    /// Losses to survive, one at a time: any-region, any-group, any-server, nothing, or
    /// KEY=NAME,...
    #[arg(long, value_name = "WHAT", default_value = "any-region")]
    pub(super) survive: Vec<Surviving>,
    #[command(flatten)]
    pub(super) threads: Threads,
}

/// Show one simulated request, decision by decision, with what its edge knew at each
#[derive(clap::Args)]
#[command(after_help = EXPLAIN_HELP)]
pub(super) struct Explain {
    #[command(flatten)]
    pub(super) common: Common,
    /// Number of the request, from 1 in the order in which clients first send them; or slowest, or
    /// failed
    #[arg(long, value_name = "N", default_value = "slowest")]
    pub(super) request: RequestArg,
}

/// Which request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestArg(pub(super) Meant);

impl FromStr for RequestArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = || {
            let number = text.parse().ok().filter(|number| *number > 0);
            number.map(Meant::Number).ok_or_else(|| {
                format!("`{text}` is no number from 1, and neither `slowest` nor `failed`")
            })
        };
        Ok(Self(match text {
            "slowest" => Meant::Slowest,
            "failed" => Meant::Failed,
            _ => number()?,
        }))
    }
}

/// Rank every policy on the same requests, and say why one is first
///
/// Each policy runs with the same seeds, in place of the policies in the configuration. The work of
/// a request does not depend on where it goes. Policies are ranked by the p99 of all requests (by
/// the share that failed, if more than 1 %), or with --slo by the number of runs that meet the
/// objective.
#[derive(clap::Args)]
#[command(after_help = POLICIES_HELP)]
pub(super) struct Policies {
    #[command(flatten)]
    pub(super) common: Common,
    /// Number of seeds for each policy
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) seeds: u32,
    #[command(flatten)]
    pub(super) threads: Threads,
}

#[derive(clap::Args)]
pub(super) struct Threads {
    /// Number of parallel runs; the result does not depend on it [one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<u16>>,
}

impl Threads {
    pub(super) fn get(&self) -> NonZero<u16> {
        let cores = || NonZero::try_from(thread::available_parallelism().ok()?).ok();
        self.threads.or_else(cores).unwrap_or(NonZero::<u16>::MIN)
    }
}

/// What may be lost.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Surviving {
    AnyRegion,
    AnyGroup,
    AnyServer,
    Nothing,
    /// Of this text.
    These(String, Selector),
}

impl FromStr for Surviving {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "any-region" => Self::AnyRegion,
            "any-group" => Self::AnyGroup,
            "any-server" => Self::AnyServer,
            "nothing" => Self::Nothing,
            _ if text.contains('=') => Self::These(text.to_owned(), selection_of_lost(text, ONCE)?),
            _ => {
                return Err(format!(
                    "`{text}` is none of any-region, any-group, any-server and nothing, and not \
                     KEY=NAME"
                ));
            }
        })
    }
}

/// A traffic file, or what its rates are multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TrafficArg {
    File(PathBuf),
    Times(f64),
}

impl FromStr for TrafficArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix('x').and_then(|number| number.parse::<f64>().ok());
        match number {
            Some(factor) if factor > 0.0 && factor <= TIMES_MAX => Ok(Self::Times(factor)),
            Some(factor) => Err(format!(
                "expected a number above 0 and at most {TIMES_MAX} after `x`, found {factor}"
            )),
            None => Ok(Self::File(text.into())),
        }
    }
}

/// `region=us`: which servers are lost; or `cache`, `cache=us`: which caches; or `store`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Losing {
    whom: Selector,
    what: Trouble,
}

impl FromStr for Losing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let caches = |region| {
            let whom = Selector { region, ..Selector::default() };
            Ok(Self { whom, what: Trouble::Cache })
        };
        if text == "store" {
            return Ok(Self { whom: Selector::default(), what: Trouble::StoreAway });
        }
        match text.strip_prefix("cache") {
            Some("") => caches(None),
            Some(region) if region.len() > 1 && region.starts_with('=') => {
                caches(Some(region[1..].to_owned()))
            }
            _ => {
                let what = Trouble::Outage(OutageKind::Unreachable);
                Ok(Self { whom: selection_of_lost(text, EACH)?, what })
            }
        }
    }
}

/// The servers of `KEY=NAME,...`; `twice` as for [`selection`].
fn selection_of_lost(text: &str, twice: &str) -> Result<Selector, String> {
    match selection(text, twice, KEYS_OF_LOST)? {
        (selector, None) => Ok(selector),
        (_, Some(_)) => Err("`factor` makes no sense for what is lost".to_owned()),
    }
}

/// `server=10.0.0.1:80,factor=3`: which servers are slow, and how slow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slowing(Selector, f64);

impl FromStr for Slowing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (selector, factor) = selection(text, EACH, KEYS)?;
        let factor = factor.ok_or("say how many times as slow: factor=3")?;
        Ok(Self(selector, factor))
    }
}

/// The servers of `KEY=NAME,...`, and its factor; `twice` is what to do where a name is said twice,
/// `keys` what an error says of keys.
fn selection(text: &str, twice: &str, keys: &str) -> Result<(Selector, Option<f64>), String> {
    let (mut selector, mut factor, mut of_group) = (Selector::default(), None, None);
    let mut said = Vec::new();
    for part in text.split(',') {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("expected KEY=NAME, found `{part}`; {keys}"))?;
        if said.contains(&key) {
            let help = if key == "factor" { ONCE } else { twice };
            return Err(format!("`{key}` is said twice; {help}"));
        }
        said.push(key);
        let name = || Some(value.to_owned());
        match key {
            "region" => selector.region = name(),
            "service" => selector.service = name(),
            "group" => match value.split_once('/') {
                // As tables name it.
                Some((service, group)) => {
                    of_group = Some(service);
                    selector.group = Some(group.to_owned());
                }
                None => selector.group = name(),
            },
            "server" => {
                let wrong = |error: ServerAddressError| error.to_string();
                let ServerAddress(address) = value.parse().map_err(wrong)?;
                selector.server = Some(address);
            }
            "factor" => {
                let number = value.parse::<f64>().ok();
                let fits = number.filter(|factor| *factor > 0.0 && *factor <= SLOW_MAX);
                let wrong =
                    || format!("expected a number above 0 and at most {SLOW_MAX}, found `{value}`");
                factor = Some(fits.ok_or_else(wrong)?);
            }
            _ => return Err(format!("unknown key `{key}`; {keys}")),
        }
    }
    if let Some(of_group) = of_group {
        let service = selector.service.get_or_insert_with(|| of_group.to_owned());
        if service != of_group {
            return Err(format!("the group is one of service `{of_group}`, not of `{service}`"));
        }
    }
    Ok((selector, factor))
}

/// A time above zero.
fn some_time(text: &str) -> Result<Duration, String> {
    match text.parse().map_err(|error: UnitError| error.to_string())? {
        Duration::ZERO => Err("expected more than 0s".to_owned()),
        time => Ok(time),
    }
}

/// As in a traffic file.
const TIMES_MAX: f64 = 1e3;

/// As in a traffic file.
const SLOW_MAX: f64 = 1e6;

/// What to do where a key is said twice.
const ONCE: &str = "say it once";
const EACH: &str = "repeat the option to select both";

const KEYS: &str = "the keys are region, service, group, server and factor";
const KEYS_OF_LOST: &str = "the keys are region, service, group and server";

/// Percent of a share, for tables.
pub(super) fn percent(part: u64, whole: u64) -> String {
    loadline_report::percent(Ratio::part(part, whole))
}

const AFTER_HELP: &str = "\
Examples:
  loadline sim loadline.toml
  loadline sim loadline.toml --traffic traffic.toml --slo 'p99<300ms, errors<0.1%'
  loadline sim loadline.toml --traffic traffic.toml --traffic x1.5 --report sim.html
  loadline sim what-if loadline.toml --traffic traffic.toml --lose region=us --at 20s
  loadline sim plan loadline.toml --slo 'p99<300ms'
  loadline sim policies loadline.toml --traffic traffic.toml
  loadline sim explain loadline.toml --request 4711
  loadline sim loadline.toml --json > sim.json; loadline compare sim.json bench.json

docs/simulating.md lists the keys of a traffic file and says what is modelled, and what is not.
--json prints a record of kind `load`, as `bench` does.

Exit codes: 0 simulated, and the objective met; 1 wrong usage, or a file that cannot be used; 2
could not be printed or written; 99 the objective was breached.";

const WHAT_IF_HELP: &str = "\
Examples:
  loadline sim what-if loadline.toml --lose region=us-central1 --at 60s --duration 3m
  loadline sim what-if loadline.toml --traffic traffic.toml --traffic x1.5 --lose group=near
  loadline sim what-if loadline.toml --slow server=10.0.0.1:80,factor=3
  loadline sim what-if loadline.toml --traffic traffic.toml --lose cache --at 30s

With --traffic xN alone, the change is the traffic. --json prints the record of the run with the
change.

Exit codes: as those of `loadline sim`, of the run with the change.";

const POLICIES_HELP: &str = "\
Examples:
  loadline sim policies loadline.toml
  loadline sim policies loadline.toml --traffic traffic.toml --traffic x1.5 --seeds 10
  loadline sim policies loadline.toml --slo 'p99<100ms, errors<0.1%' --report policies.html

--json prints a record of kind `ranking`; --report draws it, and the first run of each policy.

Exit codes: 0 ranked; 1 wrong usage, or a file that cannot be used; 2 could not be printed or
written; 99 no policy meets the objective in every run.";

const PLAN_HELP: &str = "\
Examples:
  loadline sim plan loadline.toml --slo 'p99<300ms, errors<0.1%'
  loadline sim plan loadline.toml --traffic traffic.toml --traffic x1.5 --slo 'p99<300ms'
  loadline sim plan loadline.toml --survive any-server --survive region=us --slo 'p95<1s'

--json prints a record of kind `plan`; --report draws each case.

Exit codes: 0 found; 1 wrong usage, or a file that cannot be used; 2 could not be printed or
written; 99 no number of servers meets the objective in every run.";

const EXPLAIN_HELP: &str = "\
Examples:
  loadline sim explain loadline.toml --request 4711
  loadline sim explain loadline.toml --traffic x1.5 --request failed
  loadline sim explain loadline.toml --request slowest --report explain.html

--json prints a record of kind `explanation`.

Exit codes: 0 explained, and the objective met; 1 wrong usage, a file that cannot be used, or no
such request; 2 could not be printed or written; 99 the run breached the objective.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_says_what_is_wrong_with_it() {
        let selection = |text| selection(text, EACH, KEYS);
        let (selector, factor) = selection("region=us,service=web,factor=2.5").unwrap();
        assert_eq!((selector.region.as_deref(), factor), (Some("us"), Some(2.5)));
        let (of_table, _) = selection("group=web/us-central1").unwrap();
        assert_eq!(of_table, selection("service=web,group=us-central1").unwrap().0);
        let wrong = |text| selection(text).unwrap_err();
        assert_eq!(wrong("us"), format!("expected KEY=NAME, found `us`; {KEYS}"));
        assert_eq!(wrong("zone=us"), format!("unknown key `zone`; {KEYS}"));
        assert_eq!(wrong("factor=-1"), "expected a number above 0 and at most 1000000, found `-1`");
        let twice = "`region` is said twice; repeat the option to select both";
        assert_eq!(wrong("region=us,region=asia"), twice);
        assert_eq!(wrong("factor=2,factor=3"), "`factor` is said twice; say it once");
        let surviving = "region=us,region=asia".parse::<Surviving>().unwrap_err();
        assert_eq!(surviving, "`region` is said twice; say it once");
        let lost = "planet=x".parse::<Losing>().unwrap_err();
        assert_eq!(lost, format!("unknown key `planet`; {KEYS_OF_LOST}"));
        assert!(!lost.contains("factor"), "it is of what is slow: {lost}");
        let contradiction = "the group is one of service `web`, not of `api`";
        assert_eq!(wrong("group=web/near,service=api"), contradiction);
        assert_eq!(wrong("service=api,group=web/near"), contradiction);
        assert!(selection("service=web,group=web/near").is_ok());
        let address = "`us` is not an address like 10.0.0.1:80 or unix:/run/app.sock";
        assert_eq!(wrong("server=us"), address);
    }

    #[test]
    fn a_server_on_a_unix_socket_can_be_named() {
        let (selector, _) = selection("server=unix:/run/app.sock", EACH, KEYS).unwrap();
        let server = selector.server.map(|server| ServerAddress(server).to_string());
        assert_eq!(server.as_deref(), Some("unix:/run/app.sock"));
    }

    #[test]
    fn traffic_is_a_file_or_a_factor() {
        assert_eq!("x1.5".parse(), Ok(TrafficArg::Times(1.5)));
        assert_eq!("x.toml".parse(), Ok(TrafficArg::File("x.toml".into())));
        assert!("x0".parse::<TrafficArg>().is_err());
        assert!("x1e300".parse::<TrafficArg>().is_err());
    }

    #[test]
    fn no_time_at_all_is_refused() {
        assert_eq!(some_time("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(some_time("0s"), Err("expected more than 0s".to_owned()));
        assert!(some_time("soon").is_err());
    }
}
