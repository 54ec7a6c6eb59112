//! Lists of servers that change while requests run: no request fails, and what is broken changes
//! nothing and says so.
//!
//! Every process listens on a port of the loopback that the kernel chose, and is ended by its
//! handle.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod edge;
mod files;
mod names;
#[path = "../served/mod.rs"]
mod served;
mod zone;
