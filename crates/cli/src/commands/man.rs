//! `loadline man`: write the manual pages.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context;

/// Write the manual pages: loadline.1 and one for each command
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Directory for the pages; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// `program` is the whole command line.
pub(crate) fn run(args: &Args, program: clap::Command) -> anyhow::Result<ExitCode> {
    let into = || format!("writing manual pages to {}", args.out.display());
    fs::create_dir_all(&args.out).with_context(into)?;
    clap_mangen::generate_to(program, &args.out).with_context(into)?;
    Ok(ExitCode::SUCCESS)
}

const AFTER_HELP: &str = "\
Examples:
  loadline man --out /usr/local/share/man/man1
  loadline man --out man && man -l man/loadline-serve.1

Exit codes: 0 written, 1 wrong usage, 2 the pages could not be written.";
