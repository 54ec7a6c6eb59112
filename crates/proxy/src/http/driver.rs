//! Drives a request machine: gives it the plan in force, waits in the queue for it, and passes on
//! what it reports.

use std::{future::poll_fn, net::SocketAddr, sync::Arc};

use loadline_core::{
    decide::{
        ledger::{ServerId, ServerState},
        orca::LoadReport,
        overflow_reason::OverflowReason,
        permit::Permit,
        plan::QueuePlace,
        reason::Reason,
        request::{Action, At, Event, Failure, Machine, Subject},
    },
    fleet::Class,
    state::ServiceCounter,
    time::{Duration, Instant},
};
use tokio::time::sleep_until;

use crate::{
    http::route::Route,
    io::peer::Peer,
    runtime::{
        clock::Clock,
        wait_queue::{Displaced, Waiter},
        worker::Worker,
    },
    telemetry::access_log::Times,
};

/// A request machine and the service that its request is for.
#[derive(Debug)]
pub(crate) struct Driver {
    machine: Machine,
    class: Class,
    pub(crate) route: Route,
}

/// Adds the wait for room to `times` when it ends.
struct Waiting<'t> {
    times: &'t mut Times,
    clock: Clock,
    since: Instant,
}

/// Where a request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) server: ServerId,
    /// Index of the group and of the server in it, as in the file.
    pub(crate) group: usize,
    pub(crate) index: usize,
    pub(crate) address: SocketAddr,
    /// When it was given this server.
    pub(crate) since: Instant,
    /// Why it went past the nearest group, if it did.
    pub(crate) overflow: Option<OverflowReason>,
}

impl Driver {
    /// Drives a request that has come for the service of `route`.
    pub(crate) const fn new(route: Route, subject: Subject) -> Self {
        Self { class: subject.class, machine: Machine::new(subject), route }
    }

    /// Tells the machine what has happened, and says what is to be done now.
    pub(crate) fn handle(&mut self, worker: &Worker, now: Instant, event: Event) -> Action {
        let frees = matches!(event, Event::Failed(_) | Event::Ended(_));
        let may_move = matches!(event, Event::Head { status: 500.., .. });
        let chooses_anew = may_move || matches!(event, Event::Failed(_) | Event::First);
        let stays = may_move.then(|| self.route.clone());
        let is_there = !chooses_anew || self.route.renew(worker);
        let plan = is_there.then(|| self.route.plan());
        let at = At { now, draw: worker.random.draw(), plan, lag: worker.lag.get(now) };
        let action = self.machine.handle(&at, event);
        if let (Some(route), Action::Forward) = (stays, &action) {
            // Its server has its place by the plan that it was sent by.
            self.route = route;
        }
        if let Some(report) = self.machine.poll_report() {
            worker.shared.report(report);
        }
        if frees {
            self.notify();
        }
        action
    }

    /// Waits for room until the request is sent or has failed; notes for how long, also where the
    /// wait is cut.
    pub(crate) async fn wait_for_room(
        &mut self,
        worker: &Worker,
        client: &mut Peer,
        times: &mut Times,
        mut action: Action,
    ) -> Action {
        let (clock, since) = (worker.shared.clock, worker.shared.clock.now());
        let _waiting = Waiting { times, clock, since };
        loop {
            let event = match action {
                Action::Displace => {
                    Event::Room(self.route.service_context().queue.displace(self.class))
                }
                Action::Join { place, until } => {
                    match self.wait_in_queue(worker, client, place, until).await {
                        Ok(action) => return action,
                        Err(event) => event,
                    }
                }
                action => return action,
            };
            action = self.handle(worker, clock.now(), event);
        }
    }

