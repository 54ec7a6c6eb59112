//! How weights are made, in the file.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    place::Key,
    value::{
        number::{Number, Smoothing},
        quantity::{PERCENT, Share, Time},
    },
};

/// How the policy `managed` makes weights, every `interval`: of what each server has in flight, is
/// newly given, takes for its health checks and reports of its utilization, each beside the others
/// of the group and as much as its share here says. They are IBM's, and so are the defaults.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Manager {
    /// How much requests or connections in flight count.
    #[schemars(extend("default" = "50%"))]
    pub(crate) active: Key<Part>,
    /// How much those count that came since the last look.
    #[schemars(extend("default" = "50%"))]
    pub(crate) new: Key<Part>,
    /// How much the time counts that health checks take.
    #[schemars(extend("default" = "0%"))]
    pub(crate) check: Key<Part>,
    /// How much the utilization counts that servers report by ORCA.
    #[schemars(extend("default" = "0%"))]
    pub(crate) reported: Key<Part>,
    /// Time from one look to the next.
    #[schemars(extend("default" = "2s"))]
    pub(crate) interval: Key<Time>,
    /// How slowly weights follow: each look goes one part in so many of the way.
    #[schemars(extend("default" = 1.5))]
    pub(crate) smoothing: Key<Number<Smoothing>>,
    /// How much all weights together have to change before they are put in force.
    #[schemars(extend("default" = "5%"))]
    pub(crate) sensitivity: Key<Part>,
}

type Part = Share<0, { 100 * PERCENT }>;
