//! Metrics for Prometheus, in its text format or in that of OpenMetrics.
//!
//! Names follow the conventions: base units, `_total` for what only grows. Labels are names of the
//! configuration and endings, so their number is bounded by the file; nothing a client sends
//! becomes one. The table below is the reference as well ([`reference`]).

mod certificates;
mod failures;
mod format;
mod forwarding;
mod lists;
mod pieces;
mod servers;
mod standby;

use std::fmt;

use format::Prometheus;

pub(crate) use format::Format;
use loadline_core::state::{Group, Limits, Listener, Service, State};
pub(crate) use pieces::{AT_ONCE, Pieces};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text::encode},
    metrics::MetricType,
    registry::Registry,
};

use super::process::Process;
use lists::{list_updates, lists};

/// Which series there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// All, those of each server among them.
    #[default]
    Servers,
    /// None of single servers.
    Groups,
}

/// Writes the state in `format`, each sample as it is made.
///
/// # Errors
/// That of `to`.
pub(crate) fn write(
    state: State,
    detail: Detail,
    format: Format,
    to: &mut impl fmt::Write,
) -> fmt::Result {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition { state, detail, process: Process::read() }));
    match format {
        Format::OpenMetrics => encode(to, &registry),
        Format::Prometheus => encode(&mut Prometheus::new(to), &registry),
    }
}

/// The list of all metrics, as a table in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut table = "| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for family in families() {
        let (kind, suffix) = match family.read {
            Read::Counter(_) | Read::CpuTime => ("counter", "_total"),
            Read::Gauge(_) | Read::Process(_) => ("gauge", ""),
            Read::Times => ("histogram", ""),
        };
        let labels: Vec<String> = family.labels.iter().map(|it| format!("`{it}`")).collect();
        let (name, help) = (family.full_name(), family.help);
        let labels = labels.join(", ");
        table.push_str(&format!("| `{name}{suffix}` | {kind} | {labels} | {help} |\n"));
    }
    table
}

/// One metric with all its label values.
struct Family {
    /// Without the prefix `loadline_`, and without `_total`.
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: Read,
}

/// Where the samples come from.
enum Read {
    Counter(fn(&State, &mut Samples<'_, u64>)),
    Gauge(fn(&State, &mut Samples<'_, f64>)),
    /// The duration of requests by service.
    Times,
    /// What this process uses. Such names are the same for every program.
    Process(fn(&Process) -> Option<f64>),
    /// The processor time of this process.
    CpuTime,
}

/// Takes label values and a value each, until one could not be written.
struct Samples<'a, T> {
    write: &'a mut dyn FnMut(&[&str], T) -> fmt::Result,
    written: fmt::Result,
}

impl<T> Samples<'_, T> {
    fn add(&mut self, labels: &[&str], value: T) {
        if self.written.is_ok() {
            self.written = (self.write)(labels, value);
        }
    }
}

#[derive(Debug)]
struct Exposition {
    state: State,
    detail: Detail,
    process: Process,
}

/// Every metric there is.
fn families() -> impl Iterator<Item = &'static Family> {
    let parts = [
        FAMILIES,
        servers::FAMILIES,
        certificates::FAMILIES,
        failures::FAMILIES,
        forwarding::FAMILIES,
        standby::FAMILIES,
    ];
    parts.into_iter().flatten()
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut told = families().filter(|family| family.is_told(self.detail));
        told.try_for_each(|family| family.encode(self, &mut encoder))
    }
}

impl Family {
    fn full_name(&self) -> String {
        match self.read {
            Read::Process(_) | Read::CpuTime => self.name.to_owned(),
            _ => format!("loadline_{}", self.name),
        }
    }

    fn is_told(&self, detail: Detail) -> bool {
        detail == Detail::Servers || !self.labels.contains(&"server")
    }

    fn encode(&self, told: &Exposition, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Exposition { state, process, .. } = told;
        let name = self.full_name();
        let kind = match self.read {
            Read::Counter(_) | Read::CpuTime => MetricType::Counter,
            Read::Gauge(_) | Read::Process(_) => MetricType::Gauge,
            Read::Times => MetricType::Histogram,
        };
        let mut encoder = encoder.encode_descriptor(&name, self.help, None, kind)?;
        match self.read {
            Read::Counter(read) => self.each(state, read, &mut encoder, |encoder, value| {
                encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }),
            Read::Gauge(read) => {
                self.each(state, read, &mut encoder, |encoder, value| encoder.encode_gauge(&value))
            }
            Read::Times => state.services.iter().try_for_each(|it| times(it, &mut encoder)),
            Read::Process(read) => read(process).map_or(Ok(()), |it| encoder.encode_gauge(&it)),
            Read::CpuTime => process
                .cpu_s
                .map_or(Ok(()), |it| encoder.encode_counter::<NoLabelSet, _, u64>(&it, None)),
        }
    }

