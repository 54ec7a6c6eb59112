//! Edges that share the capacity of groups.

use std::collections::VecDeque;

use loadline_core::{
    cluster::{
        Share,
        observe::{observations, shared_services},
        participant::Observation,
    },
    decide::controller::Input,
    time::{Duration, Instant},
};
use loadline_measure::record::LoadRecord;

use crate::{
    cluster::{Cluster, ClusterRun, Edges},
    events::Event,
    scenario::Scenario,
    simulation::Simulation,
};

/// What a run of edges that share has come to.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Everything else.
    pub record: LoadRecord,
    /// By service and group: the most requests that came to its servers within any second.
    pub busiest: Vec<Vec<u64>>,
    /// Reports and tables that were written to the store.
    pub written: u64,
}

impl Simulation {
    /// A scenario at its beginning whose edges share the capacity of groups.
    #[must_use]
    pub fn shared(scenario: Scenario, cluster: Cluster) -> Self {
        let services = scenario.edges.first().map(|fleet| shared_services(fleet));
        let (edges, seed) = (scenario.edges.len(), scenario.seed);
        let mut simulation = Self::new(scenario);
        simulation.busiest = Some(Busiest::new(&simulation.scenario));
        let services = services.unwrap_or_default();
        let run = ClusterRun::new(cluster, edges, services, seed, &mut simulation);
        simulation.keep(run);
        simulation
    }

    /// Runs to the end, and says what happened.
    #[must_use]
    pub fn run_shared(mut self) -> Sharing {
        while self.step() {}
        let written = self.cluster.as_ref().map_or(0, |cluster| cluster.store().written());
        let busiest = self.busiest.take().map_or_else(Vec::new, |busiest| busiest.most);
        Sharing { record: self.finish(), busiest, written }
    }

    /// Lets participants and the store do what is due.
    pub(super) fn run_cluster(&mut self) {
        let Some(mut cluster) = self.cluster.take() else { return };
        let now = self.now;
        cluster.advance(now, self);
        self.keep(cluster);
    }

    fn keep(&mut self, cluster: ClusterRun) {
        let next = cluster.next().map(|at| at.max(self.now));
        next.into_iter().for_each(|at| self.events.plan(at, Event::Shares));
        self.cluster = Some(cluster);
    }
}

impl Edges for Simulation {
    fn observe(&mut self, _: Instant, edge: usize) -> Vec<Observation> {
        let plan = &self.edges[edge].plan;
        let plans = plan.services.iter().map(|plan| &**plan);
        observations(&plan.fleet, plans)
    }

    fn share(&mut self, now: Instant, edge: usize, place: (&str, &str), share: Share) {
        let (service, group) = (place.0.to_owned(), place.1.to_owned());
        let outputs = self.edges[edge].handle(now, Input::Share { service, group, share });
        self.follow(edge, outputs);
    }

    fn until(&mut self, now: Instant, edge: usize, until: Option<Instant>) {
        let outputs = self.edges[edge].handle(now, Input::SharesUntil(until));
        self.follow(edge, outputs);
    }
}

/// The most that came within any second, by service and group.
#[derive(Debug)]
pub(super) struct Busiest {
    /// When requests came in the last second.
    recent: Vec<Vec<VecDeque<Instant>>>,
    most: Vec<Vec<u64>>,
}

impl Busiest {
    fn new(scenario: &Scenario) -> Self {
        let services = scenario.edges.first().map_or(&[][..], |fleet| &fleet.services);
        let groups = || services.iter().map(|service| service.groups.len());
        Self {
            recent: groups().map(|groups| vec![VecDeque::new(); groups]).collect(),
            most: groups().map(|groups| vec![0; groups]).collect(),
        }
    }

    pub(super) fn reached(&mut self, now: Instant, service: usize, group: usize) {
        let recent = &mut self.recent[service][group];
        recent.push_back(now);
        while recent.front().is_some_and(|at| now.since(*at) >= SECOND) {
            recent.pop_front();
        }
        let most = &mut self.most[service][group];
        *most = (*most).max(recent.len() as u64);
    }
}

const SECOND: Duration = Duration::from_secs(1);
