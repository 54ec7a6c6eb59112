//! When what a policy remembers of all its servers is made anew: by whichever request comes first
//! after some time. Nobody has to publish a plan for it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::time::{Duration, Instant};

/// When it is next due, in nanoseconds; at once in the beginning.
#[derive(Debug, Default)]
pub(super) struct Refresh(AtomicU64);

impl Refresh {
    /// Whether the refresh is due; true for one caller only.
    pub(super) fn is_due(&self, now: Instant, every: Duration) -> bool {
        let due = self.0.load(Relaxed);
        let next = (now + every).as_nanos();
        now.as_nanos() >= due && self.0.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }
}
