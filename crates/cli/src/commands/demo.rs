//! `loadline demo`: the main job, shown.

mod judge;
mod plan;
mod process;
mod progress;
mod published;
mod site;
mod story;
mod study;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use loadline_measure::record::{Document, Record, StudyVerdict};
use loadline_report::{Block, Picture, Section};
use tokio::signal::unix::{SignalKind, signal};

use super::output_file::OutputFile;
use plan::Plan;
use progress::Progress;
use study::Measured;

/// Run a demonstration: two regions, each held at its capacity
///
/// Repeats the tutorial "Capacity management with load balancing" at ten times its speed, with
/// workers, proxy and load generator as processes of this binary on the loopback: one server, one
/// region, two regions, and the loss of one. Prints the published figures beside the measured ones,
/// with a verdict on each row, and writes a page with plots.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Write the HTML page to this file
    #[arg(long, value_name = "FILE", default_value = "target/demo/report.html")]
    report: PathBuf,
    /// Write the records and verdicts as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the plot of response time by rate as SVG to this file
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Fewer requests and rates: takes 20 s
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = if args.quick { Plan::quick() } else { Plan::full() };
    // It takes a minute: that its files can be written is looked at before.
    let open = OutputFile::open_in_folder;
    let mut report = open(&args.report)?;
    let json = args.json.as_deref().map(open).transpose()?;
    let picture = args.picture.as_deref().map(open).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&plan))?;
    let verdicts = judge::all(&measured);
    let sections = story::sections(&measured).context("cannot draw the report")?;
    let printed = print(&sections, story::faults(&measured), &verdicts);
    if let Some(mut file) = json {
        let study = Record::Study(measured.record(story::TITLE, &verdicts));
        let json = serde_json::to_string_pretty(&Document::new(study))?;
        file.write(&(json + "\n"))?;
    }
    if let (Some(mut file), Some(picture)) = (picture, first_picture(&sections)) {
        file.write(picture.svg())?;
    }
    let code = exit_code(&verdicts);
    let page = story::page(&measured, sections, verdicts);
    report.write(&page.html())?;
    printed?;
    say(&format!("\nReport: {}\n", args.report.display()))?;
    Ok(code)
}

fn exit_code(verdicts: &[StudyVerdict]) -> ExitCode {
    if verdicts.iter().any(StudyVerdict::fails) {
        ExitCode::from(super::EXIT_VERDICT)
    } else if verdicts.iter().any(|verdict| verdict.invalid) {
        ExitCode::from(super::EXIT_INVALID)
    } else {
        ExitCode::SUCCESS
    }
}

/// The page's first plot: response time against rate, as the tutorial draws it.
fn first_picture(sections: &[Section]) -> Option<&Picture> {
    let mut blocks = sections.iter().flat_map(|section| &section.blocks);
    blocks.find_map(|block| match block {
        Block::Picture(picture) => Some(picture),
        _ => None,
    })
}

/// Runs the study unless a signal ends it; either way no process it started is left.
async fn measure(plan: &Plan) -> anyhow::Result<Measured> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let progress = Progress::start(plan.steps());
    let measured = tokio::select! {
        measured = study::run(plan, &progress) => measured,
        _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow::anyhow!("terminated")),
    };
    progress.finish();
    measured
}

fn print(
    sections: &[Section],
    faults: Option<String>,
    verdicts: &[StudyVerdict],
) -> anyhow::Result<()> {
    let mut text = String::new();
    for section in sections {
        text += &format!("\n{}\n", section.heading);
        for block in &section.blocks {
            if let Block::Table(table) = block {
                text += &format!("\n  {}:\n{table}", table.caption);
            }
        }
    }
    text.push('\n');
    text.extend(faults.map(|faults| faults + "\n"));
    verdicts.iter().for_each(|verdict| text += &format!("{verdict}\n"));
    super::print(&text)
}

fn say(text: &str) -> anyhow::Result<()> {
    super::print(text)
}

const AFTER_HELP: &str = "\
Examples:
  loadline demo
  loadline demo --quick --json demo.json

Prints one line a verdict: PASS, FAIL, or INVALID where the load generator was late, as on a busy
machine, and the time that was measured could be another for that; name, measured, (target).
Exit codes: 0 every verdict is PASS, 2 failed while running, 3 a verdict is FAIL, 98 none is, but
some are INVALID.";
