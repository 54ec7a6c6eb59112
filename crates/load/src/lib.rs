//! The load generator: planned instants, outcome classes, three latencies.
//!
//! A [`LoadPlan`] says what to send and when; [`run`] sends it and answers with a
//! [`LoadRecord`](loadline_measure::record::LoadRecord). Three rules make the figures trustworthy:
//!
//! - every request is stamped with the instant it was *planned* for, and its response time counts
//!   from there, so that a stalled server cannot hide behind a generator that waited for it;
//! - the generator's own lateness is a third latency beside response and service time;
//! - a request ends in exactly one outcome class, and the classes sum to what was planned.
//!
//! Response = lag + service: planned instant --lag--> send --service--> end of the response. The
//! send is the first thing a request does on the network: its first byte on a kept connection, or
//! the opening of a new one, so that a server slow to accept is never taken for a slow generator.
#![forbid(unsafe_code)]

pub mod agents;
mod client;
mod closed;
mod connect;
mod curve;
mod deadline;
mod fetch;
mod figures;
mod health;
mod http1;
mod http2;
mod http3;
mod limits;
mod moments;
mod open;
mod outcome;
mod pace;
mod phases;
mod plan;
mod pool;
mod preflight;
pub mod probe;
mod quic;
mod request;
mod run;
mod schedule;
pub mod search;
mod sessions;
mod stages;
mod tally;
mod target;
mod timetable;
mod tls;
mod transport;
pub mod watch;
mod weights;

pub use fetch::{Fetched, Prober};
pub use limits::raise_descriptor_limit;
pub use outcome::Outcome;
pub use plan::{LoadPlan, Pattern, PlanError, Share, Until};
pub use preflight::{Notice, preflight};
pub use run::{LoadError, Progress, measure, run, runtime};
pub use schedule::Schedule;
pub use stages::{StageError, parse_stages};
pub use target::Target;
pub use timetable::{ArrivalsError, Timetable, parse_arrivals_file};
pub use tls::{TlsError, is_server_name};
pub use transport::{Protocol, Tls, TlsVersion, Transport};
pub use weights::Turns;
