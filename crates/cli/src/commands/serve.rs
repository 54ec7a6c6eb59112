//! `loadline serve`: run the load balancer.

mod acme;
mod bounds;
mod checks;
mod cluster;
mod control;
mod fixed;
mod follow;
mod handover;
pub(crate) mod identity;
mod keys;
mod notify;
mod pid_file;
mod reader;
mod running;
mod signals;
mod upgrade;

use std::{
    io::Write as _,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use loadline_control::{
    Loaded, Moment, Process, Trust,
    admin::{Admin, BoundAdmin, LiveConfiguration, Settings, SocketPath},
    discovery::{self, NameServers},
};
use loadline_core::{
    decide::{discovery::Lists, ending::Ending},
    fleet::Fleet,
};
use loadline_l4::{Attach, Forwarder};
use loadline_proxy::{
    runtime::engine::StartError,
    runtime::{Bound, Runtime},
    telemetry::tally::Tallies,
};
use loadline_spanned::{FileError, FileErrors};
use rustix::process::Signal;
use tokio::{
    sync::mpsc::channel,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    commands::{EXIT_FAILED, EXIT_USAGE, chain, check, outside, print_errors, xdp_mode::XdpMode},
    process_log::{self, LogFormat},
};
use acme::Acme;
use checks::Checks;
use cluster::{Cluster, InForce};
use fixed::Fixed;
use follow::{Changed, Follower};
use handover::{HandoverState, InheritedState, Successor};
use identity::Identity;
use keys::Keys;
use notify::notify;
use pid_file::PidFile;
use reader::Reader;
use running::Running;
use signals::{SignalAction, Signals};
use upgrade::Upgrade;

/// Run the load balancer
#[derive(Clone, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The configuration file; SIGHUP reloads it
    #[arg(required_unless_present = "listen")]
    #[arg(conflicts_with_all = ["listen", "to", "cacert", "insecure"])]
    file: Option<PathBuf>,

    /// Address to listen on, without a file: `:8080`, `127.0.0.1:8080`
    #[arg(long, value_name = "ADDR", requires = "to")]
    listen: Option<String>,

    /// Server to send to, without a file: `10.0.0.1:80`, `http://web`, `https://web:8443`; repeat
    /// for more
    #[arg(long, value_name = "URL", requires = "listen")]
    to: Vec<String>,

    /// PEM file of CA certificates to trust instead of the system's, for servers with https
    #[arg(long, value_name = "FILE", requires = "to", conflicts_with = "insecure")]
    cacert: Option<String>,

    /// Accept any certificate of servers with https
    #[arg(short = 'k', long, requires = "to")]
    insecure: bool,

    /// Reload when the file or a certificate that it names changes; after a failed reload, when any
    /// file that it names changes
    #[arg(long, requires = "file", conflicts_with = "listen")]
    watch: bool,

    /// How packet forwarding is attached, instead of `l4.xdp_mode`
    #[arg(long, value_enum, value_name = "MODE", requires = "file", conflicts_with = "listen")]
    xdp_mode: Option<XdpMode>,

    /// Write the process id to this file, instead of `edge.pid_file`
    #[arg(long, value_name = "PATH")]
    pid_file: Option<PathBuf>,

    /// Format of the log on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    process_log::write_behind(args.log_format).context("starting the thread of the log")?;
    let outcome = serve(args);
    if let (Err(error), LogFormat::Json) = (&outcome, args.log_format) {
        tracing::error!("{}", chain(error));
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    outcome
}

fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    bounds::ensure_descriptors()?;
    let mut inherited_state = InheritedState::take()?;
    // Before anybody is told that it listens: a signal that comes earlier would end the process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let mut edge = match Edge::start(args, &mut inherited_state) {
        Ok(edge) => edge,
        Err(Failure { code, why }) => {
            inherited_state.report(Err(&why));
            return Ok(ExitCode::from(code));
        }
    };
    // Memory that is given up goes back while nothing is asked for, too. Not for every command: a
    // lab can only be entered by a process of one thread.
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!("cannot return freed memory to the system: {error}");
    }
    edge.announce();
    inherited_state.report(Ok(()));
    notify("READY=1");
    let outcome = runtime.block_on(edge.until_ended(&mut signals))?;
    let code = runtime.block_on(edge.end(outcome, &mut signals));
    // Nobody waits for files that are still being read.
    runtime.shutdown_background();
    code
}

