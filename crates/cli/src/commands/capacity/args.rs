//! The command line of `loadline capacity`, and what it means for a search.

use std::path::{Path, PathBuf};

use loadline_core::{
    time::Duration,
    units::{Rate, Ratio},
};
use loadline_load::{LoadPlan, Pattern, Until, search::Config};
use loadline_measure::{objective::Objective, record};

use super::drive::Pace;
use crate::commands::{
    bench::{RequestArgs, TransportArgs, UsageError},
    generators::With,
    rate_above_zero, time_above_zero,
};

/// Find the load line: the highest rate at which a service still meets its objective
///
/// First a closed loop of 1, 2, 4 ... users measures the throughput. Then open-loop trials bracket
/// the load line from both sides: short ones first, then long ones, each of which lasts several of
/// the slowest cycles in the latencies. Further trials confirm a load: it is accepted if the
/// objective holds over all long trials at that load together. After a breach the search waits
/// until the service is at rest again. It takes about two minutes for thousands of requests per
/// second, and ten at most for 2 %; --precision 1% takes four times as long; --quick takes half a
/// minute and is less precise.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    request: RequestArgs,
    /// The objective, like `p99<300ms, errors<0.1%`; errors<1% is added if it has no limit of
    /// errors
    #[arg(long, value_name = "TEXT", value_parser = objective)]
    slo: Objective,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    pub(super) with: With,
    /// Share of the load line that is kept free in max_rate
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = headroom)]
    #[arg(help_heading = "Result")]
    headroom: Ratio,
    /// Set max_rate in this configuration, keeping its comments
    #[arg(long, value_name = "FILE", requires = "group", help_heading = "Result")]
    write: Option<PathBuf>,
    /// The group whose max_rate is set: its region, or SERVICE/REGION
    #[arg(long, value_name = "NAME", requires = "write", help_heading = "Result")]
    group: Option<String>,
    /// Print the record as JSON
    #[arg(long, help_heading = "Result")]
    pub(super) json: bool,
    /// Write the record as JSON to this file too; `-` prints it instead of the page
    #[arg(short, long, value_name = "FILE", help_heading = "Result")]
    pub(super) output: Option<PathBuf>,
    /// No progress on the standard error
    #[arg(short, long, help_heading = "Result")]
    quiet: bool,
}

/// How long to look, and how closely.
#[derive(clap::Args)]
#[command(next_help_heading = "Search")]
struct SearchArgs {
    /// End within half a minute: trials of 1s, and a wider interval
    #[arg(long)]
    quick: bool,
    /// Distribution of the planned send times in trials
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: Kind,
    /// Seed of the random plans; the same seed gives the same plans
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Duration of each closed-loop step; five times as long where more users bring no more
    /// throughput [1500ms]
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    rung: Option<Duration>,
    /// Duration of the first trials [1s]
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    first_trial: Option<Duration>,
    /// Maximum duration of the last trials, if the latencies show no slow cycle [10s]
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    trial: Option<Duration>,
    /// Minimum time of such trials near the load line before a load is confirmed [20s]
    #[arg(long, value_name = "TIME")]
    trial_sum: Option<Duration>,
    /// Minimum duration of each of the two confirming runs [6s]
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    confirm: Option<Duration>,
    /// Precision: in 95 of 100 searches the result is this close to the load line [2%; with --quick
    /// 4%]
    #[arg(long, value_name = "SHARE", value_parser = precision)]
    precision: Option<Ratio>,
    /// Time limit of the search [10m for 2 %, 40m for 1 %; with --quick 30s]
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    within: Option<Duration>,
    /// Highest rate to try; the users of the closed loop together send no more either
    #[arg(long, value_name = "RATE", default_value = "1000000/s")]
    #[arg(value_parser = rate_above_zero)]
    max_rate: Rate,
    /// Maximum number of requests in flight; what is due beyond it is dropped and counts as errors
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    max_in_flight: u32,
    /// Maximum wait for the service to come to rest after a breach
    #[arg(long, value_name = "TIME", default_value = "30s")]
    cool_down: Duration,
    /// Timeout of one request, connecting included
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Even distances: easier on the service than real users
    Constant,
    /// Independent arrivals, as from many users
    Poisson,
    /// Distances uniformly distributed between zero and twice the mean
    Uniform,
}

