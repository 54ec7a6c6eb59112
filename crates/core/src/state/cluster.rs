//! What an edge knows of the others that share its store.

use alloc::{collections::BTreeMap, string::String};

use serde::{Deserialize, Serialize};

/// An edge of several, and its store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// What is wrong with the store now.
    pub fault: Option<ClusterFault>,
    /// How often each kind of fault was met.
    pub faults: BTreeMap<String, u64>,
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
