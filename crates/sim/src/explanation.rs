//! The way of one request, decision by decision.
//!
//! A run is the same each time. So it is run to find which request is meant, once more to find in
//! which steps something happens to it, and once more to look at its edge before each of them.

mod way;

use std::collections::{BTreeMap, BTreeSet};

use loadline_core::time::{Duration, Instant};
use loadline_measure::record::{ExplanationRecord, LoadRecord};

use crate::{
    Scenario, Simulation,
    trace::{Fact, Outcome, Step, What},
};
use way::Way;

/// How a request is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// The one of this number: from 1, in the order in which clients first want them.
    Number(u64),
    /// The one that took longest of those that were served.
    Slowest,
    /// The first that failed.
    Failed,
}

/// There is no such request in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchRequest {
    /// The run has fewer requests.
    #[error("the run has no request {number}; its requests are 1 to {last}")]
    Number {
        /// The number that was meant.
        number: u64,
        /// The last that there is.
        last: u64,
    },
    /// None was served.
    #[error("no request of the run was served")]
    NoneServed,
    /// None failed.
    #[error("no request of the run failed")]
    NoneFailed,
}

/// The way of a request, and the run that it is of.
///
/// # Errors
/// [`NoSuchRequest`] where the run has none that is meant.
pub fn explain(
    scenario: &Scenario,
    meant: Meant,
) -> Result<(ExplanationRecord, LoadRecord), NoSuchRequest> {
    let mut found = Found::default();
    walk(scenario, &mut found);
    let number = found.number(meant)?;
    let mut steps = Steps { number, steps: BTreeSet::new() };
    walk(scenario, &mut steps);
    let mut way = Way::new(scenario, number, steps.steps);
    let run = walk(scenario, &mut way);
    Ok((way.finish(), run))
}

/// Somebody who looks at a run.
trait Visitor {
    /// A step comes next.
    fn before(&mut self, _step: u64, _run: &Simulation) {}

    /// What has happened in a step.
    fn after(&mut self, step: u64, facts: &[Fact]);
}

fn walk(scenario: &Scenario, visitor: &mut impl Visitor) -> LoadRecord {
    let mut run = Simulation::traced(scenario.clone());
    visitor.after(0, &run.facts());
    for step in 1.. {
        visitor.before(step, &run);
        let goes_on = run.step();
        visitor.after(step, &run.facts());
        if !goes_on {
            break;
        }
    }
    run.finish()
}

/// Which requests there are.
#[derive(Debug, Default)]
struct Found {
    last: u64,
    /// Since when each request now under way has been so.
    since: BTreeMap<u64, Instant>,
    slowest: Option<(Duration, u64)>,
    failed: Option<u64>,
}

impl Visitor for Found {
    fn after(&mut self, _: u64, facts: &[Fact]) {
        for Fact { at, what } in facts {
            match what {
                What::Request(number, Step::Asks { tries: 0, .. }) => {
                    self.last = *number;
                    self.since.insert(*number, *at);
                }
                What::Request(number, Step::Over(outcome)) => {
                    let since = self.since.remove(number).unwrap_or(*at);
                    self.over(*number, at.since(since), *outcome);
                }
                _ => {}
            }
        }
    }
}

impl Found {
    fn over(&mut self, number: u64, took: Duration, outcome: Outcome) {
        if outcome == Outcome::Served {
            let slower = self.slowest.is_none_or(|(slowest, _)| took > slowest);
            self.slowest = if slower { Some((took, number)) } else { self.slowest };
        } else {
            self.failed = self.failed.or(Some(number));
        }
    }

    fn number(&self, meant: Meant) -> Result<u64, NoSuchRequest> {
        match meant {
            Meant::Number(number) if (1..=self.last).contains(&number) => Ok(number),
            Meant::Number(number) => Err(NoSuchRequest::Number { number, last: self.last }),
            Meant::Slowest => self.slowest.map(|it| it.1).ok_or(NoSuchRequest::NoneServed),
            Meant::Failed => self.failed.ok_or(NoSuchRequest::NoneFailed),
        }
    }
}

/// In which steps something happens to a request.
#[derive(Debug)]
struct Steps {
    number: u64,
    steps: BTreeSet<u64>,
}

impl Visitor for Steps {
    fn after(&mut self, step: u64, facts: &[Fact]) {
        let is_of = |fact: &Fact| matches!(fact.what, What::Request(it, _) if it == self.number);
        if facts.iter().any(is_of) {
            self.steps.insert(step);
        }
    }
}
