//! What happens to a request for which there is no room now.

use std::future::poll_fn;

use loadline_core::{
    fleet::{Class, Then, WhenFull},
    permit::Permit,
    plan::{Ask, QueuePlace, QueuedDecision, Refusal},
    reason::Reason,
    time::Duration,
};
use tokio::time::sleep_until;

use crate::{
    failure::Failure,
    grant::Grant,
    peer::Peer,
    queue::{Displaced, Standing},
    route::Route,
    worker::Worker,
};

/// Somebody for whom there is no room: who, for which service, and how much it matters.
pub(crate) struct Waiting<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) client: &'a mut Peer,
    pub(crate) route: &'a mut Route,
    pub(crate) class: Class,
}

impl Waiting<'_> {
    /// Waits for room, for as long as the service lets a request wait and its client stays.
    pub(crate) async fn wait(self, place: QueuePlace, ask: Ask<'_>) -> Result<Grant, Failure> {
        let Self { worker, client, route, class } = self;
        route.desk().cells.queued.add(1);
        let longest = match route.plan().when_full_rule() {
            WhenFull::Queue { timeout, .. } => timeout,
            _ => Duration::ZERO,
        };
        let deadline = worker.shared.clock.to_tokio(ask.now + longest);
        // The queue of a service is the same in every plan.
        let queue = route.desk().queue.clone();
        let standing = queue.join(class, place);
        let decided = tokio::select! {
            biased;
            decided = decide(worker, route, &standing, ask) => Some(decided),
            () = poll_fn(|cx| client.socket.poll_closed(cx)) => {
                return Err(Failure::new(Reason::ClientGone));
            }
            () = sleep_until(deadline) => None,
        };
        drop(standing);
        match decided {
            Some(Ok(Ok(permit))) => Ok(route.grant(permit)),
            Some(Ok(Err(refusal))) => refuse(route, refusal, ask),
            Some(Err(Displaced)) => {
                route.desk().cells.displaced.add(1);
                refuse(route, Refusal::QueueFull, ask)
            }
            None => spread(route, ask).ok_or(Failure::new(Reason::QueueTimeout)),
        }
    }

    /// Takes the place of somebody who matters less where the queue is full, else is refused.
    pub(crate) async fn refused(self, why: Refusal, ask: Ask<'_>) -> Result<Grant, Failure> {
        let full = why == Refusal::QueueFull;
        match full.then(|| self.route.desk().queue.displace(self.class)).flatten() {
            Some(place) => self.wait(place, ask).await,
            None => refuse(self.route, why, ask),
        }
    }
}

/// Refuses a request, unless those that find the queue full are spread.
fn refuse(route: &Route, refusal: Refusal, ask: Ask<'_>) -> Result<Grant, Failure> {
    let spread = if refusal == Refusal::QueueFull { spread(route, ask) } else { None };
    spread.ok_or(Failure::refused(refusal))
}

/// Waits to be the first of the queue, then for room.
async fn decide(
    worker: &Worker,
    route: &mut Route,
    standing: &Standing<'_>,
    ask: Ask<'_>,
) -> Result<Result<Permit, Refusal>, Displaced> {
    let clock = worker.shared.clock;
    loop {
        standing.turn().await?;
        if !route.renew(worker) {
            return Ok(Err(Refusal::NoServer));
        }
        let ask = Ask { now: clock.now(), draw: worker.random.draw(), ..ask };
        match route.plan().pick_queued(&ask) {
            QueuedDecision::Send(permit) => return Ok(Ok(permit)),
            QueuedDecision::Refuse(refusal) => return Ok(Err(refusal)),
            QueuedDecision::Wait(until) => standing.changed(clock, until).await?,
        }
    }
}

/// Sends over capacity where the rule of the service is `then = "spread"`.
fn spread(route: &Route, ask: Ask<'_>) -> Option<Grant> {
    let rule = route.plan().when_full_rule();
    let WhenFull::Queue { then: Then::Spread, .. } = rule else { return None };
    route.plan().spread(&ask).map(|permit| route.grant(permit))
}
