//! Each request ends exactly once for its client; at the end nothing is in flight in any ledger,
//! and every place in a queue is given back; the record agrees with the facts. That the steps of
//! a request can follow each other is checked by the [account](crate::account) itself.

use std::collections::BTreeMap;

use loadline_sim::trace::{Fact, Outcome, Step, What};

use super::{Checker, End};
use crate::account::{Account, Stage};

#[derive(Default)]
pub(super) struct Conservation {
    served: u64,
    statuses: BTreeMap<u16, u64>,
    gave_up: u64,
    unreachable: u64,
    /// By service and group.
    sent: BTreeMap<(u32, u16), u64>,
}

impl Checker for Conservation {
    fn see(&mut self, _: &Account, fact: &Fact) -> Result<(), String> {
        match fact.what {
            What::Request(_, Step::Sent { server, .. }) => {
                *self.sent.entry((server.service, server.group)).or_default() += 1;
            }
            What::Request(_, Step::Over(outcome)) => match outcome {
                Outcome::Served => self.served += 1,
                Outcome::Status(status) => *self.statuses.entry(status).or_default() += 1,
                Outcome::GaveUp => self.gave_up += 1,
                Outcome::Unreachable => self.unreachable += 1,
            },
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, account: &Account, end: &End<'_>) -> Result<(), String> {
        let open = account.requests.iter().filter(|(_, it)| it.at != Stage::Over || it.ends != 1);
        if let Some((number, request)) = open.min_by_key(|(number, _)| **number) {
            return Err(format!("request {number} has not ended once: {request:?}"));
        }
        if !end.leaks.is_empty() {
            return Err(format!("at the end: {}", end.leaks.join(", ")));
        }
        let outcomes = &end.record.outcomes;
        let failed: u64 = self.statuses.values().sum();
        let told = (outcomes.ok, outcomes.server_error, outcomes.timeout, outcomes.connect_timeout);
        let known = (self.served, failed, self.gave_up, self.unreachable);
        if told != known || end.record.planned != account.requests.len() as u64 {
            return Err(format!("the record says {outcomes:?}, the facts {known:?}"));
        }
        self.groups(account, end)
    }
}

impl Conservation {
    fn groups(&self, account: &Account, end: &End<'_>) -> Result<(), String> {
        let Some(simulation) = &end.record.simulation else { return Err("no record".to_owned()) };
        for ((service, group), sent) in &self.sent {
            let of = account.service(*service as usize);
            let name = &of.groups[usize::from(*group)].name;
            let mut told = simulation.groups.iter();
            let told = told.find(|it| it.service == of.name && it.name == *name);
            if told.map(|it| it.requests) != Some(*sent) {
                return Err(format!("{sent} were sent to {name}, the record says {told:?}"));
            }
        }
        Ok(())
    }
}
