//! Metrics of groups.

use loadline_core::state::{Group, Limits, State};

use super::{Family, Read, Samples};

pub(super) fn groups<T>(
    state: &State,
    samples: &mut Samples<'_, T>,
    value: impl Fn(&Group) -> Option<T>,
) {
    for service in &state.services {
        for group in &service.groups {
            if let Some(value) = value(group) {
                samples.add(&[&service.name, &group.name], value);
            }
        }
    }
}

fn places(limits: &Limits) -> Option<f64> {
    limits.in_flight.map(f64::from)
}

pub(super) const GROUP: &[&str] = &["service", "group"];

/// What groups may be given, and where they are.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "overflow_requests",
        help: "Requests sent to this group because nearer ones were full or down",
        labels: GROUP,
        read: Read::Counter(|state, to| groups(state, to, |it| Some(it.overflowed))),
    },
    Family {
        name: "capacity_requests_per_second",
        help: "Current rate limit of the group; no sample if unlimited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.limits.rate_per_s)),
    },
    Family {
        name: "capacity_in_flight",
        help: "Current limit of requests in flight of the group; no sample if unlimited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| places(&it.limits))),
    },
    Family {
        name: "capacity_found",
        help: "1 while a discovered limit of requests in flight is active",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| Some(f64::from(it.limit_found)))),
    },
    Family {
        name: "capacity_utilization_ratio",
        help: "Current utilization limit of the group; no sample if unlimited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.limits.utilization)),
    },
    Family {
        name: "utilization_ratio",
        help: "Mean utilization of the group as its servers report it",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.load.utilization)),
    },
    Family {
        name: "scaler_ratio",
        help: "Part of the capacity in use",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| Some(it.scaler))),
    },
    Family {
        name: "distance_seconds",
        help: "Round-trip time from this edge; no sample until measured",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.distance_ms.map(|ms| ms / 1e3))),
    },
];

/// What groups may be given more, which follows from the rates of their servers.
pub(super) const HEADROOM: &[Family] = &[
    Family {
        name: "headroom_requests_per_second",
        help: "Remaining rate of the group; no sample if unlimited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| it.headroom.rate_per_s)),
    },
    Family {
        name: "headroom_in_flight",
        help: "Remaining requests in flight of the group; no sample if unlimited",
        labels: GROUP,
        read: Read::Gauge(|state, to| groups(state, to, |it| places(&it.headroom))),
    },
];