    fn each<T: Copy>(
        &self,
        state: &State,
        read: fn(&State, &mut Samples<'_, T>),
        encoder: &mut MetricEncoder<'_>,
        write: impl Fn(&mut MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        let mut one = |values: &[&str], value: T| {
            if values.is_empty() {
                return write(encoder, value);
            }
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(values.iter().copied()).collect();
            write(&mut encoder.encode_family(&labels)?, value)
        };
        let mut samples = Samples { write: &mut one, written: Ok(()) };
        read(state, &mut samples);
        samples.written
    }
}

fn times(service: &Service, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    let times = &service.counts.duration;
    let bounds = times.bounds_s.iter().copied().chain([f64::INFINITY]);
    let bins: Vec<(f64, u64)> = bounds.zip(times.counts.iter().copied()).collect();
    if bins.is_empty() {
        return Ok(());
    }
    let labels = [("service", service.name.as_str())];
    let mut encoder = encoder.encode_family(&labels)?;
    encoder.encode_histogram::<NoLabelSet>(times.sum_s, times.count(), &bins, None)
}

fn listeners<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Listener) -> T) {
    for listener in &state.listeners {
        samples.add(&[&listener.address], value(listener));
    }
}

fn refused(state: &State, samples: &mut Samples<'_, u64>) {
    for listener in &state.listeners {
        for (reason, count) in &listener.refused {
            samples.add(&[&listener.address, reason], *count);
        }
    }
}

fn handshakes(state: &State, samples: &mut Samples<'_, u64>) {
    for listener in &state.listeners {
        samples.add(&[&listener.address, "ok"], listener.handshakes);
        samples.add(&[&listener.address, "failed"], listener.handshakes_failed);
    }
}

fn services<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Service) -> T) {
    for service in &state.services {
        samples.add(&[&service.name], value(service));
    }
}

fn groups<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Group) -> Option<T>) {
    for service in &state.services {
        for group in &service.groups {
            if let Some(value) = value(group) {
                samples.add(&[&service.name, &group.name], value);
            }
        }
    }
}

/// Samples of what is counted by service and by one word more.
fn by_word(
    state: &State,
    samples: &mut Samples<'_, u64>,
    of: fn(&Service) -> &std::collections::BTreeMap<String, u64>,
) {
    for service in &state.services {
        for (word, count) in of(service) {
            samples.add(&[&service.name, word], *count);
        }
    }
}

fn places(limits: &Limits) -> Option<f64> {
    limits.in_flight.map(f64::from)
}

const LISTENER: &[&str] = &["listener"];
const SERVICE: &[&str] = &["service"];
const GROUP: &[&str] = &["service", "group"];

