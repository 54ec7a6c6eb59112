//! An account of a run, kept from its facts alone: where each request is, what each group has and
//! may have, who waits.
//!
//! What a group may have is told by `docs/configuration.md` and `docs/operation.md`: its capacity
//! times its scaler times the share of its servers that are in use; of a rate, in any window `W`,
//! `rate * W + burst` requests.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use loadline_core::{
    decide::controller::{Change, Notice},
    fleet::{Capacity, Class, Edge, Fleet, Group, Overflow, Service, Then, WhenFull},
    time::{Duration, Instant},
};
use loadline_sim::{
    Scenario,
    trace::{Fact, Place, Step, What},
};

/// What is known of a run until now.
pub(crate) struct Account {
    pub(crate) edges: Vec<Arc<Fleet>>,
    pub(crate) classes: Vec<Class>,
    /// The service of each source.
    pub(crate) asked: Vec<usize>,
    pub(crate) requests: HashMap<u64, Request>,
    /// By edge, service and group.
    pub(crate) groups: Vec<Vec<Vec<GroupAccount>>>,
    /// By edge and service: who waits, in the order in which they are to be served.
    pub(crate) queues: Vec<Vec<BTreeMap<(Class, u64), u64>>>,
    /// How many have joined a queue.
    pub(crate) joined: u64,
    /// Edges have shares of groups, of which nothing is known here but that they are together no
    /// more than the groups may have.
    pub(crate) edges_share: bool,
}

/// A request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) source: usize,
    pub(crate) service: usize,
    /// At which it is, or was last.
    pub(crate) edge: usize,
    pub(crate) at: Stage,
    /// How often it was sent to a server since it came to its edge.
    pub(crate) sends: u32,
    /// Servers that failed it there.
    pub(crate) failed: Vec<Place>,
    pub(crate) ends: u32,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stage {
    /// With its client.
    Client,
    /// At an edge that decides about it.
    Edge,
    /// In the queue of its service.
    Queue { since: Instant, until: Instant, place: (Class, u64) },
    /// It had been in the queue until now, and gave its place up.
    Displaced,
    /// With a server.
    Server(Place),
    /// Its edge is lost, and its client may not know.
    Lost,
    /// Its client is done with it.
    Over,
}

/// What an edge gives a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupAccount {
    pub(crate) held: Held,
    /// The part of its capacity that its scaler leaves.
    scaler: f64,
    /// From the edge and back.
    pub(crate) distance: Duration,
    /// Its servers that may be given requests.
    pub(crate) in_use: Vec<u16>,
    servers: Vec<Held>,
    /// How many of the servers what the file says is meant for.
    configured: usize,
    /// Since when at least the threshold of its servers is in use; none while fewer are.
    pub(crate) well_since: Option<Instant>,
    /// Whether all that limits it is known here.
    pub(crate) is_exact: bool,
    threshold: f64,
    /// When anything of it changed last.
    pub(crate) changed: Instant,
}

/// What a group or a server has of its capacity.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    capacity: Capacity,
    pub(crate) in_flight: u32,
    /// What has been given of the rate and not come back yet, in requests.
    owed: f64,
    at: Instant,
    /// The part of the capacity that it may use now.
    part: f64,
}

impl Held {
    fn new(capacity: &Capacity, part: f64) -> Self {
        Self { capacity: *capacity, in_flight: 0, owed: 0.0, at: Instant::ZERO, part }
    }

    fn per_s(&self) -> Option<f64> {
        Some((self.capacity.max_rate?.as_per_sec_f64() * self.part * 1e3 + EPS).floor() / 1e3)
    }

    pub(crate) fn max_in_flight(&self) -> Option<u32> {
        let places = f64::from(self.capacity.max_in_flight?);
        Some((places * self.part + EPS).floor().max(1.0) as u32)
    }

    fn owed(&self, now: Instant) -> f64 {
        let per_s = self.per_s().unwrap_or(0.0);
        (self.owed - per_s * now.since(self.at).as_secs_f64()).max(0.0)
    }

