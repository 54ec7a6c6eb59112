//! The slow half: hears what happens, decides what follows, publishes plans.
//!
//! One owner calls it. After each [`Controller::handle`] the owner drains
//! [`Controller::poll`] and calls again at [`Controller::next_deadline`] at the latest.

use alloc::{collections::VecDeque, sync::Arc};
use core::net::SocketAddr;

use crate::{
    fleet::{Fleet, HealthCheck},
    ledger::{Ledger, ServerId},
    plan::Plan,
    time::{Duration, Instant},
};

/// What the controller hears.
#[derive(Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A new configuration, already checked.
    Reload(Fleet),
    /// A health check of a server ended.
    Checked {
        /// The server.
        server: ServerId,
        /// The round-trip time of the connect if the check passed; none if it failed.
        passed: Option<Duration>,
    },
    /// A server failed so many real requests in a row ([`crate::permit::Permit::fail`]).
    Failing {
        /// The server.
        server: ServerId,
        /// How many.
        errors_in_a_row: u32,
    },
}

/// What the controller wants done.
#[derive(Debug)]
pub enum Output {
    /// Requests are decided by this plan from now on.
    Publish(Arc<Plan>),
    /// A server is to be checked, and the result handed in as [`Input::Checked`].
    Check {
        /// The server.
        server: ServerId,
        /// Where it listens.
        address: SocketAddr,
        /// What to ask it.
        check: HealthCheck,
    },
}

/// The slow half; see the module.
#[derive(Debug)]
pub struct Controller {
    fleet: Arc<Fleet>,
    ledger: Ledger,
    generation: u64,
    outputs: VecDeque<Output>,
}

impl Controller {
    /// Starts with a configuration; the first plan is the first output.
    #[must_use]
    pub fn new(now: Instant, fleet: Fleet) -> Self {
        let mut controller = Self {
            fleet: Arc::new(fleet),
            ledger: Ledger::default(),
            generation: 0,
            outputs: VecDeque::new(),
        };
        controller.publish(now);
        controller
    }

    /// Takes an input in.
    pub fn handle(&mut self, now: Instant, input: Input) {
        if let Input::Reload(fleet) = input {
            self.ledger.retain(&fleet);
            self.fleet = Arc::new(fleet);
            self.publish(now);
        }
    }

    /// The next thing to do, if any.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Controller::handle`] again at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        Instant::NEVER
    }

    fn publish(&mut self, _now: Instant) {
        self.generation += 1;
    }
}
