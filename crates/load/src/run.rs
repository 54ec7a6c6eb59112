//! A run from its plan to its record.

use std::{
    cell::OnceCell,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    rc::Rc,
};

use loadline_core::{
    time::{Duration, Instant},
    units::Rate,
};
use loadline_linux::{clock, timer::Timer};
use loadline_measure::record::{LoadRecord, Outcomes};
use tokio::{
    task::LocalSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    client::Client,
    closed,
    figures::Figures,
    health::Meter,
    open,
    plan::{LoadPlan, Pattern, PlanError, Until},
    tally::Tally,
    tls::TlsError,
};

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The host's name has no address.
    #[error("no address for the host `{host}`")]
    Resolve {
        /// Name of the host.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// TLS cannot be spoken as asked.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address that connections should come from is not one of this machine.
    #[error("cannot connect from {address}: it must be an address of this machine")]
    Source {
        /// Address that was given.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No address that connections should come from is of the family of the target's.
    #[error("{address} cannot be reached from {source_address}: one is IPv4, the other IPv6")]
    Family {
        /// The first of the addresses to come from.
        source_address: IpAddr,
        /// The target's.
        address: SocketAddr,
    },
    /// The system gave no runtime or no timer.
    #[error("the system gives no {what}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// How much of the plan is behind, 0 to 1.
    pub fraction: f64,
    /// Requests that were due so far.
    pub planned: u64,
    /// Of these, requests under way.
    pub in_flight: u64,
    /// Outcomes of the others.
    pub outcomes: Outcomes,
    /// Successful answers per second since the last progress.
    pub rate: Rate,
    /// Median response time since the last progress.
    pub p50: Duration,
    /// 99th percentile of it.
    pub p99: Duration,
}

/// Runs `plan` to its end on the runtime of the caller, telling `progress` twice a second.
///
/// # Errors
/// [`LoadError`] where the run could not begin. Requests that fail are no error: they are counted.
pub async fn run(plan: &LoadPlan, progress: impl Fn(&Progress)) -> Result<LoadRecord, LoadError> {
    measure(plan, progress, std::future::pending()).await
}

/// As [`run`], and ends the run when `cancel` does: what is under way then is cut off.
///
/// For the figures to be exact the caller's runtime should have nothing else to do; [`runtime`]
/// makes one.
///
/// # Errors
/// As [`run`].
pub async fn measure(
    plan: &LoadPlan,
    progress: impl Fn(&Progress),
    cancel: impl Future<Output = ()>,
) -> Result<LoadRecord, LoadError> {
    let figures = part(plan, progress, std::future::ready(None), cancel).await?;
    Ok(figures.record(plan))
}

/// Runs the part of `plan` that is its share, from the instant that `begin` gives or else at once.
/// `begin` is asked when all is ready to send.
///
/// # Errors
/// As [`run`].
pub(crate) async fn part(
    plan: &LoadPlan,
    progress: impl Fn(&Progress),
    begin: impl Future<Output = Option<Instant>>,
    cancel: impl Future<Output = ()>,
) -> Result<Figures, LoadError> {
    plan.check()?;
    let tally = Tally::new(plan.lasts());
    let mut cancel = pin!(cancel);
    let client = tokio::select! {
        biased;
        client = Client::open(plan, Rc::clone(&tally)) => Rc::new(client?),
        () = &mut cancel => return Ok(tally.close(None, true)),
    };
    let (meter, opened) = (OnceCell::new(), Rc::clone(&client));
    let tasks = LocalSet::new();
    let driven = tasks.run_until(async {
        let mut done = pin!(drive(plan, client, Rc::clone(&tally), &meter, begin));
        let mut ticks = interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.tick().await;
        loop {
            // In this order, so that all is set up when the plan begins.
            tokio::select! {
                biased;
                () = &mut cancel => break Ok(true),
                _ = ticks.tick() => {
                    if meter.get().is_some() {
                        progress(&state(plan, &tally));
                    }
                }
                result = &mut done => break result.map(|()| false),
            }
        }
    });
    let interrupted = driven.await.map_err(|source| LoadError::System { what: "timer", source })?;
    if interrupted && meter.get().is_some() {
        tally.interrupt(clock::now());
    }
    // The tasks hold the tickets of what is under way; dropping them settles those as cut off.
    drop(tasks);
    opened.close().await;
    Ok(tally.close(meter.get().and_then(Meter::share), interrupted))
}

/// A runtime on the caller's thread for [`run`] and [`measure`].
///
/// # Errors
/// [`LoadError::System`] where no descriptor is left.
pub fn runtime() -> Result<tokio::runtime::Runtime, LoadError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    builder.build().map_err(|source| LoadError::System { what: "event loop", source })
}

/// Sends all that is planned and waits for its end; the meter runs from the beginning until all is
/// sent.
async fn drive(
    plan: &LoadPlan,
    client: Rc<Client>,
    tally: Rc<Tally>,
    meter: &OnceCell<Meter>,
    begin: impl Future<Output = Option<Instant>>,
) -> io::Result<()> {
    tokio::task::spawn_local(Rc::clone(&client).keep_deadlines());
    let start = match begin.await {
        None => clock::now(),
        Some(start) => {
            Timer::new()?.until(start).await?;
            start
        }
    };
    tally.begin(start, clock::unix_millis());
    let meter = meter.get_or_init(Meter::start);
    let share = plan.share;
    match &plan.pattern {
        Pattern::Closed { users, think, until } => {
            let users = share.dealt(*users);
            let interval = plan.max_rate.map(|rate| rate.interval() * u64::from(share.of));
            let tally = Rc::clone(&tally);
            closed::drive(client, tally, (users, interval), *think, *until).await?;
        }
        Pattern::Open { timetable, until, max_in_flight } => {
            let instants = share.of_all(timetable.instants(*until));
            let limit = max_in_flight.map(|limit| share.dealt(limit));
            open::drive(client, &tally, instants, limit).await?;
        }
    }
    meter.stop();
    tally.wait_idle().await;
    Ok(())
}

fn state(plan: &LoadPlan, tally: &Tally) -> Progress {
    let now = clock::now();
    // As if the other parts stood as this one does.
    let of_all = |count: u64| count as f64 * f64::from(plan.share.of);
    let planned = of_all(tally.planned());
    let fraction = match &plan.pattern {
        Pattern::Closed { users, until: Until::Requests(each), .. } => {
            (planned - of_all(tally.in_flight())) / (f64::from(*users) * *each as f64)
        }
        Pattern::Closed { until: Until::Elapsed(span), .. } => elapsed_share(tally, now, *span),
        Pattern::Open { timetable, until, .. } => match until {
            Until::Requests(_) => planned / timetable.planned(*until).max(1) as f64,
            Until::Elapsed(_) => elapsed_share(tally, now, timetable.lasts(*until)),
        },
    };
    tally.progress(now, fraction)
}

fn elapsed_share(tally: &Tally, now: Instant, span: Duration) -> f64 {
    now.since(tally.start()).as_secs_f64() / span.as_secs_f64()
}

/// Often enough to look alive, seldom enough to read.
const PROGRESS_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);
