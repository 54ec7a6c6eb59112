//! Packet forwarding beside the proxy: holds the program in the kernel, and sees to it that its
//! tables say what the plan says.
//!
//! Everything is done on one thread, which looks at the plan ten times a second. Who asks for
//! counts or flows waits for its turn.

mod checks;
mod forwarded_services;
mod loads;
mod pair;
mod tables;
mod tell;
mod upkeep;

use std::{
    fmt,
    net::{IpAddr, UdpSocket},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use loadline_core::{
    decide::plan::Plan,
    state::{self, Flow},
};
use loadline_l4::standby::Standby;
use loadline_proxy::runtime::{Detour, Handle};

use crate::commands::{chain, xdp_mode::XdpMode};
use checks::Checks;
use tables::Tables;

/// The program in the kernel with its tables.
pub(super) struct Forwarder {
    /// None once it has ended.
    tables: Arc<Mutex<Option<Tables>>>,
    checks: Option<Arc<Checks>>,
    /// Dropping it ends the thread.
    stop: Mutex<Option<Sender<()>>>,
}

impl Forwarder {
    /// Loads the program, fills its tables and attaches it, as the file says where nothing else is
    /// said; none where the plan forwards nothing.
    ///
    /// # Errors
    /// Why not, with the right that is missing.
    pub(super) fn start(plan: &Plan, how: Option<XdpMode>) -> anyhow::Result<Option<Arc<Self>>> {
        let forwarding = &plan.fleet.forwarding;
        let Some(settings) = forwarding.datapath.as_ref().filter(|_| !forwarding.is_empty()) else {
            return Ok(None);
        };
        let standby = pair::standby(forwarding)?;
        let is_alone = standby.is_none();
        let tables = Tables::load(settings, how, plan, standby).context(LACKING)?;
        tracing::info!("packets are forwarded on {}, {}", settings.interface, tables.mode());
        for address in forwarding.addresses() {
            if is_alone && !is_here(address) {
                tracing::warn!(%address, "no interface has this service address: nobody is told \
                    that it is here");
            }
        }
        let tables = Arc::new(Mutex::new(Some(tables)));
        let checks = Checks::attach(&settings.interface);
        Ok(Some(Arc::new(Self { tables, checks, stop: Mutex::new(None) })))
    }

    /// What sends health checks by the links of the packets.
    pub(super) fn detour(&self) -> Option<Arc<dyn Detour>> {
        self.checks.clone().map(|checks| checks as Arc<dyn Detour>)
    }

    /// Follows the plans of a proxy from now on.
    ///
    /// # Errors
    /// The system's, where there is no thread to be had.
    pub(super) fn follow(&self, proxy: Handle) -> anyhow::Result<()> {
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
                    let plan = proxy.plan();
                    tables.follow(&plan);
                    tables.tick(&plan);
                }
            }
        };
        thread::Builder::new().name("forwarder".into()).spawn(work)?;
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop);
        Ok(())
    }

    /// What it does now.
    pub(super) fn state(&self) -> Option<state::Forwarding> {
        let told = locked(&self.tables).as_ref()?.tell();
        told.inspect_err(|error| tracing::warn!("packets cannot be counted: {}", chain(error))).ok()
    }

    /// What other balancers are told, and tell.
    pub(super) fn standby(&self) -> Option<state::Standby> {
        locked(&self.tables).as_ref()?.standby.as_ref().map(Standby::state)
    }

    /// All flows that are written down.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub(super) fn flows(&self) -> anyhow::Result<Vec<Flow>> {
        locked(&self.tables).as_ref().map_or(Ok(Vec::new()), Tables::flows)
    }

    /// Detaches the program: packets are for the kernel again.
    pub(super) fn end(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(locked(&self.tables).take());
    }
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder").finish_non_exhaustive()
    }
}

fn locked(tables: &Mutex<Option<Tables>>) -> MutexGuard<'_, Option<Tables>> {
    tables.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an interface of this machine has the address.
fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Time from one look at the plan to the next.
const TICK: Duration = Duration::from_millis(100);

/// The same from one word with other balancers to the next.
const TURN: Duration = Duration::from_millis(10);

/// What is told where forwarding cannot begin.
const LACKING: &str = "packets cannot be forwarded; all but listeners with `forward` works without";
