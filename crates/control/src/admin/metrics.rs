//! Metrics for Prometheus, in its text format or in that of OpenMetrics.
//!
//! The formats want all samples of a metric together, so each metric goes through all services
//! anew, a few at a time: what is held is one piece of them, however many there are.
//!
//! Names follow the conventions: base units, `_total` for what only grows. Labels are names of the
//! configuration and endings, so their number is bounded by the file; nothing a client sends
//! becomes one. The tables of them are the reference as well ([`reference`]).

mod cache;
mod certificates;
mod cluster;
mod failures;
mod family;
mod format;
mod forwarding;
mod groups;
mod lists;
mod pieces;
mod servers;
mod services;
mod standby;
mod tokens;

use std::{borrow::Borrow, fmt, ops::Range};

use family::{Family, ProcessMetric, Subject};
use format::Prometheus;

pub(crate) use format::Format;
use loadline_core::state::{Listener, Part, State};
pub(crate) use pieces::{AT_ONCE, PATIENCE, Pieces};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text::encode},
    metrics::MetricType,
    registry::Registry,
};

use super::process::Process;

/// Which series there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// All, those of each server among them.
    #[default]
    Servers,
    /// None of single servers.
    Groups,
}

/// Where the figures come from.
pub(crate) trait Source: fmt::Debug + Send + Sync + 'static {
    /// A few services.
    type Piece: Borrow<State>;

    /// All but the services.
    fn edge(&self) -> State;

    /// How many services there are.
    fn service_count(&self) -> usize;

    /// This part of the services at these places.
    fn piece(&self, places: Range<usize>, extent: Extent) -> Self::Piece;
}

/// How much of a service a metric is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// This part as it is now.
    Now(Part),
    /// This part with its rates, headroom and fullness.
    Measured(Part),
}

/// Writes what `source` says in `format`, each sample as it is made.
///
/// # Errors
/// That of `to`.
pub(crate) fn write(
    source: impl Source,
    detail: Detail,
    format: Format,
    to: &mut impl fmt::Write,
) -> fmt::Result {
    let (edge, process) = (source.edge(), Process::read());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition { source, edge, detail, process }));
    match format {
        Format::OpenMetrics => encode(to, &registry),
        Format::Prometheus => encode(&mut Prometheus::new(to), &registry),
    }
}

/// The list of all metrics, as a table in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut table = "| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for (_, family) in families() {
        let head = family.head();
        let suffix = if matches!(head.kind, MetricType::Counter) { "_total" } else { "" };
        let labels: Vec<String> = head.labels.iter().map(|it| format!("`{it}`")).collect();
        let (name, kind, help) = (head.full_name(), head.kind.as_str(), head.help);
        let labels = labels.join(", ");
        table.push_str(&format!("| `{name}{suffix}` | {kind} | {labels} | {help} |\n"));
    }
    table
}

#[derive(Debug)]
struct Exposition<S> {
    source: S,
    edge: State,
    detail: Detail,
    process: Process,
}

/// Every metric, with the part of the services it needs, if any.
fn families() -> impl Iterator<Item = (Option<Extent>, &'static dyn Family)> {
    let now = |part| Some(Extent::Now(part));
    let of_services = services::FAMILIES.iter().copied().chain(services::counters());
    let tables = [
        (now(Part::Groups), groups::FAMILIES),
        (Some(Extent::Measured(Part::Servers)), groups::HEADROOM),
        (now(Part::Groups), lists::FAMILIES),
        (now(Part::Servers), servers::FAMILIES),
        (None, cache::FAMILIES),
        (None, certificates::FAMILIES),
        (None, tokens::FAMILIES),
        (None, cluster::FAMILIES),
        (now(Part::Service), failures::FAMILIES),
        (None, forwarding::FAMILIES),
        (None, standby::FAMILIES),
    ];
    let others = tables
        .into_iter()
        .flat_map(|(extent, table)| table.iter().copied().map(move |family| (extent, family)));
    let of_edge = FAMILIES.iter().copied().map(|family| (None, family));
    of_edge.chain(of_services.map(move |family| (now(Part::Service), family))).chain(others)
}

