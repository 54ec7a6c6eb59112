//! `loadline ping`: the round trip to hosts, side by side.

mod lines;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use loadline_core::time::Duration;
use loadline_load::probe::{self, Family, PingPlan, ProbeError};
use loadline_measure::record::ProbeRecord;

use super::{
    output_file::{OutputFile, is_printed},
    series,
    stop_signal::StopSignal,
};
use lines::Lines;

/// Measure the round-trip time to hosts
///
/// Sends ICMP echo requests if that is allowed, and says by which kind of socket; otherwise
/// measures how long a TCP connection takes to open, which is one round trip too. Replies are timed
/// by the kernel. A user does not wait for a round trip but for the response: see `loadline ttfb`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Host names or addresses; several are pinged in parallel
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<String>,
    /// Pings to each host
    #[arg(short, visible_short_alias = 'n', long, value_name = "N", default_value_t = 10)]
    count: u64,
    /// Time between two pings to the same host; a bare number is seconds
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = series::span)]
    interval: Duration,
    /// Timeout of a reply; a bare number is seconds
    #[arg(short = 'W', long, value_name = "TIME", default_value = "2s")]
    #[arg(value_parser = series::span)]
    timeout: Duration,
    /// Open TCP connections to this port instead of sending ICMP echo
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    tcp: Option<u16>,
    /// Use only IPv4 addresses
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use only IPv6 addresses
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Print the record as JSON; the lines of the pings then go to the standard error
    #[arg(long)]
    json: bool,
    /// Write the record to a file too; `-` prints it instead of the page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print no line for each ping
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    fn prints_record(&self) -> bool {
        is_printed(self.json, self.output.as_deref())
    }

    fn plan(&self) -> PingPlan {
        PingPlan {
            hosts: self.hosts.clone(),
            count: self.count,
            interval: self.interval,
            timeout: self.timeout,
            family: match (self.ipv4, self.ipv6) {
                (true, _) => Family::V4,
                (_, true) => Family::V6,
                _ => Family::Any,
            },
            tcp: self.tcp,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (record, file) = match plan_and_measure(args) {
        Ok(both) => both,
        Err(error) => {
            let code = super::report_error(&error);
            let usage = matches!(error.downcast_ref(), Some(ProbeError::Plan(_)));
            return Ok(if usage { ExitCode::from(super::EXIT_USAGE) } else { code });
        }
    };
    let silent = record.targets.iter().any(|target| target.outcomes.ok == 0);
    let page = lines::summary(&record);
    series::deliver(record, &page, args.prints_record(), file)?;
    Ok(if silent { ExitCode::from(super::EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn plan_and_measure(args: &Args) -> anyhow::Result<(ProbeRecord, Option<OutputFile>)> {
    let plan = args.plan();
    plan.check().map_err(ProbeError::from)?;
    let file = OutputFile::asked(args.output.as_deref())?;
    Ok((measure(args, &plan)?, file))
}

fn measure(args: &Args, plan: &PingPlan) -> anyhow::Result<ProbeRecord> {
    let mut lines = Lines::new(plan);
    let tell = |event: &probe::PingEvent| {
        let line = lines.line(event);
        // A line that nobody reads is no reason to end a measurement.
        let _ = match (args.quiet, args.prints_record()) {
            (true, _) => Ok(()),
            (false, true) => writeln!(io::stderr(), "{line}"),
            (false, false) => writeln!(io::stdout(), "{line}"),
        };
    };
    loadline_load::runtime()?.block_on(async {
        let mut stop = StopSignal::new()?;
        Ok(probe::ping(plan, tell, stop.received()).await?)
    })
}

const AFTER_HELP: &str = "\
Examples:
  loadline ping 10.0.0.11
  loadline ping -c 5 -i 0.2 eu.example.org us.example.org
  loadline ping --tcp 443 www.example.org

ICMP echo needs root, CAP_NET_RAW, or a group within the sysctl net.ipv4.ping_group_range; where
none is given, connections to port 80 are opened instead, and the first line says so. A reply counts
once, and only within the timeout; late and duplicate replies are printed but not counted. Failures
are counted by class and are in no average. SIGINT (Ctrl-C) or SIGTERM ends the series and prints
the results so far.

Exit codes: 0 every host replied at least once; 1 wrong usage; 2 a host did not reply at all, or the
command could not run.";
