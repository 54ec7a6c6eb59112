//! Metrics of single servers.

use loadline_core::{
    decide::census::Condition,
    state::{Server, State},
};

use super::{Family, Read, Samples};

fn servers<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Server) -> T) {
    for service in &state.services {
        for group in &service.groups {
            for server in &group.servers {
                samples.add(&[&service.name, &group.name, &server.address], value(server));
            }
        }
    }
}

fn conditions(state: &State, samples: &mut Samples<'_, f64>) {
    for service in &state.services {
        for group in &service.groups {
            for (server, condition) in
                group.servers.iter().flat_map(|it| Condition::ALL.map(|condition| (it, condition)))
            {
                let labels = [&service.name, &group.name, &server.address, condition.name()];
                samples.add(&labels, f64::from(u8::from(server.condition == condition)));
            }
        }
    }
}

const SERVER: &[&str] = &["service", "group", "server"];

/// Every metric there is of them.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "in_flight",
        help: "Requests in flight",
        labels: SERVER,
        read: Read::Gauge(|state, to| servers(state, to, |it| f64::from(it.load.in_flight))),
    },
    Family {
        name: "server_requests",
        help: "Requests for which the server was chosen, retries included",
        labels: SERVER,
        read: Read::Counter(|state, to| servers(state, to, |it| it.requests)),
    },
    Family {
        name: "server_failures",
        help: "Failed requests",
        labels: SERVER,
        read: Read::Counter(|state, to| servers(state, to, |it| it.failures)),
    },
    Family {
        name: "server_ejections",
        help: "Ejections",
        labels: SERVER,
        read: Read::Counter(|state, to| servers(state, to, |it| u64::from(it.ejections))),
    },
    Family {
        name: "server_connections",
        help: "Open connections to the server",
        labels: SERVER,
        read: Read::Gauge(|state, to| servers(state, to, |it| f64::from(it.connections))),
    },
    Family {
        name: "server_latency_seconds",
        help: "Mean time from the choice of the server to its response header",
        labels: SERVER,
        read: Read::Gauge(|state, to| servers(state, to, |it| it.latency_ms / 1e3)),
    },
    Family {
        name: "server_weight",
        help: "Share of the traffic of its group, changes at run time included",
        labels: SERVER,
        read: Read::Gauge(|state, to| servers(state, to, |it| f64::from(it.weight))),
    },
    Family {
        name: "server_condition",
        help: "1 for the condition the server is in, 0 for the others",
        labels: &["service", "group", "server", "condition"],
        read: Read::Gauge(conditions),
    },
];
