//! Certificates by ACME (RFC 8555): when one is renewed, when its authority is asked again after a
//! failure, what is done with an order that was begun before, and which of several edges asks.
//!
//! Times are seconds since 1970. A draw is uniform over all of `u64`.

mod order;
mod renewal;
mod task;

pub use order::{Failure, OrderStatus, OrderStep};
pub(crate) use renewal::share;
pub use renewal::{Lifetime, SPACING_S, Window, ask_again_s, wait_s};
pub use task::{CertificateState, LEASE_MIN, Lock, Task, leased_until};
