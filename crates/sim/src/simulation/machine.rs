//! Drives the request machines: tells them what has happened and does what they say.

use loadline_core::{
    decide::{
        permit::Permit,
        queue::{Left, Next},
        request::{Action, At, Event as Heard, Failed, Progress},
    },
    time::Duration,
};

use crate::{
    events::{Attempt, Event},
    simulation::{Client, Request, Simulation},
    slab::Handle,
    trace::{Place, Step, What},
};

impl Simulation {
    /// Tells a request what has happened, and does what follows.
    pub(super) fn tell(&mut self, handle: Handle, heard: Heard) {
        let mut next = Some(heard);
        while let Some(heard) = next.take() {
            let Some(action) = self.handle(handle, heard) else { return };
            next = self.act(handle, action);
        }
    }

    /// Tells a request what has happened, and says what is to be done.
    pub(super) fn handle(&mut self, handle: Handle, heard: Heard) -> Option<Action> {
        let request = self.requests.get_mut(handle)?;
        let ended = matches!(heard, Heard::Ended(_));
        let frees = ended || matches!(heard, Heard::Failed(_));
        let (edge, service) = (request.edge as usize, request.service as usize);
        let plan = self.edges[edge].plan.services.get(service).map(|plan| &**plan);
        let at = At { now: self.now, draw: self.random.draw(), plan, lag: Duration::ZERO };
        let action = request.machine.handle(&at, heard);
        let permit = match action {
            Action::Send | Action::Resend if !ended => request.machine.permit(),
            // It has a place elsewhere, where it goes when this response is at its end.
            Action::Discard => request.machine.permits().nth(1),
            _ => None,
        };
        if let Some(permit) = permit {
            let client = request.client;
            let sent = || What::Request(client.number, sent(service, permit));
            self.trace.note(self.now, sent);
        }
        if let Some(report) = request.machine.poll_report() {
            let outputs = self.edges[edge].handle(self.now, report);
            self.follow(edge, outputs);
        }
        if frees {
            self.notify(edge, service);
        }
        Some(action)
    }

    /// Carries out an action; gives the event that follows from it, if any.
    fn act(&mut self, handle: Handle, action: Action) -> Option<Heard> {
        match action {
            Action::Send | Action::Resend => self.send(handle),
            Action::End => self.end(handle),
            Action::Displace => return self.displace(handle),
            Action::Join { place, until } => {
                let request = self.requests.get_mut(handle)?;
                let class = self.scenario.sources[request.client.source as usize].class;
                let queue = &mut self.edges[request.edge as usize].queues[request.service as usize];
                request.position = Some(queue.join(class, place));
                request.until = until;
                let client = request.client;
                self.observer.queued(client.since);
                self.note(client, Step::Queued(until));
                self.woken.push_back(handle);
                self.events.plan(until, Event::Overdue(handle));
            }
            Action::Wait(until) => {
                let request = self.requests.get_mut(handle)?;
                let queue = &mut self.edges[request.edge as usize].queues[request.service as usize];
                request.position.into_iter().for_each(|position| queue.no_room(position, until));
            }
            Action::Await(longest) => self.wait_for_response(handle, longest),
            Action::GiveUp(reason) => {
                let client = self.requests.get(handle)?.client;
                self.note(client, Step::Failed(reason));
                let progress = Progress { reused: true, sent: true, ..Progress::NOTHING };
                return Some(Heard::Failed(Failed { reason, progress }));
            }
            Action::Forward | Action::Discard | Action::None => {}
        }
        None
    }

    /// Sends a request to the server of its permit.
    fn send(&mut self, handle: Handle) {
        self.leave(handle);
        self.cast_off(handle);
        let Some(request) = self.requests.get_mut(handle) else { return };
        let Some(permit) = request.machine.permit() else { return };
        let (edge, service) = (request.edge as usize, request.service as usize);
        let (group, server) = permit.place();
        let (client, is_first) = (request.client, request.attempt == 0);
        self.observer.sent(client.since, (service, group, server), permit.is_overflow());
        request.attempt = request.attempt.wrapping_add(1);
        request.group = group as u16;
        request.station = self.groups[service][group].stations[server];
        (request.sent, request.due, request.under_way) = (self.now, None, true);
        let attempt = Attempt { request: handle, number: request.attempt };
        if is_first {
            self.count_fetch(edge, client);
        }
        self.probe(edge, service, group);
        let way = self.way(edge, service, group);
        match way {
            Duration::ZERO => self.reaches(attempt),
            way => self.events.plan(self.now + way, Event::Reaches(attempt)),
        }
    }

    /// Waits so long from now for the response, unless it is known to come before.
    pub(super) fn wait_for_response(&mut self, handle: Handle, longest: Duration) {
        let Some(request) = self.requests.get(handle) else { return };
        let until = self.now + longest;
        if longest > Duration::ZERO && request.due.is_none_or(|due| due > until) {
            let attempt = Attempt { request: handle, number: request.attempt };
            self.events.plan(until, Event::Expires(attempt));
        }
    }

