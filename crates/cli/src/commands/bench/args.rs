//! The command line of `loadline bench` and the plan that it means.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
};

use loadline_core::{time::Duration, units::Rate};
use loadline_load::{
    LoadPlan, Pattern, Timetable, Until, parse_arrivals_file, parse_stages, watch::NetLimit,
};
use loadline_measure::{
    objective::Objective,
    record::{self, Stage},
};

use super::{
    super::{generators::With, output_file::is_printed, rate, watch::Subjects},
    formats::Format,
    request::{RequestArgs, read_text},
    transport::TransportArgs,
    usage::UsageError,
};

/// Put load on a service and measure it
///
/// Closed loop (--users): each user sends its next request after the response to the last, as siege
/// does. Open loop (--rate, --stages, --arrivals FILE): requests are sent at planned times whatever
/// the responses do, as with httperf; response times count from the planned time, so a stall shows
/// in full.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    pub(super) with: With,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// How many requests, and when.
#[derive(clap::Args)]
#[command(next_help_heading = "Load")]
struct LoadArgs {
    /// Closed loop: number of concurrent users
    #[arg(short = 'c', long, value_name = "N")]
    users: Option<u32>,
    /// Closed loop: think time between a response and the user's next request [0s]
    #[arg(long, value_name = "TIME")]
    think: Option<Duration>,
    /// Open loop: rate of requests, `10` or `10/s` or `30/m`
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// Open loop: rates one after another, `10/s:60s, ..50/s:5m`; `..` ramps from the one before
    #[arg(long, value_name = "TEXT", value_parser = stages)]
    stages: Option<Stages>,
    /// Open loop: distribution of the planned send times: constant, poisson, uniform, or a FILE
    /// that lists them in seconds since the start, one on each line (`-` is the standard input)
    /// [constant]
    #[arg(long, value_name = "KIND|FILE")]
    arrivals: Option<Arrivals>,
    /// Seed of the random plan; the same seed gives the same plan [1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Open loop: maximum number of requests in flight; what is due beyond it is counted as dropped
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,
    /// Number of requests: of each user with --users, otherwise in all
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,
    /// Duration; requests then in flight are waited for [10s, or to the end of --stages or the
    /// FILE]
    #[arg(short = 'd', long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Timeout of one request, connecting included; 30s is siege's default too
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Duration,
}

/// What is printed, and what it is judged by.
#[derive(clap::Args)]
#[command(next_help_heading = "Result")]
pub(super) struct OutputArgs {
    /// The objective, like `p99<300ms, errors<0.1%`; the exit code says whether it was met
    #[arg(long, value_name = "TEXT")]
    pub(super) slo: Option<Objective>,
    /// Format of the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(super) format: Format,
    /// Print the record as JSON; short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(super) json: bool,
    /// Write the record as JSON to this file too; `-` prints it instead of the page
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Watch these processes during the run, and say which resource ran out: `812`,
    /// `lb=812,server=12,nginx`
    #[arg(long, value_name = "[ROLE=]PID|NAME")]
    pub(super) watch: Option<Subjects>,
    /// With --watch: bandwidth limit of an interface, `180Mb/s` (all but lo) or `eth0=1Gb/s`
    #[arg(long, value_name = "[NAME=]RATE", requires = "watch")]
    pub(super) net_limit: Vec<NetLimit>,
    /// No progress and no notices on the standard error
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// How planned instants lie.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Arrivals {
    Drawn(record::Arrivals),
    Listed(PathBuf),
}

/// Stages, as one value of a flag.
#[derive(Clone)]
struct Stages(Vec<Stage>);

