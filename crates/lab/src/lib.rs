//! Test servers that compute, wait and answer.
//!
//! A [`Worker`] is an HTTP server whose capacity is known exactly, so that what a balancer makes
//! of it can be judged: so many virtual cores with a fixed service time, one queue, or no limit
//! and a fixed wait. It works on after its caller has gone, as real servers do.
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
