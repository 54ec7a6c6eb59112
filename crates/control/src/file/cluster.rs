//! Edges that share a store, in the file.

use loadline_core::cluster::WhenAway;
use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Certificate;
use crate::value::{
    either::TextOr,
    etcd::{EtcdUrl, KeyPrefix},
    label::{FilePath, Name},
    number::Whole,
    quantity::{Share, Within},
    word::Word,
};

/// The store (etcd) of a cluster of edges. If omitted, this edge is alone and needs none. A change
/// needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["etcd"]))]
pub(crate) struct Cluster {
    /// The members of the etcd cluster. One that does not respond is passed over.
    #[schemars(extend("examples" = [["https://10.0.0.1:2379", "https://10.0.0.2:2379"]]))]
    pub(crate) etcd: Key<Vec<At<Text<EtcdUrl>>>>,
    /// CA certificates to trust instead of the system's, for `https`.
    #[schemars(extend("examples" = ["/etc/loadline/etcd-ca.pem"]))]
    pub(crate) ca: Key<Text<FilePath>>,
    /// Client certificate, for an etcd that wants one.
    pub(crate) certificate: Key<TextOr<FilePath, Certificate>>,
    /// User of etcd. Needs `password_file`.
    #[schemars(extend("examples" = ["loadline"]))]
    pub(crate) user: Key<Text<Name>>,
    /// File whose first line is the password.
    #[schemars(extend("examples" = ["/etc/loadline/etcd.password"]))]
    pub(crate) password_file: Key<Text<FilePath>>,
    /// What all keys begin with. Edges with the same prefix are one cluster.
    #[schemars(extend("default" = "/loadline/"))]
    pub(crate) prefix: Key<Text<KeyPrefix>>,
    /// The name of the cluster, the same for all of its edges. The first edge writes it to the
    /// store, and an edge with another one is refused. If omitted, an edge is refused that has
    /// services, none of which is one of theirs.
    #[schemars(extend("examples" = ["shop"]))]
    pub(crate) id: Key<Text<Name>>,
    /// The name of this edge, unlike that of any other. Default: the name of the machine.
    #[schemars(extend("examples" = ["edge-1"]))]
    pub(crate) name: Key<Text<Name>>,
    /// How long the store remembers an edge that it does not hear of, and until when its share of
    /// the groups is nobody else's.
    #[schemars(extend("default" = "10s"))]
    pub(crate) lease: Key<LeaseTime>,
    /// How long etcd takes to see that its leader is lost, as its own `--election-timeout`. An edge
    /// uses its share for so much less than `lease`; twice that is the least `lease`.
    #[schemars(extend("default" = "1s"))]
    pub(crate) election_timeout: Key<ElectionTime>,
    /// The part of the capacity of each group that every edge may use without the store: of its
    /// rate, and of whole requests in flight. The same at all edges.
    #[schemars(extend("default" = "1%"))]
    pub(crate) floor: Key<Share<0, 1_000_000>>,
    /// How many edges there may be, those that are being replaced included; `floor` times this is
    /// 100 % at most, and kept for them whether they run or not. The same at all edges.
    #[schemars(extend("default" = 10))]
    pub(crate) max_edges: Key<Whole<1, 200>>,
    /// What an edge uses of the groups whose lease has ended, as the store is away.
    #[schemars(extend("default" = "floor"))]
    pub(crate) when_away: Key<Text<Word<WhenAway>>>,
    /// Divides the health checks of servers among the edges of a region: one edge checks a server,
    /// a second one before it is given up, and the others go by what these have found. Without the
    /// store each edge checks every server. The same at all edges.
    #[schemars(extend("default" = false))]
    pub(crate) share_health: Key<bool>,
    /// Directory for the last configuration that was published, with which the edge starts while
    /// the store is away.
    #[schemars(extend("default" = "/var/lib/loadline"))]
    pub(crate) state_dir: Key<Text<FilePath>>,
}

/// What etcd takes itself.
type ElectionTime = Text<Within<loadline_core::time::Duration, 100_000_000, 50_000_000_000>>;

/// From two seconds, the least that etcd grants with its own defaults, to an hour.
type LeaseTime = Text<Within<loadline_core::time::Duration, 2_000_000_000, 3_600_000_000_000>>;