/// The metrics of the process and of the proxy.
const FAMILIES: &[Family] = &[
    Family {
        name: "build_info",
        help: "1, with the version that runs",
        labels: &["version"],
        read: Read::Gauge(|_, to| to.add(&[env!("CARGO_PKG_VERSION")], 1.0)),
    },
    Family {
        name: "uptime_seconds",
        help: "Time since the start of the process",
        labels: &[],
        read: Read::Gauge(|state, to| to.add(&[], state.uptime_s)),
    },
    Family {
        name: "draining",
        help: "1 while the edge takes no more connections",
        labels: &[],
        read: Read::Gauge(|state, to| to.add(&[], f64::from(u8::from(state.draining)))),
    },
    Family {
        name: "plan_generation",
        help: "Counts up with each plan: configuration, health, slow start",
        labels: &[],
        read: Read::Gauge(|state, to| to.add(&[], state.generation as f64)),
    },
    Family {
        name: "process_cpu_seconds",
        help: "User and system time of the process",
        labels: &[],
        read: Read::CpuTime,
    },
    Family {
        name: "process_resident_memory_bytes",
        help: "Memory of the process that is in RAM",
        labels: &[],
        read: Read::Process(|process| process.resident_bytes),
    },
    Family {
        name: "process_virtual_memory_bytes",
        help: "Address space of the process",
        labels: &[],
        read: Read::Process(|process| process.virtual_bytes),
    },
    Family {
        name: "process_threads",
        help: "Threads of the process",
        labels: &[],
        read: Read::Process(|process| process.threads),
    },
    Family {
        name: "process_open_fds",
        help: "Open file descriptors",
        labels: &[],
        read: Read::Process(|process| process.open_fds),
    },
    Family {
        name: "process_max_fds",
        help: "The most file descriptors that may be open",
        labels: &[],
        read: Read::Process(|process| process.max_fds),
    },
    Family {
        name: "process_start_time_seconds",
        help: "When the process started, in seconds since 1970",
        labels: &[],
        read: Read::Process(|process| process.start_s),
    },
    Family {
        name: "log_lines_dropped",
        help: "Access log lines given up because the writer did not keep up",
        labels: &[],
        read: Read::Counter(|state, to| to.add(&[], state.log_lines_dropped)),
    },
    Family {
        name: "spans_exported",
        help: "Spans that the collector has taken",
        labels: &[],
        read: Read::Counter(|state, to| to.add(&[], state.spans_exported)),
    },
    Family {
        name: "spans_dropped",
        help: "Spans given up because the collector did not keep up, or refused them",
        labels: &[],
        read: Read::Counter(|state, to| to.add(&[], state.spans_dropped)),
    },
    Family {
        name: "client_connections",
        help: "Open connections of clients",
        labels: LISTENER,
        read: Read::Gauge(|state, to| listeners(state, to, |it| it.open as f64)),
    },
    Family {
        name: "client_connections_limit",
        help: "The most connections of clients at a time",
        labels: LISTENER,
        read: Read::Gauge(|state, to| listeners(state, to, |it| f64::from(it.max_connections))),
    },
    Family {
        name: "client_connections_accepted",
        help: "Connections of clients that were taken in",
        labels: LISTENER,
        read: Read::Counter(|state, to| listeners(state, to, |it| it.accepted)),
    },
    Family {
        name: "client_connections_refused",
        help: "Connections of clients that were not, by the reason",
        labels: &["listener", "reason"],
        read: Read::Counter(refused),
    },
    Family {
        name: "client_connections_held",
        help: "Times accepting stopped at the limit, and further connections waited in the kernel",
        labels: LISTENER,
        read: Read::Counter(|state, to| listeners(state, to, |it| it.held)),
    },
    Family {
        name: "client_tls_handshakes",
        help: "TLS handshakes with clients, by the result: ok or failed",
        labels: &["listener", "result"],
        read: Read::Counter(handshakes),
    },
    Family {
        name: "client_received_bytes",
        help: "Bytes that clients sent, TLS and frames included",
        labels: LISTENER,
        read: Read::Counter(|state, to| listeners(state, to, |it| it.received_bytes)),
    },
    Family {
        name: "client_sent_bytes",
        help: "Bytes that were sent to clients, TLS and frames included",
        labels: LISTENER,
        read: Read::Counter(|state, to| listeners(state, to, |it| it.sent_bytes)),
    },
    Family {
        name: "requests",
        help: "Requests by how they ended",
        labels: &["service", "ending"],
        read: Read::Counter(|state, to| by_word(state, to, |it| &it.counts.endings)),
    },
    Family {
        name: "responses",
        help: "Requests by the class of the status their client was told",
        labels: &["service", "code"],
        read: Read::Counter(|state, to| by_word(state, to, |it| &it.counts.statuses)),
    },
    Family {
        name: "request_duration_seconds",
        help: "From the head of a request to the end of its answer",
        labels: SERVICE,
        read: Read::Times,
    },
    Family {
        name: "retries",
        help: "Further attempts after a failed one",
        labels: SERVICE,
        read: Read::Counter(|state, to| services(state, to, |it| it.counts.retries)),
    },
    Family {
        name: "queued_requests",
        help: "Requests that had to wait for capacity",
        labels: SERVICE,
        read: Read::Counter(|state, to| services(state, to, |it| it.counts.queued)),
    },
    Family {
        name: "displaced_requests",
        help: "Of these, those that gave way to a request of a higher class",
        labels: SERVICE,
        read: Read::Counter(|state, to| services(state, to, |it| it.counts.displaced)),
    },
    Family {
        name: "session_kept_requests",
        help: "Requests that went to the server of their session",
        labels: SERVICE,
        read: Read::Counter(|state, to| services(state, to, |it| it.counts.sessions_kept)),
    },
    Family {
        name: "session_moved_requests",
        help: "Requests whose session moved: its server was full, out of rotation or gone",
        labels: SERVICE,
        read: Read::Counter(|state, to| services(state, to, |it| it.counts.sessions_moved)),
    },
    Family {
        name: "mirrored_requests",
        help: "Copies that routes made, or did not make, of requests to others, by the result",
        labels: &["service", "result"],
        read: Read::Counter(|state, to| by_word(state, to, |it| &it.counts.copies)),
    },
    Family {
        name: "queue_length",
        help: "Requests that wait for capacity",
        labels: SERVICE,
        read: Read::Gauge(|state, to| services(state, to, |it| f64::from(it.queued))),
    },
    Family {
        name: "queue_limit",
        help: "The most requests that may wait; 0 without a queue",
        labels: SERVICE,
        read: Read::Gauge(|state, to| services(state, to, |it| f64::from(it.queue_length))),
    },
    Family {
        name: "service_ready",
        help: "1 where a server of any group may take traffic",
        labels: SERVICE,
        read: Read::Gauge(|state, to| services(state, to, |it| f64::from(u8::from(it.ready)))),
    },
    Family {
        name: "overflow_requests",
        help: "Requests given to this group because nearer ones were full or down",
        labels: GROUP,
        read: Read::Counter(|state, to| groups(state, to, |it| Some(it.overflowed))),
    },
    Family {
        name: "capacity_requests_per_second",
        help: "What the group may be given now; absent where not limited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.limits.rate_per_s)),
    },
    Family {
        name: "capacity_in_flight",
        help: "Requests in flight the group may have now; absent where not limited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| places(&it.limits))),
    },
    Family {
        name: "capacity_found",
        help: "1 while a limit of requests in flight holds that was found",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| Some(f64::from(it.limit_found)))),
    },
    Family {
        name: "capacity_utilization_ratio",
        help: "Utilization the group may have now; absent where not limited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.limits.utilization)),
    },
    Family {
        name: "headroom_requests_per_second",
        help: "What the group may be given more; absent where not limited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.headroom.rate_per_s)),
    },
    Family {
        name: "headroom_in_flight",
        help: "Requests in flight the group may have more; absent where not limited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| places(&it.headroom))),
    },
    Family {
        name: "utilization_ratio",
        help: "Mean utilization of the group as its servers report it",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.load.utilization)),
    },
    Family {
        name: "scaler_ratio",
        help: "The part of its capacity in use",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| Some(it.scaler))),
    },
    Family {
        name: "distance_seconds",
        help: "Round-trip time from this edge; absent while not measured",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.distance_ms.map(|ms| ms / 1e3))),
    },
    Family {
        name: "discovery_servers",
        help: "Servers on the list that the group follows",
        labels: GROUP,
        read: Read::Gauge(|state, to| lists(state, to, |it| Some(it.servers as f64))),
    },
    Family {
        name: "discovery_age_seconds",
        help: "Time since that list was last found to be so; absent while not known",
        labels: GROUP,
        read: Read::Gauge(|state, to| lists(state, to, |it| it.age_s)),
    },
    Family {
        name: "discovery_stale",
        help: "1 while what came last could not be taken, so that the list is the one before",
        labels: GROUP,
        read: Read::Gauge(|state, to| {
            lists(state, to, |it| Some(f64::from(u8::from(it.stale))));
        }),
    },
    Family {
        name: "discovery_updates",
        help: "Lists that came, by the result: taken, refused (empty) or failed",
        labels: &["service", "group", "result"],
        read: Read::Counter(list_updates),
    },
];

