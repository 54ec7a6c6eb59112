//! Runs a case and checks it.

use std::{collections::VecDeque, env, path::Path};

use loadline_sim::{Scenario, Simulation};

use crate::{
    account::Account,
    case::{Case, read},
    check::{self, Checker, End},
};

/// What was found.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// Of which promise.
    pub(crate) checker: &'static str,
    pub(crate) what: String,
}

/// How much was tried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) events: u64,
}

/// Runs a case as it is read from its files. None where they cannot be read.
pub(crate) fn run(
    case: &Case,
    dir: &Path,
    name: &str,
) -> Result<Result<Totals, Violation>, String> {
    let (file, traffic) = case.write(dir, name);
    Ok(simulate(read((&file, &traffic))?))
}

fn simulate(scenario: Scenario) -> Result<Totals, Violation> {
    let mut account = Account::of(&scenario);
    let mut checkers = check::all(&scenario);
    let mut run = Simulation::traced(scenario);
    let mut seen = None;
    let shown = env::var("FACTS").map_or(0, |said| said.parse().unwrap());
    let mut recent = VecDeque::new();
    loop {
        for fact in run.facts() {
            if shown > 0 {
                recent.push_back(fact.clone());
                recent.drain(..recent.len().saturating_sub(shown));
            }
            let at = |(checker, what): (&'static str, String)| {
                recent.iter().for_each(|fact| println!("{fact:?}"));
                let what =
                    format!("at {}: {what}", fact.at.since(loadline_core::time::Instant::ZERO));
                Violation { checker, what }
            };
            if seen != Some(fact.at) {
                all(&mut checkers, |checker| checker.pass(&account, fact.at)).map_err(at)?;
            }
            seen = Some(fact.at);
            all(&mut checkers, |checker| checker.see(&account, &fact)).map_err(at)?;
            account.apply(&fact).map_err(|what| at(("conservation", what)))?;
        }
        if !run.step() {
            break;
        }
    }
    let leaks = run.plans().flat_map(check::leaks).collect();
    let record = run.finish();
    let end = End { record: &record, leaks };
    let ended = all(&mut checkers, |checker| checker.end(&account, &end));
    ended.map_err(|(checker, what)| Violation { checker, what })?;
    let events = record.simulation.as_ref().map_or(0, |simulation| simulation.events);
    Ok(Totals { requests: account.requests.len() as u64, events })
}

fn all(
    checkers: &mut [(&'static str, Box<dyn Checker>)],
    mut ask: impl FnMut(&mut dyn Checker) -> Result<(), String>,
) -> Result<(), (&'static str, String)> {
    for (name, checker) in checkers {
        ask(&mut **checker).map_err(|what| (*name, what))?;
    }
    Ok(())
}
