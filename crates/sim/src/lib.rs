//! A discrete-event simulator that drives the decisions of `core`.
//!
//! Edges are the controller, plan, ledger, wait queue and request machine of `core`, unchanged;
//! only time, clients, the network and servers are simulated. The same scenario and seed give the
//! same run, to the byte.
//!
//! ```text
//! Scenario --> Simulation --event--> edges (core) <--> stations
//!                  |                    ^
//!                  '--> Observer, Trace '-- clients, faults, health checks
//! ```
#![forbid(unsafe_code)]

mod arrivals;
mod cache;
pub mod cluster;
mod edge;
mod events;
pub mod explanation;
mod notice;
mod observer;
pub mod parallel;
pub mod planning;
mod random;
pub mod ranking;
mod recorded;
pub mod scenario;
mod service_time;
mod sharing;
mod simulation;
mod slab;
mod speed;
mod station;
pub mod store;
pub mod trace;
mod traffic;
mod watch;

pub use arrivals::{Arrivals, Spacing, Stage};
pub use random::Random;
pub use scenario::Scenario;
pub use service_time::ServiceTime;
pub use simulation::{Director, Servers, Sharing, Simulation};
pub use speed::Pauses;
pub use station::OutageKind;
pub use traffic::{Traffic, TrafficFile};