#[cfg(test)]
pub(super) mod tests {
    use loadline_core::state::{
        Certificate, Discovery, ForwardedServer, Forwarding, Server, Traffic,
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
            ..Forwarding::default()
        };
        State {
            listeners: vec![listener],
            certificates: vec![certificate],
            services: vec![service],
            forwarding: Some(forwarding),
            ..State::default()
        }
    }

    /// The whole of it in one piece.
    pub(super) fn text(state: State, detail: Detail, format: Format) -> String {
        let mut text = String::new();
        write(state, detail, format, &mut text).unwrap();
        text
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

    proptest! {
        #[test]
        fn the_text_is_well_formed_whatever_the_names(name in any::<String>()) {
            let text = text(state(&name), Detail::Servers, Format::OpenMetrics);
            prop_assert!(text.ends_with("# EOF\n"));
            let lines = text.split('\n').filter(|line| !line.is_empty());
            let samples = lines.filter(|line| !line.starts_with('#'));
            let mut named = 0;
            for line in samples {
                let (values, _) = parsed(line).ok_or_else(|| TestCaseError::fail(line.to_owned()))?;
                named += usize::from(values.contains(&name));
            }
            prop_assert!(named >= families().count() / 2, "{}", named);
        }
    }

    #[test]
    fn each_metric_has_a_name_of_its_own_and_a_base_unit() {
        for family in families() {
            let same = families().filter(|other| other.name == family.name);
            assert_eq!(same.count(), 1, "{}", family.name);
            assert!(!family.name.contains("_ms") && !family.name.ends_with("_total"));
        }
    }
}
