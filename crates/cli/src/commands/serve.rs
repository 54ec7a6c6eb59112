//! `loadline serve`: run the load balancer.

mod bounds;
mod follow;
mod forwarder;
mod handover;
mod identity;
mod notify;
mod running;
mod signals;

use std::{
    io::Write as _,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use loadline_control::{
    Loaded, Process,
    admin::{Admin, BoundAdmin, Settings, Site, bind_path},
    discovery::{self, NameServers},
};
use loadline_core::{discovery::Lists, ending::Ending, fleet::Fleet};
use loadline_proxy::{
    engine::StartError,
    runtime::{Bound, Runtime},
    tally::Tallies,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::commands::{EXIT_FAILED, EXIT_USAGE, check, xdp_mode::XdpMode};
use follow::{Changed, Follower};
use forwarder::Forwarder;
use handover::{Estate, Heritage};
use identity::Identity;
use notify::notify;
use running::Running;
use signals::{Signals, Told};

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

    /// Read the file again when it changes, or a certificate that it names
    #[arg(long, requires = "file")]
    watch: bool,

    /// How packet forwarding is attached, instead of what `l4.xdp_mode` says
    #[arg(long, value_enum, value_name = "MODE", requires = "file")]
    xdp_mode: Option<XdpMode>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut heritage = Heritage::take()?;
    // Before anybody is told that it listens: a signal that comes earlier would end the process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let mut edge = match Edge::start(args, &mut heritage) {
        Ok(edge) => edge,
        Err(Failure { code, why }) => {
            heritage.report(Err(&why));
            return Ok(ExitCode::from(code));
        }
    };
    // Memory that is given up goes back while nothing is asked for, too. Not for every command: a
    // lab can only be entered by a process of one thread.
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!("memory stays with the process when connections leave: {error}");
    }
    edge.announce();
    heritage.report(Ok(()));
    notify("READY=1");
    let outcome = runtime.block_on(edge.until_ended(&mut signals))?;
    runtime.block_on(edge.end(outcome, &mut signals))
}

/// Why it did not start; it has been told.
struct Failure {
    code: u8,
    why: String,
}

impl Failure {
    fn told(code: u8, error: &anyhow::Error) -> Self {
        let why = format!("{error:#}");
        tracing::error!("{why}");
        Self { code, why }
    }

    fn running(error: impl Into<anyhow::Error>) -> Self {
        Self::told(EXIT_FAILED, &error.into())
    }

    fn of_start(error: StartError) -> Self {
        let wrong = matches!(error, StartError::Tls(_));
        Self::told(if wrong { EXIT_USAGE } else { EXIT_FAILED }, &error.into())
    }
}

/// A running proxy and all that belongs to it.
struct Edge {
    proxy: Runtime,
    site: Arc<Site>,
    admin: Option<(String, Admin)>,
    control: Option<(PathBuf, UnixListener)>,
    /// The program, by the path it was started from: what is there now may be another.
    program: PathBuf,
    follower: Follower,
    forwarder: Option<Arc<Forwarder>>,
}

/// Why a process ends.
enum Outcome {
    /// It was told to.
    Stopped,
    /// Another process serves in its place.
    Succeeded(u32),
}

