//! What the simulator says of queues whose answers are known.

mod caches;
mod faults;
mod fleets;
mod planning;
mod servers;
mod theory;
mod trace;
mod users;
