//! The traffic file: what comes, from where, to servers of what kind, and what goes wrong.
//!
//! ```text
//! text --read--> file types --meaning--> Traffic --fleets--> Scenario
//! ```
//! It stands beside a configuration and names its regions, services, groups and servers.
//! `docs/simulating.md` tells every key.

mod default;
mod file;
mod meaning;

use std::{path::Path, sync::Arc};

use loadline_core::{cluster::Settings, fleet::Fleet, time::Duration};
use loadline_spanned::{At, FileError, FileErrors, FileKind, Problems, Source as Text};

use crate::{cluster::Cluster, scenario::Scenario};

/// What a traffic file says.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The scenario without its edges; [`Source::edge`](crate::scenario::Source::edge) counts in
    /// [`Traffic::regions`].
    pub scenario: Scenario,
    /// The regions of the edges; the first is that of the configuration.
    pub regions: Vec<String>,
    /// The ways between edges and the store through which they share, if they do.
    pub store: StoreLinks,
    /// What works but is hardly meant.
    pub warnings: Vec<FileError>,
    /// What is wrong with it where edges have no store through which they share.
    pub without_cluster: Option<FileErrors>,
}

/// The ways between edges and the store through which they share.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreLinks {
    /// There and back, of each edge.
    rtts: Vec<Duration>,
    jitter: Duration,
    loss: f64,
}

impl StoreLinks {
    /// There and back, where nothing is said.
    const NEAR: Duration = Duration::from_millis(1);

    /// The default links of this many edges.
    fn near(edges: usize) -> Self {
        Self { rtts: vec![Self::NEAR; edges], jitter: Duration::ZERO, loss: 0.0 }
    }
}

/// Where the paths of the file at `name` begin.
fn folder_of(name: &str) -> &Path {
    Path::new(name).parent().unwrap_or(Path::new(""))
}

/// The kind of file that a [`Traffic`] is read from.
#[derive(Clone, Copy, Debug)]
pub struct TrafficFile;

impl FileKind for TrafficFile {
    const NAME: &'static str = "traffic file";
    const REFERENCE: &'static str = "docs/simulating.md lists every key";
}

impl Traffic {
    /// Reads the file at `path`, which is about the services of `fleet`, in a configuration that
    /// names these `regions`. Where somebody else says how long requests come, it `lasts` so long.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file; or why it cannot be read.
    pub fn load(
        path: &Path,
        (fleet, regions): (&Fleet, &[String]),
        lasts: Option<Duration>,
    ) -> Result<Self, FileErrors> {
        let text = loadline_spanned::load::<TrafficFile>(path, "name a file that can be read")?;
        let name = path.display().to_string();
        let mut traffic = Self::parse(&name, &text, (fleet, regions), lasts)?;
        lasts.into_iter().for_each(|lasts| traffic.set_duration(lasts));
        Ok(traffic)
    }

    /// Reads `text`, which errors call `name`, and which is about the services of `fleet`.
    fn parse(
        name: &str,
        text: &str,
        configuration: (&Fleet, &[String]),
        lasts: Option<Duration>,
    ) -> Result<Self, FileErrors> {
        let source = Text::new::<TrafficFile>(name, text.to_owned());
        let mut problems = Problems::default();
        let file = loadline_spanned::read::<TrafficFile, file::File>(text, &mut problems);
        // What follows from keys that cannot be read is not told.
        let Some(file) = file.filter(|_| !problems.failed()) else {
            return Err(problems.into_errors(&source));
        };
        let place = (folder_of(name), lasts);
        let traffic = meaning::meaning(&file, place, configuration, &mut problems);
        let warnings = problems.settle(&source)?;
        Ok(Self { warnings, without_cluster: without_cluster(&file.value, &source), ..traffic })
    }

    /// Each service of the configuration, at random with 70 % of its capacity, for a minute.
    #[must_use]
    pub fn default_for(fleet: &Fleet) -> Self {
        let file = At { value: file::File::default(), span: 0..0 };
        meaning::meaning(&file, (Path::new(""), None), (fleet, &[]), &mut Problems::default())
    }

