//! From a step of a study to a scenario: servers as they are in the lab, ways as long as there,
//! and what goes wrong meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};

use loadline_core::{
    fleet::Class,
    time::{Duration, Instant},
    units::Ratio,
};
use loadline_lab::{
    Config, Pace,
    study::{Action, Plan, Step, Verb},
};
use loadline_load::{LoadPlan, Pattern, Timetable, Until};
use loadline_sim::{
    Arrivals, OutageKind, Scenario, ServiceTime,
    scenario::{ClientRetry, Discipline, Fault, Link, Selector, ServerModel, Source, Trouble},
};

use super::{
    front::{self, Front, response_bytes},
    load::Coming,
    row_hosts::{RowHosts, Running},
};

/// A step, ready to be simulated.
pub(super) struct Experiment {
    pub(super) scenario: Scenario,
    /// What the edge has for itself before the load begins.
    pub(super) lead: Duration,
    /// What the servers call themselves.
    pub(super) names: BTreeMap<SocketAddr, String>,
    /// How many requests come; nobody knows where users wait for their responses.
    pub(super) requests: Option<u64>,
    /// Programs that are awake after it.
    pub(super) woken: BTreeSet<String>,
}

/// What a step is simulated with.
pub(super) struct Setting<'s> {
    pub(super) hosts: &'s RowHosts,
    pub(super) plan: &'s Plan,
    pub(super) step: &'s Step,
    /// The host of the generator.
    pub(super) client: usize,
    pub(super) load: &'s LoadPlan,
    /// Programs that have fallen asleep.
    pub(super) asleep: &'s BTreeSet<String>,
    pub(super) seed: u64,
}

/// A server that the front sends to.
struct Server<'s> {
    address: SocketAddr,
    program: &'s Running,
    config: &'s Config,
    region: String,
}

