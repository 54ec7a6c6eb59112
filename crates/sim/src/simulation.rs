//! The run: takes one event after another until every request has ended.

mod cache;
mod checks;
mod clients;
mod directed;
mod faults;
mod lookahead;
mod machine;
mod probes;
mod servers;
mod shares;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use loadline_core::{
    decide::{plan::Plan, queue::Position, request::Machine},
    fleet::{Fleet, Group, PolicyKind, Server, Service},
    time::{Duration, Instant},
};
use loadline_measure::record::LoadRecord;

use crate::{
    arrivals::{Arrivals, Clock, listed_times},
    cache::EdgeCache,
    cluster::ClusterRun,
    edge::{Distance, Edge},
    events::{Event, Events},
    observer::Observer,
    random::Random,
    scenario::{Scenario, ServerModel},
    slab::{Handle, Slab},
    station::Station,
    trace::{Fact, Trace},
};
use checks::Check;
pub use directed::{Director, Servers};
use probes::Probe;
use shares::Busiest;
pub use shares::Sharing;

/// A scenario on its way.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    now: Instant,
    events: Events,
    edges: Vec<Edge>,
    stations: Vec<Station>,
    /// By service and group.
    groups: Vec<Vec<GroupStations>>,
    sources: Vec<Clients>,
    requests: Slab<Request>,
    /// By request and number, attempts under way to their servers for which nobody waits any more.
    strays: BTreeMap<(Handle, u16), Sent>,
    /// By edge; empty where none has any.
    caches: Vec<Option<EdgeCache>>,
    /// Clients that wait before they try once more.
    retries: Slab<Client>,
    checks: Slab<Check>,
    probes: Slab<Probe>,
    /// Requests that are to poll the queue in which they wait.
    woken: VecDeque<Handle>,
    observer: Observer,
    trace: Trace,
    director: Option<Box<dyn Director>>,
    /// Where edges share capacity.
    cluster: Option<ClusterRun>,
    busiest: Option<Busiest>,
    /// For policies, and for the ways.
    random: Random,
    /// How many clients have wanted something.
    wanted: u64,
    happened: u64,
    /// The day of the calendar up to which is known what is needed next.
    looked_ahead: u64,
}

/// The servers of a group.
#[derive(Debug)]
struct GroupStations {
    /// The station of each, in the order of the file.
    stations: Vec<u32>,
    /// Whether an edge wants to know how busy they are.
    reports: bool,
    /// Shortest service time of its fastest server, in seconds.
    pace: f64,
    /// Whether its policy asks servers for their load.
    probes: bool,
}

/// The clients of one source.
#[derive(Debug)]
struct Clients {
    /// The edge at which they come in now.
    edge: Option<usize>,
    /// From their own edge to that one and back.
    detour: Duration,
    clock: Option<Clock>,
    /// How many of the listed arrivals have come.
    listed: usize,
    random: Random,
    came: u64,
    /// Users of a closed loop that are there, and how many there should be.
    users: u32,
    wanted_users: u32,
}

/// A client with one request.
#[derive(Clone, Copy, Debug)]
struct Client {
    source: u32,
    /// From 1, in the order in which clients first want them.
    number: u64,
    /// When the client first sent it.
    since: Instant,
    /// How often it has tried before.
    tries: u32,
    key: u64,
    /// Seed of the work of its request.
    work: u64,
}

/// A request at an edge.
#[derive(Debug)]
struct Request {
    machine: Machine,
    client: Client,
    /// Whether its response is stored in the cache of its edge.
    fetches: bool,
    /// Whether its client has gone, and it goes on for the cache.
    abandoned: bool,
    /// Whether the present attempt has yet to reach its server.
    under_way: bool,
    edge: u32,
    service: u32,
    /// When the present attempt was sent, and how many there were before.
    sent: Instant,
    attempt: u16,
    /// Where it was sent.
    group: u16,
    station: u32,
    /// When its server's response or its end is due; none where nobody can say.
    due: Option<Instant>,
    position: Option<Position>,
    /// When it has stood in the queue for as long as it may.
    until: Instant,
    /// When it polls its queue without being woken.
    timer: Option<Instant>,
}

/// An attempt as it was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    client: Client,
    service: u32,
    group: u16,
    attempt: u16,
    station: u32,
}

/// What is still to be known of a request whose response has come.
#[derive(Clone, Copy, Debug)]
struct Answered {
    client: Client,
    fetches: bool,
    abandoned: bool,
    edge: u32,
    sent: Instant,
}

