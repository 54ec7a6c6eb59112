//! A request that finds every group full.

use crate::{
    decide::{
        plan::{QueuePlace, QueuedDecision, ServicePlan},
        queue::RECHECK,
        reason::Reason,
    },
    fleet::{Then, WhenFull},
    time::{Duration, Instant},
};

use super::{Action, At, Machine, State};

impl Machine {
    /// Takes one of the further places of its class in the queue, or asks for somebody else's.
    pub(super) fn queue_full(&mut self, at: &At<'_>, plan: &ServicePlan) -> Action {
        plan.state().note_no_room(self.subject.class, at.now);
        match self.further_place(at, plan) {
            Some(place) => self.join(at, place),
            None => {
                self.state = State::Asking;
                Action::Displace
            }
        }
    }

    /// A place beyond those of a limit that was found, for a request above others.
    fn further_place(&self, at: &At<'_>, plan: &ServicePlan) -> Option<QueuePlace> {
        let WhenFull::Queue { length, .. } = plan.when_full else { return None };
        let (_, places) = plan.found_queue()?;
        if !plan.state().is_above_others(self.subject.class, at.now) {
            return None;
        }
        let more = places.saturating_mul(PLACES_ABOVE).saturating_add(PLACES_ABOVE);
        QueuePlace::take(plan.state(), more.min(length))
    }

    /// Waits in the queue for as long as the service lets a request wait.
    pub(super) fn join(&mut self, at: &At<'_>, place: QueuePlace) -> Action {
        let longest = at.plan.map_or(Duration::ZERO, |plan| self.longest_wait(at, plan));
        self.state = State::Waiting { since: at.now, holds_up: None };
        Action::Join { place, until: at.now + longest }
    }

    /// The place of somebody else in the full queue is there, or is not.
    pub(super) fn room(&mut self, at: &At<'_>, place: Option<QueuePlace>) -> Action {
        match place {
            Some(place) => self.join(at, place),
            None => self.over_capacity(at, Reason::QueueFull),
        }
    }

    /// It is the first of the queue. How long it may wait can have become less meanwhile.
    pub(super) fn first(&mut self, at: &At<'_>) -> Action {
        let State::Waiting { since, .. } = self.state else { return Action::None };
        let Some(plan) = at.plan else { return self.end(at, Reason::NoServer) };
        let overdue = |longest| at.now.since(since) > longest;
        if self.found_wait(at, plan).is_some_and(overdue) {
            return self.over_capacity(at, Reason::QueueTimeout);
        }
        match plan.pick_queued(&self.ask(at)) {
            QueuedDecision::Send(permit) => self.send(at, permit),
            QueuedDecision::Refuse(refusal) => self.end(at, refusal.reason()),
            QueuedDecision::Wait(until)
                if !self.found_no_connection() && plan.holds_up(&self.ask(at)) =>
            {
                self.hold_up(at, until)
            }
            QueuedDecision::Wait(until) => Action::Wait(until),
        }
    }

    /// Whether the last server that it was given has all its connections: those behind it would be
    /// turned away there as well.
    pub(super) fn found_no_connection(&self) -> bool {
        self.failure.is_some_and(|failure| failure.reason == Reason::NoConnection)
    }

    /// Waits a moment for another server, though one that failed it has room for the requests
    /// behind it. A moment is enough where servers are busy and requests short.
    fn hold_up(&mut self, at: &At<'_>, until: Option<Instant>) -> Action {
        let State::Waiting { holds_up, .. } = &mut self.state else { return Action::None };
        let end = *holds_up.get_or_insert(at.now + RECHECK);
        if at.now >= end {
            return self.end(at, Reason::Full);
        }
        Action::Wait(Some(until.map_or(end, |until| until.min(end))))
    }

    /// Sends over capacity where the rule of the service is `then = "spread"`; else fails.
    pub(super) fn over_capacity(&mut self, at: &At<'_>, reason: Reason) -> Action {
        let spreads = |rule| matches!(rule, WhenFull::Queue { then: Then::Spread, .. });
        let plan = at.plan.filter(|plan| spreads(plan.when_full));
        match plan.and_then(|plan| plan.spread(&self.ask(at))) {
            Some(permit) => self.send(at, permit),
            None => self.end(at, of_queue(at, reason)),
        }
    }

    /// How long it may wait now.
    fn longest_wait(&self, at: &At<'_>, plan: &ServicePlan) -> Duration {
        let WhenFull::Queue { timeout, .. } = plan.when_full else { return Duration::ZERO };
        self.found_wait(at, plan).map_or(timeout, |longest| longest.min(timeout))
    }

    /// How long it may wait by the limit that was found. None for a class above others: they are
    /// refused first, and its few places in the queue bound its wait.
    fn found_wait(&self, at: &At<'_>, plan: &ServicePlan) -> Option<Duration> {
        let (longest, _) = plan.found_queue()?;
        (!plan.state().is_above_others(self.subject.class, at.now)).then_some(longest)
    }
}

/// Why the queue has no place or no time left: `capacity = "auto"` refuses before its limit is
/// proven, when nothing else tells of it.
fn of_queue(at: &At<'_>, reason: Reason) -> Reason {
    let is_found = at.plan.is_some_and(ServicePlan::has_found_limits);
    match reason {
        Reason::QueueFull if is_found => Reason::FoundQueueFull,
        Reason::QueueTimeout if is_found => Reason::FoundQueueTimeout,
        _ => reason,
    }
}

/// A class above others has so many times the places of a found limit, and as many more: they are
/// served within a response time or two.
const PLACES_ABOVE: u32 = 4;
