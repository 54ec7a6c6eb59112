//! What servers do with the requests that reach them.

use loadline_core::{
    decide::{
        ending::Ending,
        reason::Reason,
        request::{Action, Event as Heard, Failed, Progress, Unanswered, shorter},
    },
    time::{Duration, Instant},
    units::Ratio,
};

use crate::{
    events::{Attempt, Event},
    random::Random,
    simulation::{Request, Sent, Simulation, machine::is_present},
    slab::Handle,
    station::Reply,
    trace::Step,
};

impl Simulation {
    /// An attempt reaches its server, also where nobody waits for it any more.
    pub(super) fn reaches(&mut self, attempt: Attempt) {
        let request = self.requests.get_mut(attempt.request);
        let present = request.filter(|request| request.attempt == attempt.number);
        let Some(request) = present else {
            if let Some(stray) = self.strays.remove(&(attempt.request, attempt.number)) {
                self.serve(attempt.request, stray);
                self.plan_next_departure(stray.station as usize);
            }
            return;
        };
        request.under_way = false;
        let (edge, sent) = (request.edge as usize, request.as_sent());
        let (service, group) = (sent.service as usize, usize::from(sent.group));
        match self.serve(attempt.request, sent) {
            Reply::Responds(at, status) => {
                let due = at + self.way(edge, service, group);
                self.expect(attempt, due, Event::Responds(attempt, status));
            }
            Reply::Resets(at) => {
                let due = at + self.way(edge, service, group);
                self.expect(attempt, due, Event::Resets(attempt, false));
            }
            Reply::Refuses => {
                let due = self.now + self.way(edge, service, group);
                self.expect(attempt, due, Event::Resets(attempt, true));
            }
            Reply::Shares | Reply::Silent => self.wait_as_long_as_it_may(attempt),
        }
        self.plan_next_departure(sent.station as usize);
    }

    /// Has the server of an attempt take it.
    fn serve(&mut self, request: Handle, sent: Sent) -> Reply {
        let (service, group) = (sent.service as usize, usize::from(sent.group));
        let station = &mut self.stations[sent.station as usize];
        let is_slow = station.pace(self.now) >= SLOW * self.groups[service][group].pace;
        let state = (station.is_busy(self.now), is_slow);
        self.observer.reached(sent.client.since, (service, group), state);
        self.busiest.iter_mut().for_each(|busiest| busiest.reached(self.now, service, group));
        let (mut work, mut errors) = (Random::stream(sent.client.work, 0), sent.errors());
        station.serve(self.now, (&mut work, &mut errors), request)
    }

    fn plan_next_departure(&mut self, station: usize) {
        if self.stations[station].sharing().is_some() {
            self.plan_departure(station);
        }
    }

    fn expect(&mut self, attempt: Attempt, due: Instant, event: Event) {
        let Some(request) = self.requests.get_mut(attempt.request) else { return };
        request.due = Some(due);
        self.events.plan(due, event);
        self.wait_as_long_as_it_may(attempt);
    }

    /// Waits for the response from when the request was sent, as long as the service lets it and as
    /// the edge is patient with the server.
    fn wait_as_long_as_it_may(&mut self, attempt: Attempt) {
        let Some(request) = self.requests.get(attempt.request) else { return };
        let (edge, service) = (request.edge as usize, request.service as usize);
        let limit = self.scenario.edges[edge].services[service].timeouts.head;
        let longest = shorter(limit, request.machine.patience());
        if longest > Duration::ZERO {
            let left = longest.saturating_sub(self.now.since(request.sent));
            self.wait_for_response(attempt.request, left.max(Duration::from_nanos(1)));
        }
    }

    /// A station that shares its cores is done with a request.
    pub(super) fn departs(&mut self, station: usize, version: u32) {
        let rare = self.stations[station].rare_mut();
        let Some(sharing) = rare.sharing.as_mut().filter(|sharing| sharing.version == version)
        else {
            return;
        };
        let done = sharing.depart(self.now, &rare.speed);
        self.plan_departure(station);
        let Some(handle) = done else { return };
        let watch = &mut self.stations[station].rare_mut().watch;
        watch.iter_mut().for_each(|watch| watch.depart(self.now, handle));
        let Some(request) = self.requests.get(handle) else { return };
        let attempt = Attempt { request: handle, number: request.attempt };
        let mut errors = request.as_sent().errors();
        let Some(((edge, service, group), now_at)) = self.place_of(attempt) else { return };
        // It may be elsewhere by now: the server worked for nobody.
        if now_at != station || self.stations[station].outage(self.now).is_some() {
            return;
        }
        let status = self.stations[station].status(self.now, &mut errors);
        let due = self.now + self.way(edge, service, group);
        self.expect(attempt, due, Event::Responds(attempt, status));
    }