    /// The burst that is always granted, and the one that batches may have.
    fn bursts(&self) -> (f64, f64) {
        let default = (self.per_s().unwrap_or(0.0) / 10.0).max(12.0);
        match self.capacity.burst {
            Some(burst) => (f64::from(burst), f64::from(burst)),
            None => ((default - 0.5).floor(), (default + 0.5).max(128.0)),
        }
    }

    fn has_room(&self, now: Instant) -> bool {
        self.max_in_flight().is_none_or(|most| self.in_flight < most)
            && self.per_s().is_none_or(|_| self.owed(now) + 1.0 <= self.bursts().0 - SLACK)
    }

    /// How it is over what it may have with one request more, if it is, by more than so many
    /// requests.
    fn excess(&self, now: Instant, slack: f64) -> Option<String> {
        if let Some(most) = self.max_in_flight().filter(|most| self.in_flight >= *most) {
            return Some(format!("{} in flight, {most} allowed", self.in_flight + 1));
        }
        let per_s = self.per_s()?;
        let (owed, burst) = (self.owed(now) + 1.0, self.bursts().1);
        (owed > burst + slack)
            .then(|| format!("{owed:.2} requests over {per_s}/s, a burst of {burst} allowed"))
    }

    fn take(&mut self, now: Instant) {
        self.owed = self.owed(now) + 1.0;
        self.at = now;
        self.in_flight += 1;
    }

    fn use_part(&mut self, now: Instant, part: f64) {
        self.owed = self.owed(now);
        (self.at, self.part) = (now, part);
    }
}

impl GroupAccount {
    fn new(edge: &Edge, service: &Service, group: &Group) -> Self {
        let scaler = group.scaler.as_f64();
        let first = group.servers.iter().filter(|it| it.weight > 0).map(|it| it.priority).min();
        let configured =
            group.servers.iter().filter(|it| Some(it.priority) == first && it.weight > 0);
        let limited = |it: &Capacity| it.max_utilization.is_some();
        let auto = group.finds_limit() || limited(&group.capacity);
        let is_placed = group.rtt.is_some() || group.region == edge.region;
        let servers = group.servers.iter();
        Self {
            held: Held::new(&group.capacity, 0.0),
            scaler,
            distance: group.rtt.unwrap_or_default(),
            in_use: Vec::new(),
            configured: configured.count(),
            is_exact: is_placed && !auto && !servers.clone().any(|it| limited(&it.capacity)),
            servers: servers.map(|it| Held::new(&it.capacity, scaler)).collect(),
            well_since: None,
            threshold: service.failover_threshold.as_f64(),
            changed: Instant::ZERO,
        }
    }

    /// The most that all edges together may have in flight, and give it in a second, while all of
    /// its servers are in use.
    pub(crate) fn most_of_all(&self) -> (Option<u32>, Option<f64>) {
        let held = Held { part: self.scaler, ..self.held.clone() };
        (held.max_in_flight(), held.per_s().map(|per_s| per_s + held.bursts().1))
    }

    /// Whether a request finds room that these servers have not failed.
    pub(crate) fn has_room(&self, now: Instant, failed: &[Place]) -> bool {
        let tried = |server: &&u16| failed.iter().any(|it| it.server == **server);
        self.held.has_room(now)
            && self
                .in_use
                .iter()
                .filter(|server| !tried(server))
                .any(|server| self.servers[usize::from(*server)].has_room(now))
    }

    /// How it, or the server, would be over what it may have with one request more.
    pub(crate) fn excess(&self, now: Instant, server: u16, share: bool) -> Option<String> {
        // However small its share, an edge has a whole request.
        let slack = if share { 1.0 + SLACK } else { SLACK };
        let of_server = || self.servers[usize::from(server)].excess(now, slack);
        self.held.excess(now, slack).or_else(|| Some(format!("its server: {}", of_server()?)))
    }

