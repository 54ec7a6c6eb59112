//! An agent: waits for leaders that know the token, and sends its part of what they plan.
//!
//! One leader at a time. A run has a thread of its own, so that the conversation does not disturb
//! it; it ends with the conversation, and with [`Limits::longest`].

use std::{future::pending, iter, sync::Arc};

use loadline_core::{
    time::{Duration, Instant},
    units::Rate,
};
use loadline_linux::clock;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, oneshot},
};

use super::{
    job::Job,
    link::{self, Link},
    message::{Order, Report},
    token::Token,
};
use crate::{
    connect::Connector,
    plan::{LoadPlan, Pattern},
    run::{self, LoadError},
    target::Target,
    transport::Transport,
};

/// The most that an agent does for anybody.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a run lasts, from its preparation to its end.
    pub longest: Duration,
    /// Requests per second of its part.
    pub rate: Rate,
    /// Users of its part.
    pub users: u32,
}

/// Whether connections can go out as `own` says: with its files, from its source addresses.
///
/// # Errors
/// [`LoadError`] with the first of them that cannot be used.
pub fn check_transport(own: &Transport) -> Result<(), LoadError> {
    let secure: Target = "https://localhost/".parse()?;
    let mut own = own.clone();
    // Without authorities of its own it may well send over HTTP alone, and need none of the
    // system's.
    own.tls.insecure = own.tls.authorities.is_none();
    Connector::new(&own, iter::once(&secure)).map(drop)
}

/// What all conversations of an agent share.
struct Agent {
    token: Token,
    version: String,
    /// What its connections have of its own: certificates and source addresses.
    own: Transport,
    limits: Limits,
    /// Held by the leader that is served.
    free: Arc<Semaphore>,
    say: Box<dyn Fn(&str) + Send + Sync>,
}