impl<S: Source> Collector for Exposition<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut told = families().filter(|(_, family)| family.head().is_told(self.detail));
        told.try_for_each(|(extent, family)| {
            let name = family.head().full_name();
            let mut encoder = family.head().describe(&name, &mut encoder)?;
            self.each_piece(extent, |piece| family.encode(piece, &self.process, &mut encoder))
        })
    }
}

impl<S: Source> Exposition<S> {
    /// Lets `read` see whatever a metric is made of, a piece at a time.
    fn each_piece(
        &self,
        extent: Option<Extent>,
        mut read: impl FnMut(&State) -> fmt::Result,
    ) -> fmt::Result {
        let Some(extent) = extent else { return read(&self.edge) };
        let count = self.source.service_count();
        (0..count).step_by(AT_A_TIME).try_for_each(|first| {
            let piece = self.source.piece(first..count.min(first + AT_A_TIME), extent);
            read(piece.borrow())
        })
    }
}

const EDGE: Subject<State> = Subject { labels: &[], each: |state, to| to(&[], state) };

const VERSION: Subject<State> =
    Subject { labels: &["version"], each: |state, to| to(&[env!("CARGO_PKG_VERSION")], state) };

const LISTENER: Subject<Listener> = Subject {
    labels: &["listener"],
    each: |state, to| state.listeners.iter().for_each(|it| to(&[&it.address], it)),
};

const REFUSED: Subject<u64> = Subject {
    labels: &["listener", "reason"],
    each: |state, to| {
        for listener in &state.listeners {
            for (reason, count) in &listener.refused {
                to(&[&listener.address, reason], count);
            }
        }
    },
};

const HANDSHAKES: Subject<u64> = Subject {
    labels: &["listener", "result"],
    each: |state, to| {
        for listener in &state.listeners {
            to(&[&listener.address, "ok"], &listener.handshakes);
            to(&[&listener.address, "failed"], &listener.handshakes_failed);
        }
    },
};

/// The metrics of the process and of the proxy.
const FAMILIES: &[&dyn Family] = &[
    &VERSION.gauge("build_info", "1, with the running version as a label", |_| 1.0),
    &EDGE.gauge("uptime_seconds", "Uptime", |it| it.uptime_s),
    &EDGE.gauge("draining", "1 while the edge drains and accepts no connections", |it| {
        f64::from(it.draining)
    }),
    &EDGE.gauge(
        "plan_generation",
        "Number of the current plan; configuration, health and slow start increment it",
        |it| it.generation as f64,
    ),
    &ProcessMetric::counter("process_cpu_seconds", "User and system time of the process", |it| {
        it.cpu_s
    }),
    &ProcessMetric::gauge(
        "process_resident_memory_bytes",
        "Resident memory of the process",
        |it| it.resident_bytes,
    ),
    &ProcessMetric::gauge("process_virtual_memory_bytes", "Address space of the process", |it| {
        it.virtual_bytes
    }),
    &ProcessMetric::gauge("process_threads", "Threads of the process", |it| it.threads),
    &ProcessMetric::gauge("process_open_fds", "Open file descriptors", |it| it.open_fds),
    &ProcessMetric::gauge("process_max_fds", "Maximum open file descriptors", |it| it.max_fds),
    &ProcessMetric::gauge(
        "process_start_time_seconds",
        "Start time of the process, in seconds since 1970",
        |it| it.start_s,
    ),
    &EDGE.counter(
        "log_lines_dropped",
        "Access log lines dropped because the writer did not keep up",
        |it| it.log_lines_dropped,
    ),
    &EDGE.counter(
        "stderr_lines_dropped",
        "Lines of the process log dropped because the standard error was not read",
        |it| it.process_log_lines_dropped,
    ),
    &EDGE.counter("spans_exported", "Spans accepted by the collector", |it| it.spans_exported),
    &EDGE.counter(
        "spans_dropped",
        "Spans dropped because the collector did not keep up, or rejected them",
        |it| it.spans_dropped,
    ),
    &EDGE.gauge_if_any(
        "compression_effort",
        "Effort of compression on the busiest worker: 3 full, 2 and 1 reduced, 0 off",
        |it| it.compression_effort.map(f64::from),
    ),
    &LISTENER.gauge("client_connections", "Open client connections", |it| it.open as f64),
    &LISTENER.gauge("client_connections_limit", "Maximum client connections", |it| {
        f64::from(it.max_connections)
    }),
    &EDGE.gauge_if_any(
        "client_connections_edge_limit",
        "Maximum client connections over all listeners; no sample if unlimited",
        |it| it.max_connections.map(f64::from),
    ),
    &LISTENER
        .counter("client_connections_accepted", "Accepted client connections", |it| it.accepted),
    &REFUSED
        .counter("client_connections_refused", "Refused client connections, by reason", |it| *it),
    &LISTENER.counter(
        "client_connections_held",
        "Times the listener stopped accepting at its limit; connections wait in the kernel",
        |it| it.held,
    ),
    &HANDSHAKES.counter(
        "client_tls_handshakes",
        "TLS handshakes with clients, by result: ok or failed",
        |it| *it,
    ),
    &LISTENER.counter(
        "client_received_bytes",
        "Bytes received from clients, TLS and frames included",
        |it| it.received_bytes,
    ),
    &LISTENER.counter(
        "client_sent_bytes",
        "Bytes sent to clients, TLS and frames included",
        |it| it.sent_bytes,
    ),
];

