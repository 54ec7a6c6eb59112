//! What happens to a request for which there is no room now.

use std::future::poll_fn;

use loadline_core::{
    ending::Ending,
    fleet::{Then, WhenFull},
    ledger::ServerId,
    permit::Permit,
    plan::{Ask, QueuePlace, QueuedDecision, Refusal},
    time::Duration,
};
use tokio::time::sleep_until;

use crate::{
    exchange::{Exchange, Failure},
    grant::Grant,
    peer::Peer,
    route::Route,
    worker::Worker,
};

/// Waits for room, for as long as the service lets a request wait and its client stays.
pub(crate) async fn wait(
    exchange: &mut Exchange<'_>,
    place: QueuePlace,
    ask: Ask<'_>,
) -> Result<Grant, Failure> {
    let Exchange { worker, client, route, .. } = exchange;
    wait_for(worker, client, route, (place, ask)).await
}

/// As [`wait`], for whoever has no exchange.
pub(crate) async fn wait_for(
    worker: &Worker,
    client: &mut Peer,
    route: &mut Route,
    (place, ask): (QueuePlace, Ask<'_>),
) -> Result<Grant, Failure> {
    route.desk().cells.queued.add(1);
    let longest = match route.plan().when_full_rule() {
        WhenFull::Queue { timeout, .. } => timeout,
        _ => Duration::ZERO,
    };
    let deadline = worker.shared.clock.to_tokio(ask.now + longest);
    let decided = tokio::select! {
        biased;
        decided = decide_at_head(worker, route, ask.key, ask.tried) => Some(decided),
        () = poll_fn(|cx| client.socket.poll_closed(cx)) => {
            return Err(Failure::new(Ending::ClientGone));
        }
        () = sleep_until(deadline) => None,
    };
    drop(place);
    match decided {
        Some(Ok(permit)) => Ok(route.grant(permit)),
        Some(Err(refusal)) => refuse(route, refusal, ask),
        None => spread(route, ask).ok_or(Failure::new(Ending::QueueTimeout)),
    }
}

/// Refuses a request, unless those that find the queue full are spread.
pub(crate) fn refuse(route: &Route, refusal: Refusal, ask: Ask<'_>) -> Result<Grant, Failure> {
    let spread = if refusal == Refusal::QueueFull { spread(route, ask) } else { None };
    spread.ok_or(Failure::refused(refusal))
}

/// Waits to be the head of the queue, then for room.
async fn decide_at_head(
    worker: &Worker,
    route: &mut Route,
    key: u64,
    tried: &[ServerId],
) -> Result<Permit, Refusal> {
    let clock = worker.shared.clock;
    // The queue of a service is the same in every plan.
    let queue = route.desk().queue.clone();
    let _head = queue.head().await;
    loop {
        if !route.renew(worker) {
            return Err(Refusal::NoServer);
        }
        let draw = worker.random.draw();
        let ask = Ask { now: clock.now(), key, draw, tried, stick: None };
        match route.plan().pick_queued(&ask) {
            QueuedDecision::Send(permit) => return Ok(permit),
            QueuedDecision::Refuse(refusal) => return Err(refusal),
            QueuedDecision::Wait(until) => queue.changed(clock, until).await,
        }
    }
}

/// Sends over capacity where the rule of the service is `then = "spread"`.
fn spread(route: &Route, ask: Ask<'_>) -> Option<Grant> {
    let rule = route.plan().when_full_rule();
    let WhenFull::Queue { then: Then::Spread, .. } = rule else { return None };
    route.plan().spread(&ask).map(|permit| route.grant(permit))
}