impl Request {
    fn answered(&self) -> Answered {
        let Self { client, fetches, abandoned, edge, sent, .. } = *self;
        Answered { client, fetches, abandoned, edge, sent }
    }

    /// The present attempt.
    fn as_sent(&self) -> Sent {
        let Self { client, service, group, attempt, station, .. } = *self;
        Sent { client, service, group, attempt, station }
    }
}

impl Simulation {
    /// A scenario at its beginning.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        Self::begin(scenario, Trace::default())
    }

    /// The same, which tells what happens: [`Simulation::facts`].
    #[must_use]
    pub fn traced(scenario: Scenario) -> Self {
        let trace = Trace::of(scenario.edges.len());
        Self::begin(scenario, trace)
    }

    fn begin(scenario: Scenario, trace: Trace) -> Self {
        let (stations, groups) = stations(&scenario);
        let caches = cache::caches(&scenario);
        let observer = Observer::new(&scenario);
        let random = Random::stream(scenario.seed, u64::MAX);
        let mut simulation = Self {
            now: Instant::ZERO,
            events: Events::default(),
            edges: Vec::new(),
            stations,
            groups,
            sources: Vec::new(),
            requests: Slab::default(),
            strays: BTreeMap::new(),
            caches,
            retries: Slab::default(),
            checks: Slab::default(),
            probes: Slab::default(),
            woken: VecDeque::new(),
            observer,
            trace,
            director: None,
            cluster: None,
            busiest: None,
            random,
            wanted: 0,
            happened: 0,
            looked_ahead: 0,
            scenario,
        };
        simulation.start();
        simulation.begin_sharing();
        simulation
    }

    fn start(&mut self) {
        self.plan_faults();
        for index in 0..self.scenario.edges.len() {
            let fleet = self.scenario.edges[index].clone();
            let (edge, outputs) = Edge::start(&fleet, self.distances(&fleet));
            self.trace.planned(self.now, index, &edge.plan);
            self.edges.push(edge);
            self.follow(index, outputs);
        }
        for index in 0..self.scenario.sources.len() {
            let source = &self.scenario.sources[index];
            let mut random = Random::stream(self.scenario.seed, index as u64);
            let factors = self.scenario.traffic_factors(source);
            let mut listed = None;
            let clock = match &source.arrivals {
                Arrivals::Open { spacing, stages } => {
                    Some(Clock::new(*spacing, stages, self.scenario.lasts, &factors))
                }
                Arrivals::Listed(times) if !factors.is_empty() => {
                    let times = listed_times(times, &factors, &mut random);
                    listed = Some(Arrivals::Listed(times.into()));
                    None
                }
                Arrivals::Closed { .. } | Arrivals::Listed(_) => None,
            };
            self.sources.push(Clients {
                edge: Some(source.edge),
                detour: Duration::ZERO,
                clock,
                listed: 0,
                random,
                came: 0,
                users: 0,
                wanted_users: 0,
            });
            listed.into_iter().for_each(|it| self.scenario.sources[index].arrivals = it);
            self.plan_first_arrivals(index);
        }
        self.events.plan(Instant::ZERO + self.scenario.step, Event::Sample);
    }

    /// How far each group is from an edge.
    fn distances(&self, fleet: &Fleet) -> Vec<Vec<Distance>> {
        let to = |group: &Group| {
            let link = self.scenario.link_between(&fleet.edge.region, &group.region);
            let rtt = link.and_then(|link| link.rtt).or(group.rtt).unwrap_or_default();
            Distance { rtt, jitter: link.map_or(Duration::ZERO, |link| link.jitter) }
        };
        let services = fleet.services.iter();
        services.map(|service| service.groups.iter().map(to).collect()).collect()
    }

    /// Runs to the end, and says what happened.
    #[must_use]
    pub fn run(mut self) -> LoadRecord {
        while self.step() {}
        self.finish()
    }

    /// Lets the next thing happen; false where the run is over.
    pub fn step(&mut self) -> bool {
        let Some((at, event)) = self.events.next() else { return false };
        if self.is_over(at) {
            return false;
        }
        self.now = at;
        self.happened += 1;
        if self.stations.len() > FEW && self.events.day() != self.looked_ahead {
            self.look_ahead();
        }
        self.happen(event);
        while let Some(request) = self.woken.pop_front() {
            self.poll(request);
        }
        true
    }

    /// What has happened until now.
    #[must_use]
    pub fn finish(mut self) -> LoadRecord {
        let requests = self.requests.iter().filter(|(_, request)| !request.abandoned);
        let under_way = requests.map(|(_, request)| request.client);
        for client in under_way.chain(self.retries.iter().map(|(_, client)| *client)) {
            self.observer.cut_off(client.source as usize, client.since);
        }
        let mut record = self.observer.finish(&self.scenario, self.now, self.happened);
        if let Some(simulation) = &mut record.simulation {
            let caches = self.caches.into_iter().flatten();
            simulation.caches = caches.map(|cache| cache.finish(self.now)).collect();
            simulation.store_writes = self.cluster.map(|cluster| cluster.store().written());
        }
        record
    }

    /// The time of the run.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What has happened since this was last asked; nothing unless the run is traced.
    pub fn facts(&mut self) -> Vec<Fact> {
        self.trace.take()
    }

    /// The plans in force, one an edge, with what is counted in their ledgers.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.edges.iter().map(|edge| &*edge.plan)
    }

    fn is_over(&self, at: Instant) -> bool {
        let end = Instant::ZERO + self.scenario.lasts;
        let idle = self.requests.len() + self.retries.len() == 0;
        at > end && (idle || at > end + LONGEST_END)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrival { source } => self.arrival(source as usize),
            Event::Retry(client) => self.try_again(client),
            Event::Reaches(attempt) => self.reaches(attempt),
            Event::Departs { station, version } => self.departs(station as usize, version),
            Event::Responds(attempt, status) => self.responds(attempt, status),
            Event::Resets(attempt, refused) => self.resets(attempt, refused),
            Event::Expires(attempt) => self.expires(attempt),
            Event::GivesUp(request) => self.gives_up(request),
            Event::Overdue(request) => self.overdue(request),
            Event::Asks(request) => self.asks(request),
            Event::Ticks { edge } => self.tick(edge as usize),
            Event::Checked(check) => self.checked(check),
            Event::Probe(probe) => self.probed(probe),
            Event::Fault { index, begins } => self.fault(index as usize, begins),
            Event::Shares => self.run_cluster(),
            Event::Sample => self.sample(),
        }
    }

    fn sample(&mut self) {
        let in_flight = self.requests.len() as u64;
        let plans = self.edges.iter().map(|edge| &*edge.plan);
        self.observer.sample(self.now, in_flight, plans);
        self.caches.iter_mut().flatten().for_each(|cache| cache.sample(self.now));
        self.events.plan(self.now + self.scenario.step, Event::Sample);
    }
}

