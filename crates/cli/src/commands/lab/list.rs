//! `loadline lab list`: the studies that there are, and the labs that run.

use std::process::ExitCode;

use loadline_lab::{
    host::running,
    study::{Mode, Study, find_program},
};

use super::{find, print};

/// List the studies with their rows, and the running labs
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    for path in find::all() {
        match Study::load(&path, Mode::Full) {
            Ok(study) => text += &described(&study),
            Err(errors) => text += &format!("{errors}\n"),
        }
    }
    if text.is_empty() {
        text += NO_STUDIES;
    }
    for lab in running()? {
        let hosts: Vec<_> = lab.hosts.iter().map(|host| host.name.as_str()).collect();
        text += &format!("running: {} (process {}): {}\n", lab.name, lab.pid, hosts.join(", "));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn described(study: &Study) -> String {
    let mut text = format!("{}: {}\n", study.short_name(), study.title());
    for row in study.rows() {
        let note = match &row.peer {
            None => String::new(),
            Some(peer) if is_installed(study, peer) => format!("  (--peer {peer})"),
            Some(peer) => format!("  (--peer {peer}: not installed)"),
        };
        text += &format!("  {}{note}\n", row.title);
    }
    text
}

fn is_installed(study: &Study, peer: &str) -> bool {
    let tool = study.tools().iter().find(|tool| tool.name == peer);
    let program = tool.and_then(|tool| tool.version.first());
    program.is_some_and(|program| find_program(program).is_some())
}

const NO_STUDIES: &str = "\
no folder `studies` here or above: change to a clone of the repository, or install the package,
whose studies are in /usr/share/loadline/studies; `loadline lab run FILE` takes any file
";

const AFTER_HELP: &str = "\
The studies are those of the folder `studies` in this directory or one above it, as in a clone of
the repository, or else of the package (/usr/share/loadline/studies).

Example:
  loadline lab list

Exit codes: 0 listed, 1 wrong usage, 2 the running labs could not be listed.";
