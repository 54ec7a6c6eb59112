//! Metrics of an edge with others and their store. There are none where it is alone.

use loadline_core::state::{Cluster, SharedChecks, SharedGroup, SharedService, Sharing, State};

use super::family::{Family, Subject};

pub(super) const FAMILIES: &[&dyn Family] = &[
    &CLUSTER.gauge("cluster_connected", "1 while the store of the cluster is connected", |it| {
        f64::from(it.endpoint.is_some())
    }),
    &CLUSTER.gauge("cluster_joined", "1 while this edge is registered in the store", |it| {
        f64::from(it.joined)
    }),
    &SHARING.gauge("cluster_elected", "1 while this edge is the one that computes shares", |it| {
        f64::from(it.elected)
    }),
    &CLUSTER.gauge("cluster_edges", "Edges in the store", |it| it.edges as f64),
    &CLUSTER.gauge(
        "cluster_configuration_version",
        "Version of the published configuration that runs here; 0: none",
        |it| it.configuration as f64,
    ),
    &CLUSTER.gauge(
        "cluster_published_version",
        "Version of the configuration that was published to all edges; 0: none",
        |it| it.published as f64,
    ),
    &CLUSTER.counter(
        "cluster_configuration_refused",
        "Published versions that this edge refused",
        |it| it.refusals,
    ),
    &CLUSTER.counter("cluster_writes", "Writes to the store", |it| it.writes),
    &FAULTS.counter("cluster_faults", "Faults of the store, by kind", |it| *it),
    &SHARING.gauge(
        "cluster_sharing",
        "1 while this edge has a lease, so that it may use its shares of groups",
        |it| f64::from(it.leased),
    ),
    &SHARING.gauge("cluster_sharing_edges", "Edges that share groups", |it| it.edges as f64),
    &SHARING.gauge(
        "cluster_mismatch",
        "1 while edges differ in `floor` or `max_edges`, or are more than that",
        |it| f64::from(it.mismatch),
    ),
    &CHECKS.gauge(
        "cluster_checking_edges",
        "Edges that divide health checks; 0 while each checks all servers",
        |it| it.edges as f64,
    ),
    &CHECKS.gauge(
        "cluster_checked_servers",
        "Servers that this edge checks for others as well",
        |it| it.servers as f64,
    ),
    &SHARED_GROUP.gauge(
        "cluster_share",
        "Part of the capacity of a group that this edge may use, 0 to 1",
        |it| it.share,
    ),
    &SHARED_SERVICE.gauge(
        "cluster_demand",
        "Requests per second of a service, as the other edges are told",
        |it| it.demand,
    ),
    &SHARING.counter(
        "cluster_allotments",
        "Allotments of shares that this edge wrote as the elected one",
        |it| it.allotments,
    ),
    &SHARING.counter(
        "cluster_slices",
        "Slices of what was free that this edge asked for, since it was short",
        |it| it.slices,
    ),
    &SHARING.gauge_if_any(
        "cluster_last_allotment_seconds",
        "Seconds since any edge moved a share",
        |it| it.allotted_s,
    ),
];

fn sharing(state: &State) -> Option<&Sharing> {
    state.cluster.as_ref()?.sharing.as_ref()
}

const CLUSTER: Subject<Cluster> =
    Subject { labels: &[], each: |state, to| state.cluster.iter().for_each(|it| to(&[], it)) };

/// By kind, how many there were.
const FAULTS: Subject<u64> = Subject {
    labels: &["kind"],
    each: |state, to| {
        let faults = state.cluster.iter().flat_map(|cluster| &cluster.faults);
        faults.for_each(|(kind, count)| to(&[kind], count));
    },
};

const CHECKS: Subject<SharedChecks> = Subject {
    labels: &[],
    each: |state, to| {
        let checks = state.cluster.as_ref().and_then(|it| it.checks.as_ref());
        checks.into_iter().for_each(|it| to(&[], it));
    },
};

const SHARING: Subject<Sharing> = Subject {
    labels: &[],
    each: |state, to| sharing(state).into_iter().for_each(|it| to(&[], it)),
};

const SHARED_SERVICE: Subject<SharedService> = Subject {
    labels: &["service"],
    each: |state, to| {
        let services = sharing(state).into_iter().flat_map(|it| &it.services);
        services.for_each(|service| to(&[&service.name], service));
    },
};

const SHARED_GROUP: Subject<SharedGroup> = Subject {
    labels: &["service", "group"],
    each: |state, to| {
        for service in sharing(state).into_iter().flat_map(|it| &it.services) {
            for group in &service.groups {
                to(&[&service.name, &group.name], group);
            }
        }
    },
};

#[cfg(test)]
mod tests {
    use super::super::{Detail, Format, tests::text};
    use super::*;

    fn shared() -> SharedService {
        let groups = vec![SharedGroup { name: "near".to_owned(), share: 0.25 }];
        SharedService { name: "web".to_owned(), demand: 12.5, groups }
    }

    #[test]
    fn an_edge_with_others_is_shown_with_their_store_and_one_alone_is_not() {
        let alone = text(State::default(), Detail::Servers, Format::OpenMetrics);
        assert!(!alone.contains("\nloadline_cluster"));
        let sharing = Sharing { elected: true, slices: 4, ..Sharing::default() };
        let sharing = Sharing { services: vec![shared()], ..sharing };
        let cluster = Cluster {
            name: "edge-1".to_owned(),
            edges: 3,
            faults: [("unreachable".to_owned(), 2)].into(),
            checks: Some(SharedChecks { edges: 3, servers: 8 }),
            sharing: Some(sharing),
            ..Cluster::default()
        };
        let state = State { cluster: Some(cluster), ..State::default() };
        let text = text(state, Detail::Servers, Format::OpenMetrics);
        for line in [
            "loadline_cluster_connected 0.0",
            "loadline_cluster_elected 1.0",
            "loadline_cluster_edges 3.0",
            "loadline_cluster_faults_total{kind=\"unreachable\"} 2",
            "loadline_cluster_sharing 0.0",
            "loadline_cluster_checking_edges 3.0",
            "loadline_cluster_checked_servers 8.0",
            "loadline_cluster_share{service=\"web\",group=\"near\"} 0.25",
            "loadline_cluster_demand{service=\"web\"} 12.5",
            "loadline_cluster_slices_total 4",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn an_edge_that_shares_nothing_is_neither_elected_nor_not() {
        let state = State { cluster: Some(Cluster::default()), ..State::default() };
        let text = text(state, Detail::Servers, Format::OpenMetrics);
        assert!(text.contains("loadline_cluster_joined 0.0"), "{text}");
        assert!(!text.contains("\nloadline_cluster_elected"), "{text}");
    }
}
