//! Edges that share give no group more than it may have, all together: in any second at most its
//! rate and its burst, and a request more for each edge, which has a whole one at least; in flight
//! at most its places, while every edge and the store reach each other (a request that outlives the
//! lease of its edge may be one too many). With `when_away = "keep"` both hold only while they do.
//! Services that spread are over it on purpose.

use std::collections::{HashMap, VecDeque};

use loadline_core::{
    cluster::WhenAway,
    time::{Duration, Instant},
};
use loadline_sim::{
    Scenario,
    scenario::Trouble,
    trace::{Fact, Step, What},
};

use super::Checker;
use crate::account::Account;

pub(super) struct Sharing {
    edges: usize,
    /// Whether the edges and their store always reach each other.
    is_calm: bool,
    when_away: Option<WhenAway>,
    /// When requests were sent in the last second, by service and group.
    recent: HashMap<(u32, u16), VecDeque<Instant>>,
}

impl Sharing {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let cluster = scenario.cluster.as_ref();
        let is_apart =
            |what| matches!(what, Trouble::StoreAway | Trouble::CutOff | Trouble::Outage(_));
        let is_calm = !scenario.faults.iter().any(|fault| is_apart(fault.what))
            && cluster.is_none_or(|it| it.loss == 0.0);
        let when_away = cluster.map(|it| it.settings.when_away);
        Self { edges: scenario.edges.len(), is_calm, when_away, recent: HashMap::new() }
    }
}

impl Checker for Sharing {
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String> {
        let What::Request(_, Step::Sent { server, .. }) = fact.what else { return Ok(()) };
        let Some(when_away) = self.when_away else { return Ok(()) };
        let is_judged = self.is_calm || when_away == WhenAway::Floor;
        if !is_judged || account.spreads(server.service as usize) {
            return Ok(());
        }
        let recent = self.recent.entry((server.service, server.group)).or_default();
        recent.push_back(fact.at);
        while recent.front().is_some_and(|at| fact.at.since(*at) >= SECOND) {
            recent.pop_front();
        }
        let (places, per_s) = account.group(0, server).most_of_all();
        let came = recent.len();
        if let Some(most) = per_s.filter(|most| came as f64 > most + self.edges as f64) {
            return Err(format!("{came} within a second, {most} allowed: {server:?}"));
        }
        let groups = (0..self.edges).map(|edge| account.group(edge, server));
        let in_flight = 1 + groups.map(|group| group.held.in_flight).sum::<u32>();
        match places.filter(|most| self.is_calm && in_flight > *most) {
            Some(most) => Err(format!("{in_flight} in flight, {most} allowed: {server:?}")),
            None => Ok(()),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
