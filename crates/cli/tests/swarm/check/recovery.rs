//! After every fault has ended, a service returns to where it was: as many requests at its edges,
//! as many failures, the same shares of its groups. It must, where
//!
//! - what comes is steady (constant or Poisson arrivals of one rate), so that there is a where;
//! - what comes is at most [`LOAD_MAX`] of what servers and limits can do, so that what has piled
//!   up goes away; attempts, of clients too, are bounded in every case;
//! - service times have a spread that can be averaged, and limits are numbers (what servers report
//!   or what is found is left out);
//! - the run goes on for long enough after the last fault: [`settles`].

use std::collections::BTreeMap;

use loadline_core::{
    fleet::{Group, Service},
    time::{Duration, Instant},
};
use loadline_sim::{
    Arrivals, OutageKind, Scenario, ServiceTime, Spacing,
    scenario::{Fault, ServerModel, Trouble},
    trace::{Fact, Outcome, Step, What},
};

use super::{Checker, End};
use crate::account::Account;

pub(super) struct Recovery {
    /// The time before the faults, and that after them.
    spans: Option<[(Instant, Instant); 2]>,
    /// For which services it must hold.
    held: Vec<bool>,
    under_way: Vec<u64>,
    /// By service and span.
    counts: BTreeMap<(usize, usize), Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    came: u64,
    /// Sum over those that came of how many were under way.
    under_way: u64,
    over: u64,
    failed: u64,
    sent: BTreeMap<u16, u64>,
}

impl Recovery {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let services = &scenario.edges[0].services;
        let held: Vec<bool> =
            (0..services.len()).map(|service| must_return(scenario, service)).collect();
        let under_way = vec![0; services.len()];
        Self { spans: spans(scenario), held, under_way, counts: BTreeMap::new() }
    }

    fn counts(&mut self, service: usize, now: Instant) -> Option<&mut Counts> {
        let spans = self.spans?;
        let span = spans.iter().position(|(from, to)| *from <= now && now < *to)?;
        self.held[service].then(|| self.counts.entry((service, span)).or_default())
    }
}