    pub(super) fn plan_departure(&mut self, station: usize) {
        let rare = self.stations[station].rare_mut();
        let Some(sharing) = &mut rare.sharing else { return };
        if let Some((due, version)) = sharing.next(self.now, &rare.speed) {
            self.events.plan(due, Event::Departs { station: station as u32, version });
        }
    }

    /// The response to an attempt has come to the edge.
    pub(super) fn responds(&mut self, attempt: Attempt, status: u16) {
        let handle = attempt.request;
        if !is_present(self.requests.get(handle), attempt) {
            return;
        }
        self.report_utilization(attempt);
        if let Some(client) = self.requests.get(handle).map(|request| request.client) {
            self.note(client, Step::Response(status));
        }
        let Some(action) = self.handle(handle, Heard::Head { status, untouched: true }) else {
            return;
        };
        let is_answered = matches!(action, Action::Forward | Action::None);
        if !is_answered {
            return self.tell(handle, Heard::Ended(Ending::Complete));
        }
        let _ = self.handle(handle, Heard::Ended(Ending::Complete));
        let Some(answered) = self.requests.get(handle).map(Request::answered) else { return };
        self.requests.discard(handle);
        self.succeed(answered, status);
    }

    /// The connection of an attempt has been reset, or was refused.
    pub(super) fn resets(&mut self, attempt: Attempt, refused: bool) {
        if !is_present(self.requests.get(attempt.request), attempt) {
            return;
        }
        let client = self.requests.get(attempt.request).map(|request| request.client);
        let failed = match refused {
            true => Failed { reason: Reason::ConnectionRefused, progress: Progress::NOTHING },
            false => Failed {
                reason: Reason::ResetBeforeResponse,
                progress: Progress { reused: true, sent: true, ..Progress::NOTHING },
            },
        };
        if let Some(client) = client {
            self.note(client, Step::Failed(failed.reason));
        }
        self.tell(attempt.request, Heard::Failed(failed));
    }

    /// The edge has waited long enough for the response to an attempt, perhaps.
    pub(super) fn expires(&mut self, attempt: Attempt) {
        if is_present(self.requests.get(attempt.request), attempt) {
            self.look_at(attempt, true);
        }
    }

    /// Lets an attempt that has no response yet be looked at.
    pub(super) fn look_at(&mut self, attempt: Attempt, expired: bool) {
        let Some(request) = self.requests.get(attempt.request) else { return };
        let limit = self.scenario.edges[request.edge as usize].services[request.service as usize]
            .timeouts
            .head;
        let unanswered = Unanswered {
            expired,
            late: false,
            waited: Some(self.now.since(request.sent)),
            limit,
            untouched: true,
            reason: Reason::ResponseTimeout,
        };
        self.tell(attempt.request, Heard::Unanswered(unanswered));
    }

    /// Tells the edge how busy the server of an attempt is, where it wants to know.
    fn report_utilization(&mut self, attempt: Attempt) {
        let Some(((_, service, group), station)) = self.place_of(attempt) else { return };
        if !self.groups[service][group].reports {
            return;
        }
        let utilization = Ratio::from_f64(self.stations[station].utilization(self.now));
        let request = self.requests.get(attempt.request);
        let permit = request.and_then(|request| request.machine.permit());
        permit.into_iter().for_each(|permit| permit.report_utilization(self.now, utilization));
    }

    /// The edge, service and group, and the station, of an attempt if it is the present one.
    fn place_of(&self, attempt: Attempt) -> Option<((usize, usize, usize), usize)> {
        let request = self.requests.get(attempt.request)?;
        if request.attempt != attempt.number {
            return None;
        }
        let (edge, service) = (request.edge as usize, request.service as usize);
        Some(((edge, service, usize::from(request.group)), request.station as usize))
    }
}

impl Sent {
    /// Random stream for the failure of the attempt, different for each attempt.
    fn errors(&self) -> Random {
        let attempt = u64::from(self.client.tries) << 16 | u64::from(self.attempt);
        Random::stream(self.client.work, ERRORS + attempt)
    }
}

/// The first of the streams of a request's work from which is drawn whether an attempt fails.
const ERRORS: u64 = 1 << 40;

/// A server that takes so many times as long as the fastest of its group is slow.
const SLOW: f64 = 1.5;
