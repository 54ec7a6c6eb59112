//! The thread that runs the controller: inputs in, plans, checks and notices out.

use std::sync::Arc;

use loadline_core::{
    controller::{Controller, Input, Notice, Output},
    fleet::HealthCheck,
    ledger::ServerId,
    plan::Plan,
    time::Instant,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    task::JoinSet,
    time::sleep,
};

use crate::{clock::Clock, runtime::probe::probe};

/// Drives a controller until the senders of its inputs are gone.
pub(super) struct Control<P> {
    controller: Controller,
    clock: Clock,
    inputs: UnboundedReceiver<Input>,
    results: UnboundedSender<Input>,
    publish: P,
    checks: JoinSet<()>,
}

impl<P: Fn(Arc<Plan>)> Control<P> {
    /// Starts with a controller whose first plan has been taken. `results` leads back to `inputs`
    /// and carries the results of checks.
    pub(super) fn new(
        controller: Controller,
        clock: Clock,
        inputs: UnboundedReceiver<Input>,
        results: UnboundedSender<Input>,
        publish: P,
    ) -> Self {
        Self { controller, clock, inputs, results, publish, checks: JoinSet::new() }
    }

    /// Runs until [`Control::inputs`] is closed.
    pub(super) async fn run(mut self) {
        loop {
            self.drain();
            let deadline = self.controller.next_deadline();
            let wait = deadline.since(self.clock.now()).to_std();
            let input = tokio::select! {
                input = self.inputs.recv() => input,
                () = sleep(wait), if deadline != Instant::NEVER => Some(Input::Tick),
                Some(_) = self.checks.join_next() => continue,
            };
            let Some(input) = input else { return };
            self.controller.handle(self.clock.now(), input);
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Publish(plan) => (self.publish)(plan),
                Output::Check { server, address, check } => {
                    let results = self.results.clone();
                    self.checks.spawn(run_check(server, address, check, results));
                }
                Output::Notice(notice) => log(&notice),
            }
        }
    }
}

async fn run_check(
    server: ServerId,
    address: std::net::SocketAddr,
    check: HealthCheck,
    results: UnboundedSender<Input>,
) {
    let result = probe(address, &check).await;
    if let Err(error) = &result {
        tracing::debug!(%address, %error, "check failed");
    }
    // The controller is gone only when loadline stops.
    let _ = results.send(Input::Checked { server, passed: result.ok() });
}

fn log(notice: &Notice) {
    let Notice { service, group, change } = notice;
    use loadline_core::controller::Change::{Down, Ejected, Recovered, Returned, Up, Yields};
    match change {
        Up(server) => tracing::info!(%service, %group, %server, "server is up"),
        Down(server) => tracing::warn!(%service, %group, %server, "server is down: checks fail"),
        Ejected(server, time) => {
            tracing::warn!(%service, %group, %server, %time, "server is ejected: requests fail");
        }
        Returned(server) => tracing::info!(%service, %group, %server, "server is back on trial"),
        Yields => tracing::warn!(%service, %group, "group yields: too few healthy servers"),
        Recovered => tracing::info!(%service, %group, "group comes first again"),
    }
}
