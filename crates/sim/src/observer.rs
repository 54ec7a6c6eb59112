//! Counts what happens: as a load generator does, and by group.

mod model;

use std::{
    collections::{BTreeMap, HashMap},
    mem,
};

use loadline_core::{
    decide::{controller::Notice, plan::Plan, reason::Reason},
    state::{self, Part, State},
    time::{Duration, Instant},
    units::Count,
};
use loadline_measure::{
    record::{
        Generator, GroupMoment, LoadRecord, Moment, Outcomes, SimulatedGroup, SimulatedNotice,
        SimulatedSource, SimulationRecord, Spreads,
    },
    statistics::Times,
};

use crate::{notice, scenario::Scenario};
use model::model;

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Observer {
    warm_up: Instant,
    outcomes: Outcomes,
    /// Without those since the last point of the timeline.
    response: Times,
    service: Times,
    /// Of failures.
    statuses: BTreeMap<u16, u64>,
    reasons: BTreeMap<Reason, u64>,
    queued: u64,
    retries: u64,
    last_response: Instant,
    sources: Vec<SourceTally>,
    /// By service and group.
    groups: Vec<Vec<GroupTally>>,
    moments: Vec<Moment>,
    /// Since the last point of the timeline.
    moment: Moment,
    recent: Times,
    sampled: Instant,
    notices: Vec<SimulatedNotice>,
    edges: Vec<String>,
    /// What a group may be given is what all edges may give it, not what each may.
    edges_share: bool,
}

/// How a request failed for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this status.
    Status(u16),
    /// It waited no longer.
    GaveUp,
    /// There was no edge that it could reach.
    Unreachable,
}

#[derive(Debug)]
struct SourceTally {
    outcomes: Outcomes,
    response: Times,
}

#[derive(Debug)]
struct GroupTally {
    requests: u64,
    overflowed: u64,
    /// Since the last point of the timeline.
    recent: u64,
    /// By server.
    servers: Vec<u64>,
    found_busy: u64,
    to_slow: u64,
    moments: Vec<GroupMoment>,
}

