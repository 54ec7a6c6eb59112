//! `Retry-After` of a refused request.
//!
//! What waits leaves the queue at the rate at which requests end, `mu`, as it is measured: places
//! over the time a permit is held, or the `max_rate` of groups or servers where that is less. With
//! `q` requests waiting the queue is empty after `D = (q + 1) / mu`. Refused clients that all came
//! back at that instant would be the next wave, so each is told a time of its own, even between `D`
//! and `2 D`, in whole seconds, 1 to [`RETRY_AFTER_MAX`].

use crate::{
    decide::plan::{GroupPlan, ServicePlan},
    time::{Duration, Instant},
};

impl ServicePlan {
    /// Seconds after which a request that is refused at `now` may come again. `draw` is a random
    /// number, uniform over all of `u64`.
    #[must_use]
    pub fn retry_after(&self, now: Instant, draw: u64) -> u32 {
        let spread = 1.0 + draw as f64 / u64::MAX as f64;
        let seconds = self.drain_time(now).as_secs_f64() * spread;
        (libm::ceil(seconds) as u32).clamp(1, RETRY_AFTER_MAX)
    }

    /// How long it takes until the next request finds room, everybody who waits served before it.
    fn drain_time(&self, now: Instant) -> Duration {
        let freed_per_sec: f64 = self.groups.iter().map(GroupPlan::freed_per_sec).sum();
        if freed_per_sec <= 0.0 {
            let ready = self.groups.iter().filter_map(|group| group.ready_at(now)).min();
            return ready.map_or(Duration::ZERO, |ready| ready.since(now));
        }
        let waiting = f64::from(self.state.queued()) + 1.0;
        Duration::from_nanos((waiting / freed_per_sec * 1e9) as u64)
    }
}

/// Seconds: in a minute an operator or a scaler has acted, so that no forecast is worth more.
const RETRY_AFTER_MAX: u32 = 60;
