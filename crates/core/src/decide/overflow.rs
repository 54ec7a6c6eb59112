//! `overflow = "soonest"`: a request leaves the near group when waiting there costs more than
//! the extra distance.
//!
//! With `q` requests waiting, the next one near waits `W = (q + 1) / mu`, where `mu` is the rate
//! at which the full near groups end requests: places over the time a permit is held, or their
//! `max_rate`, or the sum of their servers', where that is less. Its own wait is not the whole
//! cost: it also delays those that come while the near groups stay full. With `rho` the arrival
//! rate over `mu`, the cost is `W / (1 - rho^4)`, and waiting goes on without end from `rho = 1`.
//! So a request goes far when
//!
//! `W > D * (1 - rho^4)`, with `D` the extra round trip to the nearest group with room.
//!
//! Where the far group has a wait of its own to expect, that is added to the right side: in flight
//! there are requests that travel and requests that are served, and of its places the part
//! `(held - distance) / held` are cores; what is in flight beyond those will wait.
//!
//! Of a rate it is known when the next request of it is due, `next` from now: then
//! `W = min(next, 1 / mu) + q / mu`.
//!
//! At light load this is `W > D`. Over capacity nobody waits for what cannot get shorter.
//! For one queue the cost to all would be `W / (1 - rho)`; the fourth power is chosen by
//! simulation (six places of 38 ms near, 30 ms to the far ones, Poisson arrivals, 200 runs of
//! 500): at 80/s it sends 0.2 % far where the first power sends 1.4 %, at 200/s the mean is 50.8
//! against 49.8 ms. Plain `W > D` gives 57.6 ms there.

use crate::{
    decide::{
        permit::Permit,
        plan::{GroupPlan, PickContext, ServicePlan},
    },
    fleet::{Overflow, WhenFull},
    time::Duration,
};

impl ServicePlan {
    /// The nearest group with room unless waiting for a nearer one costs less than the distance.
    pub(crate) fn soonest(&self, ask: &PickContext<'_>, waiting: u32) -> Option<Permit> {
        // The nearest group belongs to those that wait already.
        let first_open = usize::from(waiting > 0);
        let nearest = self.groups.first()?;
        let mut near = Near { freed_per_sec: 0.0, next: f64::INFINITY };
        for (at, group) in self.groups.iter().enumerate() {
            let extra = group.distance.saturating_sub(nearest.distance);
            if at > 0 && self.pays_to_wait(waiting, &near, extra, group) {
                return None;
            }
            if at >= first_open
                && let Some(permit) = group.admit(ask, self)
            {
                return Some(permit);
            }
            near.freed_per_sec += group.freed_per_sec();
            if group.state.in_flight() < group.in_flight_limit()
                && let Some(ready) = group.ready_at(ask.now)
            {
                near.next = near.next.min(ready.since(ask.now).as_secs_f64());
            }
        }
        None
    }

    /// A group with room for a request that may not wait, since the queue is full. Groups that are
    /// waited for are left to those that wait.
    pub(crate) fn beyond_queue(&self, ask: &PickContext<'_>) -> Option<Permit> {
        (self.overflow == Overflow::Soonest).then(|| {
            let mut farther = self.groups.iter().skip(1);
            farther.find_map(|group| group.admit(ask, self))
        })?
    }

    /// Whether the service lets requests wait at all; where it does not, none prefers to.
    fn may_queue(&self) -> bool {
        matches!(self.when_full, WhenFull::Queue { .. })
    }

    /// Whether waiting behind `waiting` others costs less than the `extra` distance to `far` and
    /// the wait there.
    fn pays_to_wait(&self, waiting: u32, near: &Near, extra: Duration, far: &GroupPlan) -> bool {
        let Near { freed_per_sec, next } = *near;
        if !self.may_queue() || freed_per_sec <= 0.0 {
            return false;
        }
        let load = self.state.arrivals.per_sec() / freed_per_sec;
        let wait = next.min(1.0 / freed_per_sec) + f64::from(waiting) / freed_per_sec;
        let worth = extra.as_secs_f64() * (1.0 - load * load * load * load).max(0.0);
        wait <= worth + far.expected_wait()
    }
}

/// The full groups nearer than the group in question.
struct Near {
    /// Requests per second that end in these groups.
    freed_per_sec: f64,
    /// Seconds until the first rate among them has its next request; infinite where none is waited
    /// for.
    next: f64,
}

impl GroupPlan {
    /// Requests per second that end while the group is full; zero where nothing is known yet.
    pub(crate) fn freed_per_sec(&self) -> f64 {
        let held = self.state.held.get().as_secs_f64();
        let places = f64::from(self.places());
        let by_places = if held > 0.0 { places / held } else { 0.0 };
        match self.rate_per_sec {
            Some(rate) if self.places() == u32::MAX => rate,
            Some(rate) => by_places.min(rate),
            None if self.places() == u32::MAX => 0.0,
            None => by_places,
        }
    }

    /// Seconds that one more request would wait at the servers of a group that has places left:
    /// what is in flight beyond its cores, over the rate at which requests end.
    fn expected_wait(&self) -> f64 {
        let held = self.state.held.get().as_secs_f64();
        let served = held - self.distance.as_secs_f64();
        let freed_per_sec = self.freed_per_sec();
        if served <= 0.0 || freed_per_sec <= 0.0 || self.places() == u32::MAX {
            return 0.0;
        }
        let cores = f64::from(self.places()) * served / held;
        let excess = f64::from(self.state.in_flight()) + 1.0 - cores;
        excess.max(0.0) / freed_per_sec
    }

    /// Requests the group can have in flight: its own limit, or the sum of its servers'.
    pub(crate) fn places(&self) -> u32 {
        let of_servers = self.servers.iter().map(|server| server.limits.in_flight);
        let sum = of_servers.fold(0u32, u32::saturating_add);
        self.in_flight_limit().min(sum)
    }
}
