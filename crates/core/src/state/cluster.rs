//! What an edge knows of the others that share its store.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use super::words::number;

/// An edge of several, and its store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cluster {
    /// The name of this edge.
    pub name: String,
    /// The member of the store to which it is connected; none where it is to none.
    pub endpoint: Option<String>,
    /// Whether the store has this edge among the others.
    pub joined: bool,
    /// How many edges the store has.
    pub edges: u64,
    /// The name of the elected edge.
    pub elected: Option<String>,
    /// The version of the published configuration that runs here; 0 where it is none.
    pub configuration: u64,
    /// The version that was published to all; 0 where none is.
    pub published: u64,
    /// Why that one does not run here.
    pub refused: Option<String>,
    /// Versions that were refused.
    pub refusals: u64,
    /// Writes to the store; renewals of the lease are none.
    pub writes: u64,
    /// How capacity is shared; none where no group has a limit.
    pub sharing: Option<Sharing>,
    /// How health checks are shared; none where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<SharedChecks>,
    /// What is wrong with the store now.
    pub fault: Option<ClusterFault>,
    /// How often each kind of fault was met.
    pub faults: BTreeMap<String, u64>,
}

/// An edge's part in the health checks of its region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedChecks {
    /// Edges among which they are divided; 0 while the store is away, and each checks all servers.
    pub edges: u64,
    /// Servers of which this edge tells the others.
    pub servers: u64,
}

/// An edge's part in the sharing of capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sharing {
    /// Whether it has a lease, so that its shares may be used; else it has its floor, or what it
    /// keeps.
    pub leased: bool,
    /// Whether this edge is the one that computes shares.
    pub elected: bool,
    /// How many edges share.
    pub edges: u64,
    /// Tables of shares that this edge has written as the elected one.
    pub allotments: u64,
    /// Slices that this edge took of what was free, since it was short.
    pub slices: u64,
    /// Seconds since shares were changed by anybody; none where that was not seen.
    pub allotted_s: Option<f64>,
    /// Whether edges are configured differently, so that nobody moves shares.
    pub mismatch: bool,
    /// Why nothing can be written now, though the store is connected.
    pub fault: Option<ClusterFault>,
    /// Those of which a group is shared.
    pub services: Vec<SharedService>,
}

/// A service whose capacity is shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedService {
    /// Its name.
    pub name: String,
    /// Requests per second that come to this edge, as the others are told.
    pub demand: f64,
    /// Those with a limit.
    pub groups: Vec<SharedGroup>,
}

/// A group whose capacity is shared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedGroup {
    /// Its name.
    pub name: String,
    /// The part of its capacity that this edge may use, 0 to 1.
    pub share: f64,
}

/// Why an edge goes on without the store, or without a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterFault {
    /// Its kind, as in the metrics.
    pub kind: String,
    /// What happened, for people.
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
