//! Metrics of services.

use std::sync::LazyLock;

use loadline_core::state::{Service, ServiceCounter, State};

use super::{Family, Read, Samples};

pub(super) fn services<T>(
    state: &State,
    samples: &mut Samples<'_, T>,
    value: impl Fn(&Service) -> T,
) {
    for service in &state.services {
        samples.add(&[&service.name], value(service));
    }
}

/// Samples of what is counted by service and by one word more.
pub(super) fn by_word(
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

const SERVICE: &[&str] = &["service"];

/// The counters, as each states itself.
pub(super) static COUNTERS: LazyLock<Vec<Family>> = LazyLock::new(|| {
    let family = |counter: ServiceCounter| {
        let (help, read) = (counter.meaning(), Read::Service(counter));
        Some(Family { name: counter.metric()?, help, labels: SERVICE, read })
    };
    ServiceCounter::ALL.iter().copied().filter_map(family).collect()
});

/// Every other metric there is of them but their failures.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "requests",
        help: "Requests, by ending",
        labels: &["service", "ending"],
        read: Read::Counter(|state, to| by_word(state, to, |it| &it.counts.endings)),
    },
    Family {
        name: "responses",
        help: "Requests, by status class sent to the client",
        labels: &["service", "code"],
        read: Read::Counter(|state, to| by_word(state, to, |it| &it.counts.statuses)),
    },
    Family {
        name: "request_duration_seconds",
        help: "From the request header to the end of the response",
        labels: SERVICE,
        read: Read::Times,
    },
    Family {
        name: "mirrored_requests",
        help: "Mirrored requests, by result",
        labels: &["service", "result"],
        read: Read::Counter(|state, to| by_word(state, to, |it| &it.counts.copies)),
    },
    Family {
        name: "queue_length",
        help: "Requests in the queue",
        labels: SERVICE,
        read: Read::Gauge(|state, to| services(state, to, |it| f64::from(it.queued))),
    },
    Family {
        name: "queue_limit",
        help: "Maximum requests in the queue; 0 without a queue",
        labels: SERVICE,
        read: Read::Gauge(|state, to| services(state, to, |it| f64::from(it.queue_length))),
    },
    Family {
        name: "service_ready",
        help: "1 if a server of any group may take traffic",
        labels: SERVICE,
        read: Read::Gauge(|state, to| services(state, to, |it| f64::from(u8::from(it.ready)))),
    },
];
