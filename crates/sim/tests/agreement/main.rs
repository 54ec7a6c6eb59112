//! What the simulator says of queues whose answers are known.

mod faults;
mod fleets;
mod theory;
mod trace;
