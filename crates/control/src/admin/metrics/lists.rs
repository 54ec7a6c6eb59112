//! Metrics of lists of servers that are kept elsewhere.

use loadline_core::state::{Discovery, State};

use super::family::{Family, Subject};

/// The lists of servers that are followed, by the groups they are for.
const LIST: Subject<Discovery> = Subject {
    labels: &["service", "group"],
    each: |state, to| lists(state).for_each(|(names, list)| to(&names, list)),
};

/// What became of the responses about them.
const UPDATES: Subject<u64> = Subject {
    labels: &["service", "group", "result"],
    each: |state, to| {
        for ([service, group], list) in lists(state) {
            let counts =
                [("taken", list.taken), ("refused", list.refused), ("failed", list.failed)];
            for (result, count) in counts {
                to(&[service, group, result], &count);
            }
        }
    },
};

/// The lists with the values of their labels.
fn lists(state: &State) -> impl Iterator<Item = ([&str; 2], &Discovery)> {
    state.services.iter().flat_map(|service| {
        service.groups.iter().filter_map(move |group| {
            let list = group.discovery.as_ref()?;
            Some(([&*service.name, &*group.name], list))
        })
    })
}

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
