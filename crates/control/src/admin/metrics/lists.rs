//! Metrics of lists of servers that are kept elsewhere.

use loadline_core::state::Discovery;

use super::family::{Family, Subject};

/// The lists of servers that are followed, by the groups they are for.
const LIST: Subject<Discovery> = Subject {
    labels: &["service", "group"],
    each: |state, to| {
        for service in &state.services {
            for group in &service.groups {
                if let Some(list) = &group.discovery {
                    to(&[&service.name, &group.name], list);
                }
            }
        }
    },
};

/// What became of the responses about them.
const UPDATES: Subject<u64> = Subject {
    labels: &["service", "group", "result"],
    each: |state, to| {
        (LIST.each)(state, &mut |group, list| {
            let counts =
                [("taken", list.taken), ("refused", list.refused), ("failed", list.failed)];
            for (result, count) in counts {
                to(&[group, &[result]].concat(), &count);
            }
        });
    },
};

/// Every metric there is of them.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &LIST.gauge("discovery_servers", "Servers on the discovered list of the group", |it| {
        it.servers as f64
    }),
    &LIST.gauge_if_any(
        "discovery_age_seconds",
        "Time since the last successful update of the list; no sample before the first",
        |it| it.age_s,
    ),
    &LIST.gauge(
        "discovery_stale",
        "1 while the last update was rejected or failed and the previous list is used",
        |it| f64::from(it.stale),
    ),
    &UPDATES.counter(
        "discovery_updates",
        "Updates of the list, by result: taken, refused (empty) or failed",
        |it| *it,
    ),
];
