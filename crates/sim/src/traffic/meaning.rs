//! What a traffic file means, together with the configuration that it is about.

mod caches;
mod faults;
mod recorded;
mod servers;
mod sources;
mod store;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    rc::Rc,
};

use loadline_core::{
    fleet::{Fleet, Group, ServerAddress, Service},
    time::Duration,
};
use loadline_spanned::{At, Problems, Span, known};

use super::{
    Traffic,
    file::{File, LinkEntry},
};
use crate::{
    arrivals::Arrivals,
    recorded::Log,
    scenario::{Link, Scenario, Selector, Source},
};

/// The file and the configuration, and what is wrong with them.
struct Reader<'a> {
    fleet: &'a Fleet,
    problems: &'a mut Problems,
    /// The folder of the file.
    folder: &'a Path,
    /// Access logs that were read, each once; none where one cannot be.
    logs: BTreeMap<PathBuf, Option<Rc<Log>>>,
    /// How long requests come.
    lasts: Lasts,
    /// The regions that the configuration names beside those of groups and of the edge.
    regions: &'a [String],
    /// The region of the edge and the service of each source; none where one cannot be read.
    asked: Option<Vec<(String, usize)>>,
    /// The regions of the edges with a cache.
    cached: Vec<String>,
    /// Whether there are caches.
    has_caches: bool,
}

/// How long requests come, by the file or by somebody else.
#[derive(Clone, Copy, Debug)]
enum Lasts {
    Here(Duration),
    Elsewhere(Duration),
}

impl Lasts {
    fn get(self) -> Duration {
        match self {
            Self::Here(lasts) | Self::Elsewhere(lasts) => lasts,
        }
    }
}

/// The traffic of a file in this folder; its length may be given elsewhere. Errors go into
/// `problems`.
pub(super) fn meaning(
    file: &At<File>,
    (folder, said_elsewhere): (&Path, Option<Duration>),
    (fleet, named): (&Fleet, &[String]),
    problems: &mut Problems,
) -> Traffic {
    let lasts = Lasts::Here(DURATION);
    let mut reader = Reader {
        fleet,
        problems,
        folder,
        logs: BTreeMap::new(),
        lasts,
        regions: named,
        asked: None,
        cached: Vec::new(),
        has_caches: !file.value.cache.is_empty(),
    };
    let File { seed, duration, warm_up, step, source, server, link, fault, objects, cache, store } =
        &file.value;
    let mut regions = vec![fleet.edge.region.clone()];
    let sources = match &source[..] {
        [] => super::default::sources(fleet),
        _ => source.iter().filter_map(|source| reader.source(source, &mut regions)).collect(),
    };
    let asked = sources.iter().map(|source| (regions[source.edge].clone(), source.service));
    let asked: Vec<_> = asked.collect();
    reader.asked = Some(asked).filter(|asked| asked.len() >= source.len());
    let said = reader.positive(duration.as_ref());
    let lasts = said.or_else(|| longest(&sources)).unwrap_or(DURATION);
    reader.lasts = said_elsewhere.map_or(Lasts::Here(lasts), Lasts::Elsewhere);
    let is_multiplied = fault.iter().any(|at| at.value.what.value == "traffic");
    reader.begin_in_time(source, &sources, is_multiplied);
    let warm_up_at = warm_up.as_ref().map_or(Duration::ZERO, |at| at.value);
    if let Some(at) = warm_up.as_ref().filter(|at| at.value >= lasts) {
        let help = "requests are counted from `warm_up` to the end of `duration`";
        reader.problems.error(&at.span, "`warm_up` is not shorter than `duration`", "this", help);
    }
    let without_cache = objects.first().filter(|_| cache.is_empty());
    reader.needs(("objects", without_cache.map(|at| &at.span)), "[[cache]]");
    let objects = reader.objects(objects);
    let caches = reader.caches(cache, &regions, &objects);
    reader.cached = caches.iter().map(|cache| regions[cache.edge].clone()).collect();
    let scenario = Scenario {
        edges: Vec::new(),
        seed: seed.unwrap_or(1),
        lasts,
        warm_up: warm_up_at,
        step: reader.step(step.as_ref(), lasts),
        sources,
        servers: server.iter().filter_map(|server| reader.server(server)).collect(),
        links: link.iter().map(|link| reader.link(link)).collect(),
        faults: fault.iter().filter_map(|fault| reader.fault(fault)).collect(),
        objects,
        caches,
        cluster: None,
    };
    let store = reader.store(store.as_ref(), &regions);
    Traffic { scenario, regions, store, warnings: Vec::new(), without_cluster: None }
}

