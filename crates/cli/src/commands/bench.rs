//! `loadline bench`: put load on a service and measure it.

mod display;
mod page;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use loadline_core::{
    record::{Arrivals, Document, LoadRecord, Record},
    time::Duration,
    units::Rate,
};
use loadline_load::{LoadError, LoadPlan, Pattern, Target, Timetable, Until};

use display::Display;

/// Put load on a service and measure it
///
/// Closed loop (--users): each user sends its next request after the answer to the last, as siege
/// does. Open loop (--rate): requests go at planned instants whatever the answers do, as with
/// httperf; response times count from the planned instant, so a stall shows in full.
#[derive(clap::Args)]
#[command(
    after_help = AFTER_HELP,
    group = clap::ArgGroup::new("load").required(true).args(["users", "rate"]),
    group = clap::ArgGroup::new("end").args(["requests", "duration"]),
)]
pub(crate) struct Args {
    /// Where requests go; `http://` may be left out
    url: Target,
    /// Closed loop: so many users at a time
    #[arg(short = 'c', long, value_name = "N")]
    users: Option<u32>,
    /// Open loop: so many requests per second, `10` or `10/s` or `30/m`
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// So many requests: of each user with --users, in all with --rate
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// For so long, then wait for what is under way [10s where --requests is not given]
    #[arg(short = 'd', long, value_name = "TIME")]
    duration: Option<Duration>,
    /// How the planned instants of an open loop lie
    #[arg(long, value_enum, default_value = "constant", conflicts_with = "users")]
    arrivals: Kind,
    /// Which of the random plans; the same seed gives the same plan
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "users")]
    seed: u64,
    /// Open loop: drop, and count as dropped, what is due while so many are under way
    #[arg(long, value_name = "N", conflicts_with = "users")]
    max_in_flight: Option<u32>,
    /// How long one request may take, connecting included; 30s is siege's default too
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Duration,
    /// A new connection for every request, as siege and httperf do
    #[arg(long)]
    no_keepalive: bool,
    /// A header of the request; repeat for more
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The method [GET, with --body POST]
    #[arg(short = 'X', long)]
    method: Option<String>,
    /// The body of each request; @FILE takes it from a file
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Count answers by the value of this header, for example which server answered
    #[arg(long, value_name = "HEADER")]
    count_by: Option<String>,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
    /// No progress on the standard error
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// At even distances
    Constant,
    /// Independent of each other, as many users are
    Poisson,
}

impl Args {
    fn plan(&self) -> anyhow::Result<LoadPlan> {
        let mut plan = LoadPlan::new(self.url.clone(), self.pattern());
        plan.timeout = self.timeout;
        plan.keepalive = !self.no_keepalive;
        plan.headers.clone_from(&self.headers);
        plan.count_by.clone_from(&self.count_by);
        if let Some(body) = &self.body {
            plan.body = read_body(body)?;
            "POST".clone_into(&mut plan.method);
        }
        if let Some(method) = &self.method {
            plan.method.clone_from(method);
        }
        Ok(plan)
    }

    fn pattern(&self) -> Pattern {
        let until = match self.requests {
            Some(requests) => Until::Requests(requests),
            None => Until::Elapsed(self.duration.unwrap_or(DEFAULT_DURATION)),
        };
        let arrivals = match self.arrivals {
            Kind::Constant => Arrivals::Constant,
            Kind::Poisson => Arrivals::Poisson,
        };
        match self.rate {
            Some(rate) => Pattern::Open {
                timetable: Timetable::steady(rate, arrivals, self.seed),
                until,
                max_in_flight: self.max_in_flight,
            },
            None => Pattern::Closed {
                users: self.users.unwrap_or_default(),
                think: Duration::ZERO,
                until,
            },
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let measured = args.plan().and_then(|plan| Ok((measure(args, &plan)?, plan)));
    let (measured, plan) = match measured {
        Ok(both) => both,
        Err(error) => {
            let code = super::report_error(&error);
            return Ok(if is_usage(&error) { ExitCode::from(super::EXIT_USAGE) } else { code });
        }
    };
    let text = if args.json { json(measured)? } else { page::write(&plan, &measured) };
    io::stdout().write_all(text.as_bytes()).context("cannot print the result")?;
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args, plan: &LoadPlan) -> anyhow::Result<LoadRecord> {
    if let Err(error) = loadline_load::raise_descriptor_limit() {
        tracing::warn!("the limit of open descriptors stays as it is: {error}");
    }
    let display = Display::new(args.quiet);
    let stop = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!("an interrupt will end the run without figures: {error}");
            std::future::pending::<()>().await;
        }
    };
    let run = loadline_load::measure(plan, |progress| display.show(progress), stop);
    let measured = loadline_load::runtime()?.block_on(run);
    display.clear();
    Ok(measured?)
}

fn is_usage(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LoadError::Plan(_)))
        || error.downcast_ref::<BodyError>().is_some()
}

/// The record, with what it follows from and what follows from it.
fn json(measured: LoadRecord) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&Document::new(Record::Load(measured)))? + "\n")
}

/// A rate as httperf takes it, a bare number per second, or with its unit.
fn rate(text: &str) -> Result<Rate, loadline_core::units::UnitError> {
    let text = text.trim();
    if text.contains('/') { text.parse() } else { format!("{text}/s").parse() }
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once(':').ok_or("write it like 'Accept: text/html'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read the body from `{path}`")]
struct BodyError {
    path: String,
    source: io::Error,
}

fn read_body(text: &str) -> Result<Vec<u8>, BodyError> {
    match text.strip_prefix('@') {
        Some(path) => {
            std::fs::read(path).map_err(|source| BodyError { path: path.to_owned(), source })
        }
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// As wrk has it: long enough to see something, short enough to wait for.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Examples:
  loadline bench http://127.0.0.1:8080/ --users 4 --requests 20    siege -c 4 -r 20
  loadline bench http://127.0.0.1:8080/ --rate 10 --requests 500   httperf --rate 10 --num-conns 500
  loadline bench 127.0.0.1:8080 --rate 200 --duration 60s --arrivals poisson
  loadline bench 127.0.0.1:8080 --users 64 --json --count-by x-served-by

Every request ends in one class: ok (1xx to 3xx), 4xx, 5xx, connect refused, connect timeout,
timeout, reset (ended before the answer was whole), bad answer (not HTTP), dropped (by the
generator), cut off (by an interrupt). A run with --duration waits for the answers under way at
its end, at most --timeout. An interrupt (Ctrl-C) ends it and prints what there is.

Exit codes: 0 ran, every planned request accounted for; 1 wrong usage; 2 could not run at all.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_no_unit() {
        assert_eq!(rate("10"), Ok(Rate::per_sec(10)));
        assert_eq!(rate("0.5"), Ok(Rate::milli_per_sec(500)));
        assert_eq!(rate("30/m"), Ok(Rate::milli_per_sec(500)));
        assert!(rate("fast").unwrap_err().to_string().contains("100/s"));
    }

    #[test]
    fn a_header_needs_its_colon() {
        assert_eq!(header("A: b:c"), Ok(("A".to_owned(), "b:c".to_owned())));
        assert!(header("A").is_err());
    }
}
