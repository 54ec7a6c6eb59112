//! Balancers that stand by for each other, in the file.

use loadline_spanned::{At, Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{endpoint::Endpoint, label::FilePath, number::Whole, quantity::Within};

/// Standby balancers, which know every connection of the active one. keepalived decides which
/// balancer is active: `loadline l4 keepalived` prints its configuration. A change needs a restart.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind", "peers", "key_file"]))]
pub(crate) struct Standby {
    /// UDP address of this balancer for replication, one that does not move at a failover.
    pub(crate) bind: Key<Text<Endpoint>>,
    /// Addresses of the other balancers: the `bind` of each.
    pub(crate) peers: Key<Vec<At<Text<Endpoint>>>>,
    /// The path of a file whose first line is the key that all balancers share, of 16 characters or
    /// more. Datagrams are authenticated with it, not encrypted.
    pub(crate) key_file: Key<Text<FilePath>>,
    /// Virtual router id (VRRP), the same on all balancers and unique on the network.
    #[schemars(extend("default" = 51))]
    pub(crate) router_id: Key<Whole<1, 255>>,
    /// VRRP priority: the balancer with the highest becomes active when none is. A balancer that
    /// comes back does not preempt the active one.
    #[schemars(extend("default" = 100))]
    pub(crate) priority: Key<Whole<1, 254>>,
    /// Advertisement interval of the active balancer (VRRP). After three intervals without one it
    /// counts as failed.
    #[schemars(extend("default" = "1s"))]
    pub(crate) interval: Key<Text<Interval>>,
}

/// What VRRP can say, in hundredths of a second.
type Interval = Within<loadline_core::time::Duration, 10_000_000, 40_950_000_000>;