impl Edge {
    /// Binds everything, becomes whom the file says, and serves.
    fn start(args: &Args, heritage: &mut Heritage) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(Failure::running)?;
        let followed = args.file.as_deref().filter(|_| args.watch);
        let follower = Follower::new(followed);
        let (begun, settings, process) = read(args).map_err(|why| {
            let why = if why.is_empty() { "it cannot be read".to_owned() } else { why };
            Failure { code: EXIT_USAGE, why }
        })?;
        let identity = Identity::of(&process).map_err(Failure::running)?;
        if identity.is_some() {
            Identity::renounce().map_err(Failure::running)?;
        }
        let lists = discovery::begin(&begun.0, &begun.1);
        let lists = lists.map_err(|error| Failure::told(EXIT_USAGE, &error.into()))?;
        let listed = lists.applied_to(&begun.0);
        let bound = Bound::new(listed, &mut heritage.sockets).map_err(Failure::of_start)?;
        for address in heritage.sockets.addresses() {
            tracing::warn!(%address, "a socket was passed that no listener asks for");
        }
        let place = settings.as_ref().map(|settings| settings.bind.to_string());
        let administration = settings.map(|it| BoundAdmin::new(&it, heritage.admin(&it.bind)));
        let administration = administration.transpose().map_err(Failure::running)?;
        let control = control(process.control, heritage, identity.as_ref());
        let control = control.map_err(Failure::running)?;
        let forwarder = Forwarder::start(&bound.plan(), args.xdp_mode);
        let forwarder = forwarder.map_err(Failure::running)?;
        if let Some(identity) = identity {
            identity.assume().map_err(Failure::running)?;
        }
        let detour = forwarder.as_ref().and_then(|forwarder| forwarder.detour());
        let bound = match detour {
            Some(detour) => bound.with_detour(detour),
            None => bound,
        };
        let proxy = bound.start().map_err(Failure::of_start)?;
        if let Some(forwarder) = &forwarder {
            forwarder.follow(proxy.handle()).map_err(Failure::running)?;
        }
        let running = Running { proxy: proxy.handle(), forwarder: forwarder.clone() };
        let site = Arc::new(site(running, (begun, lists), args));
        site.restore(std::mem::take(&mut heritage.changes));
        let admin = administration.map(|it| it.start(site.clone())).transpose();
        let admin = place.zip(admin.map_err(Failure::running)?);
        Ok(Self { proxy, site, admin, control, program, follower, forwarder })
    }

    /// Says where it listens, for whoever started it and waits for it to be ready.
    fn announce(&self) {
        let fleet = self.site.file();
        if !fleet.listeners.is_empty() {
            bounds::tell(&fleet);
        }
        let mut said = String::new();
        for address in self.proxy.local_addrs() {
            said += &format!("listening on {address}\n");
        }
        if let Some((_, admin)) = &self.admin {
            said += &format!("administration on {}\n", admin.place);
            if let Some(token) = &admin.made_token {
                said += &format!("token for changes: {token}\n");
            }
        }
        // Whoever started a process before this one may have stopped reading.
        let _ = std::io::stdout().write_all(said.as_bytes());
    }

    /// Does what signals and the control socket ask for until one of them ends it.
    async fn until_ended(&mut self, signals: &mut Signals) -> anyhow::Result<Outcome> {
        let control = self.control.as_ref().map(|(_, socket)| socket.try_clone()).transpose()?;
        let control = control.map(tokio::net::UnixListener::from_std).transpose()?;
        tokio::spawn(discovery::follow_names(self.site.clone()));
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                told = signals.next() => {
                    if let Some(outcome) = self.heed(told) {
                        return Ok(outcome);
                    }
                }
                asking = asked(control.as_ref()) => {
                    if let Some(process) = self.answer(asking).await {
                        return Ok(Outcome::Succeeded(process));
                    }
                }
                _ = looks.tick() => self.follow(),
            }
        }
    }

    /// Does what a signal tells; gives the outcome where that is the end.
    fn heed(&self, told: Told) -> Option<Outcome> {
        match told {
            Told::End => return Some(Outcome::Stopped),
            Told::Reload => {
                self.proxy.handle().reopen_log();
                tell(self.site.reload());
            }
            Told::ReopenLog => self.proxy.handle().reopen_log(),
            Told::Upgrade => match self.pass_on() {
                Ok(process) => return Some(Outcome::Succeeded(process)),
                Err(error) => tracing::error!("not upgraded, this process goes on: {error:#}"),
            },
        }
        None
    }

    /// Reads again what has changed on disk. Unless that is the configuration itself, what was
    /// changed at run time stays.
    fn follow(&mut self) {
        match self.follower.look(&self.site.file()) {
            None => {}
            Some(Changed::Configuration) => tell(self.site.reload()),
            Some(Changed::Lists) => self.site.relist(),
            Some(Changed::Named) => {
                self.site.relist();
                tell(self.site.renew());
            }
        }
    }

    /// Does what somebody at the control socket asks for.
    async fn answer(&self, mut asking: UnixStream) -> Option<u32> {
        let mut asked = [0; UPGRADE.len()];
        let heard = timeout(PATIENCE, asking.read_exact(&mut asked)).await;
        if !matches!(heard, Ok(Ok(_))) || asked != *UPGRADE {
            return None;
        }
        let done = self.pass_on();
        let (old, drain) = (std::process::id(), self.site.file().edge.drain_timeout);
        let told = match &done {
            Ok(new) => format!(
                "ok process {new} serves; process {old} ends when its connections have, or after \
                 {drain}\n"
            ),
            Err(error) => format!("error {error:#}\n"),
        };
        if let Err(error) = &done {
            tracing::error!("not upgraded, this process goes on: {error:#}");
        }
        // Whoever asked may have gone; what is done is done.
        let _ = asking.write_all(told.as_bytes()).await;
        done.ok()
    }

    /// Starts a process that takes over; its id.
    fn pass_on(&self) -> anyhow::Result<u32> {
        if self.forwarder.is_some() {
            anyhow::bail!("packet forwarding cannot be passed on: start loadline anew");
        }
        let admin = self.admin.as_ref().map(|(place, admin)| {
            anyhow::Ok((place.clone(), admin.share()?, admin.made_token.clone()))
        });
        let control = self
            .control
            .as_ref()
            .map(|(path, socket)| anyhow::Ok((path.clone(), OwnedFd::from(socket.try_clone()?))));
        let estate = Estate {
            sockets: self.proxy.handle().sockets(),
            changes: self.site.changes(),
            admin: admin.transpose()?,
            control: control.transpose()?,
        };
        estate.pass_on(&self.program)
    }

    /// Lets connections end, no longer than the drain allows or a second signal comes.
    async fn end(self, outcome: Outcome, signals: &mut Signals) -> anyhow::Result<ExitCode> {
        let Self { proxy, site, admin, control, forwarder, .. } = self;
        let drain = site.file().edge.drain_timeout;
        let handle = proxy.handle();
        // The successor answers on the same sockets.
        drop(control);
        let ending = match outcome {
            Outcome::Stopped => {
                notify("STOPPING=1");
                tracing::info!(%drain, "draining");
                tokio::task::spawn_blocking(move || proxy.stop(drain))
            }
            Outcome::Succeeded(process) => {
                notify(&format!("MAINPID={process}\nREADY=1"));
                drop(admin);
                tracing::info!(%drain, process, "another process serves; draining");
                tokio::task::spawn_blocking(move || proxy.leave(drain))
            }
        };
        tokio::pin!(ending);
        let tallies = tokio::select! {
            tallies = &mut ending => tallies,
            () = signals.until_end() => {
                tracing::warn!("told once more: what is left is cut");
                handle.cut();
                ending.await
            }
        };
        forwarder.iter().for_each(|forwarder| forwarder.end());
        told(&tallies.context("draining")?);
        Ok(ExitCode::SUCCESS)
    }
}

