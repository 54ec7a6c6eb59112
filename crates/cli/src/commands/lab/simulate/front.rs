//! What takes the requests of a step, as the simulator sees it: an edge with its configuration.
//!
//! A step that reaches `loadline serve` is simulated with the file of that edge. One that reaches
//! test servers themselves, or a forwarding unit, gets a configuration that does the same: a
//! service for each server, no retries, and the unit's limit.

use std::{collections::BTreeMap, fmt::Write as _, net::SocketAddr, sync::Arc};

use loadline_core::{fleet::Fleet, time::Duration};
use loadline_lab::{Config, Content};
use loadline_load::{LoadPlan, Target};
use loadline_sim::Random;

use super::{
    load::Coming,
    row_hosts::{Place, RowHosts, Running},
};

/// What takes the requests.
pub(super) struct Front {
    pub(super) fleet: Arc<Fleet>,
    /// Where it runs: the host of an edge or a unit, that of the client where there is none.
    pub(super) host: usize,
    /// From the client to it and back.
    pub(super) distance: Duration,
    /// The service that each list of requests is for.
    pub(super) coming: Vec<(usize, Coming)>,
}

/// A server that requests are sent to without an edge.
struct Aim {
    server: SocketAddr,
    coming: Coming,
}

/// The front for a plan whose requests come like this.
///
/// # Errors
/// Why there is none.
pub(super) fn front(
    hosts: &RowHosts,
    client: usize,
    plan: &LoadPlan,
    coming: Vec<Coming>,
    seed: u64,
) -> Result<Front, String> {
    let places: Vec<_> =
        plan.targets.iter().map(|(target, _)| hosts.place(target)).collect::<Result<_, _>>()?;
    let first = *places.first().ok_or("it has no target")?;
    match first {
        Place::Edge(edge, fleet, _) => {
            let service = |place: &Place<'_>| match place {
                Place::Edge(other, _, service) if other.name == edge.name => Ok(*service),
                _ => Err("its targets are of several kinds".to_owned()),
            };
            let services = places.iter().map(service).collect::<Result<Vec<_>, _>>()?;
            is_running(edge)?;
            Ok(Front {
                fleet: fleet.clone(),
                host: edge.host,
                distance: hosts.round_trip(client, edge.host)?,
                coming: services.into_iter().zip(coming).collect(),
            })
        }
        Place::Worker(unit, config) if config.content == Content::Unit => {
            is_running(unit)?;
            let mut aims = Vec::new();
            for ((target, _), coming) in plan.targets.iter().zip(coming) {
                aims.extend(forwarded(config, target, coming, seed)?);
            }
            let distance = hosts.round_trip(client, unit.host)?;
            fleet_of(aims, unit.host, distance, config.forwarding.limit)
        }
        Place::Worker(..) => {
            let mut aims = Vec::new();
            for ((place, (target, _)), coming) in places.iter().zip(&plan.targets).zip(coming) {
                let Place::Worker(_, config) = place else {
                    return Err("its targets are of several kinds".to_owned());
                };
                if config.content == Content::Unit {
                    return Err("its targets are of several kinds".to_owned());
                }
                let ip = target.host().parse().map_err(|_| "its target is no address")?;
                aims.push(Aim { server: SocketAddr::new(ip, target.port()), coming });
            }
            fleet_of(aims, client, Duration::ZERO, NO_LIMIT)
        }
    }
}

/// How many bytes a response has, about.
pub(super) fn response_bytes(config: &Config) -> u64 {
    match config.content {
        Content::Page => 50_000,
        Content::Fixed { size } => size.get(),
        Content::Mandelbrot | Content::Json | Content::Machine | Content::Unit => 1_000,
    }
}

fn is_running(program: &Running) -> Result<(), String> {
    if program.is_up { Ok(()) } else { Err(format!("`{}` does not run", program.name)) }
}

/// What a forwarding unit makes of requests for a path: a list for each machine. It draws evenly,
/// as the unit does, from other random numbers.
fn forwarded(
    unit: &Config,
    target: &Target,
    coming: Coming,
    seed: u64,
) -> Result<Vec<Aim>, String> {
    let rest = target.path().trim_start_matches("/work").trim_start_matches('/');
    let fits = |machine: &&loadline_lab::Machine| {
        let (region, name) = rest.split_once('/').unwrap_or((rest, ""));
        (region.is_empty() || machine.region == region) && (name.is_empty() || machine.name == name)
    };
    let machines: Vec<_> = unit.forwarding.machines.iter().filter(fits).collect();
    match (machines.as_slice(), coming) {
        ([], _) => Err(format!("the unit has no machine for {}", target.path())),
        ([one], coming) => Ok(vec![Aim { server: one.address, coming }]),
        (many, Coming::At(times)) => {
            let mut random = Random::stream(seed, UNIT_DRAWS);
            let mut lists = vec![Vec::new(); many.len()];
            for at in times {
                lists[(random.draw() % many.len() as u64) as usize].push(at);
            }
            let aims = many.iter().zip(lists);
            Ok(aims
                .map(|(machine, times)| Aim { server: machine.address, coming: Coming::At(times) })
                .collect())
        }
        (_, Coming::Users { .. }) => {
            Err("users who wait for machines drawn at random are not simulated".to_owned())
        }
    }
}

/// A configuration that sends each list to its server and nowhere else.
fn fleet_of(
    aims: Vec<Aim>,
    host: usize,
    distance: Duration,
    limit: Duration,
) -> Result<Front, String> {
    let mut places: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    let mut text = "[edge]\nregion = \"client\"\n".to_owned();
    let mut coming = Vec::new();
    for aim in aims {
        let next = places.len();
        let service = *places.entry(aim.server).or_insert(next);
        coming.push((service, aim.coming));
        if service < next {
            continue;
        }
        let limit = limit.as_nanos() / 1_000_000;
        let _ = write!(
            text,
            "[regions.r{service}]\nrtt = {{ client = \"1ms\" }}\n\
             [[listener]]\nbind = \"127.0.0.1:{port}\"\nservice = \"s{service}\"\n\
             [service.s{service}]\nretry = {{ attempts = 0 }}\n\
             timeouts = {{ head = \"{limit}ms\" }}\n\
             [[service.s{service}.group]]\nregion = \"r{service}\"\n\
             capacity = \"none\"\nservers = [\"{server}\"]\n",
            port = 10_000 + service,
            server = aim.server,
        );
    }
    let loaded = loadline_control::parse("simulated.toml", &text);
    let fleet = loaded.map_err(|error| format!("{error:?}"))?.fleet;
    Ok(Front { fleet: Arc::new(fleet), host, distance, coming })
}

/// As long as the longest phase: a generator gives up before.
const NO_LIMIT: Duration = Duration::from_secs(3600);

/// Their streams of random numbers are behind those of the sources' requests.
const UNIT_DRAWS: u64 = 1 << 61;
