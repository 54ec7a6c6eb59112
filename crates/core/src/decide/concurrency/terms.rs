//! A limit that is found as plans and requests have it.

use super::{Bounds, SearchState};
use crate::{
    decide::{
        plan::{GroupPlan, ServicePlan},
        priority_tier::Part,
    },
    time::{Duration, Instant},
};

/// The terms of a limit that is found while requests are served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Auto {
    pub bounds: Bounds,
    /// Whether requests may be held back before it is proven that there is a limit: they must be
    /// able to wait, and have nowhere else to go.
    pub holds: bool,
    /// Part of the limit that may be in use.
    pub scaler: Part,
}

impl ServicePlan {
    /// How long requests may wait, and how many, where every group has found its limit; none where
    /// the service alone says it.
    #[must_use]
    pub fn found_queue(&self) -> Option<(Duration, u32)> {
        let queues = self.groups.iter().map(|group| group.auto.and(group.state.auto.queue()));
        queues.reduce(|one, other| {
            let ((wait, places), (other_wait, other_places)) = (one?, other?);
            Some((wait.max(other_wait), places.saturating_add(other_places)))
        })?
    }

    /// Whether every group has a limit by `capacity = "auto"` now, proven or not.
    pub(crate) fn has_found_limits(&self) -> bool {
        let is_limited =
            |group: &GroupPlan| group.auto.is_some_and(|auto| group.found(&auto) < u32::MAX);
        !self.groups.is_empty() && self.groups.iter().all(is_limited)
    }

    /// Whether that leaves no room in any of them.
    pub(crate) fn is_full_by_found_limits(&self) -> bool {
        !self.groups.is_empty() && !self.groups.iter().any(GroupPlan::has_found_room)
    }

    /// Places in the queue.
    pub(crate) fn queue_places(&self, length: u32) -> u32 {
        self.found_queue().map_or(length, |(_, places)| length.min(places))
    }
}

impl GroupPlan {
    /// Requests that may be in flight now; [`u32::MAX`] where not limited.
    pub(crate) fn in_flight_limit(&self) -> u32 {
        self.auto.map_or(self.limits.in_flight, |auto| self.limits.in_flight.min(self.found(&auto)))
    }

    /// Requests that may wait for a response by the limit that was found; [`u32::MAX`] for all.
    fn found(&self, auto: &Auto) -> u32 {
        let found = &self.state.auto;
        let allowed = found.allowed();
        if allowed == u32::MAX || !auto.holds && found.stage() == SearchState::Holding {
            return u32::MAX;
        }
        auto.scaler.of(u64::from(allowed)).max(1) as u32
    }

    /// Takes a place among those that wait for a response, where their number is limited.
    pub(crate) fn enter(&self, now: Instant) -> bool {
        let Some(auto) = &self.auto else { return true };
        let has_room = self.state.auto.enter(self.found(auto));
        if !has_room {
            self.state.auto.note_full(now);
        }
        has_room
    }

    /// Whether the limit that was found has room; nothing is taken.
    pub(crate) fn has_found_room(&self) -> bool {
        self.auto.is_none_or(|auto| self.state.auto.awaiting() < self.found(&auto))
    }
}