impl Args {
    /// What every run of the search sends; the pattern is that of the first.
    pub(super) fn plan(&self) -> Result<LoadPlan, UsageError> {
        let mut targets = self.request.targets()?;
        let one = Pattern::Closed {
            users: 1,
            think: Duration::ZERO,
            until: Until::Elapsed(Duration::from_secs(1)),
        };
        let mut plan = LoadPlan::new(targets[0].0.clone(), one);
        plan.targets.clear();
        plan.targets.append(&mut targets);
        plan.transport = self.transport.transport()?;
        plan.keepalive = self.transport.keepalive();
        plan.timeout = self.search.timeout;
        plan.max_rate = Some(self.search.max_rate);
        self.request.complete(&mut plan)?;
        self.with.check(&plan)?;
        Ok(plan)
    }

    /// The search that the command line means.
    pub(super) fn config(&self, plan: &LoadPlan) -> Config {
        let search = &self.search;
        let base = Config {
            target: plan.asked(),
            objective: self.objective().to_string(),
            arrivals: self.arrivals(),
            seed: search.seed,
            highest: search.max_rate,
            headroom: self.headroom,
            ..Config::default()
        };
        let base = if search.quick { base.quick() } else { base };
        let last_trial = search.trial.unwrap_or(base.last_trial);
        let precision = search.precision.unwrap_or(base.precision);
        // What is to be known twice as well takes four times as long.
        let closer = (base.precision.as_f64() / precision.as_f64()).max(1.0).powi(2);
        Config {
            rung: search.rung.unwrap_or(base.rung),
            first_trial: search.first_trial.unwrap_or(base.first_trial).min(last_trial),
            last_trial,
            duration_sum: search.trial_sum.unwrap_or(base.duration_sum),
            confirm: search.confirm.unwrap_or(base.confirm),
            precision,
            within: search.within.unwrap_or(if search.quick {
                base.within
            } else {
                base.within.scale(closer)
            }),
            ..base
        }
    }

    /// The objective with what it means to answer at all.
    pub(super) fn objective(&self) -> Objective {
        let text = self.slo.to_string();
        let counts = ["errors", "availability", "target"].iter().any(|name| text.contains(name));
        let whole = if counts { text } else { format!("{text}, {NO_ERRORS}") };
        whole.parse().unwrap_or_else(|_| self.slo.clone())
    }

    /// How the shell goes about it.
    pub(super) fn pace(&self) -> Pace {
        Pace {
            arrivals: self.arrivals(),
            max_in_flight: self.search.max_in_flight,
            cool_down: self.search.cool_down,
            quiet: self.quiet,
        }
    }

    /// The file and the group that the result is to be written to.
    pub(super) fn edit(&self) -> Option<(&Path, &str)> {
        self.write.as_deref().zip(self.group.as_deref())
    }

    fn arrivals(&self) -> record::Arrivals {
        match self.search.arrivals {
            Kind::Constant => record::Arrivals::Constant,
            Kind::Poisson => record::Arrivals::Poisson,
            Kind::Uniform => record::Arrivals::Uniform,
        }
    }
}

fn objective(text: &str) -> Result<Objective, loadline_measure::objective::ObjectiveError> {
    text.parse()
}

fn headroom(text: &str) -> Result<Ratio, String> {
    let ratio: Ratio = text.parse().map_err(|error| format!("{error}"))?;
    if ratio < Ratio::ONE {
        Ok(ratio)
    } else {
        Err("expected less than 100%: nothing of the load line would be left".to_owned())
    }
}

fn precision(text: &str) -> Result<Ratio, String> {
    let ratio: Ratio = text.parse().map_err(|error| format!("{error}"))?;
    let can_be = (MOST_PRECISE..=LEAST_PRECISE).contains(&ratio);
    can_be.then_some(ratio).ok_or_else(|| format!("expected {MOST_PRECISE} to {LEAST_PRECISE}"))
}