impl Args {
    /// The plan that the command line means.
    pub(crate) fn plan(&self) -> Result<LoadPlan, UsageError> {
        self.load.arrivals_exist()?;
        if let Some(conflict) = self.load.conflict() {
            return Err(UsageError::Conflict(conflict));
        }
        let is_other = !matches!(self.output.format, Format::Text | Format::Json);
        if self.output.prints_record() && is_other {
            return Err(UsageError::Conflict(
                "-o - prints the record instead: leave it or --format out",
            ));
        }
        let mut targets = self.request.targets()?;
        let (first, _) = targets[0].clone();
        let mut plan = LoadPlan::new(first, self.load.pattern()?);
        plan.targets.clear();
        plan.targets.append(&mut targets);
        plan.transport = self.transport.transport()?;
        plan.keepalive = self.transport.keepalive();
        plan.timeout = self.load.timeout;
        self.request.complete(&mut plan)?;
        self.with.check(&plan)?;
        let suits = |objective: &Objective| objective.suits(&plan.model());
        if !self.output.slo.as_ref().is_none_or(suits) {
            return Err(UsageError::Conflict(
                "only an open loop has a target: use --rate, or a bound like `rate>=450/s`",
            ));
        }
        plan.late_after = self.output.slo.as_ref().and_then(Objective::late_after);
        Ok(plan)
    }
}

impl OutputArgs {
    /// Whether the record is printed as JSON.
    pub(super) fn prints_record(&self) -> bool {
        is_printed(self.json, self.output.as_deref())
    }
}

impl LoadArgs {
    /// Flags that do not go together, and what to use instead.
    fn conflict(&self) -> Option<&'static str> {
        let closed = self.users.is_some();
        let listed = matches!(self.arrivals, Some(Arrivals::Listed(_)));
        let ways = [closed, self.rate.is_some(), self.stages.is_some(), listed];
        let drawn = matches!(
            self.arrivals,
            Some(Arrivals::Drawn(record::Arrivals::Poisson | record::Arrivals::Uniform))
        );
        let rules = [
            (
                !ways.contains(&true),
                "say how much: --users N (closed loop), or --rate RATE, --stages TEXT or \
                 --arrivals FILE (open loop)",
            ),
            (
                ways.iter().filter(|way| **way).count() > 1,
                "--users, --rate, --stages and --arrivals FILE cannot be used with each other: \
                 each says when requests go; a rate that changes is --stages alone",
            ),
            (
                closed && self.arrivals.is_some(),
                "--arrivals cannot be used with --users: users send when they are answered; give \
                 them a pause with --think, or use --rate",
            ),
            (
                closed && self.max_in_flight.is_some(),
                "--max-in-flight cannot be used with --users: so many users are so many in flight",
            ),
            (
                self.seed.is_some() && !drawn,
                "--seed cannot be used without chance: add --arrivals poisson or uniform",
            ),
            (
                !closed && self.think.is_some(),
                "--think cannot be used with an open loop, which waits for nobody: use --users",
            ),
        ];
        rules.into_iter().find_map(|(broken, told)| broken.then_some(told))
    }

    /// Refuses a slip of `--arrivals`, which is taken for a file, before what no file goes with.
    fn arrivals_exist(&self) -> Result<(), UsageError> {
        match &self.arrivals {
            Some(Arrivals::Listed(path)) if path.as_os_str() != "-" && !path.exists() => {
                instants(path).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn pattern(&self) -> Result<Pattern, UsageError> {
        let given = match (self.requests, self.duration) {
            (Some(requests), _) => Some(Until::Requests(requests)),
            (None, duration) => duration.map(Until::Elapsed),
        };
        if let Some(users) = self.users {
            let think = self.think.unwrap_or_default();
            let until = given.unwrap_or(Until::Elapsed(DEFAULT_DURATION));
            return Ok(Pattern::Closed { users, think, until });
        }
        let timetable = self.timetable()?;
        let own = timetable.end().unwrap_or(Until::Elapsed(DEFAULT_DURATION));
        let until = given.unwrap_or(own);
        Ok(Pattern::Open { timetable, until, max_in_flight: self.max_in_flight })
    }

    fn timetable(&self) -> Result<Timetable, UsageError> {
        let seed = self.seed.unwrap_or(DEFAULT_SEED);
        let arrivals = match &self.arrivals {
            None => record::Arrivals::Constant,
            Some(Arrivals::Drawn(arrivals)) => *arrivals,
            Some(Arrivals::Listed(path)) => return Ok(Timetable::listed(instants(path)?)),
        };
        Ok(match &self.stages {
            Some(Stages(stages)) => Timetable::stages(stages.clone(), arrivals, seed),
            None => Timetable::steady(self.rate.unwrap_or_default(), arrivals, seed),
        })
    }
}

impl FromStr for Arrivals {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "constant" => Self::Drawn(record::Arrivals::Constant),
            "poisson" => Self::Drawn(record::Arrivals::Poisson),
            "uniform" => Self::Drawn(record::Arrivals::Uniform),
            path => Self::Listed(path.into()),
        })
    }
}

