//! A whole proxy: the engine's workers and the thread that runs the controller.

mod control;
mod handle;
mod probe;

use std::{net::SocketAddr, sync::Arc, thread};

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
use control::Control;

pub use handle::Handle;

/// A running proxy. Dropping it without [`Runtime::stop`] leaves its threads running until the
/// process ends.
pub struct Runtime {
    shared: Arc<Shared>,
    engine: Engine,
    inputs: UnboundedSender<Input>,
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
        spawn_control(control)?;
        Ok(Self { shared, engine, inputs })
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
        self.shared.drain();
        self.engine.join(drain);
        self.shared.snapshot()
    }
}

fn spawn_control(control: Control) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(StartError::Thread)?;
    let thread = thread::Builder::new().name("control".into());
    thread.spawn(move || runtime.block_on(control.run())).map_err(StartError::Thread)?;
    Ok(())
}