/// Four hundred times as long as for 2 %: days.
const MOST_PRECISE: Ratio = Ratio::ppm(1_000);

/// Beyond this it is a guess.
const LEAST_PRECISE: Ratio = Ratio::percent(20);

/// A service that answers 503 at once keeps any limit of time.
const NO_ERRORS: &str = "errors<1%";

const AFTER_HELP: &str = "\
Examples:
  loadline capacity http://10.0.0.11/ --slo 'p99<300ms'
  loadline capacity 10.0.0.11 --slo 'p95<200ms, errors<0.1%' --headroom 30% -o search.json
  loadline capacity 10.0.0.11 --slo 'p99<300ms' --write loadline.toml --group web/europe-west3
  loadline capacity 127.0.0.1:9001 --slo 'p99<1s' --quick
  loadline capacity 10.0.0.11 --slo 'p99<300ms' --with load-1,load-2 --token-file agent.token

Trials are counted together: of `p95<300ms` the requests that were late in all trials at a load may
be 5 % of all. At the load line a single trial is about as likely to meet the objective as not:
leave headroom. A trial that the generator could not carry out decides nothing; three in a row end
the search, and the output says what to change. Of a name with several addresses the first that
takes a connection gets all requests, as with bench.

Exit codes: 0 found (or even --max-rate meets the objective), 1 wrong usage, 2 failed (as
where nothing is answered) or interrupted, 98 the generator ran out first, or nothing was written
(--write) since even --max-rate meets the objective, 99 no load meets the objective, or none was
confirmed in time.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn read(arguments: &[&str]) -> Args {
        let line = ["capacity", "localhost"].iter().chain(arguments);
        Line::try_parse_from(line).map(|line| line.args).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn an_objective_that_forgets_errors_is_completed() {
        for (given, judged) in [
            ("p99<300ms", "p99<300ms, errors<1%"),
            ("p99<300ms, errors<5%", "p99<300ms, errors<5%"),
            ("rate>=0.99*target", "rate>=0.99*target"),
        ] {
            assert_eq!(read(&["--slo", given]).objective().to_string(), judged);
        }
    }

    #[test]
    fn half_the_error_takes_four_times_as_long() {
        let config = |arguments: &[&str]| {
            let args = read(&[&["--slo", "p99<1s"], arguments].concat());
            args.config(&args.plan().unwrap())
        };
        assert_eq!(config(&[]).within, Duration::from_secs(600));
        assert_eq!(config(&["--precision", "1%"]).within, Duration::from_secs(2_400));
        assert_eq!(config(&["--precision", "5%"]).within, Duration::from_secs(600));
        let both = config(&["--precision", "1%", "--within", "3m"]);
        assert_eq!((both.precision, both.within), (Ratio::percent(1), Duration::from_secs(180)));
        let quick = config(&["--quick", "--first-trial", "5s"]);
        assert_eq!(
            (quick.first_trial, quick.last_trial, quick.within),
            (quick.last_trial, Duration::from_secs(1), Duration::from_secs(30))
        );
    }

    /// A search loads the service for a while before it comes to most of these.
    #[test]
    fn what_must_be_above_zero_is_refused_by_its_flag_before_a_search_begins() {
        for (flag, zero) in [
            ("--max-rate", "0"),
            ("--rung", "0s"),
            ("--first-trial", "0s"),
            ("--trial", "0s"),
            ("--confirm", "0s"),
            ("--within", "0s"),
            ("--max-in-flight", "0"),
        ] {
            let line = ["capacity", "localhost", "--slo", "p99<1s", flag, zero];
            let error = Line::try_parse_from(line).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|told| told.contains(flag)), "{flag}: {error:?}");
        }
    }

    #[test]
    fn a_precision_that_cannot_be_is_refused() {
        for text in ["0", "0%", "0.01%", "60%", "1s"] {
            let line = ["capacity", "localhost", "--slo", "p99<1s", "--precision", text];
            assert!(Line::try_parse_from(line).is_err(), "{text}");
        }
    }
}
