//! The lab: hosts in network namespaces, a wide-area network between them, test servers, studies.
//!
//! | | |
//! |---|---|
//! | [`host`] | a host: namespaces, limits, programs that run in it |
//! | [`topology`] | which hosts there are, and what connects them |
//! | [`wan`] | the router: delays, losses and rates between hosts |
//! | [`study`] | a study from its file to its verdicts |
//! | [`Worker`] | a test server |
//!
//! A [`Worker`] is an HTTP server whose capacity is known exactly, so that a balancer in front of
//! it can be judged: a number of virtual cores with a fixed service time and one queue, or a fixed
//! wait without a limit. It works on after its client has gone, as real servers do.
// unsafe: calls of the kernel for which no library has a safe function (`wan::kernel`).
#![deny(unsafe_code)]

mod answer;
mod burn;
mod config;
mod connection;
mod cores;
mod fault;
pub mod host;
mod lorem;
mod mandelbrot;
mod server;
mod service;
mod sleep;
mod stats;
pub mod study;
pub mod topology;
mod unit;
mod utilization;
pub mod wan;
mod worker;

pub use config::{Config, ConfigError, Content, Pace};
pub use cores::{Cores, Job, Load};
pub use fault::Fault;
pub use mandelbrot::Picture;
pub use sleep::Sleep;
pub use stats::Stats;
pub use unit::{Forwarding, Machine, MachineError};
pub use worker::{BindError, RunError, Worker};
