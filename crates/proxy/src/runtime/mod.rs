//! A whole proxy: the engine's workers and the thread that runs the controller.

mod control;
mod handle;
mod probe;

use std::{net::SocketAddr, sync::Arc};

use loadline_core::{
    controller::{Controller, Input, Output},
    fleet::Fleet,
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::{
    clock::Clock,
    engine::{Engine, StartError},
    shared::Shared,
    tally::Tallies,
    tls::TlsError,
};
use control::{Control, ControlThread};

pub use handle::Handle;

/// A running proxy. Dropping it without [`Runtime::stop`] ends health checks and changes, and
/// leaves its workers running until the process ends.
pub struct Runtime {
    shared: Arc<Shared>,
    engine: Engine,
    inputs: UnboundedSender<Input>,
    control: ControlThread,
}

impl Runtime {
    /// Binds every listener and starts to serve.
    ///
    /// # Errors
    /// [`StartError`] where an address cannot be bound or a thread not be started; nothing is left
    /// running then.
    pub fn start(fleet: Fleet) -> Result<Self, StartError> {
        let clock = Clock::start();
        let (inputs, received) = unbounded_channel();
        let mut controller = Controller::new(clock.now(), fleet);
        let Some(Output::Publish(plan)) = controller.poll() else {
            unreachable!("the first output of a controller is its plan");
        };
        let shared = Shared::new(plan, inputs.clone(), clock)?;
        let engine = Engine::start(shared.clone())?;
        let control = Control::new(controller, shared.clone(), received, inputs.clone());
        let control = control.spawn().map_err(StartError::Thread)?;
        Ok(Self { shared, engine, inputs, control })
    }

    /// The bound addresses, in the order of the listeners.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        self.engine.local_addrs()
    }

    /// Puts a new configuration in force. Requests under way go on; nothing that is counted is
    /// lost. Listeners stay as they were started. Files for TLS are read again.
    ///
    /// # Errors
    /// [`TlsError`] where one of them cannot be used; nothing has changed then.
    pub fn reload(&self, fleet: Fleet) -> Result<(), TlsError> {
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

    /// Stops accepting, lets requests under way end, and cuts what is left after `drain`. Gives
    /// the final counts.
    pub fn stop(self, drain: Duration) -> Tallies {
        let Self { shared, engine, control, .. } = self;
        shared.drain();
        engine.join(drain);
        drop(control);
        shared.snapshot()
    }
}
