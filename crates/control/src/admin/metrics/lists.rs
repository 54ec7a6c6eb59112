//! Metrics of lists of servers that are kept elsewhere.

use loadline_core::state::{Discovery, State};

use super::{
    Family, Read, Samples,
    groups::{GROUP, groups},
};

/// Samples of the lists of servers that are followed, by the groups they are for.
fn lists<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Discovery) -> Option<T>) {
    groups(state, samples, |group| group.discovery.as_ref().and_then(&value));
}

/// What became of the responses about them.
fn list_updates(state: &State, samples: &mut Samples<'_, u64>) {
    for service in &state.services {
        for group in &service.groups {
            let Some(list) = &group.discovery else { continue };
            let counts =
                [("taken", list.taken), ("refused", list.refused), ("failed", list.failed)];
            for (result, count) in counts {
                samples.add(&[&service.name, &group.name, result], count);
            }
        }
    }
}

/// Every metric there is of them.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "discovery_servers",
        help: "Servers on the discovered list of the group",
        labels: GROUP,
        read: Read::Gauge(|state, to| lists(state, to, |it| Some(it.servers as f64))),
    },
    Family {
        name: "discovery_age_seconds",
        help: "Time since the last successful update of the list; no sample before the first",
        labels: GROUP,
        read: Read::Gauge(|state, to| lists(state, to, |it| it.age_s)),
    },
    Family {
        name: "discovery_stale",
        help: "1 while the last update was rejected or failed and the previous list is used",
        labels: GROUP,
        read: Read::Gauge(|state, to| {
            lists(state, to, |it| Some(f64::from(u8::from(it.stale))));
        }),
    },
    Family {
        name: "discovery_updates",
        help: "Updates of the list, by result: taken, refused (empty) or failed",
        labels: &["service", "group", "result"],
        read: Read::Counter(list_updates),
    },
];