/// What to serve, and who is asked for names.
type Intent = (Fleet, NameServers);

/// What to serve; or what is wrong, which has been told.
fn read(args: &Args) -> Result<(Intent, Option<Settings>, Process), String> {
    if let Some(listen) = &args.listen {
        let shorthand = loadline_control::shorthand(listen, &args.to);
        let shorthand = shorthand.inspect_err(|error| tracing::error!("{error}"));
        let fleet = shorthand.map_err(|error| error.to_string())?;
        return Ok(((fleet, NameServers::default()), None, Process::default()));
    }
    let file = args.file.as_deref().ok_or("no file is named")?;
    match loadline_control::load(file) {
        Ok(loaded) => {
            check::print_warnings(&loaded);
            let Loaded { fleet, names, admin, process, .. } = loaded;
            Ok(((fleet, names), admin, process))
        }
        Err(errors) => {
            let why: Vec<String> = errors.errors().iter().map(ToString::to_string).collect();
            check::print_errors(errors);
            Err(why.join("; "))
        }
    }
}

/// Where upgrades are asked for: the socket of the process before, or a new one of `identity`.
fn control(
    path: Option<PathBuf>,
    heritage: &mut Heritage,
    identity: Option<&Identity>,
) -> anyhow::Result<Option<(PathBuf, UnixListener)>> {
    let Some(path) = path else { return Ok(None) };
    let socket = match heritage.control(&path) {
        Some(socket) => UnixListener::from(socket),
        None => {
            let socket = bind_path(&path);
            let socket = socket.with_context(|| format!("edge.control: {}", path.display()))?;
            if let Some((user, group)) = identity.map(Identity::ids) {
                std::os::unix::fs::chown(&path, Some(user), Some(group))?;
            }
            socket
        }
    };
    socket.set_nonblocking(true)?;
    Ok(Some((path, socket)))
}

/// The next who asks for something; nobody where there is no control socket.
async fn asked(control: Option<&tokio::net::UnixListener>) -> UnixStream {
    let Some(control) = control else { return std::future::pending().await };
    loop {
        match control.accept().await {
            Ok((asking, _)) => return asking,
            // Too few descriptors, say: trying at once would only burn time.
            Err(error) => tracing::warn!(%error, "cannot accept at the control socket"),
        }
        sleep(PATIENCE).await;
    }
}

/// The proxy with its file, for whoever reloads or changes it.
fn site(running: Running, begun: (Intent, Lists), args: &Args) -> Site {
    let args = args.clone();
    let load = move || match read(&args) {
        Ok((intent, ..)) => Ok(intent),
        Err(_) => Err("the configuration is wrong; the log says where".to_owned()),
    };
    Site::new(running, begun, load)
}

/// Tells how a reload went.
fn tell(outcome: Result<(), String>) {
    match outcome {
        Ok(()) => tracing::info!("reloaded"),
        Err(error) => tracing::error!("not reloaded, what is in force stays: {error}"),
    }
}

fn told(tallies: &Tallies) {
    let endings = Ending::ALL.map(|ending| (ending.name(), tallies.count(ending)));
    let counts = endings.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name}={count}")).collect();
    tracing::info!("stopped: {}", counts.join(" "));
}

/// What is asked for at the control socket.
const UPGRADE: &[u8; 8] = b"upgrade\n";

/// Whoever connects to the control socket knows what to ask for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// Time from one look at the files to the next.
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

const AFTER_HELP: &str = "\
Examples:
  loadline serve --listen :8080 --to http://10.0.0.1:80 --to http://10.0.0.2:80
  loadline serve loadline.toml

Prints `listening on ADDR` for each listener once it takes connections, and where the
administration is (metrics, dashboard, API) if the file has an [admin] table. The standard error
tells how many clients there can be at a time, and how much memory they can take.
Signals: SIGHUP reads the file again without dropping a request; a file that is wrong changes
nothing. SIGHUP and SIGUSR1 open the file of the access log again. SIGTERM and SIGINT stop
accepting, let requests end (edge.drain_timeout) and exit 0; a second one cuts what is left.
SIGUSR2 upgrades: see `loadline upgrade`. Sockets that systemd passes (LISTEN_FDS) are used.
Exit codes: 0 stopped by a signal, 1 wrong usage or configuration, 2 could not start.";
