//! `loadline lab run`: a study from its file to its report.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use loadline_lab::{
    host::LabError,
    study::{self, Measured, Mode, RunError, Setup, Study},
};
use loadline_measure::record::StudyRecord;

use super::{find, folder, present, print, progress::Progress, simulate, until_signalled, usage};
use crate::commands::{EXIT_VERDICT, report_error};

/// Run a study and judge it
///
/// Each row runs in a lab of its own. Published figures are printed beside the measured ones, with
/// a verdict on each that has a target. The folder keeps the study as it was run, its files, the
/// output of every program, every record, and the report.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A study: a name from `loadline lab list`, or a file
    study: String,
    /// Run the rows of this peer (another tool) too; repeat for more, or `all`
    #[arg(long = "peer", value_name = "TOOL")]
    peers: Vec<String>,
    /// Run only this row; repeat for more
    #[arg(long = "row", value_name = "NAME")]
    rows: Vec<String>,
    /// Shortened, as the study says
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run a row again if the machine made any of its runs invalid, at most N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    again: u32,
    /// Simulate the study too, and print both results side by side
    #[arg(long)]
    sim: bool,
    /// The folder for all results [lab-runs/STUDY-SECONDS]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the record as JSON instead of tables and verdicts
    #[arg(long)]
    json: bool,
    /// Write a page for docs/studies, with its pictures beside it; text written by hand stays
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// No progress on the standard error
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mode = if args.quick { Mode::Quick } else { Mode::Full };
    let study = match Study::load(&find::study(&args.study), mode) {
        Ok(study) => study,
        Err(errors) => return Ok(crate::commands::print_errors(errors)),
    };
    let rows = match rows(&study, args) {
        Ok(rows) => rows,
        Err(message) => return Ok(usage(&message)),
    };
    folder::check_page(args.markdown.as_deref())?;
    let folder = args.out.clone().unwrap_or_else(|| own_folder(&study));
    let program = env::current_exe().context("cannot find the binary that runs")?;
    let (seed, again) = (args.seed, args.again);
    let setup = Setup { program, folder: folder.clone(), rows, seed, again };
    let (mut record, ended_early) = match measure(&study, &setup, args.quiet) {
        Err(error) if lacks_means(&error) => {
            report_error(&error);
            return Ok(ExitCode::from(EXIT_SKIPPED));
        }
        measured => measured?,
    };
    if args.sim && ended_early.is_none() {
        simulate::beside(&study, &setup.rows, seed, &mut record);
    }
    let differs = simulate::simulation_of(&record).is_some_and(|it| !simulate::agrees(it));
    let code = match differs {
        true => ExitCode::from(EXIT_VERDICT),
        false => present::exit_code(&study, &record),
    };
    let text = present::text(&record) + &present::agreement(&record);
    // A page for the documentation tells of whole studies only.
    if let (Some(file), None) = (&args.markdown, &ended_early) {
        folder::write_markdown(file, &study, &record)?;
    }
    let json = folder::write(&folder, &text, record)?;
    if args.json {
        print(&json)?;
    } else {
        print(&format!("{text}\nReport: {}\n", folder.join("report.html").display()))?;
    }
    code_of(ended_early, code)
}

/// The exit code of a study, or why it was not run to its end.
pub(super) fn code_of(ended: Option<RunError>, code: ExitCode) -> anyhow::Result<ExitCode> {
    ended.map_or(Ok(code), |error| Err(error).context(NOT_TO_ITS_END))
}

/// Runs a study as it is set up and judges it; also why it was not run to its end, where it was not
/// and something was measured by then.
pub(super) fn measure(
    study: &Study,
    setup: &Setup,
    quiet: bool,
) -> anyhow::Result<(StudyRecord, Option<RunError>)> {
    let progress = Progress::start(study::steps(study, &setup.rows), quiet);
    let measured =
        until_signalled(|stop| study::run(study, setup, stop, &mut |event| progress.tell(&event)));
    progress.finish();
    let Measured { conditions, phases, ended_early } = measured?.context(NOT_TO_ITS_END)?;
    Ok((study::judge(study, conditions, phases), ended_early))
}

/// Whether it failed for want of rights or of packet forwarding, so that nothing can be said of the
/// study.
fn lacks_means(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<RunError>();
    matches!(cause, Some(RunError::Lab(LabError::Rights { .. }) | RunError::NotBuilt { .. }))
}

/// The rows to run: those without a peer, and those of the peers that were asked for.
fn rows(study: &Study, args: &Args) -> Result<Vec<String>, String> {
    let listed = |names: Vec<&str>| match names.as_slice() {
        [] => "there are none".to_owned(),
        names => format!("there are {}", names.join(", ")),
    };
    let names: Vec<_> = study.rows().iter().map(|row| row.name.as_str()).collect();
    if let Some(row) = args.rows.iter().find(|row| !names.contains(&row.as_str())) {
        return Err(format!("the study has no row `{row}`; {}", listed(names)));
    }
    let mut peers: Vec<_> = study.rows().iter().filter_map(|row| row.peer.as_deref()).collect();
    peers.dedup();
    let unknown = |peer: &&String| *peer != "all" && !peers.contains(&peer.as_str());
    if let Some(peer) = args.peers.iter().find(unknown) {
        return Err(format!("the study has no peer `{peer}`; {}", listed(peers)));
    }
    let wanted = |peer: &Option<String>| match peer {
        None => true,
        Some(peer) => args.peers.iter().any(|wanted| wanted == "all" || wanted == peer),
    };
    let chosen = study.rows().iter().filter(|row| match args.rows.is_empty() {
        true => wanted(&row.peer),
        false => args.rows.contains(&row.name),
    });
    Ok(chosen.map(|row| row.name.clone()).collect())
}

/// A folder of its own for each run.
pub(super) fn own_folder(study: &Study) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Path::new("lab-runs").join(format!("{}-{}", study.short_name(), since.as_secs()))
}

const NOT_TO_ITS_END: &str = "the study was not run to its end";
/// As test harnesses understand it: skipped.
const EXIT_SKIPPED: u8 = 77;

const AFTER_HELP: &str = "\
Examples:
  loadline lab run capacity
  loadline lab run capacity --quick --peer haproxy
  loadline lab run capacity --quick --sim
  loadline lab run examples/lab/three-regions.toml --out run --json | jq .verdicts
  loadline lab run latency --markdown docs/studies/latency.md
  loadline report lab-runs/capacity-1795245614/record.json

A line a figure: PASS or FAIL name measured (what it has to be); NOT-REPRODUCED with the reason;
INVALID where all its runs were (the generator, the machine's host or the router stood in the way);
SKIPPED for the row of a peer that is not installed. Peers are shown and never judged.

What was measured before Ctrl-C or a failure is in the folder too, the rest is skipped.

Exit codes: 0 no verdict is FAIL, 1 wrong usage or study, 2 failed while running (no namespaces,
a program that does not start) or interrupted, 3 a verdict is FAIL, or none that the study asks for
could be given, 77 its hosts are on an Ethernet, which takes rights that this user lacks, or it
forwards packets, which this loadline was built without, 98 no verdict is FAIL, but some figure has
only invalid runs.";

#[cfg(test)]
mod tests {
    #[test]
    fn the_lab_knows_what_is_said_without_packet_forwarding() {
        let error = loadline_l4::LoadError::NotBuilt { reason: "there is no clang" };
        assert!(error.to_string().starts_with(loadline_lab::study::NOT_BUILT), "{error}");
    }
}
