//! Decisions: the group and the server of a request, waiting, retries.
//!
//! The slow half is the [`controller`], which publishes a [`plan`]; the fast half decides one
//! request on the plan and the [`ledger`]. The [`request`] machine takes a request from its arrival
//! to its ending.

pub(crate) mod atomic;
pub mod average;
pub(crate) mod batches;
pub mod budget;
pub mod census;
pub mod coalesce;
pub mod concurrency;
pub mod controller;
pub mod discovery;
pub mod ending;
pub mod interims;
pub mod ledger;
pub(crate) mod limits;
pub mod linger;
pub(crate) mod management;
pub mod manager;
pub mod orca;
pub(crate) mod overflow;
pub mod overflow_reason;
pub mod overrides;
pub mod permit;
pub mod plan;
pub(crate) mod planner;
pub mod policy;
pub(crate) mod priority_tier;
pub mod probe_pool;
pub mod queue;
pub mod reason;
pub(crate) mod relative_latency;
pub mod request;
pub mod retry;
pub(crate) mod retry_after;
pub(crate) mod server_table;
pub mod service_plans;
pub(crate) mod spread;
pub(crate) mod sticky;
pub mod store_response;
