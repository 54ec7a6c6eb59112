//! `loadline serve`: run the load balancer.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use loadline_core::{ending::Ending, fleet::Fleet, time::Duration};
use loadline_proxy::{engine::StartError, runtime::Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::commands::{EXIT_FAILED, EXIT_USAGE, check};

/// Run the load balancer
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration; SIGHUP reads it again
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    file: Option<PathBuf>,

    /// Address to listen on, without a file: `:8080`, `127.0.0.1:8080`
    #[arg(long, value_name = "ADDR", requires = "to")]
    listen: Option<String>,

    /// Server to send to, without a file; repeat for more
    #[arg(long, value_name = "URL", requires = "listen")]
    to: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(fleet) = fleet(args) else { return Ok(ExitCode::from(EXIT_USAGE)) };
    let drain = fleet.edge.drain_timeout;
    // Before anybody is told that it listens: a signal that comes earlier would end the process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let proxy = match Runtime::start(fleet) {
        Ok(proxy) => proxy,
        Err(error) => {
            tracing::error!("{error}");
            let wrong = matches!(error, StartError::Tls(_));
            return Ok(ExitCode::from(if wrong { EXIT_USAGE } else { EXIT_FAILED }));
        }
    };
    announce(&proxy);
    runtime.block_on(signals.until_stopped(&proxy, args));
    stop(proxy, drain);
    Ok(ExitCode::SUCCESS)
}

/// What to serve; none where it is wrong, which has been told then.
fn fleet(args: &Args) -> Option<Fleet> {
    if let Some(listen) = &args.listen {
        let shorthand = loadline_control::shorthand(listen, &args.to);
        return shorthand.inspect_err(|error| tracing::error!("{error}")).ok();
    }
    let loaded = loadline_control::load(args.file.as_deref()?);
    match loaded {
        Ok(loaded) => {
            check::print_warnings(&loaded);
            Some(loaded.fleet)
        }
        Err(errors) => {
            check::print_errors(errors);
            None
        }
    }
}

/// Says where it listens, for whoever started it and waits for it to be ready.
#[expect(clippy::print_stdout, reason = "the command's answer")]
fn announce(proxy: &Runtime) {
    for address in proxy.local_addrs() {
        println!("listening on {address}");
    }
}

/// The signals that the command heeds.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Heeds them from now on. Must be called inside a runtime.
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be received");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT; at SIGHUP the file is read again.
    async fn until_stopped(&mut self, proxy: &Runtime, args: &Args) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => reload(proxy, args),
            }
        }
    }
}

fn reload(proxy: &Runtime, args: &Args) {
    match fleet(args) {
        Some(fleet) => match proxy.reload(fleet) {
            Ok(()) => tracing::info!("reloaded"),
            Err(error) => tracing::error!("not reloaded: {error}"),
        },
        None => tracing::error!("not reloaded: the configuration in force stays"),
    }
}

fn stop(proxy: Runtime, drain: Duration) {
    tracing::info!(%drain, "draining");
    let tallies = proxy.stop(drain);
    let endings = Ending::ALL.map(|ending| (ending.name(), tallies.count(ending)));
    let counts = endings.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name}={count}")).collect();
    tracing::info!("stopped: {}", counts.join(" "));
}

const AFTER_HELP: &str = "\
Examples:
  loadline serve --listen :8080 --to http://10.0.0.1:80 --to http://10.0.0.2:80
  loadline serve loadline.toml

Prints `listening on ADDR` for each listener once it takes connections.
Signals: SIGHUP reads the file again without dropping a request; a file that is wrong changes
nothing. SIGTERM and SIGINT stop accepting, let requests end (edge.drain_timeout) and exit 0.
Exit codes: 0 stopped by a signal, 1 wrong usage or configuration, 2 could not start.";