/// Why it did not start; it has been told.
struct Failure {
    code: u8,
    why: String,
}

impl Failure {
    fn told(code: u8, error: &anyhow::Error) -> Self {
        let why = bounds::with_remedy(chain(error));
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
    site: Arc<LiveConfiguration>,
    admin: Option<(String, Admin)>,
    control: Option<(SocketPath, UnixListener)>,
    /// The program, by the path it was started from, or why that is not known, which only an
    /// upgrade needs: what is there later may be another.
    program: std::io::Result<PathBuf>,
    follower: Follower,
    forwarder: Option<Arc<Forwarder>>,
    reader: Reader,
    upgrade: Option<Upgrade>,
    pid_file: Option<PidFile>,
    cluster: Cluster,
    acme: Acme,
    keys: Keys,
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
    fn start(args: &Args, inherited_state: &mut InheritedState) -> Result<Self, Failure> {
        let program = upgrade::program();
        let followed = args.file.as_deref().filter(|_| args.watch);
        let follower = Follower::new(followed);
        let wrong = |why: String| {
            let why = if why.is_empty() { "it cannot be read".to_owned() } else { why };
            Failure { code: EXIT_USAGE, why }
        };
        let cluster = Cluster::of(args.file.as_deref());
        let cluster = cluster.map_err(|errors| wrong(tell_errors(errors, args.log_format)))?;
        let in_force = &cluster.in_force;
        let names = follower.names(in_force);
        let configuration = read(args, in_force, Moment::Start).map_err(wrong)?;
        let Configuration { intent: begun, fixed, admin: settings, process } = configuration;
        let identity = Identity::of(&process).map_err(Failure::running)?;
        if identity.is_some() {
            Identity::renounce().map_err(Failure::running)?;
        }
        let lists = discovery::begin(&begun.0, &begun.1, inherited_state.heard());
        let lists = lists.map_err(|error| Failure::told(EXIT_USAGE, &error.into()))?;
        let listed = discovery::listed(&lists, &begun.0);
        let InheritedState { sockets, servers, .. } = &mut *inherited_state;
        let bound = Bound::shared(listed, sockets, cluster.floor(), servers);
        let bound = bound.map_err(Failure::of_start)?;
        let place = settings.as_ref().map(|settings| settings.bind.to_string());
        let administration =
            settings.map(|it| BoundAdmin::new(&it, inherited_state.admin(&it.bind)));
        let administration = administration.transpose().map_err(Failure::running)?;
        let control = process.control.as_deref();
        let control = control.map(|path| control::open(path, inherited_state, identity.as_ref()));
        let control = control.transpose().map_err(Failure::running)?;
        inherited_state.close_unused();
        let plan = bound.plan();
        let forwarder = Forwarder::start(&plan, args.xdp_mode.map(Attach::from));
        let forwarder = forwarder.map_err(Failure::running)?.map(Arc::new);
        let interface = forwarder.as_ref().and(plan.fleet.forwarding.datapath.as_ref());
        let checks = interface.and_then(|datapath| Checks::attach(&datapath.interface));
        if let Some(identity) = identity {
            identity.assume(&plan.fleet).map_err(Failure::running)?;
        }
        let proxy = bound.with_detour(checks).start().map_err(Failure::of_start)?;
        if let Some(forwarder) = &forwarder {
            let handle = proxy.handle();
            forwarder.follow(move || handle.plan()).map_err(Failure::running)?;
        }
        let (acme, keys) = (Acme::default(), Keys::default());
        let views = (acme.view.clone(), keys.view.clone());
        let running = Running::new(proxy.handle(), forwarder.clone(), cluster.view(), views);
        let site = Arc::new(site(running, (begun, lists), (args, fixed), in_force));
        site.restore(&inherited_state.changes);
        let admin = administration.map(|it| it.start(site.clone())).transpose();
        let admin = place.zip(admin.map_err(Failure::running)?);
        let pid_file = args.pid_file.clone().or(process.pid_file).map(PidFile);
        pid_file.iter().try_for_each(PidFile::write).map_err(Failure::running)?;
        let (reader, upgrade) = (Reader::new(site.clone(), names), None);
        Ok(Self {
            proxy,
            site,
            admin,
            control,
            program,
            follower,
            forwarder,
            reader,
            upgrade,
            pid_file,
            cluster,
            acme,
            keys,
        })
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

    /// Does what signals and the control socket ask for until one of them ends it. Nothing that
    /// takes its time is done here: the next signal may be the one that ends it.
    async fn until_ended(&mut self, signals: &mut Signals) -> anyhow::Result<Outcome> {
        tokio::spawn(discovery::follow_names(self.site.clone()));
        self.keys.begin(self.site.clone(), self.proxy.handle());
        let admin = self.admin.as_ref().map(|(_, admin)| admin.place.to_string());
        self.acme.begin(self.site.clone(), self.proxy.handle(), self.cluster.store());
        self.cluster.join(&self.site, self.proxy.handle(), admin);
        let mut listening = JoinSet::new();
        let (askers, mut asked) = channel(1);
        if let Some((_, socket)) = &self.control {
            let socket = tokio::net::UnixListener::from_std(socket.try_clone()?)?;
            listening.spawn(control::listen(socket, askers));
        }
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outcome = loop {
            self.go_on().await;
            tokio::select! {
                told = signals.next() => {
                    if self.heed(told) {
                        break Outcome::Stopped;
                    }
                }
                Some(asker) = asked.recv() => Upgrade::ask(&mut self.upgrade, asker),
                done = done(self.upgrade.as_mut()) => {
                    if let Some(process) = self.conclude(done).await {
                        break Outcome::Succeeded(process);
                    }
                }
                named = self.reader.done() => self.follower.wait_for(named),
                put_in_force = self.cluster.offered(),
                    if self.upgrade.is_none() && self.reader.is_idle() =>
                {
                    self.reader.begin(put_in_force);
                }
                _ = looks.tick(), if self.upgrade.is_none() && self.reader.is_idle() => {
                    if let Some(changed) = self.follower.look(&self.site.file()) {
                        self.reader.ask(changed);
                    }
                }
            }
        };
        listening.shutdown().await;
        Ok(outcome)
    }

    /// Begins with what was asked for. What the next process is given must not change meanwhile,
    /// so files are read before that or, where it does not serve, after.
    async fn go_on(&mut self) {
        if self.upgrade.is_none() {
            self.reader.go_on();
        } else if self.reader.is_idle() {
            let begins = self.upgrade.as_ref().is_some_and(|upgrade| !upgrade.has_begun());
            let started = if begins { Some(self.pass_on().await) } else { None };
            if let (Some(upgrade), Some(started)) = (&mut self.upgrade, started) {
                upgrade.begin(started);
            }
        }
    }

    /// Does what a signal tells; true where that is the end.
    fn heed(&mut self, told: SignalAction) -> bool {
        match told {
            SignalAction::End => {
                if let Some(upgrade) = self.upgrade.take() {
                    tracing::warn!("told to stop: the upgrade is cancelled");
                    upgrade.answer("error cancelled: the process was told to stop meanwhile\n");
                    self.write_pid();
                }
                return true;
            }
            SignalAction::Reload => {
                Upgrade::miss(&mut self.upgrade, Signal::HUP);
                self.proxy.handle().reopen_log();
                self.reader.ask(Changed::Anything);
            }
            SignalAction::ReopenLog => {
                Upgrade::miss(&mut self.upgrade, Signal::USR1);
                self.proxy.handle().reopen_log();
            }
            SignalAction::Upgrade => {
                self.upgrade.get_or_insert_with(|| Upgrade::new(None));
            }
        }
        false
    }

    /// Tells how the upgrade ended; the id of the new process where it serves.
    async fn conclude(&mut self, done: anyhow::Result<u32>) -> Option<u32> {
        let upgrade = self.upgrade.take()?;
        match done {
            Ok(new) => {
                upgrade.pass_signals(new);
                // Whoever is told comes to the new process from then on.
                self.proxy.handle().leave().await;
                upgrade.succeed(new, self.site.file().edge.drain_timeout);
                Some(new)
            }
            Err(error) => {
                let why = chain(&error);
                tracing::error!("not upgraded, this process goes on: {why}");
                upgrade.fail(&why);
                self.site.take_back();
                self.proxy.handle().reclaim();
                self.write_pid();
                None
            }
        }
    }

    /// Puts its id back where another process may have put its own.
    fn write_pid(&self) {
        if let Err(error) = self.pid_file.iter().try_for_each(PidFile::write) {
            tracing::warn!("{}", chain(&error));
        }
    }

    /// Starts a process that is to take over.
    async fn pass_on(&self) -> anyhow::Result<Successor> {
        let program = upgrade::ensure_possible(&self.program, self.forwarder.is_some())?;
        let admin = self.admin.as_ref().map(|(place, admin)| {
            anyhow::Ok((place.clone(), admin.share()?, admin.made_token.clone()))
        });
        let control = self.control.as_ref().map(|(path, socket)| {
            anyhow::Ok((path.path().to_owned(), OwnedFd::from(socket.try_clone()?)))
        });
        let handover_state = HandoverState {
            sockets: self.proxy.handle().sockets(),
            changes: self.site.hand_over(),
            servers: self.proxy.handle().known_servers().await,
            heard: self.site.heard(),
            admin: admin.transpose()?,
            control: control.transpose()?,
        };
        handover_state.pass_on(program)
    }

    /// Lets connections end, no longer than the drain allows or a second signal comes.
    async fn end(self, outcome: Outcome, signals: &mut Signals) -> anyhow::Result<ExitCode> {
        let Self { proxy, site, mut admin, control, forwarder, pid_file, cluster, acme, .. } = self;
        // Where another process goes on with the orders, it gets them now.
        drop(acme);
        let drain = site.file().edge.drain_timeout;
        let handle = proxy.handle();
        let ending = match outcome {
            Outcome::Stopped => {
                notify("STOPPING=1");
                tracing::info!(%drain, "draining");
                control.into_iter().for_each(|(path, _)| path.remove());
                tokio::task::spawn_blocking(move || proxy.stop(drain))
            }
            Outcome::Succeeded(process) => {
                notify(&format!("MAINPID={process}\nREADY=1\nSTATUS="));
                control.into_iter().for_each(control::leave);
                if let Some((_, admin)) = admin.take() {
                    admin.leave().await;
                }
                tracing::info!(%drain, process, "another process serves; draining");
                tokio::task::spawn_blocking(move || proxy.leave(drain))
            }
        };
        tokio::pin!(ending);
        let drained = async {
            tokio::select! {
                tallies = &mut ending => tallies,
                () = signals.until_end() => {
                    tracing::warn!("second signal: remaining connections are cut");
                    handle.cut();
                    ending.await
                }
            }
        };
        let tallies = cluster.leave(drained).await;
        forwarder.iter().for_each(|forwarder| forwarder.end());
        pid_file.iter().for_each(PidFile::remove);
        admin.iter().for_each(|(_, admin)| admin.remove_path());
        told(&tallies.context("draining")?);
        Ok(ExitCode::SUCCESS)
    }
}

/// What to serve, and who is asked for names.
type Intent = (Arc<Fleet>, NameServers);

/// What a file or the command line says.
struct Configuration {
    intent: Intent,
    /// What holds from the start to the end.
    fixed: Fixed,
    admin: Option<Settings>,
    /// As whom and where the process runs.
    process: Process,
}

/// What to serve; or what is wrong, which has been told.
fn read(args: &Args, in_force: &InForce, moment: Moment) -> Result<Configuration, String> {
    if let Some(listen) = &args.listen {
        let trust = match &args.cacert {
            _ if args.insecure => Trust::Anybody,
            Some(path) => Trust::Authorities(path.clone()),
            None => Trust::System,
        };
        let shorthand = loadline_control::shorthand(listen, &args.to, &trust);
        let shorthand = shorthand.inspect_err(|error| tracing::error!("{error}"));
        let fleet = shorthand.map_err(|error| error.to_string())?;
        let process = Process::default();
        let fixed = Fixed::of(&fleet, (None, None), &process);
        let intent = (Arc::new(fleet), NameServers::default());
        return Ok(Configuration { intent, fixed, admin: None, process });
    }
    let file = args.file.as_deref().ok_or("no file is named")?;
    match outside::load_with(file, in_force.get().as_ref(), moment) {
        Ok(loaded) => {
            match args.log_format {
                LogFormat::Text => check::print_warnings(&loaded.warnings),
                LogFormat::Json => loaded.warnings.iter().for_each(log),
            }
            let Loaded { fleet, names, admin, process, cluster, .. } = loaded;
            let fixed = Fixed::of(&fleet, (admin.as_ref(), cluster.as_ref()), &process);
            Ok(Configuration { intent: (Arc::new(fleet), names), fixed, admin, process })
        }
        Err(errors) => Err(tell_errors(errors, args.log_format)),
    }
}

/// Tells what is wrong with the configuration, and gives it on one line.
fn tell_errors(errors: FileErrors, log_format: LogFormat) -> String {
    let why = check::on_one_line(errors.errors());
    match log_format {
        LogFormat::Text => {
            print_errors(errors);
        }
        LogFormat::Json => errors.errors().iter().for_each(log),
    }
    why
}

/// Tells what is wrong with the configuration on one line.
fn log(problem: &FileError) {
    let (line, column, help) = (problem.line(), problem.column(), problem.help_text());
    if problem.is_warning() {
        tracing::warn!(line, column, help, "{}", problem.message());
    } else {
        tracing::error!(line, column, help, "{}", problem.message());
    }
}

/// Waits for the end of an upgrade; for ever where there is none.
async fn done(upgrade: Option<&mut Upgrade>) -> anyhow::Result<u32> {
    match upgrade {
        Some(upgrade) => upgrade.done().await,
        None => std::future::pending().await,
    }
}

/// The proxy with its file, for whoever reloads or changes it.
fn site(
    running: Running,
    begun: (Intent, Lists),
    (args, fixed): (&Args, Fixed),
    in_force: &InForce,
) -> LiveConfiguration {
    let (args, in_force) = (args.clone(), in_force.clone());
    let load = move || {
        let Configuration { intent, fixed: now, .. } = read(&args, &in_force, Moment::Reload)?;
        for key in fixed.changed(&now) {
            tracing::warn!("`{key}` has changed, which needs a restart");
        }
        Ok::<_, String>(intent)
    };
    LiveConfiguration::new(running, begun, load)
}

fn told(tallies: &Tallies) {
    let endings = Ending::ALL.map(|ending| (ending.name(), tallies.count(ending)));
    let counts = endings.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name}={count}")).collect();
    match counts.is_empty() {
        true => tracing::info!("stopped"),
        false => tracing::info!("stopped: {}", counts.join(" ")),
    }
}

/// Time from one look at the files to the next.
const LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

const AFTER_HELP: &str = "\
Examples:
  loadline serve --listen :8080 --to http://10.0.0.1:80 --to http://10.0.0.2:80
  loadline serve --listen :8080 --to https://web-1.internal --cacert internal.pem
  loadline serve loadline.toml

With https:// each server has to prove the name or address it is written by; `tls` of a service is
the same in a file, with more to say. Requests keep their path and their host.
Prints `listening on ADDR` for each listener once it takes connections, and where the
admin interface is (metrics, dashboard, API) if the file has an [admin] table. The standard error
tells how many clients there can be at a time, and how much memory they can take.
Signals: SIGHUP reads the file again without dropping a request; a file that is wrong changes
nothing. SIGHUP and SIGUSR1 open the file of the access log again. SIGTERM and SIGINT stop
accepting, let requests end (edge.drain_timeout) and exit 0; a second one cuts the rest.
SIGUSR2 upgrades: see `loadline upgrade`. The log is without colours where NO_COLOR is set or the
standard error is no terminal. Sockets that systemd passes (LISTEN_FDS) are used.
Exit codes: 0 stopped by a signal, 1 wrong usage or configuration, 2 could not start.";
