//! Metrics of single servers.

use loadline_core::{decide::census::Condition, state::Server};

use super::family::{Family, Subject};

const SERVER: Subject<Server> = Subject {
    labels: &["service", "group", "server"],
    each: |state, to| {
        for service in &state.services {
            for group in &service.groups {
                for server in &group.servers {
                    to(&[&service.name, &group.name, &server.address], server);
                }
            }
        }
    },
};

/// Whether a server is in a condition.
const CONDITION: Subject<bool> = Subject {
    labels: &["service", "group", "server", "condition"],
    each: |state, to| {
        (SERVER.each)(state, &mut |names, server| {
            for condition in Condition::ALL {
                to(&[names, &[condition.name()]].concat(), &(server.condition == condition));
            }
        });
    },
};

/// Every metric there is of them.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &SERVER.gauge("in_flight", "Requests in flight", |it| f64::from(it.load.in_flight)),
    &SERVER.counter(
        "server_requests",
        "Requests for which the server was chosen, retries included",
        |it| it.requests,
    ),
    &SERVER.counter("server_failures", "Failed requests", |it| it.failures),
    &SERVER.counter("server_ejections", "Ejections", |it| u64::from(it.ejections)),
    &SERVER.gauge("server_connections", "Open connections to the server", |it| {
        f64::from(it.connections)
    }),
    &SERVER.gauge(
        "server_latency_seconds",
        "Mean time from the choice of the server to its response header",
        |it| it.latency_ms / 1e3,
    ),
    &SERVER.gauge(
        "server_weight",
        "Share of the traffic of its group, changes at run time included",
        |it| f64::from(it.weight),
    ),
    &CONDITION.gauge(
        "server_condition",
        "1 for the condition the server is in, 0 for the others",
        |it| f64::from(*it),
    ),
];