/// Services in a piece: a few hundred kilobytes of counts.
const AT_A_TIME: usize = 64;

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use loadline_core::state::{
        AcmeCertificate, Certificate, Cluster, Counts, Discovery, FlowTable, ForwardedServer,
        Forwarding, Group, Histogram, JwtKeys, Limits, Server, Service, ServiceCounter,
        SharedGroup, SharedService, Sharing, Traffic,
    };

    use super::*;
    use proptest::prelude::*;

    fn state(name: &str) -> State {
        let named = || name.to_owned();
        let group = Group {
            name: named(),
            servers: vec![Server { address: named(), ..Server::default() }],
            discovery: Some(Discovery::default()),
            ..Group::default()
        };
        let mut service = Service { name: named(), groups: vec![group], ..Service::default() };
        service.counts.endings.insert(named(), 7);
        let listener = Listener { address: named(), ..Listener::default() };
        let certificate = Certificate { file: named(), ..Certificate::default() };
        let server = ForwardedServer { address: named(), ..ForwardedServer::default() };
        let forwarding = Forwarding {
            verdicts: [(named(), Traffic::default())].into(),
            servers: vec![server],
            flow_tables: vec![FlowTable { family: named(), flows: Some(1), max_flows: 2 }],
            ..Forwarding::default()
        };
        let group = SharedGroup { name: named(), ..SharedGroup::default() };
        let shared = SharedService { name: named(), groups: vec![group], ..Default::default() };
        let sharing = Sharing { services: vec![shared], ..Sharing::default() };
        let faults = [(named(), 2)].into();
        let cluster = Cluster { sharing: Some(sharing), faults, ..Cluster::default() };
        State {
            listeners: vec![listener],
            certificates: vec![certificate],
            acme: vec![AcmeCertificate { file: named(), ..AcmeCertificate::default() }],
            jwt: vec![JwtKeys { url: named(), ..JwtKeys::default() }],
            services: vec![service],
            forwarding: Some(forwarding),
            cluster: Some(cluster),
            ..State::default()
        }
    }

    /// A state that stands still, and how many pieces of it there are, and were at most.
    #[derive(Debug)]
    struct Still {
        state: State,
        /// Of a part all is told.
        tells_all: bool,
        held: &'static Held,
    }

    #[derive(Debug, Default)]
    struct Held {
        pieces: AtomicUsize,
        most_pieces: AtomicUsize,
        most_services: AtomicUsize,
    }

    struct Piece(State, &'static Held);

    impl Borrow<State> for Piece {
        fn borrow(&self) -> &State {
            &self.0
        }
    }

    impl Drop for Piece {
        fn drop(&mut self) {
            self.1.pieces.fetch_sub(1, SeqCst);
        }
    }

    impl Still {
        fn new(state: State) -> Self {
            Self { state, tells_all: false, held: Box::leak(Box::default()) }
        }
    }

    impl Source for Still {
        type Piece = Piece;

        fn edge(&self) -> State {
            State { services: Vec::new(), ..self.state.clone() }
        }

        fn service_count(&self) -> usize {
            self.state.services.len()
        }

        fn piece(&self, places: Range<usize>, extent: Extent) -> Piece {
            let pieces = self.held.pieces.fetch_add(1, SeqCst) + 1;
            self.held.most_pieces.fetch_max(pieces, SeqCst);
            self.held.most_services.fetch_max(places.len(), SeqCst);
            let mut services = self.state.services[places].to_vec();
            if !self.tells_all {
                services.iter_mut().for_each(|service| reduce(service, extent));
            }
            Piece(State { services, ..State::default() }, self.held)
        }
    }

    /// Leaves what a piece of this extent has.
    fn reduce(service: &mut Service, extent: Extent) {
        let (Extent::Now(part) | Extent::Measured(part)) = extent;
        if part == Part::Service {
            service.groups.clear();
            return;
        }
        service.counts = Counts::default();
        for group in &mut service.groups {
            if extent == Extent::Now(part) {
                (group.headroom, group.fullness) = (Limits::default(), None);
                group.load.rate_per_s = 0.0;
            }
            if part == Part::Groups {
                group.servers.clear();
            }
        }
    }

    pub(super) fn text(state: State, detail: Detail, format: Format) -> String {
        let mut text = String::new();
        write(Still::new(state), detail, format, &mut text).unwrap();
        text
    }

    #[test]
    fn of_many_services_one_piece_is_held_and_each_is_told_once_by_each_metric() {
        let services = 2_000;
        let service = |n: usize| state(&format!("service{n}")).services.remove(0);
        let many = State { services: (0..services).map(service).collect(), ..State::default() };
        let still = Still::new(many);
        let (held, mut text) = (still.held, String::new());
        write(still, Detail::Servers, Format::Prometheus, &mut text).unwrap();
        assert_eq!(held.most_pieces.load(SeqCst), 1);
        assert_eq!(held.most_services.load(SeqCst), AT_A_TIME);
        assert_eq!(held.pieces.load(SeqCst), 0);
        for metric in ["retries_total", "overflow_requests_total", "in_flight"] {
            let start = format!("loadline_{metric}{{service=\"service");
            let told = text.lines().filter(|line| line.starts_with(&start));
            assert_eq!(told.count(), services, "{metric}");
        }
    }

    #[test]
    fn each_metric_finds_all_that_it_tells_in_its_part_of_a_service() {
        let mut state = state("web");
        let service = &mut state.services[0];
        (service.ready, service.queued, service.queue_length) = (true, 1, 2);
        let counts = &mut service.counts;
        counts.duration = Histogram { bounds_s: vec![0.1], counts: vec![3, 4], sum_s: 5.0 };
        for (n, counter) in (6..).zip(ServiceCounter::ALL) {
            counts.counters[*counter] = n;
        }
        for words in [&mut counts.reasons, &mut counts.statuses, &mut counts.copies] {
            words.insert("word".to_owned(), 12);
        }
        let group = &mut service.groups[0];
        let limits = |n| Limits {
            rate_per_s: Some(f64::from(n)),
            in_flight: Some(n),
            utilization: Some(0.1),
        };
        (group.limits, group.headroom) = (limits(13), limits(14));
        (group.scaler, group.overflowed, group.distance_ms) = (0.5, 15, Some(16.0));
        group.load.utilization = Some(0.25);
        let server = &mut group.servers[0];
        (server.requests, server.failures, server.ejections, server.weight) = (17, 18, 19, 20);
        (server.connections, server.load.in_flight, server.latency_ms) = (21, 22, 23.0);
        let told = |tells_all| {
            let mut text = String::new();
            let still = Still { tells_all, ..Still::new(state.clone()) };
            write(still, Detail::Servers, Format::Prometheus, &mut text).unwrap();
            let lines = text.lines().filter(|line| !line.contains("process_"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(told(false), told(true));
    }

    #[test]
    fn by_groups_there_is_no_series_of_a_single_server_and_every_other_one() {
        let all = text(state("web"), Detail::Servers, Format::Prometheus);
        let less = text(state("web"), Detail::Groups, Format::Prometheus);
        let of_servers = |line: &&str| line.contains("server=\"");
        assert!(all.lines().filter(of_servers).count() > 10 && !less.contains("server=\""));
        let names = |text: &str| -> Vec<String> {
            let samples = text.lines().filter(|line| !line.starts_with('#') && !of_servers(line));
            samples.filter_map(|line| Some(line.split_once([' ', '{'])?.0.to_owned())).collect()
        };
        assert_eq!(names(&all), names(&less));
        assert!(!less.contains("server_requests"), "no family without a sample either: {less}");
    }

    #[test]
    fn the_limit_of_all_listeners_together_is_told_where_there_is_one() {
        let told = |max_connections| {
            let state = State { max_connections, ..State::default() };
            let text = text(state, Detail::Servers, Format::Prometheus);
            text.lines().any(|line| line == "loadline_client_connections_edge_limit 500.0")
        };
        assert!(told(Some(500)) && !told(None));
    }

    /// The values of the labels of a sample, unescaped, and its value; none where it is no sample.
    fn parsed(line: &str) -> Option<(Vec<String>, f64)> {
        let Some((_, rest)) = line.split_once('{') else {
            return Some((Vec::new(), line.split_once(' ')?.1.parse().ok()?));
        };
        let (mut values, mut rest) = (Vec::new(), rest);
        while !rest.starts_with('}') {
            let (mut value, quoted) = (String::new(), rest.split_once("=\"")?.1);
            let mut characters = quoted.chars();
            loop {
                match characters.next()? {
                    '"' => break,
                    '\\' => value.push(match characters.next()? {
                        'n' => '\n',
                        other => other,
                    }),
                    other => value.push(other),
                }
            }
            values.push(value);
            rest = characters.as_str().trim_start_matches(',');
        }
        Some((values, rest.strip_prefix("} ")?.parse().ok()?))
    }

    /// How many samples tell of this name, in a text that is well formed.
    fn samples_of(name: &str) -> Result<usize, TestCaseError> {
        let text = text(state(name), Detail::Servers, Format::OpenMetrics);
        prop_assert!(text.ends_with("# EOF\n"));
        let lines = text.split('\n').filter(|line| !line.is_empty());
        let mut named = 0;
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (values, _) = parsed(line).ok_or_else(|| TestCaseError::fail(line.to_owned()))?;
            named += usize::from(values.iter().any(|value| value == name));
        }
        Ok(named)
    }

    proptest! {
        #[test]
        fn the_text_is_well_formed_whatever_the_names(name in any::<String>()) {
            let (named, plain) = (samples_of(&name)?, samples_of("a plain name")?);
            let families = families().count();
            prop_assert!(named >= plain && plain >= families / 3, "{} of {}", named, plain);
        }
    }

    #[test]
    fn each_metric_has_a_name_of_its_own_and_a_base_unit() {
        for (_, family) in families() {
            let name = family.head().name;
            let same = families().filter(|(_, other)| other.head().name == name);
            assert_eq!(same.count(), 1, "{name}");
            assert!(!name.contains("_ms") && !name.ends_with("_total"));
        }
    }
}
