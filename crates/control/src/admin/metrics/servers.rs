//! Metrics of single servers.

use loadline_core::{
    decide::census::Condition,
    state::{Server, State},
};

use super::family::{Family, Subject};

const SERVER: Subject<Server> = Subject {
    labels: &["service", "group", "server"],
    each: |state, to| servers(state).for_each(|(names, server)| to(&names, server)),
};

/// Whether a server is in a condition.
const CONDITION: Subject<bool> = Subject {
    labels: &["service", "group", "server", "condition"],
    each: |state, to| {
        for ([service, group, address], server) in servers(state) {
            for condition in Condition::ALL {
                let names = [service, group, address, condition.name()];
                to(&names, &(server.condition == condition));
            }
        }
    },
};

/// All servers with the values of their labels.
fn servers(state: &State) -> impl Iterator<Item = ([&str; 3], &Server)> {
    let groups = state.services.iter().flat_map(|service| {
        service.groups.iter().map(move |group| (&*service.name, &*group.name, &group.servers))
    });
    groups.flat_map(|(service, group, servers)| {
        servers.iter().map(move |server| ([service, group, &*server.address], server))
    })
}

/// Every metric there is of them.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &SERVER.gauge("in_flight", "Requests in flight", |it| f64::from(it.load.in_flight)),
    &SERVER.counter(
        "server_requests",
        "Requests for which the server was chosen, retries included. One that went on since the \
         server had `max_connections` counts in place of the next",
        |it| it.requests,
    ),
    &SERVER.counter(
        "server_failures",
        "Failed requests, and 5xx after which another server was asked",
        |it| it.failures,
    ),
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