    /// Waits in the queue until there is room, or until something else happens.
    async fn wait_in_queue(
        &mut self,
        worker: &Worker,
        client: &mut Peer,
        place: QueuePlace,
        until: Instant,
    ) -> Result<Action, Event> {
        self.route.service_context().cells.add(ServiceCounter::Queued, 1);
        // The queue of a service is the same in every plan.
        let queue = self.route.service_context().queue.clone();
        let waiter = queue.join(self.class, place);
        let until = worker.shared.clock.to_tokio(until);
        let asked = tokio::select! {
            biased;
            asked = self.ask_for_room(worker, &waiter) => asked,
            () = poll_fn(|cx| client.socket.poll_closed(cx)) => return Err(Event::ClientGone),
            () = sleep_until(until) => return Err(Event::Overdue),
        };
        asked.map_err(|Displaced| {
            self.route.service_context().cells.add(ServiceCounter::Displaced, 1);
            Event::Displaced
        })
    }

    /// Asks for room whenever it is to, until there is.
    async fn ask_for_room(
        &mut self,
        worker: &Worker,
        waiter: &Waiter<'_>,
    ) -> Result<Action, Displaced> {
        let clock = worker.shared.clock;
        loop {
            waiter.may_ask(clock).await?;
            let action = self.handle(worker, clock.now(), Event::First);
            let Action::Wait(until) = action else { return Ok(action) };
            waiter.no_room(until);
        }
    }

    /// Lets whoever waits ask again, now that there may be room.
    fn notify(&self) {
        if self.route.plan().state().queued() > 0 {
            self.route.service_context().queue.notify();
        }
    }

    /// Where the request was sent; none while it has no server.
    pub(crate) fn place(&self) -> Option<Place> {
        let permit = self.machine.permit()?;
        let (group, index) = permit.place();
        Some(Place {
            server: permit.server(),
            group,
            index,
            address: permit.address(),
            since: permit.since(),
            overflow: permit.overflow_reason(),
        })
    }

    /// What is counted of the server that it was sent to.
    pub(crate) fn server(&self) -> Option<Arc<ServerState>> {
        self.machine.permit().map(|permit| permit.state().clone())
    }

    /// Whether what is under way with its server may not go on.
    pub(crate) fn is_cut(&self) -> bool {
        self.machine.permit().is_some_and(Permit::is_cut)
    }

    /// Whether its server is given nothing more.
    pub(crate) fn is_leaving(&self) -> bool {
        self.machine.permit().is_none_or(Permit::is_leaving)
    }

    /// Whether its server is out because it answers nobody, and was not when it was asked.
    pub(crate) fn hangs(&self) -> bool {
        self.patience() > Duration::ZERO && self.machine.permit().is_some_and(Permit::hangs)
    }

    /// Records that more of its response has come.
    pub(crate) fn heard_more(&self, now: Instant) {
        self.machine.permit().into_iter().for_each(|permit| permit.heard_more(now));
    }

    /// How long its server may answer nobody before it is suspected to hang; zero for ever.
    pub(crate) const fn patience(&self) -> Duration {
        self.machine.patience()
    }

    /// How often it was sent to a further server.
    pub(crate) const fn retries(&self) -> u32 {
        self.machine.retries()
    }

    /// Why the last attempt failed, or why there was none.
    pub(crate) fn failure(&self) -> Failure {
        self.machine.failure().unwrap_or(Failure::new(Reason::SystemError))
    }

    /// The same where it is to be counted and told of, once.
    pub(crate) fn take_untold(&mut self) -> Option<Failure> {
        self.machine.take_untold()
    }

    /// Takes in a report of load. One that makes no sense is as good as none.
    pub(crate) fn report_load(&self, now: Instant, metrics: Option<&[u8]>) {
        let text = metrics.and_then(|metrics| std::str::from_utf8(metrics).ok());
        let (Some(permit), Some(text)) = (self.machine.permit(), text) else { return };
        let LoadReport { utilization, in_flight } = LoadReport::parse(text);
        utilization.into_iter().for_each(|utilization| permit.report_utilization(now, utilization));
        in_flight.into_iter().for_each(|in_flight| permit.report_in_flight(now, in_flight));
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.times.wait_again(self.clock.now().since(self.since));
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.machine.permit().is_some() {
            // Before the queue is told: there must be room when its first asks.
            self.machine.abandon();
            self.notify();
        }
    }
}
