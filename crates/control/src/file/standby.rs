//! Balancers that stand by for each other, in the file.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::{At, Key},
    value::{endpoint::Endpoint, label::FilePath, number::Whole, quantity::Within, text::Text},
};

/// Other balancers that know every connection of the one that is active. Who that is is decided by
/// keepalived: `loadline l4 keepalived` prints its configuration. Taken from the file at the start
/// only.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
#[schemars(extend("required" = ["bind", "peers", "key_file"]))]
pub(crate) struct Standby {
    /// Our end of the line between the balancers, over UDP: an address that does not move.
    pub(crate) bind: Key<Text<Endpoint>>,
    /// The ends of the others, as each has it as its `bind`.
    pub(crate) peers: Key<Vec<At<Text<Endpoint>>>>,
    /// The path of a file with the key that all of them have, 16 characters or more, in its first
    /// line. What is told is sealed with it, not hidden.
    pub(crate) key_file: Key<Text<FilePath>>,
    /// The number of the virtual router, the same for all of them and for nobody else on the
    /// network.
    #[schemars(extend("default" = 51))]
    pub(crate) router_id: Key<Whole<1, 255>>,
    /// Which becomes active where none is: the highest. One that comes back later stands by.
    #[schemars(extend("default" = 100))]
    pub(crate) priority: Key<Whole<1, 254>>,
    /// How often the active says that it lives. After three times that it counts as gone.
    #[schemars(extend("default" = "1s"))]
    pub(crate) interval: Key<Text<Interval>>,
}

/// What VRRP can say, in hundredths of a second.
type Interval = Within<loadline_core::time::Duration, 10_000_000, 40_950_000_000>;