/// Serves leaders that know `token` and have this `version`, without end. Connections of a run go
/// out with the certificates and source addresses of `own`; `say` is told who comes and goes.
pub async fn serve(
    listener: TcpListener,
    token: Token,
    version: &str,
    own: Transport,
    limits: Limits,
    say: impl Fn(&str) + Send + Sync + 'static,
) {
    let agent = Arc::new(Agent {
        token,
        version: version.to_owned(),
        own,
        limits,
        free: Arc::new(Semaphore::new(1)),
        say: Box::new(say),
    });
    let strangers = Arc::new(Semaphore::new(STRANGERS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // No descriptor is left, or the leader has gone meanwhile: both pass.
            Err(error) => {
                (agent.say)(&format!("cannot take a connection: {error}"));
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        // More at a time than any leader opens are closed at once.
        let Ok(stranger) = Arc::clone(&strangers).try_acquire_owned() else { continue };
        let agent = Arc::clone(&agent);
        tokio::spawn(async move {
            let begun = agent.greet(stream).await;
            drop(stranger);
            if let Some((name, link)) = begun {
                agent.serve(&name, link).await;
            }
        });
    }
}

/// The agent's side of a conversation.
type Leader = Link<Report, Order>;

impl Agent {
    async fn greet(&self, stream: TcpStream) -> Option<(String, Leader)> {
        let name = stream.peer_addr().map_or("a leader".to_owned(), |address| address.to_string());
        match link::follow(stream, &self.token, &self.version).await {
            Ok(link) => Some((name, link)),
            Err(why) => {
                (self.say)(&format!("refused {name}: {why}"));
                None
            }
        }
    }

    async fn serve(&self, name: &str, mut leader: Leader) {
        let Ok(_served) = Arc::clone(&self.free).try_acquire_owned() else {
            (self.say)(&format!("refused {name}: another leader is served"));
            leader.say(Report::Refused("it sends for another leader".to_owned())).await;
            // The leader closes once it has read that.
            let _ = leader.next().await;
            return;
        };
        (self.say)(&format!("{name} leads"));
        leader.say(Report::Free).await;
        let mut running: Option<Running> = None;
        let why = loop {
            tokio::select! {
                order = leader.next() => match order {
                    Ok((_, order)) => self.obey(order, &leader, &mut running).await,
                    Err(why) => break why,
                },
                report = next(&mut running) => {
                    if matches!(report, Report::Done(_) | Report::Refused(_)) {
                        running = None;
                    }
                    leader.say(report).await;
                }
            }
        };
        if let Some(running) = running {
            running.end().await;
        }
        (self.say)(&format!("{name} leads no more: {why}"));
    }

    async fn obey(&self, order: Order, leader: &Leader, running: &mut Option<Running>) {
        match order {
            Order::Ping => leader.say(Report::Pong(clock::now())).await,
            Order::Job(job) => {
                if let Some(before) = running.take() {
                    before.end().await;
                }
                match self.begin(*job) {
                    Ok(begun) => *running = Some(begun),
                    Err(why) => leader.say(Report::Refused(why)).await,
                }
            }
            Order::Begin(at) => {
                if let Some(begin) = running.as_mut().and_then(|running| running.begin.take()) {
                    // A run that has ended meanwhile says so itself.
                    let _ = begin.send(at);
                }
            }
            Order::Stop => {
                if let Some(running) = running {
                    running.stop = None;
                }
            }
        }
    }

    /// Begins a run, or says why it will not.
    fn begin(&self, job: Job) -> Result<Running, String> {
        let plan = job.plan(&self.own).map_err(|error| chain(&error))?;
        self.limits.check(&plan)?;
        let (reports, reported) = mpsc::unbounded_channel();
        let (begin, begun) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let longest = self.limits.longest;
        let thread = std::thread::Builder::new().name("load".to_owned());
        let run = move || {
            let report = send(&plan, &reports, begun, stopped, longest);
            // Nobody listens where the agent itself ends.
            let _ = reports.send(report);
        };
        thread.spawn(run).map_err(|error| format!("it has no thread for a run: {error}"))?;
        Ok(Running { reports: reported, begin: Some(begin), stop: Some(stop) })
    }
}

impl Limits {
    fn check(&self, plan: &LoadPlan) -> Result<(), String> {
        let parts = u64::from(plan.share.of);
        if let Some(lasts) = plan.lasts().filter(|lasts| *lasts > self.longest) {
            return Err(format!(
                "the plan takes {lasts}, and it sends for {} at most (--max-duration)",
                self.longest
            ));
        }
        match &plan.pattern {
            Pattern::Closed { users, .. } if plan.share.dealt(*users) > self.users => {
                let (users, most) = (plan.share.dealt(*users), self.users);
                Err(format!("its part has {users} users, and it has {most} at most (--max-users)"))
            }
            Pattern::Open { timetable, .. }
                if timetable.peak_rate().as_milli_per_sec() / parts
                    > self.rate.as_milli_per_sec() =>
            {
                let (rate, most) = (timetable.peak_rate(), self.rate);
                Err(format!("a part of {rate} is more than the {most} it sends (--max-rate)"))
            }
            _ => Ok(()),
        }
    }
}

/// A run on its thread.
struct Running {
    reports: mpsc::UnboundedReceiver<Report>,
    begin: Option<oneshot::Sender<Instant>>,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    /// Stops it and returns when its thread is done.
    async fn end(mut self) {
        self.stop = None;
        while self.reports.recv().await.is_some() {}
    }
}

/// What the run says next; nothing where none is.
async fn next(running: &mut Option<Running>) -> Report {
    let Some(running) = running else { return pending().await };
    let lost = || Report::Refused("its run ended without figures".to_owned());
    running.reports.recv().await.unwrap_or_else(lost)
}

/// Runs a plan on this thread, up to its last report.
fn send(
    plan: &LoadPlan,
    reports: &mpsc::UnboundedSender<Report>,
    begun: oneshot::Receiver<Instant>,
    stopped: oneshot::Receiver<()>,
    longest: Duration,
) -> Report {
    let runtime = match run::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return Report::Refused(chain(&error)),
    };
    let begin = async {
        let _ = reports.send(Report::Ready);
        match begun.await {
            Ok(at) => Some(at),
            Err(_gone) => pending().await,
        }
    };
    let stop = async {
        tokio::select! {
            _ = stopped => {}
            () = tokio::time::sleep(longest.to_std()) => {}
        }
    };
    let progress = |progress: &run::Progress| {
        let _ = reports.send(Report::Progress(progress.into()));
    };
    match runtime.block_on(run::part(plan, progress, begin, stop)) {
        Ok(figures) => Report::Done(Box::new(figures)),
        Err(error) => Report::Refused(chain(&error)),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}

/// An agent without descriptors tries no oftener.
const ACCEPT_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Connections whose token is not known yet, at a time.
const STRANGERS: usize = 16;
