//! `loadline lab up`: the hosts and programs of a study, to look around in.

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use loadline_lab::study::{Held, Mode, RunError, Setup, Study, hold};

use super::{find, print, until_signalled, usage};

/// Start the hosts and programs of a study, without measuring
///
/// The lab runs until Ctrl-C or `loadline lab down`, in the foreground; meanwhile `loadline lab
/// shell HOST` opens a shell on a host.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A study: a name from `loadline lab list`, or a file
    study: String,
    /// The row whose programs are started [the first]
    #[arg(long, value_name = "NAME")]
    row: Option<String>,
    /// The faster and smaller form of the study
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder for files and logs [a temporary one]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mode = if args.quick { Mode::Quick } else { Mode::Full };
    let study = match Study::load(&find::study(&args.study), mode) {
        Ok(study) => study,
        Err(errors) => return Ok(crate::commands::print_errors(errors)),
    };
    let temporary = tempfile::tempdir().context("cannot make a folder for temporary files")?;
    let row = args.row.clone().or_else(|| study.rows().first().map(|row| row.name.clone()));
    let row = row.unwrap_or_default();
    let setup = Setup {
        program: env::current_exe().context("cannot find the binary that runs")?,
        folder: args.out.clone().unwrap_or_else(|| temporary.path().to_owned()),
        rows: vec![row.clone()],
        seed: args.seed,
        again: 0,
    };
    let held = until_signalled(|stop| {
        // What is told is of use only where somebody reads it.
        hold(&study, &setup, &row, stop, &mut |held| drop(print(&told(&study, held))))
    })?;
    match held {
        Err(error @ RunError::NoSuchRow { .. }) => Ok(usage(&error.to_string())),
        held => {
            held.context("the lab is not up")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn told(study: &Study, held: &Held) -> String {
    let mut text = format!("lab {} is up\n", study.short_name());
    for (host, addresses) in &held.hosts {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let programs = held.programs.iter().filter(|(_, of)| of == host);
        let programs: Vec<_> = programs.map(|(program, _)| program.as_str()).collect();
        let (addresses, programs) = (addresses.join(" "), programs.join(", "));
        text += format!("  {host:<16} {addresses:<24} {programs}").trim_end();
        text.push('\n');
    }
    for note in &held.notes {
        text += &format!("  note: {note}\n");
    }
    text + "Ctrl-C or `loadline lab down` ends it, `loadline lab shell HOST` is a shell on a host\n"
}

const AFTER_HELP: &str = "\
Examples:
  loadline lab up examples/lab/three-regions.toml &
  loadline lab shell client -- ping -c 3 edge
  loadline lab down

Exit codes: 0 it was up and is down, 1 wrong usage or study, 2 it could not be started.";
