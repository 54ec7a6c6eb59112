//! Packet forwarding beside the proxy: holds the program in the kernel, and sees to it that its
//! tables say what the plan says.
//!
//! Everything is done on one thread, which looks at the plan ten times a second. Who asks for flows
//! waits for its turn. Who asks for counts does not wait for long, and is then told those of a
//! moment ago.

mod episode;
mod forwarded_services;
mod load;
mod numbers;
mod pair;
mod placed;
mod service_numbers;
mod sources;
mod tables;
mod targets;
mod tell;
mod upkeep;

use std::{
    fmt, io,
    net::{IpAddr, UdpSocket},
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use loadline_core::{
    decide::plan::Plan,
    state::{self, Flow},
};
use loadline_linux::thread::spawn_essential;
use thiserror::Error;

use crate::{
    error::{AttachError, TableError},
    interface::Attach,
    standby::{Standby, StandbyError},
};
use tables::Tables;
use tell::Snapshot;

/// The program in the kernel with its tables.
pub struct Forwarder {
    /// None once it has ended.
    tables: Arc<Mutex<Option<Tables>>>,
    shown: Arc<Mutex<Snapshot>>,
    /// Dropping it ends the thread.
    stop: Mutex<Option<Sender<()>>>,
}

impl Forwarder {
    /// Loads the program, fills its tables and attaches it, as the file says where nothing else is
    /// said; none where the plan forwards nothing.
    ///
    /// # Errors
    /// Why not, with the right that is missing.
    pub fn start(plan: &Plan, how: Option<Attach>) -> Result<Option<Self>, StartError> {
        let forwarding = &plan.fleet.forwarding;
        let Some(settings) = forwarding.datapath.as_ref().filter(|_| !forwarding.is_empty()) else {
            return Ok(None);
        };
        let standby = pair::standby(forwarding)?;
        let is_alone = standby.is_none();
        let tables = Tables::load(settings, how, plan, standby)?;
        tracing::info!("packets are forwarded on {}, {}", settings.interface, tables.mode());
        for address in forwarding.addresses() {
            if is_alone && !is_here(address) {
                tracing::warn!(%address, "no interface has this service address: nobody is told \
                    that it is here");
            }
        }
        sources::tell_wrong_sources(plan, &settings.interface);
        let shown = tables.shown.clone();
        let tables = Arc::new(Mutex::new(Some(tables)));
        Ok(Some(Self { tables, shown, stop: Mutex::new(None) }))
    }

    /// Follows from now on the plan that `plan` gives.
    ///
    /// # Errors
    /// The system's, where there is no thread to be had.
    pub fn follow<P>(&self, plan: impl Fn() -> P + Send + 'static) -> io::Result<()>
    where
        P: Deref<Target = Plan>,
    {
        let (stop, stopped) = channel();
        let tables = self.tables.clone();
        let work = move || {
            let is_alone = locked(&tables).as_ref().is_none_or(|tables| tables.standby.is_none());
            let wait = if is_alone { TICK } else { TURN };
            let mut looked = Instant::now();
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let Some(tables) = &mut *locked(&tables) else { continue };
                tables.turn();
                if is_alone || looked.elapsed() >= TICK {
                    looked = Instant::now();
                    let plan = plan();
                    tables.follow(&plan);
                    tables.tick(&plan);
                }
            }
        };
        spawn_essential("forwarder", work)?;
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop);
        Ok(())
    }

    /// What it does now, or did a moment ago where the tables are busy; none once it has ended.
    ///
    /// # Errors
    /// Why it cannot be counted.
    pub fn state(&self) -> Result<Option<state::Forwarding>, TableError> {
        match locked_soon(&self.tables) {
            Some(tables) => tables.as_ref().map(Tables::tell).transpose(),
            None => Ok(self.snapshot().forwarding),
        }
    }

    /// What other balancers are told, and tell; of a moment ago where the tables are busy.
    pub fn standby(&self) -> Option<state::Standby> {
        match locked_soon(&self.tables) {
            Some(tables) => tables.as_ref()?.standby.as_ref().map(Standby::state),
            None => self.snapshot().standby,
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All flows that are written down.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn flows(&self) -> Result<Vec<Flow>, TableError> {
        locked(&self.tables).as_ref().map_or(Ok(Vec::new()), Tables::flows)
    }

    /// Detaches the program: packets are for the kernel again.
    pub fn end(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(locked(&self.tables).take());
    }
}

/// Why packets cannot be forwarded.
#[derive(Debug, Error)]
pub enum StartError {
    /// What the balancers have in common is not there.
    #[error(transparent)]
    Standby(#[from] StandbyError),
    /// The program cannot be loaded or attached.
    #[error("{LACKING}")]
    Program(#[from] AttachError),
    /// The kernel cannot be asked for link addresses.
    #[error("{LACKING}")]
    Neighbours(#[source] io::Error),
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder").finish_non_exhaustive()
    }
}

fn locked(tables: &Mutex<Option<Tables>>) -> MutexGuard<'_, Option<Tables>> {
    tables.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The locked tables; none if they stay locked for too long: keepalived takes a balancer that does
/// not answer for dead.
fn locked_soon(tables: &Mutex<Option<Tables>>) -> Option<MutexGuard<'_, Option<Tables>>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match tables.try_lock() {
            Ok(locked) => return Some(locked),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Whether an interface of this machine has the address.
fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Time from one look at the plan to the next.
const TICK: Duration = Duration::from_millis(100);

/// The same from one word with other balancers to the next.
const TURN: Duration = Duration::from_millis(10);

/// How long who asks for counts waits for those of now.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is told where forwarding cannot begin.
const LACKING: &str = "packets cannot be forwarded; all but listeners with `forward` works without";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_balancer_whose_tables_are_busy_answers_all_the_same() {
        let interface = "eth0".to_owned();
        let forwarding = Some(state::Forwarding { interface, ..state::Forwarding::default() });
        let standby = state::Standby {
            role: state::Role::Active,
            role_s: 7.0,
            unplaced: 0,
            refused: 0,
            peers: Vec::new(),
        };
        let snapshot = Snapshot { forwarding: forwarding.clone(), standby: Some(standby.clone()) };
        let forwarder = Forwarder {
            tables: Arc::default(),
            shown: Arc::new(Mutex::new(snapshot)),
            stop: Mutex::default(),
        };
        let busy = locked(&forwarder.tables);
        assert_eq!(forwarder.state().unwrap(), forwarding);
        assert_eq!(forwarder.standby(), Some(standby));
        drop(busy);
        assert_eq!((forwarder.state().unwrap(), forwarder.standby()), (None, None));
    }
}
