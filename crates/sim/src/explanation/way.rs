//! What happens to one request, and what its edge knows just before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loadline_core::{
    decide::{census::Condition, plan::Plan},
    fleet::{Fleet, ServerAddress},
    state::{Group, Part, Server, State},
    time::{Duration, Instant},
};
use loadline_measure::record::{ExplainedGroup, ExplainedServer, ExplainedStep, ExplanationRecord};

use super::Visitor;
use crate::{
    Scenario, Simulation,
    trace::{Fact, Outcome, Place, Step, What},
};

/// The way of a request, as far as the run has come.
pub(super) struct Way<'s> {
    scenario: &'s Scenario,
    number: u64,
    /// Steps in which something happens to it.
    steps: BTreeSet<u64>,
    /// By edge, service and group: when requests were sent to it, of the last second.
    sent: BTreeMap<(u32, u32, u16), VecDeque<Instant>>,
    /// Edge of each request under way.
    edges: BTreeMap<u64, u32>,
    /// The services of all edges before the present step.
    states: Vec<State>,
    record: ExplanationRecord,
    began: Option<Instant>,
    service: u32,
}

impl<'s> Way<'s> {
    pub(super) fn new(scenario: &'s Scenario, number: u64, steps: BTreeSet<u64>) -> Self {
        let record =
            ExplanationRecord { request: number, seed: scenario.seed, ..Default::default() };
        Self {
            scenario,
            number,
            steps,
            sent: BTreeMap::new(),
            edges: BTreeMap::new(),
            states: Vec::new(),
            record,
            began: None,
            service: 0,
        }
    }

    pub(super) fn finish(self) -> ExplanationRecord {
        self.record
    }

