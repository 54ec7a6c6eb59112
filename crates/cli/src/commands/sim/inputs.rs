//! What is simulated: the configuration as each edge sees it, and the traffic.

use std::sync::Arc;

use loadline_control::{Loaded, cluster};
use loadline_core::{
    fleet::{Fleet, ServerAddress},
    time::{Duration, Instant},
};
use loadline_measure::{
    objective::Objective,
    record::{LoadModel, LoadRecord},
};
use loadline_sim::{
    Arrivals, Scenario, Simulation, Traffic,
    explanation::NoSuchRequest,
    scenario::{Fault, Selector, Trouble},
};
use loadline_spanned::FileErrors;

use super::{
    args::{Common, TrafficArg},
    left_out,
};
use crate::commands::{check::print_warnings, outside::name_program};

/// The configuration and the traffic.
pub(super) struct Inputs {
    edges: Vec<Arc<Fleet>>,
    /// As the file says it, times what the command line says.
    pub(super) traffic: Traffic,
    /// What rates are multiplied by.
    pub(super) factor: f64,
}

/// Something that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    /// A file has errors, each with its place.
    #[error(transparent)]
    File(FileErrors),
    /// The configuration has no such thing.
    #[error("the configuration has no server of {0}")]
    Nobody(String),
    /// There is no cache that could be lost.
    #[error(
        "the traffic has no cache{0}; say in its file what it has: [[objects]] count = 100000, and \
         [[cache]] size = \"1GB\""
    )]
    NoCache(String),
    /// There is no store that could be away.
    #[error("the configuration has no store that could be away; add a table [cluster] to it")]
    NoStore,
    /// More edges than the floors are for.
    #[error("{0} edges share, and `max_edges` in [cluster] of the configuration is {1}; raise it")]
    TooManyEdges(usize, u32),
    /// A rate relative to that of users, who have none.
    #[error(
        "a source has users, and only an open loop has a target; say a bound like `rate>=450/s`"
    )]
    NoTarget,
    /// Nobody said what must hold.
    #[error("say what must hold: --slo 'p99<300ms, errors<0.1%'")]
    NoObjective,
    /// Nobody said what changes.
    #[error(
        "say what changes: --lose region=us, --slow server=10.0.0.1:80,factor=3 or --traffic x1.5"
    )]
    NoChange,
    /// A loss after which nothing is left.
    #[error("nothing is left of service `{service}` without {loss}; {advice}")]
    NothingLeft { service: String, loss: String, advice: &'static str },
    /// A change that nothing comes of.
    #[error(
        "it would begin at {at}, and requests come for {lasts}; say an earlier --at, or a longer \
         --duration"
    )]
    NeverBegins { at: Duration, lasts: Duration },
    /// Nothing was simulated.
    #[error(
        "no request came in the {0} that count; say a higher rate, a longer --duration or another \
         --seed"
    )]
    NoRequest(Duration),
    /// The request to explain is not in the run.
    #[error(transparent)]
    Request(#[from] NoSuchRequest),
    /// The kernel forwards what comes to a service with traffic.
    #[error(
        "forwarding of packets is not simulated, and those to service `{0}` are forwarded; let a \
         traffic file have sources for other services alone"
    )]
    Forwarded(String),
    /// Nobody knows the servers of a service with traffic.
    #[error(
        "discovery is not simulated, and all servers of service `{0}` are found by it; write \
         servers = [\"10.0.0.1:80\"] in place of `discover`, or let a traffic file have sources \
         for other services alone"
    )]
    Discovered(String),
    /// `--traffic` names two files.
    #[error("--traffic names two files; name one, and say xN for a multiple of it")]
    TwoFiles,
}

impl Inputs {
    pub(super) fn read(common: &Common) -> Result<Self, InputError> {
        let loaded = loadline_control::load(common.file()).map_err(name_program);
        let Loaded { fleet, regions, cluster, .. } = loaded.map_err(InputError::File)?;
        let mut traffic = read_traffic(common, (&fleet, &regions))?;
        share(&mut traffic, cluster.as_ref())?;
        if let Some(service) = left_out::forwarded(&fleet, &traffic.scenario) {
            return Err(InputError::Forwarded(service.to_owned()));
        }
        if let Some(service) = left_out::unlisted(&fleet, &traffic.scenario) {
            return Err(InputError::Discovered(service.to_owned()));
        }
        if !common.slo.as_ref().is_none_or(|objective| suits(objective, &traffic.scenario)) {
            return Err(InputError::NoTarget);
        }
        print_warnings(&traffic.warnings);
        left_out::warn(&fleet, &traffic.scenario, cluster.as_ref());
        let factors = common.traffic.iter().filter_map(|traffic| match traffic {
            TrafficArg::Times(factor) => Some(factor),
            TrafficArg::File(_) => None,
        });
        let factor = factors.product();
        let seed = &mut traffic.scenario.seed;
        *seed = common.seed.unwrap_or(*seed);
        let seen_from = |region: &String| {
            let loaded = loadline_control::load_seen_from(common.file(), region);
            loaded.map(|loaded| Arc::new(loaded.fleet)).map_err(InputError::File)
        };
        let others = traffic.regions.iter().skip(1).map(seen_from);
        let edges = std::iter::once(Ok(Arc::new(fleet.clone()))).chain(others);
        Ok(Self { edges: edges.collect::<Result<_, _>>()?, traffic, factor })
    }