    /// A newcomer takes the place of somebody of a lower class, if anybody is.
    fn displace(&mut self, handle: Handle) -> Option<Heard> {
        let request = self.requests.get(handle)?;
        let class = self.scenario.sources[request.client.source as usize].class;
        let queue = &mut self.edges[request.edge as usize].queues[request.service as usize];
        let place = queue.displace(class).map(|Left { place, wakers }| {
            self.woken.extend(wakers.into_iter().flatten());
            place
        });
        Some(Heard::Room(place))
    }

    /// Polls the queue for a waiting request.
    pub(super) fn poll(&mut self, handle: Handle) {
        let Some(request) = self.requests.get_mut(handle) else { return };
        let Some(position) = request.position else { return };
        let queue = &mut self.edges[request.edge as usize].queues[request.service as usize];
        match queue.poll(position, self.now, handle) {
            Next::Pick => {
                self.tell(handle, Heard::First);
                // It has a server, or hears when to ask again.
                self.woken.push_back(handle);
            }
            Next::Wait(Some(at)) if request.timer.is_none_or(|timer| at < timer) => {
                request.timer = Some(at);
                self.events.plan(at, Event::Asks(handle));
            }
            Next::Wait(_) => {}
            Next::Displaced => {
                request.position = None;
                let client = request.client;
                self.note(client, Step::Displaced);
                self.tell(handle, Heard::Displaced);
            }
        }
    }

    pub(super) fn asks(&mut self, handle: Handle) {
        let now = self.now;
        if let Some(request) = self.requests.get_mut(handle).filter(|it| it.timer == Some(now)) {
            request.timer = None;
            self.poll(handle);
        }
    }

    pub(super) fn overdue(&mut self, handle: Handle) {
        // It may have left the queue meanwhile, and joined it again.
        let waits = |request: &Request| request.position.is_some() && request.until == self.now;
        if self.requests.get(handle).is_some_and(waits) {
            self.tell(handle, Heard::Overdue);
        }
    }

    /// Wakes whoever is first in a queue.
    pub(super) fn notify(&mut self, edge: usize, service: usize) {
        self.woken.extend(self.edges[edge].queues[service].notify());
    }

    /// Takes a request out of the queue, if it is in it.
    pub(super) fn leave(&mut self, handle: Handle) {
        let Some(request) = self.requests.get_mut(handle) else { return };
        let Some(position) = request.position.take() else { return };
        let queue = &mut self.edges[request.edge as usize].queues[request.service as usize];
        let left = queue.leave(position);
        self.woken.extend(left.into_iter().flat_map(|left| left.wakers).flatten());
    }

    /// What is under way of a request to a server comes there, though nobody waits for it any more.
    pub(super) fn cast_off(&mut self, handle: Handle) {
        let request = self.requests.get_mut(handle).filter(|request| request.under_way);
        if let Some(request) = request {
            request.under_way = false;
            self.strays.insert((handle, request.attempt), request.as_sent());
        }
    }

    /// A request has failed at its edge, which tells its client.
    fn end(&mut self, handle: Handle) {
        self.leave(handle);
        self.cast_off(handle);
        let Some(request) = self.requests.remove(handle) else { return };
        let client = request.client;
        let failure = request.machine.failure();
        let status = failure.and_then(|failure| failure.ending.status()).unwrap_or(502);
        let reason = failure.map(|failure| failure.reason);
        let instead = request.fetches && self.has_instead(request.edge as usize, client);
        self.note(client, Step::Refused(status, reason));
        if !instead {
            self.observer.refused(client.since, reason);
        }
        match request.fetches {
            true => self.not_fetched(request.answered(), status, instead),
            false => self.answered(request.answered(), status),
        }
    }

    pub(super) fn note(&mut self, client: Client, step: Step) {
        self.trace.note(self.now, || What::Request(client.number, step));
    }

    /// One way between an edge and a group.
    pub(super) fn way(&mut self, edge: usize, service: usize, group: usize) -> Duration {
        let distance = self.edges[edge].distances[service][group];
        let half = distance.rtt / 2;
        match distance.jitter {
            Duration::ZERO => half,
            jitter => half + jitter.scale(self.random.exponential()),
        }
    }
}

/// That a request is sent to the server of a permit.
fn sent(service: usize, permit: &Permit) -> Step {
    let (group, server) = permit.place();
    let (service, group, server) = (service as u32, group as u16, server as u16);
    Step::Sent { server: Place { service, group, server }, overflow: permit.is_overflow() }
}

/// Whether an attempt is the present one of a request.
pub(super) fn is_present(request: Option<&Request>, attempt: Attempt) -> bool {
    request.is_some_and(|request| {
        request.attempt == attempt.number && request.machine.permit().is_some()
    })
}
