//! A whole proxy: the engine's workers and the thread that runs the controller.
//!
//! | | |
//! |---|---|
//! | [`engine`], `worker` | the threads that serve |
//! | `control`, `probe`, `inbox` | the thread of the controller, its health checks, its inputs |
//! | `shared_checks` | checks that other edges make in place of this one |
//! | `handle` | what others may ask of a running proxy |
//! | [`shared`], `view`, `service_contexts` | the plan, and what a worker looks up once for each |
//! | `wait_queue` | where requests wait for capacity |
//! | [`clock`], `date_line`, `timer`, `random`, `yield_once` | time, deadlines, draws, fairness |

pub mod clock;
mod control;
pub(crate) mod date_line;
pub mod engine;
mod handle;
pub(crate) mod inbox;
mod lag;
mod probe;
pub(crate) mod random;
mod service_contexts;
pub mod shared;
mod shared_checks;
mod survey;
pub(crate) mod timer;
pub(crate) mod view;
pub(crate) mod wait_queue;
pub(crate) mod worker;
pub(crate) mod yield_once;

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    cluster::Share,
    decide::{
        controller::{Controller, KnownServer, Output},
        plan::Plan,
    },
    fleet::Fleet,
    time::Duration,
};

use crate::{
    listener::{accept::BindError, inherited::Inherited, set::Listeners},
    runtime::{
        clock::Clock,
        engine::{Engine, StartError, threads},
        inbox::Inbox,
        shared::Shared,
    },
    telemetry::tally::Tallies,
    tls::{Keys, TlsError},
};
use control::{Control, ControlThread};

pub use crate::{
    http3::{Generation, HandoverQuic},
    listener::set::HandoverSockets,
};
pub use handle::Handle;
pub use probe::Detour;
pub use shared_checks::SharedChecks;
pub use survey::Survey;

/// A running proxy. Dropping it without [`Runtime::stop`] ends health checks and changes, and
/// leaves its workers running until the process ends.
pub struct Runtime {
    shared: Arc<Shared>,
    engine: Engine,
    inputs: Arc<Inbox>,
    control: ControlThread,
}

/// A proxy whose listeners are bound, and of which nothing runs yet: connections wait.
pub struct Bound {
    controller: Controller,
    shared: Arc<Shared>,
    inputs: Arc<Inbox>,
    detour: Option<Arc<dyn Detour>>,
}

/// Why a configuration was not put in force. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The address of a new listener cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// TLS cannot be configured as the file says.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The process is about to end.
    #[error("it is draining: whatever comes next is for its successor")]
    Draining,
}

impl Bound {
    /// Reads every file that the fleet names, and binds every listener, with sockets of `inherited`
    /// where they fit.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left behind then.
    pub fn new(
        fleet: impl Into<Arc<Fleet>>,
        inherited: &mut Inherited,
    ) -> Result<Self, StartError> {
        Self::shared(fleet, inherited, None, &[])
    }

    /// The same for one edge of several, which gives this share of each group with a limit until
    /// it is told another ([`Handle::share`]); none where it is alone. It begins with what the
    /// process before knew of servers ([`Handle::known_servers`]).
    ///
    /// # Errors
    /// [`StartError`]; nothing is left behind then.
    pub fn shared(
        fleet: impl Into<Arc<Fleet>>,
        inherited: &mut Inherited,
        floor: Option<Share>,
        known: &[KnownServer],
    ) -> Result<Self, StartError> {
        let clock = Clock::start();
        let inputs = Arc::new(Inbox::default());
        let mut controller = Controller::shared(clock.now(), fleet, floor, known);
        let Some(Output::Publish(plan)) = controller.poll() else {
            unreachable!("the first output of a controller is its plan");
        };
        let keys = Keys::load(&plan.fleet)?;
        let mut listeners = Listeners::new(threads(&plan.fleet.edge));
        let change = listeners.prepare(&plan.fleet.listeners, &keys, inherited)?;
        // There is none before these, so none closes.
        listeners.commit(change, clock.now());
        listeners.limit(plan.fleet.edge.max_connections);
        let shared = Shared::new(plan, inputs.clone(), clock, listeners, keys)?;
        Ok(Self { controller, shared, inputs, detour: None })
    }

    /// The plan that it begins with.
    #[must_use]
    pub fn plan(&self) -> Arc<Plan> {
        self.shared.plan()
    }

    /// Lets health checks go by the links of forwarded packets.
    #[must_use]
    pub fn with_detour(self, detour: Option<impl Detour + 'static>) -> Self {
        Self { detour: detour.map(|it| Arc::new(it) as Arc<dyn Detour>), ..self }
    }

    /// Starts to serve.
    ///
    /// # Errors
    /// [`StartError`] where a thread cannot be started; nothing is left running then.
    pub fn start(self) -> Result<Runtime, StartError> {
        let Self { controller, shared, inputs, detour } = self;
        // Not before: until here the process may have been another user's.
        shared.store.keep_on(shared.plan().fleet.disk_cache());
        let engine = Engine::start(shared.clone())?;
        shared.listeners().reserve();
        let control = Control::new(controller, shared.clone(), inputs.clone(), detour);
        let control = control.spawn().map_err(StartError::Thread)?;
        Ok(Runtime { shared, engine, inputs, control })
    }
}

impl Runtime {
    /// Binds every listener and starts to serve.
    ///
    /// # Errors
    /// [`StartError`] where an address cannot be bound or a thread not be started; nothing is left
    /// running then.
    pub fn start(fleet: Fleet) -> Result<Self, StartError> {
        Bound::new(fleet, &mut Inherited::default())?.start()
    }

    /// The bound addresses, in the order of the listeners.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.listeners().addresses()
    }

    /// See [`Handle::reload`].
    ///
    /// # Errors
    /// See [`ReloadError`].
    pub fn reload(&self, fleet: Fleet) -> Result<(), ReloadError> {
        self.handle().reload(fleet)
    }

    /// A second hold on it, for another thread.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone(), inputs: self.inputs.clone() }
    }

    /// What has been counted so far.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        self.shared.snapshot()
    }

    /// Stops accepting, closes connections that wait for a request, lets requests under way end,
    /// and cuts what is left after `drain`. Gives the final counts.
    pub fn stop(self, drain: Duration) -> Tallies {
        self.shared.drain();
        self.finish(drain)
    }

    /// As [`Runtime::stop`] where another process accepts on the same sockets: each connection has
    /// one more request answered before it is closed, so that none is lost on its way.
    pub fn leave(self, drain: Duration) -> Tallies {
        self.shared.leave();
        self.finish(drain)
    }

    fn finish(self, drain: Duration) -> Tallies {
        let Self { shared, engine, control, .. } = self;
        engine.join(drain);
        drop(control);
        shared.snapshot()
    }
}
