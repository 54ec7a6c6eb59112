//! Retries: no more attempts of a request than the service allows, none to a server that has failed
//! it, and in all no more than `budget` of the requests and `min_rate`. A refused connection costs
//! nothing.

use std::collections::{HashMap, HashSet};

use loadline_core::decide::reason::Reason;
use loadline_sim::{
    Scenario,
    trace::{Fact, Step, What},
};

use super::Checker;
use crate::account::Account;

pub(super) struct Retries {
    /// By edge and service.
    counts: HashMap<(usize, usize), Counts>,
    /// Requests whose last attempt failed at no cost.
    free: HashSet<u64>,
}

#[derive(Default)]
struct Counts {
    requests: u64,
    retries: u64,
}

impl Retries {
    pub(super) fn of(_: &Scenario) -> Self {
        Self { counts: HashMap::new(), free: HashSet::new() }
    }

    fn sent(&mut self, account: &Account, fact: &Fact, number: u64) -> Result<(), String> {
        let request = &account.requests[&number];
        let rules = &account.service(request.service).retry;
        if request.sends > rules.attempts {
            let attempts = request.sends + 1;
            return Err(format!("request {number} is sent {attempts} times: {rules:?}"));
        }
        if self.free.remove(&number) {
            return Ok(());
        }
        let counts = self.counts.entry((request.edge, request.service)).or_default();
        counts.retries += 1;
        let seconds = fact.at.as_nanos() as f64 / 1e9 + 1.0;
        let always = rules.min_rate.as_per_sec_f64() * seconds;
        let most = counts.requests as f64 * rules.budget.as_f64() + always + 1.0;
        if counts.retries as f64 > most {
            let Counts { requests, retries } = counts;
            return Err(format!("{retries} retries of {requests} requests: at most {most:.0}"));
        }
        Ok(())
    }
}

impl Checker for Retries {
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String> {
        let What::Request(number, step) = fact.what else { return Ok(()) };
        match step {
            Step::Asks { source, edge: Some(edge), .. } => {
                let service = account.asked[source as usize];
                self.counts.entry((edge as usize, service)).or_default().requests += 1;
                self.free.remove(&number);
                Ok(())
            }
            Step::Failed(Reason::ConnectionRefused) => {
                self.free.insert(number);
                Ok(())
            }
            Step::Failed(_) | Step::Response(_) => {
                self.free.remove(&number);
                Ok(())
            }
            Step::Sent { server, .. } => {
                let Some(request) = account.requests.get(&number) else { return Ok(()) };
                if request.failed.contains(&server) {
                    return Err(format!("request {number} is sent to {server:?} again"));
                }
                if request.sends == 0 { Ok(()) } else { self.sent(account, fact, number) }
            }
            _ => Ok(()),
        }
    }
}