    fn plan(&mut self, now: Instant, servers: Vec<u16>) {
        let healthy = servers.len().min(self.configured) as f64;
        let part = healthy / self.configured.max(1) as f64;
        // While nobody is in use what was given comes back as before.
        if part > 0.0 {
            self.held.use_part(now, self.scaler * part);
        }
        self.in_use = servers;
        let is_well = part + EPS >= self.threshold && part > 0.0;
        self.well_since = is_well.then(|| self.well_since.unwrap_or(now));
        self.changed = now;
    }

    fn take(&mut self, now: Instant, server: u16) {
        self.held.take(now);
        self.servers[usize::from(server)].take(now);
        self.changed = now;
    }

    fn give_back(&mut self, now: Instant, server: u16) {
        let server = &mut self.servers[usize::from(server)];
        server.in_flight = server.in_flight.saturating_sub(1);
        self.held.in_flight = self.held.in_flight.saturating_sub(1);
        self.changed = now;
    }
}

impl Account {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let groups = |fleet: &Arc<Fleet>| {
            let services = fleet.services.iter();
            services
                .map(|it| {
                    it.groups
                        .iter()
                        .map(|group| GroupAccount::new(&fleet.edge, it, group))
                        .collect()
                })
                .collect()
        };
        let queues = |fleet: &Arc<Fleet>| vec![BTreeMap::new(); fleet.services.len()];
        Self {
            edges: scenario.edges.clone(),
            classes: scenario.sources.iter().map(|source| source.class).collect(),
            asked: scenario.sources.iter().map(|source| source.service).collect(),
            requests: HashMap::new(),
            groups: scenario.edges.iter().map(groups).collect(),
            queues: scenario.edges.iter().map(queues).collect(),
            joined: 0,
            edges_share: scenario.cluster.is_some(),
        }
    }

    pub(crate) fn service(&self, service: usize) -> &Service {
        &self.edges[0].services[service]
    }

    /// Whether a service ever sends over the capacity of its groups.
    pub(crate) fn spreads(&self, service: usize) -> bool {
        let rule = self.service(service).when_full;
        matches!(rule, WhenFull::Spread | WhenFull::Queue { then: Then::Spread, .. })
    }

    /// Whether all that limits a service is known here.
    pub(crate) fn is_known(&self, service: usize) -> bool {
        !self.edges_share
            && self
                .groups
                .iter()
                .flat_map(|services| &services[service])
                .all(|group| group.is_exact)
    }

    /// Whether it goes by capacity alone, besides.
    pub(crate) fn is_exact(&self, service: usize) -> bool {
        self.service(service).overflow == Overflow::Capacity && self.is_known(service)
    }

    pub(crate) fn group(&self, edge: usize, place: Place) -> &GroupAccount {
        &self.groups[edge][place.service as usize][usize::from(place.group)]
    }

    fn group_mut(&mut self, edge: usize, place: Place) -> &mut GroupAccount {
        &mut self.groups[edge][place.service as usize][usize::from(place.group)]
    }

    /// Takes in a fact; what of it cannot be, if anything.
    pub(crate) fn apply(&mut self, fact: &Fact) -> Result<(), String> {
        match &fact.what {
            What::Request(number, step) => self.step(fact.at, *number, *step),
            What::Planned { edge, service, groups } => {
                let known = &mut self.groups[*edge as usize][*service as usize];
                for (index, group) in known.iter_mut().enumerate() {
                    let planned = groups.iter().find(|(at, _)| usize::from(*at) == index);
                    group.plan(fact.at, planned.map_or(Vec::new(), |(_, all)| all.clone()));
                }
                Ok(())
            }
            What::Noticed { .. } | What::Checked { .. } => Ok(()),
        }
    }

    fn step(&mut self, now: Instant, number: u64, step: Step) -> Result<(), String> {
        if let Step::Asks { source, edge, tries } = step {
            return self.asks(number, (source as usize, edge, tries));
        }
        let Some(request) = self.requests.get(&number) else {
            return Err(format!("request {number} does something before it comes: {step:?}"));
        };
        let (edge, stage) = (request.edge, request.at);
        let next = self.next(now, number, step)?;
        if let Stage::Queue { place, .. } = stage {
            self.queues[edge][self.requests[&number].service].remove(&place);
        }
        if let Stage::Server(place) = stage {
            self.group_mut(edge, place).give_back(now, place.server);
        }
        let class = self.classes[self.requests[&number].source];
        let request = self.requests.get_mut(&number).ok_or("it is gone")?;
        match (step, stage) {
            (Step::Sent { .. }, _) => request.sends += 1,
            (Step::Failed(_) | Step::Response(500..), Stage::Server(place)) => {
                request.failed.push(place);
            }
            (Step::Over(_), _) => request.ends += 1,
            _ => {}
        }
        request.at = next;
        if let Stage::Queue { since, until, .. } = next {
            self.joined += 1;
            let place = (class, self.joined);
            request.at = Stage::Queue { since, until, place };
            let service = request.service;
            self.queues[edge][service].insert(place, number);
        }
        if let Stage::Server(place) = next {
            self.group_mut(edge, place).take(now, place.server);
        }
        Ok(())
    }

    fn asks(&mut self, number: u64, asks: (usize, Option<u32>, u32)) -> Result<(), String> {
        let (source, edge, tries) = asks;
        let service = self.asked[source];
        let new = Request {
            source,
            service,
            edge: edge.unwrap_or(0) as usize,
            at: Stage::Edge,
            sends: 0,
            failed: Vec::new(),
            ends: 0,
        };
        let before = self.requests.insert(number, new);
        match (before, tries) {
            (None, 0) => Ok(()),
            (Some(before), 1..) if before.at == Stage::Client => Ok(()),
            (before, _) => Err(format!("request {number} comes anew, try {tries}: {before:?}")),
        }
    }

    /// Where a step leads a request, if it can take it.
    fn next(&self, now: Instant, number: u64, step: Step) -> Result<Stage, String> {
        let at = self.requests[&number].at;
        let next = match (at, step) {
            (Stage::Edge, Step::Queued(until)) => {
                Some(Stage::Queue { since: now, until, place: (Class::High, 0) })
            }
            (Stage::Edge | Stage::Queue { .. } | Stage::Displaced, Step::Sent { server, .. }) => {
                Some(Stage::Server(server))
            }
            (Stage::Queue { .. }, Step::Displaced) => Some(Stage::Displaced),
            (Stage::Server(_), Step::Response(_) | Step::Failed(_)) => Some(Stage::Edge),
            (Stage::Edge | Stage::Queue { .. } | Stage::Displaced, Step::Refused(..)) => {
                Some(Stage::Edge)
            }
            (Stage::Queue { .. } | Stage::Server(_), Step::GivesUp) => Some(Stage::Edge),
            (Stage::Queue { .. } | Stage::Server(_), Step::Lost) => Some(Stage::Lost),
            (Stage::Lost, Step::GivesUp) => Some(Stage::Edge),
            (Stage::Edge | Stage::Lost, Step::Retries) => Some(Stage::Client),
            (Stage::Edge | Stage::Lost, Step::Over(_)) => Some(Stage::Over),
            _ => None,
        };
        next.ok_or_else(|| format!("request {number} cannot do {step:?}: it is {at:?}"))
    }
}

/// The server that a notice says is out, and how long.
pub(crate) fn ejection(notice: &Notice) -> Option<(std::net::SocketAddr, Duration)> {
    match &notice.change {
        Change::Ejected(server, time, _)
        | Change::Outlier(server, time, _)
        | Change::Silent(server, time) => Some((*server, *time)),
        _ => None,
    }
}

/// Of numbers that are not rounded alike.
const EPS: f64 = 1e-6;

/// In requests: what rounding of intervals to whole nanoseconds may add up to.
const SLACK: f64 = 0.05;
