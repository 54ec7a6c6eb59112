//! A run from its plan to its record.

use std::{
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
use loadline_linux::clock;
use loadline_measure::record::{LoadRecord, Outcomes};
use tokio::{
    task::LocalSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    client::Client,
    closed,
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
        /// The name.
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
        /// The address.
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
    /// Of them, those under way.
    pub in_flight: u64,
    /// What became of the others.
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
    plan.check()?;
    let tally = Tally::new(plan.lasts());
    let client = Rc::new(Client::open(plan, Rc::clone(&tally)).await?);
    let (meter, opened) = (Meter::start(), Rc::clone(&client));
    let tasks = LocalSet::new();
    let driven = tasks.run_until(async {
        let mut done = pin!(drive(plan, client, Rc::clone(&tally), &meter));
        let mut cancel = pin!(cancel);
        let mut ticks = interval(PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks.tick().await;
        loop {
            // In this order, so that all is set up when the plan begins.
            tokio::select! {
                biased;
                () = &mut cancel => break Ok(true),
                _ = ticks.tick() => progress(&state(plan, &tally)),
                result = &mut done => break result.map(|()| false),
            }
        }
    });
    let interrupted = driven.await.map_err(|source| LoadError::System { what: "timer", source })?;
    // The tasks hold the tickets of what is under way; dropping them settles those as cut off.
    drop(tasks);
    opened.close().await;
    Ok(tally.record(plan, meter.share(), interrupted))
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

/// Sends all that is planned and waits for its end; the meter stops when all is sent.
async fn drive(
    plan: &LoadPlan,
    client: Rc<Client>,
    tally: Rc<Tally>,
    meter: &Meter,
) -> io::Result<()> {
    tokio::task::spawn_local(Rc::clone(&client).keep_deadlines());
    tally.begin(clock::now(), clock::unix_millis());
    match &plan.pattern {
        Pattern::Closed { users, think, until } => {
            closed::drive(client, Rc::clone(&tally), *users, *think, *until).await?;
        }
        Pattern::Open { timetable, until, max_in_flight } => {
            open::drive(client, &tally, timetable.instants(*until), *max_in_flight).await?;
        }
    }
    meter.stop();
    tally.wait_idle().await;
    Ok(())
}

fn state(plan: &LoadPlan, tally: &Tally) -> Progress {
    let now = clock::now();
    let planned = tally.planned() as f64;
    let fraction = match &plan.pattern {
        Pattern::Closed { users, until: Until::Requests(each), .. } => {
            (planned - tally.in_flight() as f64) / (f64::from(*users) * *each as f64)
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