impl Checker for Recovery {
    fn see(&mut self, account: &Account, fact: &Fact) -> Result<(), String> {
        let What::Request(number, step) = fact.what else { return Ok(()) };
        let service = match step {
            Step::Asks { source, .. } => account.asked[source as usize],
            _ => account.requests.get(&number).map_or(0, |request| request.service),
        };
        let under_way = self.under_way[service];
        match step {
            Step::Asks { tries: 0, .. } => self.under_way[service] += 1,
            Step::Over(_) => self.under_way[service] = under_way.saturating_sub(1),
            _ => {}
        }
        let Some(counts) = self.counts(service, fact.at) else { return Ok(()) };
        match step {
            Step::Asks { tries: 0, .. } => {
                counts.came += 1;
                counts.under_way += under_way;
            }
            Step::Over(outcome) => {
                counts.over += 1;
                counts.failed += u64::from(outcome != Outcome::Served);
            }
            Step::Sent { server, .. } => *counts.sent.entry(server.group).or_default() += 1,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, account: &Account, _: &End<'_>) -> Result<(), String> {
        for service in 0..account.groups[0].len() {
            let [before, after] =
                [0, 1].map(|span| self.counts.get(&(service, span)).cloned().unwrap_or_default());
            if before.came < ENOUGH || after.came < ENOUGH {
                continue;
            }
            if let Some(what) = differ(&before, &after) {
                let name = &account.service(service).name;
                return Err(format!("service {name} is not as before the fault: {what}"));
            }
        }
        Ok(())
    }
}

/// How what came after differs from what was before.
fn differ(before: &Counts, after: &Counts) -> Option<String> {
    let part = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    let under_way = [before, after].map(|it| part(it.under_way, it.came));
    if under_way[1] > under_way[0] * 1.6 + 4.0 {
        return Some(format!("{under_way:.1?} requests under way"));
    }
    let failed = [before, after].map(|it| part(it.failed, it.over));
    let noise = 4.0 * (failed[0] * (1.0 - failed[0]) / ENOUGH as f64).sqrt();
    if failed[1] > failed[0] + noise + 0.03 {
        return Some(format!("{failed:.3?} of them fail"));
    }
    let all = [before, after].map(|it| it.sent.values().sum::<u64>());
    for group in before.sent.keys().chain(after.sent.keys()) {
        let share = |of: &Counts, all| part(of.sent.get(group).copied().unwrap_or(0), all);
        let shares = [share(before, all[0]), share(after, all[1])];
        if (shares[0] - shares[1]).abs() > 0.2 {
            return Some(format!("group {group} gets {shares:.2?} of them"));
        }
    }
    None
}

/// A span before the faults and one after them, where there is time for both.
fn spans(scenario: &Scenario) -> Option<[(Instant, Instant); 2]> {
    let end = Instant::ZERO + scenario.lasts;
    let begin = scenario.faults.iter().map(|fault| fault.at).min()?;
    let over: Option<Vec<Instant>> = scenario.faults.iter().map(Fault::end).collect();
    let over = over?.into_iter().max()?;
    let settled = over + settles(scenario, over.since(begin));
    let starts = Instant::ZERO + Duration::from_secs(2);
    let before = (starts, begin);
    (begin > starts + Duration::from_secs(3) && settled + Duration::from_secs(3) < end)
        .then_some([before, (settled, end)])
}

/// How long after faults that took so long a service may need: for what has piled up, for servers
/// that are ejected, checked, and slow to start.
fn settles(scenario: &Scenario, faults: Duration) -> Duration {
    let services = scenario.edges[0].services.iter();
    let out = services.clone().filter_map(|it| it.ejection.map(|rules| rules.time_max)).max();
    let slow = services.map(|it| it.slow_start).max().unwrap_or_default();
    let steady = Duration::from_secs(8);
    // The longest time out needs a number of ejections in a row, so that it is not longer than
    // all of them together, which is not longer than the faults and one more.
    let out = out.unwrap_or_default().min(faults * 2 + Duration::from_secs(2));
    steady + out + slow + faults * 2 + silent(scenario)
}

/// How long requests stay that a server will not respond to though it is back.
fn silent(scenario: &Scenario) -> Duration {
    let is_silent = |what| matches!(what, Trouble::Outage(OutageKind::Unreachable));
    let heads = scenario.edges[0].services.iter().map(|service| service.timeouts.head);
    let longest = heads.max().unwrap_or_default();
    let any = scenario.faults.iter().any(|fault| is_silent(fault.what));
    if any { longest } else { Duration::ZERO }
}

/// Whether a service must return to where it was.
fn must_return(scenario: &Scenario, service: usize) -> bool {
    let of = &scenario.edges[0].services[service];
    let sources = || scenario.sources.iter().filter(|source| source.service == service);
    let mut demand = 0.0;
    for source in sources() {
        let Arrivals::Open { spacing: Spacing::Constant | Spacing::Poisson, stages } =
            &source.arrivals
        else {
            return false;
        };
        let [stage] = &stages[..] else { return false };
        if stage.from != stage.to {
            return false;
        }
        demand += stage.from.as_per_sec_f64();
    }
    let mut edges: Vec<usize> = sources().map(|source| source.edge).collect();
    edges.sort_unstable();
    edges.dedup();
    let moves = scenario.faults.iter().any(|fault| matches!(fault.what, Trouble::Outage(_)));
    // Edges that share servers know nothing of each other.
    if edges.len() != 1 || (moves && scenario.edges.len() > 1) {
        return false;
    }
    let fleet = &scenario.edges[edges[0]].services[service];
    let capacities: Option<Vec<f64>> =
        fleet.groups.iter().map(|group| capacity(scenario, of, group)).collect();
    let capacity: f64 = capacities.map_or(0.0, |all| all.iter().sum());
    demand <= LOAD_MAX * capacity
}

/// Requests per second that a group can serve; none where that cannot be said.
fn capacity(scenario: &Scenario, service: &Service, group: &Group) -> Option<f64> {
    if group.finds_limit()
        || !group.capacity.is_written() && !group.servers[0].capacity.is_written()
    {
        return None;
    }
    let rtt = group.rtt.unwrap_or_default().as_secs_f64();
    let scaler = group.scaler.as_f64();
    let mut all = 0.0;
    for server in &group.servers {
        let names = (group.name.as_str(), group.region.as_str());
        let mut models = scenario.servers.iter().rev();
        let model = models.find(|(of, _)| of.fits(&service.name, names, server.address));
        let time = mean(&model?.1)?;
        let real = f64::from(model?.1.cores) / time;
        let rate = server.capacity.max_rate.map_or(real, |rate| rate.as_per_sec_f64() * scaler);
        let places = server
            .capacity
            .max_in_flight
            .map_or(real, |places| (f64::from(places) * scaler).floor().max(1.0) / (time + rtt));
        let here = server.capacity.max_utilization.is_none() && server.weight > 0;
        all += if here { real.min(rate).min(places) } else { 0.0 };
    }
    if group.capacity.max_utilization.is_some() {
        return None;
    }
    let time = scenario.servers.iter().filter_map(|(_, model)| mean(model)).fold(0.0, f64::max);
    let rate = group.capacity.max_rate.map_or(all, |rate| rate.as_per_sec_f64() * scaler);
    let places = group
        .capacity
        .max_in_flight
        .map_or(all, |places| (f64::from(places) * scaler).floor().max(1.0) / (time + rtt));
    Some(all.min(rate).min(places))
}

/// The mean time of a request, in seconds, where it can be averaged.
fn mean(model: &ServerModel) -> Option<f64> {
    let mean = match &model.time {
        ServiceTime::Constant(mean) | ServiceTime::Exponential { mean } => *mean,
        _ => return None,
    };
    (model.pauses.is_none() && model.queue.is_none()).then(|| mean.as_secs_f64())
}

/// The part of the capacity that may come.
const LOAD_MAX: f64 = 0.65;

/// Requests in a span of which a mean means something.
const ENOUGH: u64 = 200;
