//! Edges that share a store (etcd): who is there, what configuration was published to all, and who
//! may use how much of the capacity of groups ([`Sharing`]).
//!
//! ```text
//! etcd --watch--> Agent --Offer--> serve (as by a reload) --taken or refused--> Agent
//! --put--> etcd
//! ```
//! # What is in the store
//! All keys begin with [`Settings::prefix`]. Values are JSON.
//!
//! | key | value | who writes it | how long it lives |
//! |---|---|---|---|
//! | `cluster` | [`Marker`]: the identity of the cluster | the first edge | for ever |
//! | `members/NAME` | [`EdgeEntry`]: where it is, what it runs and refused | that edge | lease |
//! | `configuration/current` | the version in force | `publish`, `rollback` | for ever |
//! | `configuration/versions/N` | [`Version`]: its text | `publish` | [`VERSIONS_KEPT`] |
//! | `acme/...` | see [`crate::acme`] | who has the lock | see there |
//! | `health/REGION/told/NAME` | what an edge has found of servers | that edge | lease |
//! | `sharing/edges/SESSION` | what an edge wants, and has seen | that edge | lease |
//! | `sharing/shares/SERVICE` | who may use how much | any edge | for ever |
//!
//! The edge whose report is the oldest is the elected one, which computes shares.
//!
//! Everything runs on the thread that hears signals, and no request waits for any of it: an edge
//! whose store is away goes on with what it has.

mod agent;
mod disk;
mod etcd;
mod fault;
mod follow;
mod health;
pub(crate) mod keys;
pub(crate) mod keyspace;
mod known;
mod publish;
mod shares;
mod sharing;
mod view;

use std::path::PathBuf;

use loadline_core::{
    cluster::{WhenAway, participant},
    time::Duration,
    units::Ratio,
};

use crate::include::Part;

pub use agent::{Agent, Identity, Offer, fetch_published};
pub use disk::{Disk, DiskError};
pub use etcd::EtcdError;
pub use fault::Fault;
pub use health::{Checking, HealthView, SharedHealth};
pub use keys::{EdgeEntry, Marker, Refusal, ValueError, Version};
pub use publish::{EdgeInfo, Overview, Store, StoreError, VERSIONS_KEPT, VersionInfo};
pub use shares::{SharedGroupInfo, SharedServiceInfo};
pub use sharing::{Shared, Sharing};
pub use view::View;

/// Where the store is, and who this edge is to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Members of the etcd cluster; one at least.
    pub endpoints: Vec<Endpoint>,
    /// File of the authorities to trust instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Files of the client certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// User, and the file whose first line is the password.
    pub user: Option<(String, PathBuf)>,
    /// What all keys begin with.
    pub prefix: String,
    /// The name of the cluster, if it has one.
    pub id: Option<String>,
    /// The name of this edge.
    pub name: String,
    /// How long the store remembers an edge that it does not hear of.
    pub lease: Duration,
    /// How long it takes to see that its leader is lost.
    pub election_timeout: Duration,
    /// What each edge may use of every group without the store.
    pub floor: Ratio,
    /// How many edges there may be.
    pub max_edges: u32,
    /// What is used when the lease has ended.
    pub when_away: WhenAway,
    /// Whether the edges of a region divide the checks of servers among them.
    pub share_health: bool,
    /// The directory of the last configuration that was published.
    pub state_dir: PathBuf,
}

impl Settings {
    /// How capacity is shared. The margin is for a member of etcd that was deposed and does not
    /// know, and for clocks that differ in speed by a hundredth.
    #[must_use]
    pub fn sharing(&self) -> participant::Settings {
        participant::Settings {
            name: self.name.clone(),
            lease: self.lease,
            margin: self.election_timeout + self.lease / 100,
            floor: self.floor,
            edges: self.max_edges,
            when_away: self.when_away,
        }
    }
}

/// A member of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Over TLS.
    pub is_secure: bool,
    /// A name or an address, IPv6 without brackets.
    pub host: String,
    /// The port of clients.
    pub port: u16,
}

impl Endpoint {
    /// Whether it is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Host and port.
    fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

/// A configuration that was published to all edges.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Published {
    /// Its number; 0 where it has none yet.
    pub version: u64,
    /// TOML.
    pub text: String,
    /// What errors call it, where that is a file.
    #[serde(default, skip)]
    pub name: Option<String>,
}

impl Published {
    /// What tells its text from another that has its number: a store that has lost its data counts
    /// from 1 again, and so does another store. FNV-1a, 64 bits.
    fn digest(&self) -> String {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", self.text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    pub(crate) fn part(&self) -> Part {
        let version = || format!("published version {}", self.version);
        let name = self.name.clone().unwrap_or_else(version);
        Part { name, text: self.text.clone(), is_published: true }
    }
}