    fn fleet(&self, edge: u32) -> &'s Fleet {
        &self.scenario.edges[edge as usize]
    }

    /// The edge it comes in at.
    fn edge(&self) -> u32 {
        self.edges.get(&self.number).copied().unwrap_or_default()
    }

    fn happens(&mut self, at: Instant, step: Step) {
        if let Step::Asks { source, tries: 0, .. } = step {
            let of = &self.scenario.sources[source as usize];
            (self.began, self.service) = (Some(at), of.service as u32);
            self.record.at = at.since(Instant::ZERO);
            self.record.source.clone_from(&of.name);
            let services = &self.fleet(of.edge as u32).services;
            self.record.service.clone_from(&services[of.service].name);
        }
        let after = at.since(self.began.unwrap_or(at));
        self.record.took = after;
        let chosen = match step {
            Step::Sent { server, .. } => Some(server),
            _ => None,
        };
        let decided = matches!(step, Step::Sent { .. } | Step::Queued(_) | Step::Refused(..));
        let groups = if decided { self.groups(at, chosen) } else { Vec::new() };
        self.record.steps.push(ExplainedStep { after, what: self.words(at, step), groups });
    }

    fn groups(&self, at: Instant, chosen: Option<Place>) -> Vec<ExplainedGroup> {
        let Some(state) = self.states.get(self.edge() as usize) else { return Vec::new() };
        let Some(service) = state.services.get(self.service as usize) else { return Vec::new() };
        service.groups.iter().map(|group| self.group(at, group, chosen)).collect()
    }

    fn group(&self, at: Instant, group: &Group, chosen: Option<Place>) -> ExplainedGroup {
        let of = &self.fleet(self.edge()).services[self.service as usize].groups;
        let index = of.iter().position(|it| it.name == group.name).unwrap_or_default() as u16;
        let recent = self.sent.get(&(self.edge(), self.service, index));
        let within = |sent: &&Instant| at.since(**sent) < SECOND;
        let chosen = chosen.filter(|place| place.group == index);
        let picked = chosen.map(|place| {
            let server = &of[usize::from(index)].servers[usize::from(place.server)];
            ServerAddress(server.address).to_string()
        });
        let server = |it: &Server| ExplainedServer {
            address: it.address.clone(),
            ready: is_ready(it),
            in_flight: it.load.in_flight,
            chosen: picked.as_ref() == Some(&it.address),
        };
        let all = group.servers.iter();
        ExplainedGroup {
            name: group.name.clone(),
            distance_ms: group.distance_ms,
            ready: all.clone().filter(|it| is_ready(it)).count() as u32,
            servers: group.servers.len() as u32,
            in_flight: group.load.in_flight,
            max_in_flight: group.limits.in_flight,
            last_second: recent.map_or(0, |sent| sent.iter().filter(within).count() as u32),
            max_rate_per_s: group.limits.rate_per_s,
            chosen: chosen.is_some(),
            candidates: if chosen.is_some() { all.map(server).collect() } else { Vec::new() },
        }
    }

    /// What happens, in words.
    fn words(&self, at: Instant, step: Step) -> String {
        match step {
            Step::Asks { edge: None, .. } => "finds no edge that it can reach".to_owned(),
            Step::Asks { edge: Some(edge), tries, .. } => {
                let region = &self.fleet(edge).edge.region;
                match tries {
                    0 => format!("comes to the edge in {region}"),
                    _ => {
                        format!("comes to the edge in {region} once more, attempt {}", tries + 1)
                    }
                }
            }
            Step::Hit => "is answered from the cache of its edge".to_owned(),
            Step::Joined => "waits for what another request fetches for the cache".to_owned(),
            Step::Queued(until) => format!("waits for capacity, for at most {}", until.since(at)),
            Step::Displaced => "loses its place in the queue to one of a higher class".to_owned(),
            Step::Sent { server, overflow } => {
                let group = &self.fleet(self.edge()).services[server.service as usize].groups
                    [usize::from(server.group)];
                let address = ServerAddress(group.servers[usize::from(server.server)].address);
                let past = if overflow { ", past nearer groups" } else { "" };
                format!("is sent to {address} of {}{past}", group.name)
            }
            Step::Response(status) => format!("gets a response from its server: {status}"),
            Step::Failed(reason) => format!("gets no response from its server: {reason}"),
            Step::Refused(status, None) => format!("is refused with {status}"),
            Step::Refused(status, Some(reason)) => format!("is refused with {status}: {reason}"),
            Step::Lost => "is lost with its edge".to_owned(),
            Step::GivesUp => "its client waits no longer".to_owned(),
            Step::Retries => "its client will send it once more".to_owned(),
            Step::Over(Outcome::Served) => "is served".to_owned(),
            Step::Over(Outcome::Status(status)) => format!("has failed with {status}"),
            Step::Over(Outcome::GaveUp) => "has failed: its client waited long enough".to_owned(),
            Step::Over(Outcome::Unreachable) => "has failed: no edge could be reached".to_owned(),
        }
    }

    /// Remembers what is sent where, for a second.
    fn sent(&mut self, at: Instant, number: u64, server: Place) {
        let edge = self.edges.get(&number).copied().unwrap_or_default();
        let sent = self.sent.entry((edge, server.service, server.group)).or_default();
        sent.push_back(at);
        while sent.front().is_some_and(|first| at.since(*first) >= SECOND) {
            sent.pop_front();
        }
    }
}

impl Visitor for Way<'_> {
    fn before(&mut self, step: u64, run: &Simulation) {
        if self.steps.contains(&step) {
            let state = |plan: &Plan| {
                State::of_services(plan, 0..plan.services.len(), Part::Servers, run.now())
            };
            self.states = run.plans().map(state).collect();
        }
    }

    fn after(&mut self, _: u64, facts: &[Fact]) {
        for Fact { at, what } in facts {
            let What::Request(number, step) = *what else { continue };
            if let Step::Asks { edge: Some(edge), .. } = step {
                self.edges.insert(number, edge);
            }
            if number == self.number {
                self.happens(*at, step);
            }
            match step {
                Step::Sent { server, .. } => self.sent(*at, number, server),
                Step::Over(_) if number != self.number => drop(self.edges.remove(&number)),
                _ => {}
            }
        }
    }
}

fn is_ready(server: &Server) -> bool {
    matches!(server.condition, Condition::Up | Condition::Unchecked)
}

const SECOND: Duration = Duration::from_secs(1);
