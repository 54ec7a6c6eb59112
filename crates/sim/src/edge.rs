//! An edge: a controller, the plan in force, and the wait queues of its services.

use std::sync::Arc;

use loadline_core::{
    decide::{
        controller::{Controller, Input, Notice, Output},
        ledger::ServerState,
        plan::{Plan, QueuePlace},
        queue::WaitQueue,
    },
    fleet::{Fleet, HealthCheck},
    time::{Duration, Instant},
};

use crate::slab::Handle;

/// A place where requests come in.
#[derive(Debug)]
pub(crate) struct Edge {
    controller: Controller,
    pub(crate) plan: Arc<Plan>,
    /// One a service.
    pub(crate) queues: Vec<WaitQueue<QueuePlace, Handle>>,
    /// From here to each group and back, by service and group.
    pub(crate) distances: Vec<Vec<Distance>>,
    /// When the controller is called next, at the latest.
    ticks_at: Option<Instant>,
}

/// How far a group is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distance {
    /// Round-trip time.
    pub(crate) rtt: Duration,
    /// The mean of what comes on top of each way.
    pub(crate) jitter: Duration,
}

/// What a controller wants done.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Whether another plan is in force.
    pub(crate) published: bool,
    pub(crate) checks: Vec<CheckOrder>,
    pub(crate) notices: Vec<Notice>,
    /// When the controller is to be called, if that is sooner than was known.
    pub(crate) tick: Option<Instant>,
}

/// A server that is to be checked.
#[derive(Debug)]
pub(crate) struct CheckOrder {
    /// Indices of the service, the group and the server.
    pub(crate) place: (usize, usize, usize),
    pub(crate) check: HealthCheck,
    pub(crate) state: Arc<ServerState>,
}

impl Edge {
    /// Starts with a configuration; what the controller wants done first.
    pub(crate) fn start(fleet: &Arc<Fleet>, distances: Vec<Vec<Distance>>) -> (Self, Outputs) {
        let mut controller = Controller::new(Instant::ZERO, fleet.clone());
        let Some(Output::Publish(plan)) = controller.poll() else {
            unreachable!("the first output of a controller is a plan")
        };
        let queues = fleet.services.iter().map(|_| WaitQueue::default()).collect();
        let mut edge = Self { controller, plan, queues, distances, ticks_at: None };
        let outputs = edge.drain();
        (edge, outputs)
    }

    /// Tells the controller something.
    pub(crate) fn handle(&mut self, now: Instant, input: Input) -> Outputs {
        if matches!(input, Input::Tick) {
            self.ticks_at = None;
        }
        self.controller.handle(now, input);
        self.drain()
    }

    fn drain(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Publish(plan) => {
                    self.plan = plan;
                    outputs.published = true;
                }
                Output::Check { service, group, index, check, state, .. } => {
                    let place = (service, group, index);
                    outputs.checks.push(CheckOrder { place, check, state });
                }
                Output::Notice(notice) => outputs.notices.push(notice),
            }
        }
        let due = self.controller.next_deadline();
        if let Some(due) = due.filter(|due| self.ticks_at.is_none_or(|known| *due < known)) {
            self.ticks_at = Some(due);
            outputs.tick = Some(due);
        }
        outputs
    }
}
