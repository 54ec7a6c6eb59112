//! `loadline serve`: run the load balancer.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use loadline_control::{
    Loaded,
    admin::{Admin, Engine, Settings, Site},
};
use loadline_core::{ending::Ending, fleet::Fleet, state::State, time::Duration};
use loadline_proxy::{
    engine::StartError,
    runtime::{Handle, Runtime},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::commands::{EXIT_FAILED, EXIT_USAGE, check};

/// Run the load balancer
#[derive(Clone, clap::Args)]
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
    let Some((fleet, admin)) = read(args) else { return Ok(ExitCode::from(EXIT_USAGE)) };
    let drain = fleet.edge.drain_timeout;
    // Before anybody is told that it listens: a signal that comes earlier would end the process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let proxy = match Runtime::start(fleet.clone()) {
        Ok(proxy) => proxy,
        Err(error) => {
            tracing::error!("{error}");
            let wrong = matches!(error, StartError::Tls(_));
            return Ok(ExitCode::from(if wrong { EXIT_USAGE } else { EXIT_FAILED }));
        }
    };
    let site = Arc::new(site(&proxy, fleet, args));
    announce(&proxy);
    if let Some(settings) = admin
        && let Err(error) = administrate(&settings, site.clone())
    {
        tracing::error!("{error:#}");
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    runtime.block_on(signals.until_stopped(&site, &proxy.handle()));
    stop(proxy, drain);
    Ok(ExitCode::SUCCESS)
}

/// What to serve; none where it is wrong, which has been told then.
fn read(args: &Args) -> Option<(Fleet, Option<Settings>)> {
    if let Some(listen) = &args.listen {
        let shorthand = loadline_control::shorthand(listen, &args.to);
        let shorthand = shorthand.inspect_err(|error| tracing::error!("{error}")).ok();
        return shorthand.map(|fleet| (fleet, None));
    }
    let loaded = loadline_control::load(args.file.as_deref()?);
    match loaded {
        Ok(loaded) => {
            check::print_warnings(&loaded);
            let Loaded { fleet, admin, .. } = loaded;
            Some((fleet, admin))
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

/// The proxy with its file, for whoever reloads or changes it.
fn site(proxy: &Runtime, fleet: Fleet, args: &Args) -> Site {
    let args = args.clone();
    let load = move || match read(&args) {
        Some((fleet, _)) => Ok(fleet),
        None => Err("the configuration is wrong; the log says where".to_owned()),
    };
    Site::new(Running(proxy.handle()), fleet, load)
}

/// The proxy, as the administration sees it.
struct Running(Handle);

impl Engine for Running {
    fn state(&self) -> State {
        self.0.state()
    }

    fn reload(&self, fleet: Fleet) -> Result<(), String> {
        self.0.reload(fleet).map_err(|error| error.to_string())
    }

    fn amend(&self, fleet: Fleet) {
        self.0.amend(fleet);
    }
}

/// Starts the administration and says where it is.
#[expect(clippy::print_stdout, reason = "the command's answer")]
fn administrate(settings: &Settings, site: Arc<Site>) -> anyhow::Result<()> {
    let admin = Admin::start(settings, site)?;
    println!("administration on {}", admin.place);
    if let Some(token) = admin.made_token {
        println!("token for changes: {token}");
    }
    Ok(())
}

/// The signals that the command heeds.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
}

impl Signals {
    /// Heeds them from now on. Must be called inside a runtime.
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be received");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
            user: listen(SignalKind::user_defined1())?,
        })
    }

    /// Waits for SIGTERM or SIGINT; at SIGHUP the file is read again, and at SIGHUP and SIGUSR1
    /// the access log is opened again.
    async fn until_stopped(&mut self, site: &Site, proxy: &Handle) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    proxy.reopen_log();
                    reload(site);
                }
                _ = self.user.recv() => proxy.reopen_log(),
            }
        }
    }
}

fn reload(site: &Site) {
    match site.reload() {
        Ok(()) => tracing::info!("reloaded"),
        Err(error) => tracing::error!("not reloaded, what is in force stays: {error}"),
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

Prints `listening on ADDR` for each listener once it takes connections, and where the
administration is (metrics, dashboard, API) if the file has an [admin] table.
Signals: SIGHUP reads the file again without dropping a request; a file that is wrong changes
nothing. SIGHUP and SIGUSR1 open the file of the access log again. SIGTERM and SIGINT stop
accepting, let requests end (edge.drain_timeout) and exit 0.
Exit codes: 0 stopped by a signal, 1 wrong usage or configuration, 2 could not start.";
