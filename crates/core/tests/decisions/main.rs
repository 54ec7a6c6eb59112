//! Decisions from outside: controller, plan and ledger together, with time passed in.

mod controller;
mod fleets;
mod model;
mod two_regions;
