//! `loadline ttfb`: the time to the first byte, request by request, of several targets.

mod page;
mod plot;

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use indicatif::{ProgressBar, ProgressStyle};
use loadline_core::time::Duration;
use loadline_load::{
    LoadPlan, Pattern, Target, Until,
    probe::{self, ProbeError, TtfbPlan},
};
use loadline_measure::record::{ProbeRecord, ProbeTarget};
use loadline_report::{Dot, Dots, bare_url, times_by_number};

use super::{
    output_file::{OutputFile, is_printed},
    series,
    stop_signal::StopSignal,
    switches::{Switches, header},
};
use plot::SHOWN;

/// Measure the time to first byte, request by request
///
/// Measures from before the DNS lookup to the first byte of the response, as curl's
/// time_starttransfer does, and shows the phases: DNS, connect, TLS, first byte. Each request opens
/// a connection of its own, as curl in a loop, unless --keepalive is given. The plot shows the
/// requests in order, so that a slow first request is not lost in an average. Several targets take
/// turns, so that a drift affects all of them alike.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// URLs to request; `http://` may be left out
    #[arg(required = true, value_name = "URL")]
    urls: Vec<Target>,
    /// Requests to each URL
    #[arg(short, visible_short_alias = 'n', long, visible_alias = "requests")]
    #[arg(value_name = "N", default_value_t = 100)]
    count: u64,
    /// Keep the connection from one request to the next
    #[arg(long)]
    keepalive: bool,
    /// Time between two requests to a URL; a bare number is seconds [one after another]
    #[arg(short, long, value_name = "TIME", default_value = "0s", hide_default_value = true)]
    #[arg(value_parser = series::span)]
    interval: Duration,
    /// Timeout of one request, its body included; a bare number is seconds
    #[arg(short = 'm', long, value_name = "TIME", default_value = "30s")]
    #[arg(value_parser = series::span)]
    timeout: Duration,
    /// A header of the request; repeat for more
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The HTTP method
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// Draw the first 500 requests to this SVG file; `-` prints it instead of the page
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
    /// Write the record to a file too; `-` prints it instead of the page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// No progress on the standard error
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    switches: Switches,
}

impl Args {
    fn plan(&self) -> Result<TtfbPlan, &'static str> {
        if self.prints_plot() && self.prints_record() {
            return Err("--plot - and --json or -o - both print; write one of them to a file");
        }
        let transport = self.switches.transport()?;
        let request = |url: &Target| {
            let users = Pattern::Closed {
                users: 1,
                think: Duration::ZERO,
                until: Until::Requests(self.count.max(1)),
            };
            let mut plan = LoadPlan::new(url.clone(), users);
            plan.timeout = self.timeout;
            plan.headers.clone_from(&self.headers);
            plan.method.clone_from(&self.method);
            plan.transport.clone_from(&transport);
            plan
        };
        Ok(TtfbPlan {
            requests: self.urls.iter().map(request).collect(),
            count: self.count,
            interval: self.interval,
            keepalive: self.keepalive,
        })
    }

    fn prints_record(&self) -> bool {
        is_printed(self.json, self.output.as_deref())
    }

    fn prints_plot(&self) -> bool {
        is_printed(false, self.plot.as_deref())
    }
}

/// Runs the command.
///
/// # Errors
/// What kept it from running.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = match args.plan() {
        Ok(plan) => plan,
        Err(why) => {
            super::report_error(&anyhow::anyhow!(why));
            return Ok(ExitCode::from(super::EXIT_USAGE));
        }
    };
    let (record, files) = match open_and_measure(args, &plan) {
        Ok(both) => both,
        Err(error) => {
            let code = super::report_error(&error);
            let usage = matches!(error.downcast_ref(), Some(ProbeError::Plan(_)));
            return Ok(if usage { ExitCode::from(super::EXIT_USAGE) } else { code });
        }
    };
    let silent = record.targets.iter().any(|target| !target.was_answered());
    let page = match args.prints_plot() {
        true => picture(&record)?.svg().to_owned(),
        false => page::write(&record),
    };
    if let Some(mut plot) = files.plot {
        plot.write(picture(&record)?.svg())?;
    }
    series::deliver(record, &page, args.prints_record(), files.record)?;
    Ok(if silent { ExitCode::from(super::EXIT_FAILED) } else { ExitCode::SUCCESS })
}

