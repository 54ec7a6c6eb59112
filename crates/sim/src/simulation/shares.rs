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
    cluster::{Cluster, ClusterFault, ClusterRun, ClusterTrouble, Edges},
    events::Event,
    scenario::{Fault, Scenario, Trouble},
    simulation::Simulation,
    station::OutageKind,
};

/// What a run of edges that share has come to.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// The record of the run.
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
        let mut simulation = Self::new(Scenario { cluster: Some(cluster), ..scenario });
        simulation.busiest = Some(Busiest::new(&simulation.scenario));
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

    /// Lets the edges begin to share, where they do.
    pub(super) fn begin_sharing(&mut self) {
        let Some(mut cluster) = self.scenario.cluster.clone() else { return };
        let more: Vec<_> = self.scenario.faults.iter().flat_map(|it| self.of_sharing(it)).collect();
        cluster.faults.extend(more);
        let services = self.scenario.edges.first().map(|fleet| shared_services(fleet));
        let (edges, seed) = (self.scenario.edges.len(), self.scenario.seed);
        let run = ClusterRun::new(cluster, edges, services.unwrap_or_default(), seed, self);
        self.keep(run);
    }

    /// What a fault is for the sharing.
    fn of_sharing(&self, fault: &Fault) -> Vec<ClusterFault> {
        let here = |edge: &usize| self.scenario.edges[*edge].edge.region.as_str();
        let edges = |is_hit: &dyn Fn(&str) -> bool, what: fn(usize) -> ClusterTrouble| {
            let all = 0..self.scenario.edges.len();
            all.filter(|edge| is_hit(here(edge))).map(what).collect()
        };
        let whats: Vec<ClusterTrouble> = match fault.what {
            Trouble::StoreAway => vec![ClusterTrouble::StoreAway],
            Trouble::CutOff => {
                let of = fault.whom.region.as_deref();
                edges(&|here| of.is_none_or(|of| of == here), ClusterTrouble::CutOff)
            }
            Trouble::Outage(OutageKind::Down) => {
                edges(&|here| fault.takes_out(here), ClusterTrouble::Killed)
            }
            Trouble::Outage(OutageKind::Unreachable) => {
                edges(&|here| fault.takes_out(here), ClusterTrouble::CutOff)
            }
            _ => Vec::new(),
        };
        let (at, lasts) = (fault.at, fault.lasts.unwrap_or(FOR_EVER));
        whats.into_iter().map(|what| ClusterFault { at, lasts, what }).collect()
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
        let services = scenario.services();
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

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

const SECOND: Duration = Duration::from_secs(1);
