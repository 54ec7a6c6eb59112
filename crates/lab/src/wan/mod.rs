//! The wide-area network between the hosts of a lab: one thread that holds each packet until it
//! is due.
//!
//! The kernels of many machines have no way to delay packets (no netem), so a [`Router`] does it
//! outside of them. Each host gives it a [`Port`]; whatever the host sends into its interface is
//! read there, kept for the time its link takes, and written into the port of the host that has
//! the destination address. What becomes of a packet is decided without a clock (`link`,
//! `shaper`, `forward`), so that it can be tested to the nanosecond; `router` brings the clock and
//! the descriptors.
//!
//! ```text
//! read ports -> route -> cut -> up limit -> loss, rate, delay -> heap of (due, number)
//! write ports <- down limit <- due
//! ```
//!
//! What passes is IPv4 and IPv6 of any protocol, as it is: time to live is not counted down.

mod awake;
mod busy_poll;
mod calibrate;
mod counters;
mod due_queue;
mod engine;
mod forward;
mod health;
mod kernel;
mod link;
mod packet;
mod port;
mod probe;
mod router;
mod segment;
mod shaper;
mod unreachable;

pub use calibrate::{CalibrationError, calibration_hosts};
pub use counters::{Counters, Lateness, LinkCounters};
pub use health::{Health, Tolerance, Watch};
pub use kernel::Scheduling;
pub(crate) use kernel::send_with_checksums;
pub use port::{MacAddress, Port, PortError};
pub use probe::{DelayError, ProbePlan, Probed, Times, probe};
pub use router::{ChangeError, Router, RouterGone, RouterHandle, StartError};