/// What is written beside what is printed.
struct Files {
    record: Option<OutputFile>,
    plot: Option<OutputFile>,
}

fn open_and_measure(args: &Args, plan: &TtfbPlan) -> anyhow::Result<(ProbeRecord, Files)> {
    plan.check().map_err(ProbeError::from)?;
    let record = OutputFile::asked(args.output.as_deref())?;
    let plot = OutputFile::asked(args.plot.as_deref())?;
    Ok((measure(args, plan)?, Files { record, plot }))
}

fn measure(args: &Args, plan: &TtfbPlan) -> anyhow::Result<ProbeRecord> {
    let progress = Progress::new(args.quiet, plan);
    let record = loadline_load::runtime()?.block_on(async {
        let mut stop = StopSignal::new()?;
        Ok(probe::ttfb(plan, |event| progress.show(event), stop.received()).await?)
    });
    progress.clear();
    record
}

fn picture(record: &ProbeRecord) -> anyhow::Result<loadline_report::Picture> {
    let dots = |target: &ProbeTarget| Dots {
        name: bare_url(&target.target).to_owned(),
        points: target
            .samples
            .iter()
            .take(SHOWN)
            .map(|sample| Dot {
                number: sample.number,
                time: sample.good_time(),
                cold: record.keepalive && !sample.reused,
            })
            .collect(),
    };
    let series: Vec<_> = record.targets.iter().map(dots).collect();
    let most = series.iter().map(|dots| dots.points.len()).max().unwrap_or_default();
    Ok(times_by_number(&format!("Time to first byte of the first {most} requests"), &series)?)
}

/// Progress on the standard error: a bar on a terminal, a line now and then in a log.
enum Progress {
    Nothing,
    Bar(ProgressBar),
    /// Lines; holds when the last was written, since the first request.
    Lines {
        last: Cell<Duration>,
        of: u64,
    },
}

impl Progress {
    fn new(quiet: bool, plan: &TtfbPlan) -> Self {
        let all = plan.count.saturating_mul(plan.requests.len() as u64);
        match (quiet, io::stderr().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, false) => Self::Lines { last: Cell::new(Duration::ZERO), of: plan.count },
            (false, true) => {
                let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {wide_msg}")
                    .expect("the template is a constant that parses");
                Self::Bar(ProgressBar::new(all).with_style(style))
            }
        }
    }

    fn show(&self, event: &probe::TtfbEvent) {
        let sample = &event.sample;
        let what = match sample.good_time() {
            Some(time) => format!("{} ms", series::figure(time)),
            None => series::class(sample.outcome).to_owned(),
        };
        match self {
            Self::Nothing => {}
            Self::Bar(bar) => {
                bar.set_message(what);
                bar.inc(1);
            }
            Self::Lines { last, of } if sample.at > last.get() + LINE_EVERY => {
                last.set(sample.at);
                // Progress that nobody can read is no reason to end a measurement.
                let _ = writeln!(io::stderr(), "request {} of {of}: {what}", sample.number);
            }
            Self::Lines { .. } => {}
        }
    }

    /// Takes the bar away, for the result to stand alone.
    fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Seldom enough not to fill a log.
const LINE_EVERY: Duration = Duration::from_secs(5);

const AFTER_HELP: &str = "\
Examples:
  loadline ttfb http://10.0.0.11/ -c 500              curl -w %{time_starttransfer} 500 times
  loadline ttfb http://net-lb/ http://http-lb/ -c 500 --plot ttfb.svg
  loadline ttfb https://www.example.org/ --http2 --keepalive
  loadline ttfb https://www.example.org/ --tls-max 1.2 --json
  loadline ttfb https://www.example.org/ --http3     connect: the QUIC handshake, TLS included

Answers with 1xx to 3xx are measured; 4xx, 5xx and requests without a whole answer are counted by
class and are in no figure. Percentiles are exact. The body is read to its end and timed apart.
SIGINT (Ctrl-C) or SIGTERM ends the series and prints what there is.

Exit codes: 0 every target answered at least once; 1 wrong usage; 2 a target gave no answer at all,
or it could not run.";
