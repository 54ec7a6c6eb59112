//! The binary as people run it: workers, a proxy, real clients, signals and exit codes.
//!
//! Every process listens on a port of the loopback that the kernel chose, is waited for by the
//! line it prints when it is ready, and is stopped by its id.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod azure;
#[path = "../../../core/tests/becomes/mod.rs"]
mod becomes;
mod caching;
mod client_limit;
mod clients;
mod counts;
mod credentials;
mod excess;
mod maps;
mod operation;
mod outage;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod process;
mod secrets;
mod service;
mod slow_clients;
mod stores;
mod tls_servers;
mod tokens;
mod users;
