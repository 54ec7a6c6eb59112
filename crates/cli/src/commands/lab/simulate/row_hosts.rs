//! What a row of a study has on its hosts: the programs that can be simulated, where they listen,
//! the ways between hosts, and what the steps before did to all of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
};

use clap::Parser as _;
use loadline_core::{
    fleet::{Fleet, Protocol},
    time::Duration,
    units::Ratio,
};
use loadline_lab::{
    Config,
    study::{Content, Plan, Program, Verb},
    topology::{LinkSpec, Topology},
};
use loadline_load::Target;

use crate::commands::worker;

/// The hosts of a row and what runs on them.
pub(super) struct RowHosts {
    pub(super) topology: Topology,
    pub(super) programs: Vec<Running>,
    /// What `serve`, `worker` and `bench` are called.
    pub(super) own_names: BTreeSet<String>,
    /// The text of each file, by its name.
    pub(super) files: BTreeMap<String, String>,
}

/// A program of a study.
pub(super) struct Running {
    pub(super) name: String,
    pub(super) host: usize,
    pub(super) what: What,
    pub(super) is_up: bool,
}

/// What a program is to the simulator.
pub(super) enum What {
    /// A test server, or a forwarding unit.
    Worker(Box<Config>),
    /// `loadline serve`.
    Edge(Arc<Fleet>),
    /// Something that is not simulated, and why.
    Other(String),
}

/// Where a request arrives.
#[derive(Clone, Copy)]
pub(super) enum Place<'s> {
    /// At a worker.
    Worker(&'s Running, &'s Config),
    /// At a service of an edge, by its index.
    Edge(&'s Running, &'s Arc<Fleet>, usize),
}

#[derive(clap::Parser)]
struct WorkerLine {
    #[command(flatten)]
    args: worker::Args,
}

impl RowHosts {
    pub(super) fn new(plan: &Plan) -> Self {
        let text = |(name, content): &(String, Content)| match content {
            Content::Text(text) => Some((name.clone(), text.clone())),
            Content::CopyOf(path) => Some((name.clone(), fs::read_to_string(path).ok()?)),
        };
        let mut own_names: BTreeSet<String> = ["loadline".to_owned()].into();
        for command in &plan.prepare {
            if let [link, .., from, to] = command.as_slice()
                && link == "ln"
                && own_names.contains(from)
            {
                own_names.insert(to.clone());
            }
        }
        let mut hosts = Self {
            topology: plan.topology.clone(),
            programs: Vec::new(),
            own_names,
            files: plan.files.iter().filter_map(text).collect(),
        };
        hosts.programs = plan.programs.iter().filter_map(|one| hosts.running(one)).collect();
        hosts
    }

    fn running(&self, program: &Program) -> Option<Running> {
        let arguments = &program.command.arguments;
        Some(Running {
            name: program.name.clone(),
            host: self.topology.host(&program.command.host)?,
            what: self.what(arguments),
            is_up: !program.on_demand,
        })
    }

    fn what(&self, arguments: &[String]) -> What {
        let (name, rest) =
            arguments.split_first().map_or(("", arguments), |(name, rest)| (name.as_str(), rest));
        if !self.own_names.contains(name) {
            return What::Other(not_ours(name));
        }
        match rest.first().map(String::as_str) {
            Some("worker") => match WorkerLine::try_parse_from(rest) {
                Ok(line) => What::Worker(Box::new(line.args.config())),
                Err(error) => What::Other(error.to_string()),
            },
            Some("serve") => match rest
                .get(1)
                .map_or(Err("it names no file".to_owned()), |path| self.fleet(path))
            {
                Ok(fleet) => What::Edge(Arc::new(fleet)),
                Err(reason) => What::Other(reason),
            },
            other => What::Other(format!("`loadline {}` is not simulated", other.unwrap_or(""))),
        }
    }

    fn fleet(&self, path: &str) -> Result<Fleet, String> {
        let name = file_name(path);
        let text = self.files.get(name).ok_or_else(|| format!("{name} is no text of the study"))?;
        let loaded = loadline_control::parse(name, text);
        loaded.map(|loaded| loaded.fleet).map_err(|error| format!("{name}: {error}"))
    }

