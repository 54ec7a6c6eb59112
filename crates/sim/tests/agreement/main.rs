//! What the simulator says of queues whose answers are known.

mod fleets;
mod theory;