    /// Lets requests come for so long, with as many points of the timeline as before.
    pub fn set_duration(&mut self, lasts: Duration) {
        let scenario = &mut self.scenario;
        let ratio = lasts.as_secs_f64() / scenario.lasts.as_secs_f64();
        scenario.step = scenario.step.scale(ratio).max(Duration::from_millis(1));
        scenario.warm_up = scenario.warm_up.min(lasts / 2);
        scenario.lasts = lasts;
    }

    /// Whether there is something in it that takes a store through which edges share.
    #[must_use]
    pub fn needs_store(&self) -> bool {
        self.without_cluster.is_some()
    }

    /// Lets edges share the capacity of groups by these settings. They have done so before: nobody
    /// waits for the leases of those who may have had a share.
    pub fn share(&mut self, settings: Settings) {
        let StoreLinks { rtts, jitter, loss } = self.store.clone();
        let (duplicates, faults, has_tables) = (0.0, Vec::new(), true);
        let cluster = Cluster { settings, rtts, jitter, loss, duplicates, faults, has_tables };
        self.scenario.cluster = Some(cluster);
    }

    /// The scenario in which the edges have these configurations, one for each of
    /// [`Traffic::regions`].
    #[must_use]
    pub fn scenario(&self, edges: Vec<Arc<Fleet>>) -> Scenario {
        Scenario { edges, ..self.scenario.clone() }
    }
}

