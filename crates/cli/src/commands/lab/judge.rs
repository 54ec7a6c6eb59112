//! `loadline lab judge`: what was measured, held against the study as it is now.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use loadline_lab::study::{self, Mode, Study};
use loadline_measure::record::{Document, Record, StudyLab};

use super::{find, folder, present, print, usage};

/// Judge measurements again, without running anything
///
/// Figures, targets and pictures are those of the study as it is now; the measurements are those in
/// the folders. Rows may be in different folders; a row in several folders counts with all its
/// runs.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A study: a name from `loadline lab list`, or a file
    study: String,
    /// Folders of `loadline lab run`
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Write the record and the report to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a page for docs/studies, with its pictures beside it; text written by hand stays
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runs: Vec<_> = args.folders.iter().map(|folder| read(folder)).collect::<Result<_, _>>()?;
    let quick = runs.iter().any(|run| run.quick);
    if runs.iter().any(|run| run.quick != quick) {
        return Ok(usage("some of the folders are of `--quick` and some are not"));
    }
    let mode = if quick { Mode::Quick } else { Mode::Full };
    let study = match Study::load(&find::study(&args.study), mode) {
        Ok(study) => study,
        Err(errors) => return Ok(crate::commands::print_errors(errors)),
    };
    if let Some(other) = runs.iter().find(|run| run.name != study.short_name()) {
        return Ok(usage(&format!("one of the folders is of the study `{}`", other.name)));
    }
    let (conditions, phases) = study::merge(runs);
    let record = study::judge(&study, conditions, phases);
    let code = present::exit_code(&study, &record);
    let text = present::text(&record);
    if let Some(file) = &args.markdown {
        folder::write_markdown(file, &study, &record)?;
    }
    if let Some(out) = &args.out {
        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        folder::write(out, &text, record)?;
    }
    print(&text)?;
    Ok(code)
}

/// The measurements in the folder of a run.
fn read(folder: &Path) -> anyhow::Result<StudyLab> {
    let path = folder.join("record.json");
    let name = path.display();
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
    let document =
        Document::read(text.as_bytes()).with_context(|| format!("{name} is no record"))?;
    match document.record {
        Record::Study(study) if study.lab.is_some() => Ok(*study.lab.unwrap_or_default()),
        _ => bail!("{name} is no record of a study in the lab"),
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline lab run capacity --row loadline --out runs/a
  loadline lab run capacity --row leastconn --out runs/b
  loadline lab judge capacity runs/a runs/b --markdown docs/studies/capacity.md

Exit codes: as those of `loadline lab run`.";