fn instants(path: &Path) -> Result<Vec<Duration>, UsageError> {
    let text = read_text(path).map_err(|error| match error {
        UsageError::Unreadable { path, source, .. } => UsageError::Unreadable {
            what: "arrivals (which are constant, poisson, uniform or a file)",
            path,
            source,
        },
        other => other,
    })?;
    parse_arrivals_file(&text).map_err(|error| UsageError::wrong_file(path, &error))
}

fn stages(text: &str) -> Result<Stages, loadline_load::StageError> {
    parse_stages(text).map(Stages)
}

/// As wrk has it: long enough to see something, short enough to wait for.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

const DEFAULT_SEED: u64 = 1;

const AFTER_HELP: &str = "\
Examples:
  loadline bench http://127.0.0.1:8080/ --users 4 --requests 20    siege -c 4 -r 20
  loadline bench http://127.0.0.1:8080/ --rate 10 --requests 500   httperf --rate 10 --num-conns 500
  loadline bench 127.0.0.1:8080 --rate 200 --duration 60s --arrivals poisson
  loadline bench 127.0.0.1:8080 --stages '10/s:60s, ..50/s:5m' --slo 'p99<300ms, errors<0.1%'
  loadline bench 127.0.0.1:8080/a 127.0.0.1:8080/b --weights 3,1 --users 64 -o run.json
  loadline bench https://127.0.0.1:8443 --users 64 --duration 10s --http3 --insecure
  loadline bench 127.0.0.1:8080 --rate 250 --format httperf | grep 'ion time'
  loadline bench 10.0.0.11 --rate 90000 --with load-1,load-2,load-3 --token-file agent.token

Every request ends in one class: ok (1xx to 3xx), 4xx, 5xx, connect refused, connect timeout,
timeout, reset (ended before the answer was whole), bad answer (no valid HTTP, or over HTTP/1.1 a
head of more than 256 KiB or 1,000 fields; the page says why), dropped (by the generator), cut off
(by an interrupt). A run with --duration waits for the answers under way at its end, at most
--timeout. SIGINT (Ctrl-C) or SIGTERM ends it and prints what there is.

A request is sent again, and counted once, where its server closed the kept connection before any of
the request had come there; or, if the method is idempotent (no POST, no PATCH), closed it at once
after a second or more without a request. Any other end of a connection without an answer is a
reset.

Of a name with several addresses the first that takes a connection gets all requests; the page and
the record say which.

With --with the agents (loadline agent --help) send the very instants that this machine would send,
dealt out one by one, and users and limits likewise; they begin together, and their figures are
added exactly. An agent that falls behind or is lost makes the run invalid.

Formats: text, a page; siege and httperf, the lines of these tools; json, the record; csv, one line
for each moment of the run; hdr, the response times by percentile for the HdrHistogram plotter.

An objective (--slo) compares p50 p90 p95 p99 p99.9 mean max of the response time (service-p99 and
so on: of the service time), errors, availability or rate by < <= > >=, with commas between; the
rate also with the planned one, `rate>=0.99*target`.

Exit codes: 0 ran, every planned request accounted for, the objective met; 1 wrong usage; 2 could
not run at all; 98 an agent was lost; with --slo: 99 the objective was breached, 98 the run cannot
be judged by (the generator was the bottleneck, and the page says in what and what to change; or
it was interrupted before anything came of a request).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_that_are_no_kind_are_a_file() {
        assert_eq!("poisson".parse(), Ok(Arrivals::Drawn(record::Arrivals::Poisson)));
        assert_eq!("./poisson".parse(), Ok(Arrivals::Listed("./poisson".into())));
    }
}
