//! The commands as people and scripts run them: what is printed, written, answered and told.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod admin;
mod agents;
mod agreement;
#[path = "../../../core/tests/becomes/mod.rs"]
mod becomes;
mod bench;
mod compare;
mod configuration;
mod everyday;
mod growing;
mod import;
mod pages;
mod ping;
mod pipes;
mod plan;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod records;
mod report;
mod runs;
#[path = "../served/mod.rs"]
mod served;
mod sim;
#[path = "../../../core/tests/skipped/mod.rs"]
mod skipped;
mod ttfb;
mod unwritable;
mod upgrade;
mod worker;
