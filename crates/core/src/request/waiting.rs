//! A request for which there is no room now.

use crate::{
    fleet::{Then, WhenFull},
    plan::{QueuePlace, QueuedDecision},
    reason::Reason,
    time::Duration,
};

use super::{Action, At, Machine, State};

impl Machine {
    /// Waits in the queue for as long as the service lets a request wait.
    pub(super) fn join(&mut self, at: &At<'_>, place: QueuePlace) -> Action {
        let longest = match at.plan.map(|plan| plan.when_full) {
            Some(WhenFull::Queue { timeout, .. }) => timeout,
            _ => Duration::ZERO,
        };
        self.state = State::Waiting;
        Action::Join { place, until: at.now + longest }
    }

    /// The place of somebody else in the full queue is there, or is not.
    pub(super) fn room(&mut self, at: &At<'_>, place: Option<QueuePlace>) -> Action {
        match place {
            Some(place) => self.join(at, place),
            None => self.over_capacity(at, Reason::QueueFull),
        }
    }

    /// It is the first of the queue.
    pub(super) fn first(&mut self, at: &At<'_>) -> Action {
        let Some(plan) = at.plan else { return self.end(Reason::NoServer) };
        match plan.pick_queued(&self.ask(at)) {
            QueuedDecision::Send(permit) => self.send(at, permit),
            QueuedDecision::Refuse(refusal) => self.end(refusal.reason()),
            QueuedDecision::Wait(until) => Action::Wait(until),
        }
    }

    /// Sends over capacity where the rule of the service is `then = "spread"`; else fails.
    pub(super) fn over_capacity(&mut self, at: &At<'_>, reason: Reason) -> Action {
        let spreads = |rule| matches!(rule, WhenFull::Queue { then: Then::Spread, .. });
        let plan = at.plan.filter(|plan| spreads(plan.when_full));
        match plan.and_then(|plan| plan.spread(&self.ask(at))) {
            Some(permit) => self.send(at, permit),
            None => self.end(reason),
        }
    }
}
