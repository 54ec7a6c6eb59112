//! Metrics of services.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use loadline_core::state::{Service, ServiceCounter, State};
use prometheus_client::{
    encoding::{MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::{
    Process,
    family::{Family, Head, Number, Subject, Tell},
};

const SERVICE: Subject<Service> = Subject {
    labels: &["service"],
    each: |state, to| state.services.iter().for_each(|it| to(&[&it.name], it)),
};

const ENDINGS: Subject<u64> = Subject {
    labels: &["service", "ending"],
    each: |state, to| by_word(state, to, |it| &it.counts.endings),
};

const STATUSES: Subject<u64> = Subject {
    labels: &["service", "code"],
    each: |state, to| by_word(state, to, |it| &it.counts.statuses),
};

const COPIES: Subject<u64> = Subject {
    labels: &["service", "result"],
    each: |state, to| by_word(state, to, |it| &it.counts.copies),
};

/// Tells what is counted by service and by one word more.
pub(super) fn by_word(
    state: &State,
    to: Tell<'_, u64>,
    of: fn(&Service) -> &BTreeMap<String, u64>,
) {
    for service in &state.services {
        of(service).iter().for_each(|(word, count)| to(&[&service.name, word], count));
    }
}

/// A counter of services.
struct Counter {
    head: Head,
    counter: ServiceCounter,
}

impl Family for Counter {
    fn head(&self) -> &Head {
        &self.head
    }

    fn encode(&self, state: &State, _: &Process, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        state.services.iter().try_for_each(|service| {
            let count = Number::Count(service.counts.counters[self.counter]);
            self.head.encode(&[&service.name], &count, encoder)
        })
    }
}

/// The duration of requests by service.
struct Durations(Head);

impl Family for Durations {
    fn head(&self) -> &Head {
        &self.0
    }

    fn encode(&self, state: &State, _: &Process, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        state.services.iter().try_for_each(|service| times(service, encoder))
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

/// The counters, as each states itself.
pub(super) fn counters() -> impl Iterator<Item = &'static dyn Family> {
    COUNTERS.iter().map(|counter| counter as &dyn Family)
}

static COUNTERS: LazyLock<Vec<Counter>> = LazyLock::new(|| {
    let family = |counter: ServiceCounter| {
        let (name, help) = (counter.metric()?, counter.meaning());
        let head = Head { name, help, labels: SERVICE.labels, kind: MetricType::Counter };
        Some(Counter { head, counter })
    };
    ServiceCounter::ALL.iter().copied().filter_map(family).collect()
});

/// Every other metric there is of them but their failures.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &ENDINGS.counter("requests", "Requests, by ending", |it| *it),
    &STATUSES.counter(
        "responses",
        "Requests, by status class sent to the client (`other`: 600 and above)",
        |it| *it,
    ),
    &Durations(Head {
        name: "request_duration_seconds",
        help: "From the request header to the end of the response",
        labels: SERVICE.labels,
        kind: MetricType::Histogram,
    }),
    &COPIES.counter("mirrored_requests", "Mirrored requests, by result", |it| *it),
    &SERVICE.gauge("queue_length", "Requests in the queue", |it| f64::from(it.queued)),
    &SERVICE.gauge("queue_limit", "Maximum requests in the queue; 0 without a queue", |it| {
        f64::from(it.queue_length)
    }),
    &SERVICE.gauge("service_ready", "1 if a server of any group may take traffic", |it| {
        f64::from(it.ready)
    }),
];
