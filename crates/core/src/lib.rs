//! Decisions of loadline: no clock, no I/O, no threads, no randomness of its own.
//!
//! Time, random draws and observations are arguments, so everything here is tested without
//! waiting and runs the same in the proxy and in a simulation.
//!
//! The slow half is the [`controller`]: it hears of configuration, health checks and errors and
//! publishes an immutable [`plan::Plan`]. The fast half is [`plan::ServicePlan::pick`]: it decides
//! one request on the plan and the [`ledger`], the atomics that outlive any plan.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod advisor;
mod atomic;
pub mod average;
mod batches;
pub mod budget;
pub mod client;
pub mod coalesce;
pub mod concurrency;
pub mod controller;
mod departures;
pub mod discovery;
mod drain;
pub mod echo;
pub mod ejection;
pub mod ending;
pub mod fleet;
pub mod forwarding;
pub mod health;
pub mod ledger;
pub mod linger;
mod management;
pub mod manager;
pub mod orca;
pub mod outlier;
mod overflow;
pub mod overrides;
pub mod permit;
pub mod plan;
mod planner;
mod policy;
pub mod queue;
pub mod reason;
pub mod replication;
pub mod request;
pub mod retry;
mod roster;
mod round_trip;
pub mod rules;
pub mod service_plans;
mod silence;
pub mod state;
mod sticky;
pub mod time;
mod timer_queue;
pub mod trace;
mod turn;
pub mod units;
