//! The cluster as an edge sees it.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::words::number;

/// State of an edge in a cluster, and of the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cluster {
    /// Name of this edge.
    pub name: String,
    /// The etcd member to which this edge is connected; null if it is not connected.
    pub endpoint: Option<String>,
    /// Whether this edge is registered in the store.
    pub joined: bool,
    /// Number of edges registered in the store.
    pub edges: u64,
    /// Name of the elected edge, which computes the shares of capacity; null while this edge has no
    /// lease for sharing, or if nothing is shared.
    pub elected: Option<String>,
    /// Version of the published configuration that runs here; 0 if none does.
    pub configuration: u64,
    /// Version that is published; 0 if there is none.
    pub published: u64,
    /// Why the published version does not run here; null if it does.
    pub refused: Option<String>,
    /// Number of refused versions.
    pub refusals: u64,
    /// Writes to the store, not counting renewals of the lease.
    pub writes: u64,
    /// Sharing of capacity; null if no group has a limit.
    pub sharing: Option<Sharing>,
    /// Sharing of health checks; absent if they are not shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<SharedChecks>,
    /// Current fault of the store; null if there is none.
    pub fault: Option<ClusterFault>,
    /// Number of faults by kind.
    pub faults: BTreeMap<String, u64>,
}

/// Health checks divided among the edges of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedChecks {
    /// Number of edges that divide the checks; 0 while the store cannot be reached and each edge
    /// checks all servers.
    pub edges: u64,
    /// Number of servers that this edge checks for the others.
    pub servers: u64,
}

/// Capacity shared among edges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sharing {
    /// Whether this edge has a lease and may use its shares. If not, it uses its floor, or what it
    /// had with `when_away = "keep"`.
    pub leased: bool,
    /// Whether this edge has a lease and is the one that computes shares.
    pub elected: bool,
    /// Number of edges that share.
    pub edges: u64,
    /// Number of tables of shares that this edge has written as the elected one.
    pub allotments: u64,
    /// Number of slices of free capacity that this edge took because it ran short.
    pub slices: u64,
    /// Seconds since any edge changed shares; null if no change was seen.
    pub allotted_s: Option<f64>,
    /// Whether edges have different settings (`floor`, `max_edges`), so that no shares are changed,
    /// or are more than `max_edges`.
    pub mismatch: bool,
    /// Why nothing can be written although the store is connected; null if it can.
    pub fault: Option<ClusterFault>,
    /// Services with a shared group.
    pub services: Vec<SharedService>,
}

/// A service with shared capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedService {
    /// Its name.
    pub name: String,
    /// Demand at this edge in requests per second, as told to the others.
    pub demand: f64,
    /// Groups with a limit.
    pub groups: Vec<SharedGroup>,
}

/// A group with shared capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedGroup {
    /// Its name.
    pub name: String,
    /// Share of the group's capacity that this edge may use, 0 to 1.
    pub share: f64,
}

/// A fault of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterFault {
    /// Kind of the fault, as in the metrics.
    pub kind: String,
    /// Message for people.
    pub message: String,
}

impl Cluster {
    /// Who shares, in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let away = self.sharing.as_ref().is_some_and(|it| !it.leased);
        match (&self.fault, self.edges) {
            (Some(fault), _) => format!("cluster: {}", fault.kind),
            (None, _) if away => "cluster: no lease of the store".into(),
            (None, 1) => "cluster: 1 edge".into(),
            (None, edges) => format!("cluster: {edges} edges"),
        }
    }

    /// What this edge may use of a service, in words; none where nothing of it is shared.
    #[must_use]
    pub fn sharing_sentence(&self, service: &str) -> Option<String> {
        let sharing = self.sharing.as_ref()?;
        let shared = sharing.services.iter().find(|it| it.name == service)?;
        let percent = |part: f64| number(part * 100.0);
        let groups = shared.groups.iter();
        let parts: Vec<_> =
            groups.map(|it| format!("{} % of {}", percent(it.share), it.name)).collect();
        let who = if sharing.leased { "This" } else { "Without a lease of the store, this" };
        let (parts, demand) = (parts.join(", "), number(shared.demand));
        Some(format!("{who} edge may use {parts}; {demand}/s come to it."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_of_several_tells_who_shares_and_what_is_its_part() {
        let group = |name: &str, share| SharedGroup { name: name.into(), share };
        let groups = [group("near", 0.4), group("far", 0.01)].into();
        let service = SharedService { name: "web".into(), demand: 120.0, groups };
        let sharing = Sharing { leased: true, services: [service].into(), ..Sharing::default() };
        let mut cluster = Cluster { edges: 3, sharing: Some(sharing), ..Cluster::default() };
        assert_eq!(cluster.sentence(), "cluster: 3 edges");
        assert_eq!(
            cluster.sharing_sentence("web").as_deref(),
            Some("This edge may use 40 % of near, 1 % of far; 120/s come to it.")
        );
        assert_eq!(cluster.sharing_sentence("mail"), None);
        cluster.sharing.iter_mut().for_each(|it| it.leased = false);
        assert_eq!(cluster.sentence(), "cluster: no lease of the store");
        let told = cluster.sharing_sentence("web").unwrap();
        assert!(told.starts_with("Without a lease of the store, this edge may"), "{told}");
        cluster.fault = Some(ClusterFault { kind: "unreachable".into(), message: String::new() });
        assert_eq!(cluster.sentence(), "cluster: unreachable");
    }
}