/// A station for each address, and which stations each group has.
fn stations(scenario: &Scenario) -> (Vec<Station>, Vec<Vec<GroupStations>>) {
    let services = scenario.services();
    let default = Arc::new(ServerModel::default());
    let mut known: BTreeMap<SocketAddr, u32> = BTreeMap::new();
    let mut stations = Vec::new();
    let mut of_group = |service: &Service, group: &Group| {
        let mut pace = f64::INFINITY;
        let mut station = |server: &Server, probes: bool| {
            let station = *known.entry(server.address).or_insert_with(|| {
                let model = scenario.model_of((service, group), server.address);
                let model = model.unwrap_or(&default);
                let mut station = Station::new(model);
                if let Some(antagonist) = model.antagonist {
                    let stream = ANTAGONISTS + stations.len() as u64;
                    let random = &mut Random::stream(scenario.seed, stream);
                    station.rare_mut().speed.share(
                        antagonist,
                        Instant::ZERO + scenario.lasts * 2,
                        random,
                    );
                }
                station.warm_up(Instant::ZERO);
                stations.push(station);
                stations.len() as u32 - 1
            });
            if probes {
                stations[station as usize].watch();
            }
            pace = pace.min(stations[station as usize].best_pace);
            station
        };
        let servers = || group.servers.iter();
        let capacities = servers().map(|server| &server.capacity).chain([&group.capacity]);
        let is_managed = service.policy == PolicyKind::Managed && service.manager.uses_reports();
        let reports = is_managed || capacities.into_iter().any(|it| it.max_utilization.is_some());
        let probes = service.policy == PolicyKind::Prequal;
        let stations = servers().map(|server| station(server, probes)).collect();
        GroupStations { stations, reports, pace, probes }
    };
    let groups = services.iter().map(|service| {
        let groups = service.groups.iter();
        groups.map(|group| of_group(service, group)).collect()
    });
    let groups = groups.collect();
    (stations, groups)
}

/// Their streams of random numbers are behind those of the sources' requests.
const ANTAGONISTS: u64 = 1 << 62;

/// So many servers and what is known of them stay in the caches.
const FEW: usize = 5_000;

/// How long after the last arrival requests may end; what goes on then is cut off.
const LONGEST_END: Duration = Duration::from_secs(600);