/// How long requests come that are listed, at least a second: a single one has no rate otherwise;
/// or in stages, to the end of the last. None where all may come for ever.
fn longest(sources: &[Source]) -> Option<Duration> {
    let of = |source: &Source| match &source.arrivals {
        Arrivals::Listed(times) => {
            let last = *times.last()?;
            Some((last + Duration::from_nanos(1)).max(Duration::from_secs(1)))
        }
        Arrivals::Open { stages, .. } => {
            let lasts: Duration = stages.iter().map(|stage| stage.lasts).sum();
            Some(lasts).filter(|lasts| *lasts > Duration::ZERO && *lasts < Duration::MAX)
        }
        Arrivals::Closed { .. } => None,
    };
    sources.iter().filter_map(of).max()
}

impl Reader<'_> {
    fn error(&mut self, span: &Span, message: String, help: impl Into<String>) {
        self.problems.error(span, message, "this", help);
    }

    /// A time above zero.
    fn positive(&mut self, at: Option<&At<Duration>>) -> Option<Duration> {
        let at = at?;
        if at.value == Duration::ZERO {
            self.error(&at.span, "expected more than 0s".to_owned(), "write it like \"1s\"");
        }
        Some(at.value.max(Duration::from_nanos(1)))
    }

    /// A number above `least`.
    fn above(&mut self, least: f64, at: &At<f64>) -> Option<f64> {
        let fits = at.value > least && at.value.is_finite();
        if !fits {
            let message = format!("expected a number above {least}, found {}", at.value);
            self.error(&at.span, message, "write it like 1.5");
        }
        fits.then_some(at.value)
    }

    /// Checks that a value is small enough to simulate.
    fn at_most<T: Copy + PartialOrd + fmt::Display>(&mut self, most: T, value: T, span: &Span) {
        if value > most {
            let message = format!("expected at most {most}");
            self.error(span, message, "what is larger cannot be simulated");
        }
    }

    /// How far apart the points of the timeline are.
    fn step(&mut self, at: Option<&At<Duration>>, lasts: Duration) -> Duration {
        let fair = (lasts / POINTS).max(Duration::from_millis(1));
        let Some(step) = self.positive(at) else { return fair };
        if let Some(at) = at.filter(|_| step < lasts / MOST_POINTS) {
            let message = format!("more than {MOST_POINTS} points of a timeline");
            self.error(&at.span, message, "a longer `step` will do");
        }
        step
    }

    /// One of a few words.
    fn word<T: Copy>(&mut self, at: &At<String>, words: &[(&str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == at.value);
        if found.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("`{}` is none of {}", at.value, names.join(", "));
            self.error(&at.span, message, known(&at.value, &names));
        }
        found.map(|(_, value)| *value)
    }

    /// A name that the configuration has.
    fn name(&mut self, what: &str, at: Option<&At<String>>, names: &[&str]) -> Option<String> {
        let at = at?;
        if !names.contains(&at.value.as_str()) {
            let message = format!("the configuration has no {what} `{}`", at.value);
            self.error(&at.span, message, known(&at.value, names));
        }
        Some(at.value.clone())
    }

    fn region(&mut self, at: Option<&At<String>>) -> Option<String> {
        let groups = self.fleet.services.iter().flat_map(|service| &service.groups);
        let mut names: Vec<&str> = groups.map(|group| group.region.as_str()).collect();
        names.push(&self.fleet.edge.region);
        names.extend(self.regions.iter().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        self.name("region", at, &names)
    }

    fn link(&mut self, link: &At<LinkEntry>) -> Link {
        let between = link.value.between.value.clone();
        for region in &between {
            let at = At { value: region.clone(), span: link.value.between.span.clone() };
            self.region(Some(&at));
        }
        self.joins(&between, &link.span);
        let LinkEntry { rtt, jitter, .. } = link.value;
        if rtt.is_none() && jitter.is_none() {
            let help = "add what is not as the configuration says: rtt = \"120ms\"";
            self.error(&link.span, "`link` needs `rtt` or `jitter`".to_owned(), help);
        }
        Link { between, rtt, jitter: jitter.unwrap_or_default() }
    }

    /// A key that has no effect without another one.
    fn needs(&mut self, (key, said): (&str, Option<&Span>), other: &str) {
        if let Some(span) = said {
            let message = format!("`{key}` has no effect without {other}");
            self.error(span, message, format!("add {other}, or leave `{key}` out"));
        }
    }

    /// Sees to it that an edge is at one end of a link and a group at the other.
    fn joins(&mut self, [one, other]: &[String; 2], span: &Span) {
        let Some(asked) = &self.asked else { return };
        let has_edge = |region: &String| asked.iter().any(|(edge, _)| edge == region);
        let has_group = |region: &String| self.groups().any(|(_, group)| group.region == *region);
        let joins = |edge, group| has_edge(edge) && has_group(group);
        let is_known = |region: &String| {
            let names = self.regions.iter().chain([&self.fleet.edge.region]);
            has_edge(region) || has_group(region) || names.into_iter().any(|it| it == region)
        };
        if joins(one, other) || joins(other, one) || !is_known(one) || !is_known(other) {
            return;
        }
        let message = format!("no request goes between `{one}` and `{other}`");
        let help = "a link joins the region of a source's edge and that of a group";
        self.error(span, message, help);
    }

    fn groups(&self) -> impl Iterator<Item = (&Service, &Group)> {
        let services = self.fleet.services.iter();
        services.flat_map(|service| service.groups.iter().map(move |group| (service, group)))
    }

    /// Whether the configuration has everything that a selector names.
    fn has_names(&self, whom: &Selector) -> bool {
        let Selector { region, service, group, server } = whom;
        let is = |said: &Option<String>, it: &str| said.as_deref().is_none_or(|said| said == it);
        let mut names = self.regions.iter().chain([&self.fleet.edge.region]);
        (names.any(|name| is(region, name)) || self.groups().any(|(_, it)| is(region, &it.region)))
            && self.groups().any(|(it, _)| is(service, &it.name))
            && self.groups().any(|(_, it)| is(group, &it.name))
            && server.is_none_or(|address| {
                self.groups().any(|(_, it)| it.servers.iter().any(|it| it.address == address))
            })
    }

    /// Checks that at least one server matches the selector.
    fn selects_a_server(&mut self, whom: &Selector, span: &Span) {
        let fits = |(service, group): (&Service, &Group)| {
            let names = (group.name.as_str(), group.region.as_str());
            let mut servers = group.servers.iter();
            servers.any(|server| whom.fits(&service.name, names, server.address))
        };
        let says_nothing = *whom == Selector::default();
        if says_nothing || self.groups().any(fits) || !self.has_names(whom) {
            return;
        }
        let help = "each of the names is right, and no server has all of them; leave one out";
        self.error(span, "no server is selected".to_owned(), help);
    }

    fn selector(&mut self, [region, service, group, server]: [Option<&At<String>>; 4]) -> Selector {
        let services = self.fleet.services.iter();
        let service_names: Vec<&str> =
            services.clone().map(|service| service.name.as_str()).collect();
        let groups = services.clone().flat_map(|service| &service.groups);
        let group_names: Vec<&str> = groups.clone().map(|group| group.name.as_str()).collect();
        let servers = groups.flat_map(|group| &group.servers);
        let addresses = servers.map(|server| ServerAddress(server.address).to_string());
        let addresses: Vec<String> = addresses.collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let server = self.name("server", server, &addresses);
        let server = server.and_then(|server| server.parse::<ServerAddress>().ok());
        Selector {
            region: self.region(region),
            service: self.name("service", service, &service_names),
            group: self.name("group", group, &group_names),
            server: server.map(|server| server.0),
        }
    }
}

/// Long enough for a p99 of a service of 100/s.
const DURATION: Duration = Duration::from_secs(60);

/// Points of a timeline that nobody set.
const POINTS: u64 = 60;

/// Points that a record still holds.
const MOST_POINTS: u64 = 100_000;
