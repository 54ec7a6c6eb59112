//! The command that runs while it is watched, and a watch without one.

use std::{
    ffi::OsString,
    future::{Future, pending},
    io::{self, IsTerminal as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    pin::pin,
    process::{Child, Command, ExitCode, ExitStatus},
};

use anyhow::Context as _;
use loadline_core::time::Duration;
use loadline_load::watch::{Subject, WatchPlan, Watcher, Who};
use loadline_measure::record::{ResourceRecord, Role};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::signal::unix::{SignalKind, signal};

/// A command that is not there, or that may not be run.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{command}`")]
pub(super) struct CannotStart {
    command: String,
    source: io::Error,
}

/// Runs a command with our own input and output and watches it to its end.
///
/// # Errors
/// [`CannotStart`], or what kept us from watching; the command is ended then.
pub(super) fn run(
    words: &[OsString],
    mut plan: WatchPlan,
) -> anyhow::Result<(ResourceRecord, ExitCode)> {
    let runtime = loadline_load::runtime()?;
    // Before the command is there, so that a signal cannot end us and leave it behind.
    let signals = runtime.block_on(async { Signals::catch() })?;
    let mut child = start(words)?;
    let pid = child.id();
    plan.subjects.push(Subject { who: Who::Pid(pid), role: role(words, &plan) });
    let watcher = Watcher::start(plan).inspect_err(|_| end(&mut child))?;
    let pid = Pid::from_child(&child);
    runtime.block_on(signals.forward_until(pid, ended(pid)));
    // The command has ended and is not asked for yet: what it used can still be read.
    let record = watcher.finish();
    let status = child.wait().context("cannot learn how the command ended")?;
    Ok((record, exit_code(status)))
}

/// Watches until the time is over, all have ended, or SIGINT or SIGTERM comes.
///
/// # Errors
/// What kept us from watching.
pub(super) fn none(plan: WatchPlan, duration: Option<Duration>) -> anyhow::Result<ResourceRecord> {
    let is_about_someone = !plan.subjects.is_empty();
    let runtime = loadline_load::runtime()?;
    // Before there is anything to lose by a signal.
    let mut signals = runtime.block_on(async { Signals::catch() })?;
    let watcher = Watcher::start(plan)?;
    runtime.block_on(async {
        let over = async {
            match duration {
                Some(duration) => tokio::time::sleep(duration.to_std()).await,
                None => pending().await,
            }
        };
        let alone = async {
            while !(is_about_someone && watcher.is_alone()) {
                tokio::time::sleep(LOOK_AGAIN.to_std()).await;
            }
        };
        tokio::select! {
            () = over => {}
            () = alone => {}
            _ = signals.next() => {}
        }
    });
    Ok(watcher.finish())
}

fn start(words: &[OsString]) -> Result<Child, CannotStart> {
    let (program, arguments) = words.split_first().expect("clap asks for a command or a process");
    let started = Command::new(program).args(arguments).spawn();
    let command = || program.to_string_lossy().into_owned();
    started.map_err(|source| CannotStart { command: command(), source })
}

/// The generator, unless a role is given to its name.
fn role(words: &[OsString], plan: &WatchPlan) -> Role {
    let program = words.first().and_then(|word| Path::new(word).file_name());
    let is_it = |subject: &&Subject| match &subject.who {
        Who::Name(name) => program.is_some_and(|program| program == name.as_str()),
        Who::Pid(_) => false,
    };
    plan.subjects.iter().find(is_it).map_or(Role::Generator, |subject| subject.role)
}

/// Returns when the process has ended, and leaves asking for its status to others.
async fn ended(pid: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let once = move || waitid(WaitId::Pid(pid), options).err();
    let wait = move || while once() == Some(rustix::io::Errno::INTR) {};
    // It fails only where the runtime is shut down, and then nobody waits.
    let _ = tokio::task::spawn_blocking(wait).await;
}

/// Those that would end us.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn catch() -> anyhow::Result<Self> {
        let caught = |kind| signal(kind).context("cannot catch signals");
        let interrupt = caught(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: caught(SignalKind::terminate())? })
    }

    /// The next of them.
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
        }
    }

    /// Sends each on to the process, until `ended`.
    async fn forward_until(mut self, pid: Pid, ended: impl Future<Output = ()>) {
        let mut ended = pin!(ended);
        loop {
            let signal = tokio::select! {
                () = &mut ended => return,
                signal = self.next() => signal,
            };
            // A terminal interrupts every process in front of it: ours has had it already, and
            // many programs give up their results at a second one.
            if signal == Signal::TERM || !is_at_terminal() {
                // It fails where the process has just ended, which is what was wanted.
                let _ = kill_process(pid, signal);
            }
        }
    }
}

fn is_at_terminal() -> bool {
    io::stdin().is_terminal() || io::stderr().is_terminal()
}

/// Ends a command that cannot be watched.
fn end(child: &mut Child) {
    // Both fail where it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// As shells have it: 128 and the signal where one ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(super::EXIT_NOT_STARTED))
}

/// Nobody waits for less than a sample.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
