//! `loadline lab shell` and `loadline lab down`: labs that run.

use std::{
    env,
    ffi::OsString,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Command, ExitCode},
};

use anyhow::Context as _;
use loadline_core::time::Duration;
use loadline_lab::host::{RunningError, announced, running};

use super::{print, usage};

/// Open a shell on a host of a running lab
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The host
    host: String,
    /// Name of the lab, if several run
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// A command to run instead of a shell, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// End a running lab, or all of them
#[derive(clap::Args)]
#[command(after_help = DOWN_HELP)]
pub(crate) struct DownArgs {
    /// Name of the lab, if several run
    name: Option<String>,
    /// End all labs of this user
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let entered = announced(args.lab.as_deref()).and_then(|lab| lab.enter(&args.host));
    let _entered = match entered {
        Ok(entered) => entered,
        Err(error) if is_usage(&error) => return Ok(usage(&error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let shell = || env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => (shell(), &[][..]),
    };
    let mut command = Command::new(&program);
    command.args(arguments).env("LOADLINE_HOST", &args.host).env("PS1", format!("{}$ ", args.host));
    // A namespace of processes holds only what is started from here on, so this process waits.
    let name = program.to_string_lossy().into_owned();
    let status = command.process_group(0).status();
    let status = status.with_context(|| format!("cannot start `{name}`"))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(super::super::EXIT_FAILED)))
}

pub(crate) fn down(args: &DownArgs) -> anyhow::Result<ExitCode> {
    let labs = match args.all {
        true => running()?,
        false => match announced(args.name.as_deref()) {
            Ok(lab) => vec![lab],
            Err(error) if is_usage(&error) => return Ok(usage(&error.to_string())),
            Err(error) => return Err(error.into()),
        },
    };
    for lab in labs {
        lab.end(GRACE)?;
        print(&format!("lab {} is down\n", lab.name))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the user named what is not there.
fn is_usage(error: &RunningError) -> bool {
    let unknown = matches!(error, RunningError::NoSuchLab { .. } | RunningError::NoSuchHost { .. });
    unknown || matches!(error, RunningError::Which { .. } | RunningError::Name { .. })
}

/// What a lab may take to end: its programs are asked to first.
const GRACE: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
Examples:
  loadline lab shell client
  loadline lab shell edge --lab capacity -- ss -tnp

Exit codes: that of the shell or command, 128 + N where signal N ended it; 1 no such lab or host.";

const DOWN_HELP: &str = "\
Examples:
  loadline lab down
  loadline lab down capacity
  loadline lab down --all

Exit codes: 0 it is down, 1 no such lab, or several run and none was named, 2 it did not end.";
