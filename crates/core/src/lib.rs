//! Decisions of loadline: no clock, no I/O, no threads, no randomness of its own.
//!
//! Time, random draws and observations are arguments, so everything here is tested without
//! waiting and runs the same in the proxy and in a simulation.
//!
//! The slow half is the [`controller`](decide::controller): it takes configuration, results of
//! health checks and errors, and publishes an immutable [`Plan`](decide::plan::Plan). The fast half
//! is [`ServicePlan::pick`](decide::plan::ServicePlan::pick): it decides one request on the plan
//! and the [`ledger`](decide::ledger), the atomics that outlive any plan.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acme;
pub mod cache;
pub mod cluster;
pub mod compress;
pub mod decide;
pub mod fleet;
pub mod health;
pub mod jwt;
pub mod rules;
pub mod state;
pub mod time;
pub mod units;
