//! `loadline lab`: a wide-area network on this machine, and the studies made in it.

mod assignment;
mod find;
mod folder;
mod judge;
mod list;
mod overflow;
mod present;
mod progress;
mod run;
mod shell;
mod simulate;
mod up;

use std::{
    io,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;
use clap::Subcommand;
use tokio::signal::unix::{SignalKind, signal};

/// Run studies in a wide-area network that is emulated on this machine
///
/// A study is a TOML file with hosts, links, programs on hosts, phases of load, published figures
/// and targets. Each row (variant) runs in a lab of its own, made of namespaces; root is not needed
/// if the kernel allows unprivileged namespaces. docs/lab.md describes the file.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(list::Args),
    Run(run::Args),
    Assignment(assignment::Args),
    Overflow(overflow::Args),
    Judge(judge::Args),
    Simulate(simulate::Args),
    Up(up::Args),
    Shell(shell::Args),
    Down(shell::DownArgs),
    /// Be a host of a lab: only a lab calls this
    #[command(hide = true)]
    Host,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Run(args) => run::run(args),
        Command::Assignment(args) => assignment::run(args),
        Command::Overflow(args) => overflow::run(args),
        Command::Judge(args) => judge::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Up(args) => up::run(args),
        Command::Shell(args) => shell::run(args),
        Command::Down(args) => shell::down(args),
        Command::Host => be_host(),
    }
}

/// A host ends when its lab has gone, which nobody is left to be told of.
fn be_host() -> anyhow::Result<ExitCode> {
    match loadline_lab::host::serve() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitCode::from(super::EXIT_FAILED))
        }
        ended => ended.map(|()| ExitCode::SUCCESS).context("cannot be a host"),
    }
}

/// Says what is wrong with the arguments.
fn usage(message: &str) -> ExitCode {
    super::wrong_usage(message)
}

fn print(text: &str) -> anyhow::Result<()> {
    super::print(text)
}

/// Runs `work` on a thread of its own while this one waits for signals: SIGINT and SIGTERM set the
/// flag that it is given.
fn until_signalled<T: Send>(work: impl FnOnce(&AtomicBool) -> T + Send) -> anyhow::Result<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (done, over) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let flag = Arc::clone(&stop);
        let worker = scope.spawn(move || {
            let result = work(&flag);
            // Nobody waits only where the signals failed.
            let _ = done.send(());
            result
        });
        let waited = runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            tokio::select! {
                _ = over => {}
                _ = interrupt.recv() => stop.store(true, Ordering::Relaxed),
                _ = terminate.recv() => stop.store(true, Ordering::Relaxed),
            }
            io::Result::Ok(())
        });
        if waited.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let result = worker.join().map_err(|_| anyhow::anyhow!("the lab's thread panicked"))?;
        waited.context("cannot wait for signals")?;
        Ok(result)
    })
}

const AFTER_HELP: &str = "\
Examples:
  loadline lab list
  loadline lab run capacity --quick
  loadline lab run capacity --peer haproxy --out runs/capacity
  loadline lab assignment --quick
  loadline lab overflow
  loadline lab judge capacity runs/capacity
  loadline lab simulate capacity --beside runs/capacity
  loadline lab up examples/lab/three-regions.toml &
  loadline lab shell client -- curl -sI http://edge/
  loadline lab down

Exit codes: 0 done, 1 wrong usage or study, 2 failed while running, 3 a verdict failed; those of
`run` and `shell` are more, and in their help.";