impl Setting<'_> {
    /// # Errors
    /// Why the step cannot be simulated.
    pub(super) fn experiment(&self, coming: Vec<Coming>) -> Result<Experiment, String> {
        if let Some(verb) = self.step.before.iter().find(|verb| matches!(verb, Verb::Run(_))) {
            return Err(format!("what `{verb}` changes is not simulated"));
        }
        let front = front::front(self.hosts, self.client, self.load, coming, self.seed)?;
        let servers = self.servers(&front)?;
        self.check_cpu(front.host)?;
        let checked =
            |(service, _): &(usize, Coming)| front.fleet.services[*service].health.is_some();
        let users = front.coming.iter().any(|(_, coming)| matches!(coming, Coming::Users { .. }));
        let takes = |server: &Server<'_>| server.config.pace.service() > Duration::ZERO;
        if users && !servers.iter().any(takes) {
            return Err(
                "how fast programs are where nothing takes time is not simulated".to_owned()
            );
        }
        let lead = if !users && front.coming.iter().any(checked) { LEAD } else { Duration::ZERO };
        let faults = self.faults(&front, &servers, lead)?;
        let models = servers.iter().map(|server| Ok((whom(server), model(server.config)?)));
        let models = models.collect::<Result<Vec<_>, String>>()?;
        let links = self.links(&front, &servers)?;
        let distance = self.distance(&front)? + self.transfer(&front, &servers)?;
        let names = servers.iter().map(|server| (server.address, server_name(server)));
        let names = names.collect();
        let woken = servers.iter().map(|server| server.program.name.clone()).collect();
        let count = front.coming.iter().map(|(_, coming)| match coming {
            Coming::At(times) => Some(times.len() as u64),
            Coming::Users { requests, .. } => *requests,
        });
        let requests = count.sum();
        let sources = self.sources(front.coming, lead, distance);
        let lasts = sources.iter().map(|(lasts, _)| *lasts).max().unwrap_or_default();
        let scenario = Scenario {
            edges: vec![front.fleet.clone()],
            seed: self.seed,
            lasts,
            warm_up: lead,
            step: Duration::from_secs(1),
            sources: sources.into_iter().map(|(_, source)| source).collect(),
            servers: models,
            links,
            faults,
            objects: Vec::new(),
            caches: Vec::new(),
            cluster: None,
        };
        Ok(Experiment { scenario, lead, names, requests, woken })
    }

    /// The servers of the services that are asked.
    fn servers(&self, front: &Front) -> Result<Vec<Server<'_>>, String> {
        let asked: BTreeSet<usize> = front.coming.iter().map(|(service, _)| *service).collect();
        let mut servers: Vec<Server<'_>> = Vec::new();
        let groups = asked.iter().flat_map(|service| &front.fleet.services[*service].groups);
        for (group, server) in
            groups.flat_map(|group| group.servers.iter().map(move |it| (group, it)))
        {
            let address = server.address;
            let found = self.hosts.worker(address);
            let (program, config) =
                found.ok_or_else(|| format!("the server {address} is none that is simulated"))?;
            if servers.iter().all(|known| known.address != address) {
                servers.push(Server { address, program, config, region: group.region.clone() });
            }
        }
        Ok(servers)
    }

    fn check_cpu(&self, host: usize) -> Result<(), String> {
        let name = &self.hosts.topology.hosts[host].name;
        let machine = self.plan.machines.get(name);
        match machine.and_then(|machine| machine.processors.share) {
            Some(share) => {
                Err(format!("the edge has {share} of a core, and its CPU is not simulated"))
            }
            None => Ok(()),
        }
    }

    /// How much longer a large response is under way than a small one: round trips of slow start,
    /// and its bytes on the limited line of the front.
    fn transfer(&self, front: &Front, servers: &[Server<'_>]) -> Result<Duration, String> {
        let bytes = servers.iter().map(|server| response_bytes(server.config)).max().unwrap_or(0);
        if bytes <= SMALL {
            return Ok(Duration::ZERO);
        }
        let hosts = servers.iter().map(|server| server.program.host).chain([self.client]);
        let limited = |host: usize| {
            let spec = &self.hosts.topology.hosts[host];
            let mut links = self.hosts.topology.links.iter();
            let own = spec.up.is_some() || spec.down.is_some();
            own || links.any(|link| link.from == host && link.limit.is_some())
        };
        if hosts.into_iter().any(limited) {
            return Err("large responses on a way with a rate are not simulated".to_owned());
        }
        let rounds = (bytes.div_ceil(SMALL) + 1).next_power_of_two().ilog2();
        let slow_start = front.distance * u64::from(rounds.saturating_sub(1));
        let Some(line) = self.hosts.topology.hosts[front.host].up else { return Ok(slow_start) };
        let bits = (bytes + OVERHEAD) * 8;
        let most = line.rate.bits_per_sec() as f64 / bits as f64;
        let even = |timetable: &Timetable| timetable.arrivals() == EVEN;
        match &self.load.pattern {
            Pattern::Open { timetable, until, .. } if even(timetable) => {
                let rate = timetable.mean_rate(*until).as_per_sec_f64();
                if rate >= most {
                    return Err(format!(
                        "{rate:.0} per second are more than the {most:.0} that {} carry, and what \
                         TCP does on a full line is not simulated",
                        line.rate
                    ));
                }
                Ok(slow_start + Duration::from_secs(1).scale(1.0 / most))
            }
            _ => Err("large responses on a limited line are simulated at an even rate".to_owned()),
        }
    }

    /// From the client to the front and back: once for the request, and once more where it opens a
    /// connection for it.
    fn distance(&self, front: &Front) -> Result<Duration, String> {
        let direct = front.host == self.client;
        let way = match direct {
            false => front.distance,
            true => Duration::ZERO,
        };
        let opens = !self.load.keepalive || sends_once(self.load);
        let opening = match (opens, direct) {
            (false, _) => Duration::ZERO,
            (true, false) => front.distance,
            (true, true) => self.longest_way(front)?,
        };
        Ok(way + opening)
    }

    fn longest_way(&self, front: &Front) -> Result<Duration, String> {
        let ways = self.servers(front)?;
        let ways = ways.iter().map(|it| self.hosts.round_trip(front.host, it.program.host));
        Ok(ways.collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or_default())
    }

    fn links(&self, front: &Front, servers: &[Server<'_>]) -> Result<Vec<Link>, String> {
        let here = &front.fleet.edge.region;
        let mut known: BTreeMap<&str, Duration> = BTreeMap::new();
        for server in servers {
            let way = self.hosts.round_trip(front.host, server.program.host)? + server.config.delay;
            let before = known.entry(&server.region).or_insert(way);
            if *before != way {
                return Err("the servers of one region are at different distances".to_owned());
            }
        }
        let link = |(region, way): (&str, Duration)| Link {
            between: [here.clone(), region.to_owned()],
            rtt: Some(way),
            jitter: Duration::ZERO,
        };
        Ok(known.into_iter().map(link).collect())
    }

    fn sources(
        &self,
        coming: Vec<(usize, Coming)>,
        lead: Duration,
        distance: Duration,
    ) -> Vec<(Duration, Source)> {
        let source = |(service, coming): (usize, Coming)| {
            let (lasts, arrivals) = match coming {
                Coming::At(times) => {
                    let times: Arc<[Duration]> = times.into_iter().map(|at| at + lead).collect();
                    let last = times.last().copied().unwrap_or_default();
                    (last + Duration::from_nanos(1), Arrivals::Listed(times))
                }
                Coming::Users { users, think, requests, lasts } => {
                    (lasts, Arrivals::Closed { users, think, requests })
                }
            };
            let source = Source {
                name: format!("service {service}"),
                edge: 0,
                service,
                arrivals,
                class: Class::Normal,
                clients: 1000,
                distance,
                gives_up: Some(self.load.timeout),
                retry: ClientRetry::default(),
            };
            (lasts, source)
        };
        coming.into_iter().map(source).collect()
    }

    fn faults(
        &self,
        front: &Front,
        servers: &[Server<'_>],
        lead: Duration,
    ) -> Result<Vec<Fault>, String> {
        let mut faults = Vec::new();
        let start = Instant::ZERO + Duration::from_nanos(1);
        for server in servers {
            if !server.program.is_up {
                faults.push(outage(server, start, OutageKind::Down));
            }
            if self.hosts.is_cut(front.host, server.program.host) {
                faults.push(outage(server, start, OutageKind::Unreachable));
            }
            if let Some(sleep) = server.config.sleep
                && self.asleep.contains(&server.program.name)
            {
                // It begins to wake up when the first request reaches it.
                let way = self.hosts.round_trip(front.host, server.program.host)?;
                let at = start + lead + (way + server.config.delay) / 2;
                let lasts = Some(sleep.wake);
                faults.push(Fault { at, lasts, what: Trouble::Stall, whom: whom(server) });
            }
        }
        for action in &self.step.during {
            let at = Instant::ZERO + lead + action.at.max(Duration::from_nanos(1));
            faults.extend(self.meanwhile(front, servers, action, at)?);
        }
        Ok(faults)
    }

    fn meanwhile(
        &self,
        front: &Front,
        servers: &[Server<'_>],
        action: &Action,
        at: Instant,
    ) -> Result<Vec<Fault>, String> {
        match &action.verb {
            Verb::Kill(names) | Verb::Stop(names) => {
                let hit = servers.iter().filter(|server| names.contains(&server.program.name));
                let faults: Vec<_> = hit.map(|it| outage(it, at, OutageKind::Down)).collect();
                if faults.len() < names.len() {
                    return Err(format!("`{}` is not simulated", action.verb));
                }
                Ok(faults)
            }
            Verb::Link(_, links) => {
                if links.iter().any(|link| link.loss < Ratio::percent(100)) {
                    return Err("ways that change meanwhile are not simulated".to_owned());
                }
                let cut = |server: &&Server<'_>| {
                    let mut links = links.iter();
                    links.any(|it| it.from == front.host && it.to == server.program.host)
                };
                let cut = servers.iter().filter(cut);
                Ok(cut.map(|it| outage(it, at, OutageKind::Unreachable)).collect())
            }
            Verb::Wait(_) => Ok(Vec::new()),
            verb => Err(format!("`{verb}` meanwhile is not simulated")),
        }
    }
}

/// Whether each user sends one request, so that none finds a connection open.
fn sends_once(load: &LoadPlan) -> bool {
    matches!(load.pattern, Pattern::Closed { until: Until::Requests(1), .. })
}

fn outage(server: &Server<'_>, at: Instant, kind: OutageKind) -> Fault {
    Fault { at, lasts: None, what: Trouble::Outage(kind), whom: whom(server) }
}

fn whom(server: &Server<'_>) -> Selector {
    Selector { server: Some(server.address), ..Selector::default() }
}

fn server_name(server: &Server<'_>) -> String {
    let own = || format!("{}/{}", server.config.region, server.config.listen.port());
    server.config.name.clone().unwrap_or_else(own)
}

/// A test server as the simulator has it.
fn model(config: &Config) -> Result<Arc<ServerModel>, String> {
    if config.fault.is_some() {
        return Err("what a worker does wrong on purpose is not simulated".to_owned());
    }
    let (cores, discipline) = match config.pace {
        Pace::Wait(_) => (SIDE_BY_SIDE, Discipline::ProcessorSharing),
        Pace::Cores { cores, .. } | Pace::Burn { cores, .. } => {
            (cores.get(), Discipline::FirstCome)
        }
    };
    let time = ServiceTime::Constant(config.pace.service().max(AT_ONCE));
    Ok(Arc::new(ServerModel { time, cores, discipline, ..ServerModel::default() }))
}

/// Long enough for health checks to notice what is down from the beginning.
const LEAD: Duration = Duration::from_secs(15);

/// More than are ever under way.
const SIDE_BY_SIDE: u32 = 1 << 20;

/// What a worker without a service time takes: less than anything that is measured.
const AT_ONCE: Duration = Duration::from_micros(1);

/// Heads and headers of a large response on the wire, as a balancer sends them in large segments.
const OVERHEAD: u64 = 1_000;

const EVEN: loadline_measure::record::Arrivals = loadline_measure::record::Arrivals::Constant;

/// What TCP sends at once on a new connection: ten segments (RFC 6928).
const SMALL: u64 = 14_600;