/// The errors of what a file says of a store, where there is none.
fn without_cluster(file: &file::File, source: &Text) -> Option<FileErrors> {
    let store = file.store.iter().map(|at| (&at.span, "[store]"));
    let of_faults = file.fault.iter().map(|at| &at.value.what);
    let of_faults = of_faults.filter(|what| ["store-away", "cut-off"].contains(&&*what.value));
    let mut problems = Problems::default();
    for (span, key) in store.chain(of_faults.map(|what| (&what.span, &*what.value))) {
        let message = format!("`{key}` has no effect: the configuration has no store");
        let help = "add a table [cluster] to the configuration, or leave it out";
        problems.error(span, message, "this", help);
    }
    problems.failed().then(|| problems.into_errors(source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::{
        fleet::{Capacity, Edge, Group, Listeners, Server, Service, forwarding::Forwarding},
        units::Ratio,
    };
    use std::net::SocketAddr;

    fn read(text: &str, lasts: Option<Duration>) -> Result<Traffic, String> {
        let group = |name: &str, last| Group {
            name: name.into(),
            region: name.into(),
            rtt: None,
            capacity: Capacity::default(),
            scaler: Ratio::ONE,
            servers: vec![Server::at(SocketAddr::from(([127, 0, 0, last], 80)))],
            discovery: None,
        };
        let groups = vec![group("near", 1), group("far", 2)];
        let services = vec![Service { groups, ..Service::named("web") }].into();
        let (edge, forwarding) = (Edge::within("near"), Forwarding::default());
        let fleet = Fleet { edge, forwarding, listeners: Listeners::default(), services };
        let regions = ["paris".to_owned()];
        Traffic::parse("traffic.toml", text, (&fleet, &regions), lasts).map_err(|errors| {
            let told = |error: &FileError| {
                format!("{}:{} {}", error.line(), error.column(), error.message())
            };
            errors.errors().iter().map(told).collect::<Vec<_>>().join("\n")
        })
    }

    #[test]
    fn what_no_machine_can_simulate_has_an_error_at_its_place() {
        for (text, error) in [
            ("[[server]]\ncores = 4294967295", "2:9 expected at most 100000"),
            ("[[source]]\nrate = \"999999999999/s\"", "2:8 expected at most 10000000/s"),
            (
                "[[source]]\nstages = [{ rate = \"1/s\", to = \"99999999/s\", for = \"1s\" }]",
                "2:11 expected at most 10000000/s",
            ),
            ("[[source]]\nusers = 4000000000", "2:9 expected at most 1000000"),
            (
                "[[source]]\nrate = \"1/s\"\narrivals = \"bursts\"\nburst = 4000000000",
                "4:9 expected at most 1000000",
            ),
            (
                "[[fault]]\nat = \"1s\"\nwhat = \"slow\"\nfactor = 1e300",
                "4:10 expected at most 1000000",
            ),
            (
                "[[fault]]\nat = \"1s\"\nwhat = \"traffic\"\nfactor = 1e300",
                "4:10 expected at most 1000",
            ),
            (
                "[[objects]]\ncount = 10\n[[cache]]\nsize = \"1MB\"\nwarm = 99999999999",
                "5:8 expected at most 100000000",
            ),
            (
                "[[server]]\ndistribution = \"lognormal\"\nvariation = 1e300",
                "3:13 expected at most 100",
            ),
            ("[[server]]\npause = \"1ns\"\npause_every = \"2ns\"", "3:15 expected at least 100us"),
            (
                "[[server]]\nantagonist = \"50%\"\nantagonist_every = \"1ns\"",
                "3:20 more than 100000 shares in one run",
            ),
            (
                "duration = \"200000s\"\n[[server]]\nantagonist = \"50%\"",
                "3:14 more than 100000 shares in one run",
            ),
            ("step = \"1ns\"", "1:8 more than 100000 points of a timeline"),
        ] {
            let told = read(text, None).unwrap_err();
            assert!(told.starts_with(error) && !told.contains('\n'), "{text}: {told}");
        }
    }

    #[test]
    fn a_key_without_effect_has_an_error_at_its_place() {
        let source = "[[source]]\nrate = \"1/s\"\n";
        let fault = "[[fault]]\nat = \"1s\"\n";
        for (text, error) in [
            (
                "[[server]]\nvariation = 2.0".to_owned(),
                "2:13 `variation` has no effect without distribution = \"lognormal\"",
            ),
            (
                "[[server]]\ntimes = [\"1ms\"]".to_owned(),
                "2:9 `times` has no effect without distribution = \"measured\"",
            ),
            (
                "[[server]]\ndistribution = \"measured\"\ntimes = [\"1ms\"]\ntime = \"1ms\""
                    .to_owned(),
                "4:8 `time` has no effect with distribution = \"measured\"",
            ),
            (
                "[[server]]\npause_every = \"1s\"".to_owned(),
                "2:15 `pause_every` has no effect without `pause`",
            ),
            (
                "[[server]]\nantagonist_every = \"1s\"".to_owned(),
                "2:20 `antagonist_every` has no effect without `antagonist`",
            ),
            (
                format!("{source}burst = 20"),
                "3:9 `burst` has no effect without arrivals = \"bursts\"",
            ),
            (format!("{source}think = \"1s\""), "3:9 `think` has no effect without `users`"),
            (
                format!("{source}retry_after = \"1s\""),
                "3:15 `retry_after` has no effect without `retries`",
            ),
            (
                "[[source]]\nusers = 1\narrivals = \"constant\"".to_owned(),
                "3:12 `arrivals` has no effect without `rate` or `stages`",
            ),
            (
                format!("{fault}what = \"down\"\nfactor = 2.0"),
                "4:10 `factor` has no effect on `down`",
            ),
            (
                format!("{fault}what = \"traffic\"\nfactor = 2.0\ngroup = \"near\""),
                "5:9 `group` has no effect on `traffic`",
            ),
            (
                format!("{fault}what = \"store-away\"\nregion = \"near\""),
                "4:10 `region` has no effect on `store-away`",
            ),
        ] {
            let told = read(&text, None).unwrap_err();
            assert_eq!(told, error, "{text}");
        }
    }

    #[test]
    fn what_brings_nothing_about_has_an_error_at_its_place() {
        let nothing = "{ rate = \"0/s\", for = \"1s\" }";
        let something = "{ rate = \"9/s\", for = \"1s\" }";
        let even = "arrivals = \"constant\"";
        for (text, error) in [
            ("[[source]]\nusers = 0".to_owned(), "2:9 no request comes"),
            (format!("[[source]]\nstages = [{nothing}, {nothing}]"), "2:11 no request comes"),
            (
                "[[source]]\nrate = \"1/s\"\nclients = 0".to_owned(),
                "3:11 a source has at least one client",
            ),
            (
                "[[source]]\nrate = \"1/s\"\ndistance = \"1s\"\ngive_up = \"500ms\"".to_owned(),
                "4:11 nothing can be sent: `distance` is 1s",
            ),
            (
                "[[source]]\nrate = \"1/s\"\ngive_up = \"0s\"".to_owned(),
                "3:11 expected more than 0s",
            ),
            (
                "[[link]]\nbetween = [\"far\", \"near\"]".to_owned(),
                "1:1 `link` needs `rtt` or `jitter`",
            ),
            (
                "[[objects]]\ncount = 9\n[[cache]]\nsize = \"1MB\"\nstale_if_error = \"1s\""
                    .to_owned(),
                "5:18 `stale_if_error` has no effect without `ttl` in [[objects]]",
            ),
            (
                "[[server]]\ndistribution = \"measured\"\ntimes = [\"0s\", \"0s\"]".to_owned(),
                "3:9 no request takes any time",
            ),
            (
                "duration = \"5s\"\n[[source]]\ntimes = [\"6s\", \"7s\"]".to_owned(),
                "3:9 its first request would come at 6s: requests come for 5s",
            ),
            (
                format!("duration = \"1s\"\n[[source]]\nstages = [{nothing}, {something}]"),
                "2:1 its first request would come at 1s: requests come for 1s",
            ),
            (
                format!(
                    "duration = \"1s\"\n[[source]]\nstages = [{something}, {something}, {nothing}]"
                ),
                "3:41 it never begins: requests come for 1s",
            ),
            (
                format!("duration = \"2s\"\n[[source]]\nrate = \"30/m\"\n{even}"),
                "2:1 its first request would come at 2s: requests come for 2s",
            ),
            ("[[objects]]\ncount = 9".to_owned(), "1:1 `objects` has no effect without [[cache]]"),
            (
                "[[fault]]\nat = \"1s\"\nwhat = \"slow\"\nfactor = inf".to_owned(),
                "4:10 expected a number above 0, found inf",
            ),
        ] {
            assert_eq!(read(&text, None).unwrap_err(), error, "{text}");
        }
        let ramp = "[[source]]\nstages = [{ rate = \"0/s\", to = \"9/s\", for = \"1s\" }]";
        assert!(read(ramp, None).is_ok());
        for (duration, more) in
            [("3s", ""), ("2s", "[[fault]]\nat = \"1s\"\nwhat = \"traffic\"\nfactor = 2.0")]
        {
            let text =
                format!("duration = \"{duration}\"\n[[source]]\nrate = \"30/m\"\n{even}\n{more}");
            assert!(read(&text, None).is_ok(), "{text}");
        }
    }

    #[test]
    fn names_that_select_nothing_together_have_an_error() {
        let fault = "[[fault]]\nat = \"1s\"\n";
        let apart = "region = \"near\"\nserver = \"127.0.0.2:80\"";
        for (text, error) in [
            (
                "[[server]]\nregion = \"near\"\naddress = \"127.0.0.2:80\"".to_owned(),
                "1:1 no server is selected",
            ),
            (format!("{fault}what = \"stall\"\n{apart}"), "1:1 no server is selected"),
            (format!("{fault}what = \"stall\"\nregion = \"paris\""), "1:1 no server is selected"),
            (
                format!("{fault}what = \"traffic\"\nfactor = 2.0\nregion = \"far\""),
                "1:1 `traffic` hits nothing: no source comes in there and asks that service",
            ),
            (
                format!("{fault}what = \"cache\""),
                "1:1 `cache` hits nothing: no edge there has a cache",
            ),
            (
                format!("{fault}what = \"cut-off\"\nregion = \"far\""),
                "1:1 `cut-off` hits nothing: there is no edge there",
            ),
            (
                "[[link]]\nbetween = [\"far\", \"paris\"]\nrtt = \"9ms\"".to_owned(),
                "1:1 no request goes between `far` and `paris`",
            ),
        ] {
            let told = read(&text, None).unwrap_err();
            assert_eq!(told, error, "{text}");
        }
        assert!(read("[[link]]\nbetween = [\"far\", \"near\"]\njitter = \"1ms\"", None).is_ok());
    }

    #[test]
    fn a_link_within_a_region_needs_an_edge_and_a_group_there() {
        let link = |region: &str| {
            format!("[[link]]\nbetween = [\"{region}\", \"{region}\"]\nrtt = \"9ms\"")
        };
        let links = read(&link("near"), None).unwrap().scenario.links;
        assert_eq!(links[0].rtt, Some(Duration::from_millis(9)));
        for region in ["far", "paris"] {
            let error = format!("1:1 no request goes between `{region}` and `{region}`");
            assert_eq!(read(&link(region), None).unwrap_err(), error);
        }
    }

    #[test]
    fn what_needs_a_store_has_an_error_at_its_place_where_there_is_none() {
        let told = |text: &str| {
            let errors = read(text, None).unwrap().without_cluster;
            let told = |error: &FileError| format!("{} {}", error.line(), error.message());
            errors.map(|errors| errors.errors().iter().map(told).collect::<Vec<_>>())
        };
        let text = "[store]\nrtt = \"9ms\"\n[[fault]]\nat = \"1s\"\nwhat = \"store-away\"";
        let wanted = [
            "1 `[store]` has no effect: the configuration has no store",
            "5 `store-away` has no effect: the configuration has no store",
        ];
        assert_eq!(told(text), Some(wanted.map(str::to_owned).into()));
        assert_eq!(told("[[fault]]\nat = \"1s\"\nwhat = \"stall\""), None);
    }

    #[test]
    fn all_stages_come_where_no_duration_is_given() {
        let stages = "[{ rate = \"9/s\", for = \"1m\" }, { rate = \"500/s\", for = \"90s\" }]";
        let others = "[[source]]\nrate = \"1/s\"\n[[source]]\ntimes = [\"9s\"]";
        let text = format!("{others}\n[[source]]\nstages = {stages}");
        let lasts = |text: &str| read(text, None).unwrap().scenario.lasts;
        assert_eq!(lasts(&text), Duration::from_secs(150));
        assert_eq!(lasts("[[source]]\nrate = \"1/s\""), Duration::from_secs(60));
        let warnings = |lasts| read(&text, Some(Duration::from_secs(lasts))).unwrap().warnings;
        assert_eq!((warnings(61).len(), warnings(30).len()), (0, 1));
    }

    #[test]
    fn a_single_request_comes_within_a_second() {
        let traffic = read("[[source]]\ntimes = [\"0s\"]", None).unwrap();
        assert_eq!(traffic.scenario.lasts, Duration::from_secs(1));
    }

    #[test]
    fn an_edge_may_be_in_a_region_without_servers() {
        let text = "[[source]]\nedge = \"paris\"\nrate = \"1/s\"\n[[fault]]\nat = \"1s\"\n\
                    what = \"unreachable\"\nregion = \"paris\"\n\
                    [[link]]\nbetween = [\"paris\", \"near\"]\nrtt = \"9ms\"";
        assert_eq!(read(text, None).unwrap().regions, ["near", "paris"]);
    }

    #[test]
    fn a_fault_that_never_begins_is_an_error_or_a_warning_where_the_run_was_made_shorter() {
        let text = "duration = \"20s\"\n[[fault]]\nat = \"20s\"\nwhat = \"stall\"\n";
        let told = read(text, None).unwrap_err();
        assert_eq!(told, "3:6 it never begins: requests come for 20s");
        let warnings = |lasts| read(text, Some(Duration::from_secs(lasts))).unwrap().warnings;
        assert_eq!((warnings(21).len(), warnings(10).len()), (0, 1));
        let text = "[[fault]]\nat = \"59s\"\nwhat = \"stall\"\n";
        assert!(read(text, None).is_ok(), "a minute if nothing is said");
    }
}