    /// Runs this traffic, times the factor of the command line.
    pub(super) fn simulate(&self, traffic: &Traffic) -> LoadRecord {
        self.simulate_times(traffic, self.factor)
    }

    /// Runs so many times this traffic.
    pub(super) fn simulate_times(&self, traffic: &Traffic, factor: f64) -> LoadRecord {
        Simulation::new(self.scenario(traffic, factor)).run()
    }

    /// Refuses a run without a request: by chance all may come after the end.
    pub(super) fn came(&self, record: &LoadRecord) -> Result<(), InputError> {
        let Scenario { lasts, warm_up, .. } = self.traffic.scenario;
        let counted = lasts.saturating_sub(warm_up);
        if record.planned > 0 { Ok(()) } else { Err(InputError::NoRequest(counted)) }
    }

    /// So many times this traffic.
    pub(super) fn scenario(&self, traffic: &Traffic, factor: f64) -> Scenario {
        let mut scenario = traffic.scenario(self.edges.clone());
        if factor != 1.0 {
            let (what, whom) = (Trouble::Traffic(factor), Selector::default());
            scenario.faults.push(Fault { at: Instant::ZERO, lasts: None, what, whom });
        }
        scenario
    }

    /// The configuration, as the first edge sees it.
    pub(super) fn fleet(&self) -> &Fleet {
        &self.edges[0]
    }

    /// Refuses a fault that hits nothing.
    pub(super) fn find(&self, fault: &Fault) -> Result<(), InputError> {
        let (at, lasts) = (fault.at.since(Instant::ZERO), self.traffic.scenario.lasts);
        if at >= lasts {
            return Err(InputError::NeverBegins { at, lasts });
        }
        match fault.what {
            Trouble::Cache => self.find_cache(fault.whom.region.as_deref()),
            Trouble::StoreAway if self.traffic.scenario.cluster.is_none() => {
                Err(InputError::NoStore)
            }
            Trouble::StoreAway => Ok(()),
            Trouble::Outage(_) if self.is_of_edge(&fault.whom) => Ok(()),
            _ => self.find_server(&fault.whom),
        }
    }

    /// Whether a whole region is meant in which an edge is.
    pub(super) fn is_of_edge(&self, whom: &Selector) -> bool {
        let is_here = |region: &String| {
            *whom == Selector { region: Some(region.clone()), ..Selector::default() }
        };
        self.traffic.regions.iter().any(is_here)
    }

    fn find_cache(&self, region: Option<&str>) -> Result<(), InputError> {
        let caches = self.traffic.scenario.caches.iter();
        let mut regions = caches.map(|cache| self.edges[cache.edge].edge.region.as_str());
        if regions.any(|here| region.is_none_or(|region| region == here)) {
            return Ok(());
        }
        let of = region.map(|region| format!(" of an edge in `{region}`"));
        Err(InputError::NoCache(of.unwrap_or_default()))
    }

    pub(super) fn find_server(&self, whom: &Selector) -> Result<(), InputError> {
        let groups = self.edges[0].services.iter().flat_map(|service| {
            service.groups.iter().map(move |group| (service.name.as_str(), group))
        });
        let mut servers = groups.flat_map(|(service, group)| {
            let names = (group.name.as_str(), group.region.as_str());
            group.servers.iter().map(move |server| (service, names, server.address))
        });
        if servers.any(|(service, names, address)| whom.fits(service, names, address)) {
            return Ok(());
        }
        let Selector { region, service, group, server } = whom;
        let said = [("region", region), ("service", service), ("group", group)];
        let said =
            said.into_iter().filter_map(|(key, it)| Some(format!("{key} `{}`", it.as_ref()?)));
        let server = server.map(|server| format!("server `{}`", ServerAddress(server)));
        Err(InputError::Nobody(said.chain(server).collect::<Vec<_>>().join(", ")))
    }
}

/// Whether an objective can be judged of each source.
fn suits(objective: &Objective, scenario: &Scenario) -> bool {
    scenario.sources.iter().all(|source| match source.arrivals {
        Arrivals::Closed { users, think, .. } => {
            objective.suits(&LoadModel::Closed { users, think })
        }
        Arrivals::Open { .. } | Arrivals::Listed(_) => true,
    })
}

/// Lets the edges share as the configuration says.
fn share(traffic: &mut Traffic, cluster: Option<&cluster::Settings>) -> Result<(), InputError> {
    let Some(settings) = cluster.map(cluster::Settings::sharing) else {
        let errors = traffic.without_cluster.take();
        return errors.map_or(Ok(()), |errors| Err(InputError::File(errors)));
    };
    let edges = traffic.regions.len();
    if edges > settings.edges as usize {
        return Err(InputError::TooManyEdges(edges, settings.edges));
    }
    traffic.share(settings);
    Ok(())
}

fn read_traffic(
    common: &Common,
    (fleet, regions): (&Fleet, &[String]),
) -> Result<Traffic, InputError> {
    let mut files = common.traffic.iter().filter_map(|traffic| match traffic {
        TrafficArg::File(path) => Some(path),
        TrafficArg::Times(_) => None,
    });
    match (files.next(), files.next()) {
        (_, Some(_)) => Err(InputError::TwoFiles),
        (Some(path), None) => {
            Traffic::load(path, (fleet, regions), common.duration).map_err(InputError::File)
        }
        (None, None) => {
            let mut traffic = Traffic::default_for(fleet);
            common.duration.into_iter().for_each(|duration| traffic.set_duration(duration));
            Ok(traffic)
        }
    }
}
