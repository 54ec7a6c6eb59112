//! Health checks, and everything else that a controller wants done.

use std::sync::Arc;

use loadline_core::{
    decide::{
        controller::{Input, Passed},
        ledger::ServerState,
        permit::Permit,
    },
    fleet::Probe,
    time::{Duration, Instant},
};

use crate::{
    edge::{CheckOrder, Outputs},
    events::{Attempt, Event},
    simulation::Simulation,
    slab::Handle,
    station::OutageKind,
    trace::{Place, What},
};

/// A health check on its way.
#[derive(Debug)]
pub(super) struct Check {
    edge: usize,
    server: Place,
    /// Held until it ends, so that its number is given to no other server.
    state: Arc<ServerState>,
    passed: Result<Passed, String>,
}

impl Simulation {
    pub(super) fn tick(&mut self, edge: usize) {
        let outputs = self.edges[edge].handle(self.now, Input::Tick);
        self.follow(edge, outputs);
    }

    pub(super) fn checked(&mut self, check: Handle) {
        let Some(check) = self.checks.remove(check) else { return };
        let Check { edge, server, state, passed } = check;
        let what = || What::Checked { edge: edge as u32, server, passed: passed.is_ok() };
        self.trace.note(self.now, what);
        let outputs =
            self.edges[edge].handle(self.now, Input::Checked { server: state.id(), passed });
        self.follow(edge, outputs);
    }

    /// Does what a controller wants done.
    pub(super) fn follow(&mut self, edge: usize, outputs: Outputs) {
        for notice in outputs.notices {
            let noticed = || What::Noticed { edge: edge as u32, notice: notice.clone() };
            self.trace.note(self.now, noticed);
            self.observer.notice(self.now, edge, notice);
        }
        for order in outputs.checks {
            self.check(edge, order);
        }
        if let Some(at) = outputs.tick {
            self.events.plan(at.max(self.now), Event::Ticks { edge: edge as u32 });
        }
        if outputs.published {
            self.trace.planned(self.now, edge, &self.edges[edge].plan);
            self.look_anew(edge);
        }
    }

    /// Has requests look at a new plan: the first of each queue, and those at a server that hangs.
    fn look_anew(&mut self, edge: usize) {
        for service in 0..self.edges[edge].queues.len() {
            self.notify(edge, service);
        }
        let hangs = self.requests.iter().filter(|(_, request)| {
            request.edge as usize == edge && request.machine.permit().is_some_and(Permit::hangs)
        });
        let attempt = |(handle, request): (Handle, &super::Request)| Attempt {
            request: handle,
            number: request.attempt,
        };
        let waiting: Vec<Attempt> = hangs.map(attempt).collect();
        waiting.into_iter().for_each(|attempt| self.look_at(attempt, false));
    }

    fn check(&mut self, edge: usize, order: CheckOrder) {
        let CheckOrder { place: (service, group, server), check, state } = order;
        let station = self.groups[service][group].stations[server] as usize;
        let round_trip = self.way(edge, service, group) + self.way(edge, service, group);
        let asks_a_program = !matches!(check.probe, Probe::Tcp | Probe::Ping);
        let (after, passed) = self.try_server(station, round_trip, asks_a_program);
        let (after, passed) = match after {
            Some(after) if after <= check.timeout => (after, passed),
            _ => (check.timeout, Err("no response in time".to_owned())),
        };
        let (service, group, server) = (service as u32, group as u16, server as u16);
        let server = Place { service, group, server };
        let check = self.checks.insert(Check { edge, server, state, passed });
        self.events.plan(self.now + after, Event::Checked(check));
    }

    /// What a check of a server finds, and after how long; none where it hears nothing.
    fn try_server(
        &self,
        station: usize,
        round_trip: Duration,
        asks_a_program: bool,
    ) -> (Option<Duration>, Result<Passed, String>) {
        let reaches: Instant = self.now + round_trip / 2;
        let station = &self.stations[station];
        match station.outage(reaches).map(|outage| outage.kind) {
            Some(OutageKind::Unreachable) => return (None, Err(String::new())),
            Some(OutageKind::Down) => return (Some(round_trip), Err("connection refused".into())),
            None => {}
        }
        let wait = if asks_a_program { station.wait(reaches) } else { Duration::ZERO };
        let works = station.end(reaches + wait, Duration::from_nanos(1));
        let whole = match (asks_a_program, works) {
            (true, None) => return (None, Err(String::new())),
            (true, Some(end)) => round_trip + end.since(reaches),
            (false, _) => round_trip,
        };
        (Some(whole), Ok(Passed { round_trip, whole }))
    }
}
