//! Metrics of groups.

use loadline_core::state::{Group, Limits};

use super::family::{Family, Subject};

const GROUP: Subject<Group> = Subject {
    labels: &["service", "group"],
    each: |state, to| {
        for service in &state.services {
            for group in &service.groups {
                to(&[&service.name, &group.name], group);
            }
        }
    },
};

fn places(limits: &Limits) -> Option<f64> {
    limits.in_flight.map(f64::from)
}

/// What groups may be given, and where they are.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &GROUP.counter(
        "overflow_requests",
        "Requests sent to this group because nearer ones were full or down",
        |it| it.overflowed,
    ),
    &GROUP.counter(
        "over_capacity_requests",
        "Requests sent to this group beyond its capacity (spread), since all groups were full",
        |it| it.over_capacity,
    ),
    &GROUP.gauge_if_any(
        "capacity_requests_per_second",
        "Current rate limit of the group; no sample if unlimited",
        |it| it.limits.rate_per_s,
    ),
    &GROUP.gauge_if_any(
        "capacity_in_flight",
        "Current limit of requests in flight of the group; no sample if unlimited",
        |it| places(&it.limits),
    ),
    &GROUP.gauge(
        "capacity_found",
        "1 while a limit of requests in flight found by loadline applies",
        |it| f64::from(it.limit_found),
    ),
    &GROUP.gauge_if_any(
        "capacity_utilization_ratio",
        "Current utilization limit of the group; no sample if unlimited",
        |it| it.limits.utilization,
    ),
    &GROUP.gauge_if_any(
        "utilization_ratio",
        "Mean utilization of the group as its servers report it",
        |it| it.load.utilization,
    ),
    &GROUP.gauge("scaler_ratio", "Factor of the capacity, 0 to 1", |it| it.scaler),
    &GROUP.gauge_if_any(
        "distance_seconds",
        "Round-trip time from this edge; no sample until measured",
        |it| it.distance_ms.map(|ms| ms / 1e3),
    ),
];

/// What groups may be given more, which follows from the rates of their servers.
pub(super) const HEADROOM: &[&dyn Family] = &[
    &GROUP.gauge_if_any(
        "headroom_requests_per_second",
        "Remaining rate of the group; no sample if unlimited",
        |it| it.headroom.rate_per_s,
    ),
    &GROUP.gauge_if_any(
        "headroom_in_flight",
        "Remaining requests in flight of the group; no sample if unlimited",
        |it| places(&it.headroom),
    ),
];
