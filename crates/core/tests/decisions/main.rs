//! Decisions from outside: controller, plan and ledger together, with time passed in.

#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod backups;
mod concurrency;
mod controller;
mod draining;
mod excess;
mod fleets;
mod full;
mod hangs;
mod joining;
mod managed;
mod model;
mod outliers;
mod overflow_reasons;
mod overrides;
mod policies;
mod requests;
mod scale;
mod shared_checks;
mod shares;
mod simulation;
mod state;
mod succession;
mod two_regions;
mod utilization;
mod waiting;
