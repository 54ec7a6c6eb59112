//! Balancers that stand by for each other, in the file.

use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{endpoint::Endpoint, label::FilePath, number::Whole, quantity::Within};

/// Other balancers that know every connection of the active one. keepalived decides which one is
/// active: `loadline l4 keepalived` prints its configuration. A change needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind", "peers", "key_file"]))]
pub(crate) struct Standby {
    /// Our UDP address for replication between the balancers: one that does not move at a failover.
    pub(crate) bind: Key<Text<Endpoint>>,
    /// Addresses of the others, as each has it as its `bind`.
    pub(crate) peers: Key<Vec<At<Text<Endpoint>>>>,
    /// The path of a file whose first line is the key that all of them share, 16 characters or
    /// more. Datagrams are authenticated with it, not encrypted.
    pub(crate) key_file: Key<Text<FilePath>>,
    /// The number of the virtual router (VRRP), the same on all of them and unique on the network.
    #[schemars(extend("default" = 51))]
    pub(crate) router_id: Key<Whole<1, 255>>,
    /// Priority (VRRP): the highest becomes active where none is. A balancer that comes back later
    /// is standby.
    #[schemars(extend("default" = 100))]
    pub(crate) priority: Key<Whole<1, 254>>,
    /// Time between advertisements of the active one (VRRP). After three times that it counts as
    /// failed.
    #[schemars(extend("default" = "1s"))]
    pub(crate) interval: Key<Text<Interval>>,
}

/// What VRRP can say, in hundredths of a second.
type Interval = Within<loadline_core::time::Duration, 10_000_000, 40_950_000_000>;
