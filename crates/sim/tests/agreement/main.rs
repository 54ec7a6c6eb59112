//! What the simulator says of queues whose answers are known.

mod faults;
mod fleets;
mod planning;
mod theory;
mod trace;
