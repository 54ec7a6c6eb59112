//! Runs an experiment, and says of it what the lab's generator says of a run.

use std::{collections::BTreeMap, net::SocketAddr};

use loadline_core::{
    time::{Duration, Instant},
    units::Count,
};
use loadline_measure::record::LoadRecord;
use loadline_sim::{
    Simulation,
    trace::{Outcome, Step, What},
};

use super::scenario::Experiment;

/// What became of the requests of an experiment.
pub(super) fn run(experiment: &Experiment, load: &loadline_load::LoadPlan) -> LoadRecord {
    let mut seen = Seen::default();
    let mut simulation = Simulation::traced(experiment.scenario.clone());
    let is_done = |seen: &Seen| experiment.requests.is_some_and(|all| seen.ended >= all);
    while !is_done(&seen) && simulation.step() {
        for fact in simulation.facts() {
            if let What::Request(number, step) = fact.what {
                seen.note(fact.at, number, step, experiment);
            }
        }
    }
    let distance = experiment.scenario.sources.first().map_or(Duration::ZERO, |it| it.distance);
    let record = simulation.finish();
    let start = Instant::ZERO + experiment.lead;
    let elapsed = (seen.last.since(start) + distance).max(Duration::from_nanos(1));
    let by_header = if load.count_by.is_some() { seen.served_by } else { BTreeMap::new() };
    LoadRecord {
        target: "simulation".to_owned(),
        model: load.model(),
        elapsed,
        achieved: Count::new(record.outcomes.ok) / elapsed,
        by_header,
        // A simulated generator is never late.
        service: record.response.clone(),
        ..record
    }
}

/// What is known of the requests so far.
#[derive(Default)]
struct Seen {
    ended: u64,
    last: Instant,
    /// Where each was sent last.
    sent: BTreeMap<u64, SocketAddr>,
    served_by: BTreeMap<String, u64>,
}

impl Seen {
    fn note(&mut self, at: Instant, number: u64, step: Step, experiment: &Experiment) {
        match step {
            Step::Sent { server, .. } => {
                let group = &experiment.scenario.edges[0].services[server.service as usize].groups
                    [usize::from(server.group)];
                self.sent.insert(number, group.servers[usize::from(server.server)].address);
            }
            Step::Over(outcome) => {
                self.ended += 1;
                self.last = self.last.max(at);
                let served = self.sent.remove(&number).filter(|_| outcome == Outcome::Served);
                if let Some(name) = served.and_then(|server| experiment.names.get(&server)) {
                    *self.served_by.entry(name.clone()).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}
