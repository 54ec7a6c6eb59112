//! `loadline upgrade`: let a new process take over from the one that runs.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{EXIT_FAILED, EXIT_USAGE, print_errors};

/// Replace the running program without refusing or resetting a connection
///
/// The running process starts its program file again, with its own arguments, and hands over the
/// listening sockets. Once the new process serves, the old one takes no more connections, and ends
/// when its connections have ended or after edge.drain_timeout. If the new process cannot start,
/// the old one goes on, and the reason is printed.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration file, which has the socket in edge.control
    #[arg(required_unless_present = "socket", conflicts_with = "socket")]
    file: Option<PathBuf>,

    /// The path of the socket, instead of a configuration file
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(path) = socket(args) else { return Ok(ExitCode::from(EXIT_USAGE)) };
    let mut socket = UnixStream::connect(&path).with_context(|| unheard(&path, args))?;
    socket.write_all(b"upgrade\n").context("asking for the upgrade")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).context("waiting for the answer")?;
    match outcome(&answer) {
        Ok(told) => {
            std::io::stdout().write_all(told.as_bytes()).context("printing the answer")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            tracing::error!("{why}");
            Ok(ExitCode::from(EXIT_FAILED))
        }
    }
}

/// That nobody listens there, and what helps: the running process has the socket it began with.
fn unheard(path: &Path, args: &Args) -> String {
    let help = match args.socket {
        Some(_) => "",
        None => " (if edge.control has changed: --socket with the old path, or kill -USR2)",
    };
    format!("nobody listens on {}{help}", path.display())
}

/// What the answer of the running process says: that it is done, or why not.
fn outcome(answer: &str) -> Result<&str, String> {
    if let Some(told) = answer.strip_prefix("ok ") {
        return Ok(told);
    }
    Err(match answer.strip_prefix("error ") {
        Some(why) => format!("not upgraded, the old process goes on: {}", why.trim_end()),
        None if answer.trim_end() == "busy" => {
            "an upgrade is under way already; the log tells how it ends".to_owned()
        }
        None => "the process ended without an answer: see its log for whether it was upgraded"
            .to_owned(),
    })
}

/// Where the running process listens for this; none where that is not known, which has been told.
fn socket(args: &Args) -> Option<PathBuf> {
    if args.socket.is_some() {
        return args.socket.clone();
    }
    let file = args.file.as_deref()?;
    match loadline_control::load_control(file) {
        Ok(Some(control)) => Some(control),
        Ok(None) => {
            tracing::error!("{} has no edge.control: name a socket there", file.display());
            None
        }
        Err(errors) => {
            print_errors(errors);
            None
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  loadline upgrade /etc/loadline/loadline.toml
  loadline upgrade --socket /run/loadline/control.sock

SIGUSR2 to the running process does the same, and tells its outcome in the log.
Exit codes: 0 the new process serves, 1 wrong usage, a file that cannot be read or names no
edge.control, 2 not upgraded.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_that_the_old_process_goes_on_who_was_given_no_outcome() {
        assert_eq!(outcome("ok process 2 serves\n"), Ok("process 2 serves\n"));
        let failed = outcome("error no such file\n").unwrap_err();
        assert_eq!(failed, "not upgraded, the old process goes on: no such file");
        assert!(outcome("busy\n").unwrap_err().contains("under way already"));
        assert!(!outcome("").unwrap_err().contains("goes on"));
    }
}
