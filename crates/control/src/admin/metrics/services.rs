//! Metrics of services.

use loadline_core::state::{Service, State};

use super::{Family, Read, Samples};

fn services<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Service) -> T) {
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

/// Every metric there is of them but their failures.
pub(super) const FAMILIES: &[Family] = &[
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
];
