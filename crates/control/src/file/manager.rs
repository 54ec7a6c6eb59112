//! How weights are made, in the file.

use loadline_spanned::Key;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    number::{Number, Smoothing},
    quantity::{PERCENT, Share, Time},
};

/// How the policy `managed` computes weights, every `interval`: from each server's requests in
/// flight, new requests, health check time and reported utilization, each relative to the other
/// servers of the group, and each with its importance set here. The scheme and the defaults are
/// IBM's.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Manager {
    /// Importance of requests or connections in flight.
    #[schemars(extend("default" = "50%"))]
    pub(crate) active: Key<Part>,
    /// Importance of requests or connections that were new since the last update.
    #[schemars(extend("default" = "50%"))]
    pub(crate) new: Key<Part>,
    /// Importance of the time that health checks take.
    #[schemars(extend("default" = "0%"))]
    pub(crate) check: Key<Part>,
    /// Importance of the utilization that servers report by ORCA.
    #[schemars(extend("default" = "0%"))]
    pub(crate) reported: Key<Part>,
    /// Time between updates of the weights.
    #[schemars(extend("default" = "2s"))]
    pub(crate) interval: Key<Time>,
    /// Smoothing: each update moves a weight 1/smoothing of the way to its new value; 1 is at once.
    #[schemars(extend("default" = 1.5))]
    pub(crate) smoothing: Key<Number<Smoothing>>,
    /// Minimum change of all weights together; smaller changes are not applied.
    #[schemars(extend("default" = "5%"))]
    pub(crate) sensitivity: Key<Part>,
}

type Part = Share<0, { 100 * PERCENT }>;
