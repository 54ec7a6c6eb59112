//! Edges that share a store, in the file.

use loadline_core::cluster::WhenAway;
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::ClientCertificate;
use crate::value::{
    either::TextOr,
    etcd::{EtcdUrl, KeyPrefix},
    label::{FilePath, Name},
    number::Whole,
    quantity::{Share, Within},
    word::Word,
};

/// The store (etcd) that the edges of a cluster share. If omitted, this edge runs alone. A change
/// needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["etcd"]))]
pub(crate) struct Cluster {
    /// URLs of the members of the etcd cluster. A member that does not respond is skipped.
    #[schemars(extend("examples" = [["https://10.0.0.1:2379", "https://10.0.0.2:2379"]]))]
    pub(crate) etcd: Key<Vec<At<Text<EtcdUrl>>>>,
    /// CA certificates to trust instead of the system's, for etcd by `https`.
    #[schemars(extend("examples" = ["/etc/loadline/etcd-ca.pem"]))]
    pub(crate) ca: Key<Text<FilePath>>,
    /// Client certificate, if etcd requires one.
    pub(crate) certificate: Key<TextOr<FilePath, ClientCertificate>>,
    /// User name for etcd. Needs `password_file`.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) user: Key<Text<Name>>,
    /// File whose first line is the password of `user`.
    #[schemars(extend("examples" = ["/etc/loadline/etcd.password"]))]
    pub(crate) password_file: Key<Text<FilePath>>,
    /// Prefix of all keys in etcd. Edges with the same prefix are one cluster.
    #[schemars(extend("default" = "/loadline/"))]
    pub(crate) prefix: Key<Text<KeyPrefix>>,
    /// The name of the cluster, the same at all edges. The first edge writes it to the store, and
    /// an edge with another name is refused. If omitted, an edge is refused if it has services but
    /// none in common with the other edges.
    #[schemars(extend("examples" = ["shop"]))]
    pub(crate) id: Key<Text<Name>>,
    /// The name of this edge, unique in the cluster. Default: the host name of the machine.
    #[schemars(extend("examples" = ["edge-1"]))]
    pub(crate) name: Key<Text<Name>>,
    /// Lease: how long an edge that is not heard of stays in the store and keeps its share of the
    /// groups. Whole seconds.
    #[schemars(extend("default" = "10s"))]
    pub(crate) lease: Key<LeaseTime>,
    /// The `--election-timeout` of etcd. An edge without the store stops using its share at least
    /// this long before `lease` ends. At most half of `lease`.
    #[schemars(extend("default" = "1s"))]
    pub(crate) election_timeout: Key<ElectionTime>,
    /// Share of each group's capacity that every edge may use without the store: of its rate, and
    /// of its requests in flight, rounded down. The same at all edges.
    #[schemars(extend("default" = "1%"))]
    pub(crate) floor: Key<Share<0, 1_000_000>>,
    /// Maximum number of edges, including those being replaced. `floor` times `max_edges` is
    /// reserved whether the edges run or not, and at most 100 %. The same at all edges.
    #[schemars(extend("default" = 10))]
    pub(crate) max_edges: Key<Whole<1, 200>>,
    /// Capacity that an edge uses when its lease has ended because it cannot reach the store.
    #[schemars(extend("default" = "floor"))]
    pub(crate) when_away: Key<Text<Word<WhenAway>>>,
    /// Whether the edges of a region divide the health checks of servers: one edge checks a server,
    /// a second confirms that it is down, and the others use the result. Without the store each
    /// edge checks every server. The same at all edges.
    #[schemars(extend("default" = false))]
    pub(crate) share_health: Key<bool>,
    /// Directory for the last published configuration, with which the edge starts if it cannot
    /// reach the store.
    #[schemars(extend("default" = "/var/lib/loadline"))]
    pub(crate) state_dir: Key<Text<FilePath>>,
}

/// What etcd takes itself.
type ElectionTime = Text<Within<loadline_core::time::Duration, 100_000_000, 50_000_000_000>>;

/// From two seconds, the least that etcd grants with its own defaults, to an hour.
type LeaseTime = Text<Within<loadline_core::time::Duration, 2_000_000_000, 3_600_000_000_000>>;
