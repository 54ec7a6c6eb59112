//! Metrics of an edge with others and their store. There are none where it is alone.

use loadline_core::state::{Cluster, SharedChecks, Sharing, State};

use super::{Family, Read, Samples};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "cluster_connected",
        help: "1 while the store of the cluster is connected",
        labels: &[],
        read: Read::Gauge(|state, to| one(state, to, |it| flag(it.endpoint.is_some()))),
    },
    Family {
        name: "cluster_joined",
        help: "1 while the store has this edge among the others",
        labels: &[],
        read: Read::Gauge(|state, to| one(state, to, |it| flag(it.joined))),
    },
    Family {
        name: "cluster_elected",
        help: "1 while this edge is the elected one",
        labels: &[],
        read: Read::Gauge(|state, to| {
            one(state, to, |it| flag(it.elected.as_ref() == Some(&it.name)));
        }),
    },
    Family {
        name: "cluster_edges",
        help: "Edges in the store",
        labels: &[],
        read: Read::Gauge(|state, to| one(state, to, |it| it.edges as f64)),
    },
    Family {
        name: "cluster_configuration_version",
        help: "Version of the published configuration that runs here; 0: none",
        labels: &[],
        read: Read::Gauge(|state, to| one(state, to, |it| it.configuration as f64)),
    },
    Family {
        name: "cluster_published_version",
        help: "Version of the configuration that was published to all edges; 0: none",
        labels: &[],
        read: Read::Gauge(|state, to| one(state, to, |it| it.published as f64)),
    },
    Family {
        name: "cluster_configuration_refused",
        help: "Published versions that this edge refused",
        labels: &[],
        read: Read::Counter(|state, to| one(state, to, |it| it.refusals)),
    },
    Family {
        name: "cluster_writes",
        help: "Writes to the store",
        labels: &[],
        read: Read::Counter(|state, to| one(state, to, |it| it.writes)),
    },
    Family {
        name: "cluster_faults",
        help: "Faults of the store, by kind",
        labels: &["kind"],
        read: Read::Counter(|state, to| {
            for (kind, count) in state.cluster.iter().flat_map(|cluster| &cluster.faults) {
                to.add(&[kind], *count);
            }
        }),
    },
    Family {
        name: "cluster_sharing",
        help: "1 while this edge has a lease, so that it may use its shares of groups",
        labels: &[],
        read: Read::Gauge(|state, to| of_sharing(state, to, |it| flag(it.leased))),
    },
    Family {
        name: "cluster_sharing_edges",
        help: "Edges that share groups",
        labels: &[],
        read: Read::Gauge(|state, to| of_sharing(state, to, |it| it.edges as f64)),
    },
    Family {
        name: "cluster_mismatch",
        help: "1 while edges differ in `floor` or `max_edges`, or are more than that",
        labels: &[],
        read: Read::Gauge(|state, to| of_sharing(state, to, |it| flag(it.mismatch))),
    },
    Family {
        name: "cluster_checking_edges",
        help: "Edges that divide health checks; 0 while each checks all servers",
        labels: &[],
        read: Read::Gauge(|state, to| of_checks(state, to, |it| it.edges as f64)),
    },
    Family {
        name: "cluster_checked_servers",
        help: "Servers that this edge checks for others as well",
        labels: &[],
        read: Read::Gauge(|state, to| of_checks(state, to, |it| it.servers as f64)),
    },
    Family {
        name: "cluster_share",
        help: "Part of the capacity of a group that this edge may use, 0 to 1",
        labels: &["service", "group"],
        read: Read::Gauge(|state, to| {
            for service in sharing(state).iter().flat_map(|it| &it.services) {
                for group in &service.groups {
                    to.add(&[&service.name, &group.name], group.share);
                }
            }
        }),
    },
    Family {
        name: "cluster_demand",
        help: "Requests per second of a service, as the other edges are told",
        labels: &["service"],
        read: Read::Gauge(|state, to| {
            for service in sharing(state).iter().flat_map(|it| &it.services) {
                to.add(&[&service.name], service.demand);
            }
        }),
    },
    Family {
        name: "cluster_allotments",
        help: "Allotments of shares that this edge wrote as the elected one",
        labels: &[],
        read: Read::Counter(|state, to| of_sharing(state, to, |it| it.allotments)),
    },
    Family {
        name: "cluster_slices",
        help: "Slices of what was free that this edge asked for, since it was short",
        labels: &[],
        read: Read::Counter(|state, to| of_sharing(state, to, |it| it.slices)),
    },
    Family {
        name: "cluster_last_allotment_seconds",
        help: "Seconds since any edge moved a share",
        labels: &[],
        read: Read::Gauge(|state, to| {
            if let Some(seconds) = sharing(state).and_then(|it| it.allotted_s) {
                to.add(&[], seconds);
            }
        }),
    },
];

fn sharing(state: &State) -> Option<&Sharing> {
    state.cluster.as_ref()?.sharing.as_ref()
}

fn of_checks<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&SharedChecks) -> T) {
    if let Some(checks) = state.cluster.as_ref().and_then(|it| it.checks.as_ref()) {
        samples.add(&[], value(checks));
    }
}

fn of_sharing<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Sharing) -> T) {
    if let Some(sharing) = sharing(state) {
        samples.add(&[], value(sharing));
    }
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn one<T>(state: &State, samples: &mut Samples<'_, T>, value: impl Fn(&Cluster) -> T) {
    if let Some(cluster) = &state.cluster {
        samples.add(&[], value(cluster));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Detail, Format, tests::text};
    use super::*;
    use loadline_core::state::{SharedGroup, SharedService};

    fn shared() -> SharedService {
        let groups = vec![SharedGroup { name: "near".to_owned(), share: 0.25 }];
        SharedService { name: "web".to_owned(), demand: 12.5, groups }
    }

    #[test]
    fn an_edge_with_others_is_shown_with_their_store_and_one_alone_is_not() {
        let alone = text(State::default(), Detail::Servers, Format::OpenMetrics);
        assert!(!alone.contains("\nloadline_cluster"));
        let cluster = Cluster {
            name: "edge-1".to_owned(),
            elected: Some("edge-1".to_owned()),
            edges: 3,
            faults: [("unreachable".to_owned(), 2)].into(),
            checks: Some(SharedChecks { edges: 3, servers: 8 }),
            sharing: Some(Sharing { slices: 4, services: vec![shared()], ..Sharing::default() }),
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
}
