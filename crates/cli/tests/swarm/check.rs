//! What must be true of every run. Each checker knows the facts and the [account](crate::account)
//! that is kept of them, and nothing of the code that decides.

mod budget;
mod conservation;
mod flapping;
mod health;
mod nearest;
mod queue;
mod recovery;
mod retry;
mod sharing;

use loadline_core::{decide::plan::Plan, time::Instant};
use loadline_measure::record::LoadRecord;
use loadline_sim::{Scenario, trace::Fact};

use crate::account::Account;

/// One promise.
pub(crate) trait Checker {
    /// Sees a fact before the account has it.
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String>;

    /// All until then has been seen, and nothing happens until `now`.
    fn pass(&mut self, _account: &Account, _now: Instant) -> Result<(), String> {
        Ok(())
    }

    /// The run is over.
    fn end(&mut self, _account: &Account, _end: &End<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// How a run ended.
pub(crate) struct End<'a> {
    pub(crate) record: &'a LoadRecord,
    /// Of each edge, what was counted in flight of groups and servers, and in queues, that was not
    /// given back.
    pub(crate) leaks: Vec<String>,
}

/// What is still held in the ledger behind a plan.
pub(crate) fn leaks(plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    for (service, of) in plan.services.iter().zip(&plan.fleet.services) {
        if service.state().queued() > 0 {
            found.push(format!("{} places in the queue of {}", service.state().queued(), of.name));
        }
        for (group, named) in service.census.iter().zip(&of.groups) {
            let name = &named.name;
            if group.state.in_flight() > 0 {
                found.push(format!("{} in flight in {name}", group.state.in_flight()));
            }
            let servers = group.servers.iter().filter(|server| server.state.in_flight() > 0);
            found.extend(servers.map(|server| format!("{} in flight", server.state.address())));
        }
    }
    found
}

/// All promises, each by its name.
pub(crate) fn all(scenario: &Scenario) -> Vec<(&'static str, Box<dyn Checker>)> {
    vec![
        ("budget", Box::new(budget::Budget)),
        ("nearest first", Box::new(nearest::Nearest)),
        ("queue", Box::new(queue::Queue::default())),
        ("health", Box::new(health::Health::of(scenario))),
        ("retries", Box::new(retry::Retries::of(scenario))),
        ("conservation", Box::new(conservation::Conservation::default())),
        ("flapping", Box::new(flapping::Flapping::of(scenario))),
        ("recovery", Box::new(recovery::Recovery::of(scenario))),
        ("sharing", Box::new(sharing::Sharing::of(scenario))),
    ]
}