impl Observer {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let services = scenario.services();
        let group = |servers| GroupTally {
            requests: 0,
            overflowed: 0,
            recent: 0,
            servers: vec![0; servers],
            found_busy: 0,
            to_slow: 0,
            moments: Vec::new(),
        };
        let groups = services.iter().map(|service| {
            let groups = service.groups.iter();
            groups.map(|it| group(it.servers.len())).collect()
        });
        let source =
            |_| SourceTally { outcomes: Outcomes::default(), response: Times::new(DIGITS) };
        Self {
            warm_up: Instant::ZERO + scenario.warm_up,
            outcomes: Outcomes::default(),
            response: Times::new(DIGITS),
            service: Times::new(DIGITS),
            statuses: BTreeMap::new(),
            reasons: BTreeMap::new(),
            queued: 0,
            retries: 0,
            last_response: Instant::ZERO,
            sources: scenario.sources.iter().map(source).collect(),
            groups: groups.collect(),
            moments: Vec::new(),
            moment: Moment::default(),
            recent: Times::new(DIGITS),
            sampled: Instant::ZERO,
            notices: Vec::new(),
            edges: scenario.edges.iter().map(|fleet| fleet.edge.region.clone()).collect(),
            edges_share: scenario.cluster.is_some(),
        }
    }

    /// Whether a request counts that a client wanted first at that time.
    pub(crate) fn counts(&self, since: Instant) -> bool {
        since >= self.warm_up
    }

    pub(crate) fn came(&mut self, since: Instant) {
        if self.counts(since) {
            self.moment.planned += 1;
        }
    }

    /// A request waits for capacity.
    pub(crate) fn queued(&mut self, since: Instant) {
        self.queued += u64::from(self.counts(since));
    }

    /// A client tries once more.
    pub(crate) fn retried(&mut self, since: Instant) {
        self.retries += u64::from(self.counts(since));
    }

    /// An edge has failed a request.
    pub(crate) fn refused(&mut self, since: Instant, reason: Option<Reason>) {
        if let Some(reason) = reason.filter(|_| self.counts(since)) {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// A request was sent to a server.
    pub(crate) fn sent(&mut self, since: Instant, place: (usize, usize, usize), overflow: bool) {
        let (service, group, server) = place;
        let counts = self.counts(since);
        let tally = &mut self.groups[service][group];
        tally.recent += 1;
        if counts {
            tally.requests += 1;
            tally.overflowed += u64::from(overflow);
            tally.servers[server] += 1;
        }
    }

    /// A request has come to a server, whose cores are all busy, or which is slow.
    pub(crate) fn reached(
        &mut self,
        since: Instant,
        (service, group): (usize, usize),
        (is_busy, is_slow): (bool, bool),
    ) {
        if self.counts(since) {
            let tally = &mut self.groups[service][group];
            tally.found_busy += u64::from(is_busy);
            tally.to_slow += u64::from(is_slow);
        }
    }

    /// A client has its response.
    pub(crate) fn answered(
        &mut self,
        source: usize,
        (since, now): (Instant, Instant),
        (response, service): (Duration, Duration),
    ) {
        if !self.counts(since) {
            return;
        }
        self.last_response = now;
        self.service.record(service);
        self.recent.record(response);
        self.sources[source].response.record(response);
        self.count(source, |outcomes| &mut outcomes.ok);
    }

    /// A client has failed. After its plan a run goes on for responses alone: who waits in vain
    /// makes it no longer.
    pub(crate) fn failed(&mut self, source: usize, (since, now): (Instant, Instant), how: Ended) {
        if !self.counts(since) {
            return;
        }
        match how {
            Ended::Status(status) => {
                self.last_response = now;
                *self.statuses.entry(status).or_default() += 1;
                self.count(source, |outcomes| &mut outcomes.server_error);
            }
            Ended::GaveUp => self.count(source, |outcomes| &mut outcomes.timeout),
            Ended::Unreachable => self.count(source, |outcomes| &mut outcomes.connect_timeout),
        }
    }

    /// A request is under way at the end.
    pub(crate) fn cut_off(&mut self, source: usize, since: Instant) {
        if self.counts(since) {
            self.count(source, |outcomes| &mut outcomes.cut_off);
        }
    }

    fn count(&mut self, source: usize, class: impl Fn(&mut Outcomes) -> &mut u64) {
        *class(&mut self.outcomes) += 1;
        *class(&mut self.moment.outcomes) += 1;
        *class(&mut self.sources[source].outcomes) += 1;
    }

    pub(crate) fn notice(&mut self, now: Instant, edge: usize, notice: Notice) {
        self.notices.push(SimulatedNotice {
            at: now.since(Instant::ZERO),
            edge: self.edges[edge].clone(),
            what: notice::text(&notice.change),
            service: notice.service,
            group: notice.group,
        });
    }

    /// A point of the timeline.
    pub(crate) fn sample<'a>(
        &mut self,
        now: Instant,
        in_flight: u64,
        plans: impl Iterator<Item = &'a Plan>,
    ) {
        self.sample_groups(now, plans);
        self.sample_requests(now, in_flight);
    }

    fn sample_requests(&mut self, now: Instant, in_flight: u64) {
        let at = now.since(Instant::ZERO);
        self.sampled = now;
        // What has come at this instant counts, and is of the next point.
        if now <= self.warm_up {
            return;
        }
        let latency = self.recent.latency();
        let moment = mem::take(&mut self.moment);
        self.moments.push(Moment {
            at,
            in_flight,
            mean: latency.mean,
            p50: latency.p50,
            p99: latency.p99,
            max: latency.max,
            ..moment
        });
        self.response.add(&self.recent);
        self.recent.reset();
    }

    fn sample_groups<'a>(&mut self, now: Instant, plans: impl Iterator<Item = &'a Plan>) {
        let (at, seconds) = (now.since(Instant::ZERO), now.since(self.sampled).as_secs_f64());
        for group in self.groups.iter_mut().flatten() {
            let rate_per_s = mem::take(&mut group.recent) as f64 / seconds;
            group.moments.push(GroupMoment { at, rate_per_s, ..GroupMoment::default() });
        }
        for plan in plans {
            let all = 0..plan.services.len();
            let state = State::of_services(plan, all, Part::Groups, now);
            for (service, (state, of)) in
                state.services.iter().zip(&plan.fleet.services).enumerate()
            {
                let names = of.groups.iter().map(|group| group.name.as_str());
                let places: HashMap<&str, usize> = names.zip(0..).collect();
                for group in &state.groups {
                    let place = places.get(group.name.as_str());
                    let tally = place.and_then(|place| self.groups[service].get_mut(*place));
                    if let Some(moment) = tally.and_then(|tally| tally.moments.last_mut()) {
                        add_group(moment, group, self.edges_share);
                    }
                }
            }
        }
    }

    /// The last point of the groups. What is shorter than half a step is joined with the point
    /// before it, for a rate over an instant says nothing.
    fn end_groups(&mut self, now: Instant, step: Duration) {
        let rest = now.since(self.sampled);
        if rest >= step / 2 || self.sampled == Instant::ZERO {
            return self.sample_groups(now, std::iter::empty());
        }
        let (step, rest) = (step.as_secs_f64(), rest.as_secs_f64());
        for group in self.groups.iter_mut().flatten() {
            let recent = mem::take(&mut group.recent) as f64;
            if let Some(last) = group.moments.last_mut() {
                last.rate_per_s = (last.rate_per_s * step + recent) / (step + rest);
            }
        }
    }

    /// What became of the run.
    pub(crate) fn finish(mut self, scenario: &Scenario, now: Instant, events: u64) -> LoadRecord {
        let last = self.sampled.since(Instant::ZERO);
        self.statuses.extend((self.outcomes.ok > 0).then_some((200, self.outcomes.ok)));
        if now.since(Instant::ZERO) > last {
            self.end_groups(now, scenario.step);
            self.sample_requests(now, 0);
        }
        self.response.add(&self.recent);
        let lasts = scenario.lasts.saturating_sub(scenario.warm_up);
        let elapsed = self.last_response.since(self.warm_up).max(lasts);
        let response = self.response.latency();
        let simulation = self.simulation(scenario, events);
        let load = LoadRecord {
            target: "simulation".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            model: model(scenario, self.outcomes.total(), lasts),
            elapsed,
            planned: self.outcomes.total(),
            outcomes: self.outcomes,
            achieved: Count::new(self.outcomes.ok) / elapsed,
            response,
            service: self.service.latency(),
            spreads: Spreads {
                response: self.response.spread(),
                service: self.service.spread(),
                ..Spreads::default()
            },
            moments: self.moments,
            statuses: self.statuses,
            generator: Generator { cpu_share: 0.0, sent_share: 1.0, faults: Vec::new() },
            simulation: Some(Box::new(simulation)),
            ..LoadRecord::default()
        };
        LoadRecord { response_of_all: load.response_of_all(), ..load }
    }

    fn simulation(&mut self, scenario: &Scenario, events: u64) -> SimulationRecord {
        let services = scenario.services();
        let sources =
            scenario.sources.iter().zip(&self.sources).map(|(source, tally)| SimulatedSource {
                name: source.name.clone(),
                edge: self.edges[source.edge].clone(),
                service: services[source.service].name.clone(),
                outcomes: tally.outcomes,
                response: tally.response.latency(),
            });
        let groups = services.iter().zip(mem::take(&mut self.groups));
        let groups = groups.flat_map(|(service, tallies)| {
            let groups = service.groups.iter().zip(tallies);
            groups.map(|(group, tally)| SimulatedGroup {
                service: service.name.clone(),
                name: group.name.clone(),
                region: group.region.clone(),
                requests: tally.requests,
                overflowed: tally.overflowed,
                peak_per_s: tally.moments.iter().map(|it| it.rate_per_s).fold(0.0, f64::max),
                imbalance: imbalance(&tally.servers),
                found_busy: tally.found_busy,
                to_slow: tally.to_slow,
                moments: tally.moments,
            })
        });
        let reasons = self.reasons.iter();
        SimulationRecord {
            seed: scenario.seed,
            edges: self.edges.clone(),
            sources: sources.collect(),
            groups: groups.collect(),
            reasons: reasons.map(|(reason, count)| (reason.to_string(), *count)).collect(),
            queued: self.queued,
            client_retries: self.retries,
            notices: mem::take(&mut self.notices),
            caches: Vec::new(),
            store_writes: None,
            events,
        }
    }
}

/// Adds what an edge has of a group, and may give it.
fn add_group(moment: &mut GroupMoment, group: &state::Group, edges_share: bool) {
    moment.in_flight += u64::from(group.load.in_flight);
    let (rate, places) = (group.limits.rate_per_s, group.limits.in_flight.map(u64::from));
    if edges_share {
        add(&mut moment.max_rate_per_s, rate);
        add(&mut moment.max_in_flight, places);
    } else {
        moment.max_rate_per_s = moment.max_rate_per_s.or(rate);
        moment.max_in_flight = moment.max_in_flight.or(places);
    }
}

fn add<T: std::ops::Add<Output = T> + Copy>(sum: &mut Option<T>, more: Option<T>) {
    *sum = sum.zip(more).map(|(sum, more)| sum + more).or(*sum).or(more);
}

/// The most of one server over the mean of all.
fn imbalance(servers: &[u64]) -> f64 {
    let all: u64 = servers.iter().sum();
    let most = servers.iter().max().copied().unwrap_or(0);
    if all == 0 { 0.0 } else { most as f64 * servers.len() as f64 / all as f64 }
}

/// Significant digits of all times.
const DIGITS: u8 = 3;
