//! Metrics of an edge with others and their store. There are none where it is alone.

use loadline_core::state::{Cluster, State};

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
];

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

    #[test]
    fn an_edge_with_others_is_shown_with_their_store_and_one_alone_is_not() {
        let alone = text(State::default(), Detail::Servers, Format::OpenMetrics);
        assert!(!alone.contains("\nloadline_cluster"));
        let cluster = Cluster {
            name: "edge-1".to_owned(),
            elected: Some("edge-1".to_owned()),
            edges: 3,
            faults: [("unreachable".to_owned(), 2)].into(),
            ..Cluster::default()
        };
        let state = State { cluster: Some(cluster), ..State::default() };
        let text = text(state, Detail::Servers, Format::OpenMetrics);
        for line in [
            "loadline_cluster_connected 0.0",
            "loadline_cluster_elected 1.0",
            "loadline_cluster_edges 3.0",
            "loadline_cluster_faults_total{kind=\"unreachable\"} 2",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