    /// Where a request for `target` arrives.
    ///
    /// # Errors
    /// Why that cannot be simulated.
    pub(super) fn place(&self, target: &Target) -> Result<Place<'_>, String> {
        if target.is_secure() {
            return Err("TLS is not simulated".to_owned());
        }
        let forwards = |program: &Running| match &program.what {
            What::Edge(fleet) => !fleet.forwarding.is_empty(),
            What::Worker(_) | What::Other(_) => false,
        };
        let nobody = || match self.programs.iter().any(forwards) {
            true => "forwarding of packets is not simulated".to_owned(),
            false => format!("nothing that is simulated is at {}", target.authority()),
        };
        let address: IpAddr = target.host().parse().map_err(|_| nobody())?;
        let host = self.host_of(address).ok_or_else(nobody)?;
        let mut other = None;
        for program in self.programs.iter().filter(|program| program.host == host) {
            match &program.what {
                What::Worker(config) if config.listen.port() == target.port() => {
                    return Ok(Place::Worker(program, config));
                }
                What::Edge(fleet) => {
                    let found = fleet.listeners.iter().find(|it| it.bind.port() == target.port());
                    if let Some(listener) = found {
                        return match listener.protocol {
                            Protocol::Http => Ok(Place::Edge(program, fleet, listener.service)),
                            _ => Err("only HTTP in clear is simulated".to_owned()),
                        };
                    }
                }
                What::Other(reason) => other = Some(reason.clone()),
                What::Worker(_) => {}
            }
        }
        Err(other.unwrap_or_else(nobody))
    }

    /// The worker at an address that an edge sends to.
    pub(super) fn worker(&self, address: SocketAddr) -> Option<(&Running, &Config)> {
        let host = self.host_of(address.ip())?;
        self.programs.iter().filter(|program| program.host == host).find_map(|program| {
            match &program.what {
                What::Worker(config) if config.listen.port() == address.port() => {
                    Some((program, &**config))
                }
                _ => None,
            }
        })
    }

    fn host_of(&self, address: IpAddr) -> Option<usize> {
        let has = |host: &loadline_lab::topology::HostSpec| host.addresses.contains(&address);
        self.topology.hosts.iter().position(has)
    }

    /// From one host to another and back.
    ///
    /// # Errors
    /// What the way does that is not simulated.
    pub(super) fn round_trip(&self, from: usize, to: usize) -> Result<Duration, String> {
        let mut sum = Duration::ZERO;
        if from == to {
            return Ok(sum);
        }
        for (from, to) in [(from, to), (to, from)] {
            let link = self.topology.links.iter().find(|it| it.from == from && it.to == to);
            let Some(link) = link else { return Err("the lab has no such way".to_owned()) };
            if link.loss > Ratio::ZERO && link.loss < Ratio::percent(100) {
                return Err("loss of packets is not simulated".to_owned());
            }
            if link.jitter > Duration::ZERO {
                return Err("jitter of packets is not simulated".to_owned());
            }
            sum = sum + link.delay;
        }
        Ok(sum)
    }

    /// Whether a host can reach another.
    pub(super) fn is_cut(&self, from: usize, to: usize) -> bool {
        let mut links = self.topology.links.iter();
        links.any(|it| it.from == from && it.to == to && it.loss >= Ratio::percent(100))
    }

    /// What the lab does at once, before and after steps.
    pub(super) fn act(&mut self, verb: &Verb) {
        match verb {
            Verb::Start(names) | Verb::Restart(names) => self.set_up(names, true),
            Verb::Stop(names) | Verb::Kill(names) => self.set_up(names, false),
            Verb::Link(_, links) => self.link(links),
            Verb::Signal(..) | Verb::Wait(_) | Verb::Run(_) => {}
        }
    }

    fn set_up(&mut self, names: &[String], is_up: bool) {
        for program in self.programs.iter_mut().filter(|one| names.contains(&one.name)) {
            program.is_up = is_up;
        }
    }

    fn link(&mut self, links: &[LinkSpec]) {
        for link in links {
            let same = |known: &&mut LinkSpec| known.from == link.from && known.to == link.to;
            if let Some(known) = self.topology.links.iter_mut().find(same) {
                *known = *link;
            }
        }
    }

    /// Whether a command is one of loadline's own; its arguments then begin with the subcommand.
    pub(super) fn own<'a>(&self, arguments: &'a [String]) -> Result<&'a [String], String> {
        match arguments.split_first() {
            Some((name, rest)) if self.own_names.contains(name) => Ok(rest),
            other => Err(not_ours(other.map_or("", |(name, _)| name))),
        }
    }
}

/// The name of a file of the study in the folder of a run.
pub(super) fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

fn not_ours(program: &str) -> String {
    format!("`{}` is another program; loadline's own code is simulated", file_name(program))
}
