//! The active priority tier of a group: its servers of the lowest priority of which one is healthy
//! (RFC 2782). The others stand by.
//!
//! What the file says of a group is meant for the servers of its first priority, so
//! `healthy share = min(healthy of the active tier / configured of the first priority, 1)`.
//!
//! Whoever stands by takes a request in two cases: every server of the active tier failed it, or
//! all of them are back from an ejection and have not answered since. Then each of these is given
//! one request at a time, which shows how it does, and the others are spared that.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::plan::{GroupPlan, PickContext, ServerPlan},
    units::Ratio,
};

/// The first priority of a group's servers, and the active one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriorityTier {
    /// The first priority there is, and how many servers have it.
    first: Option<(u16, usize)>,
    /// The same for healthy servers: the active tier.
    healthy: Option<(u16, usize)>,
}

impl PriorityTier {
    /// Of servers that take part, each with its priority and whether it is healthy.
    pub(crate) fn of(servers: impl Iterator<Item = (u16, bool)>) -> Self {
        servers.fold(Self::default(), |tier, (priority, healthy)| Self {
            first: with(tier.first, priority),
            healthy: if healthy { with(tier.healthy, priority) } else { tier.healthy },
        })
    }

    /// Whether servers of this priority are in the active tier.
    pub(crate) fn is_of(&self, priority: u16) -> bool {
        self.healthy.is_some_and(|(active, _)| active == priority)
    }

    /// Whether healthy servers of this priority stand by.
    pub(crate) fn is_before(&self, priority: u16) -> bool {
        self.healthy.is_some_and(|(active, _)| active < priority)
    }

    /// How many servers what the file says of the group is meant for.
    pub(crate) fn configured(&self) -> usize {
        self.first.map_or(0, |(_, count)| count)
    }

    /// How many servers of the active tier are healthy, of those at most.
    pub(crate) fn healthy(&self) -> usize {
        self.healthy.map_or(0, |(_, count)| count).min(self.configured())
    }

    /// The part of what the file says that the group can carry.
    pub(crate) fn healthy_share(&self) -> Ratio {
        let Part { healthy, configured, .. } = self.part(Ratio::ONE);
        Ratio::part(healthy, configured)
    }

    /// The same, of what is left by `scaler`.
    pub(crate) fn part(&self, scaler: Ratio) -> Part {
        let (healthy, configured) = (self.healthy(), self.configured());
        Part { scaler, healthy: healthy as u64, configured: configured as u64 }
    }
}

impl GroupPlan {
    /// The servers of the active tier, and those that stand by.
    pub(crate) fn of_all_tiers(&self) -> impl Iterator<Item = &ServerPlan> {
        self.servers.iter().chain(self.later.iter().map(|(_, server)| server))
    }

    /// Takes a place on a server that stands by, for a request that every server of the active tier
    /// has failed.
    pub(crate) fn after_active_tier(&self, ask: &PickContext<'_>) -> Option<&ServerPlan> {
        let has_failed = |server: &ServerPlan| ask.tried.contains(&server.state.id());
        let is_due = !self.later.is_empty() && self.servers.iter().all(has_failed);
        is_due.then(|| self.take_later(ask))?
    }

    /// The same for a request that would be one more at servers that are back from an ejection:
    /// none where one of them has answered since or has no other request.
    pub(crate) fn spared(&self, ask: &PickContext<'_>) -> Option<&ServerPlan> {
        let is_open = |ServerPlan { state, .. }: &ServerPlan| {
            let is_in_doubt = state.errs.load(Relaxed) && state.errors_in_a_row.load(Relaxed) > 0;
            !is_in_doubt || state.in_flight() == 0
        };
        let is_due = self.are_back && !self.later.is_empty() && !self.servers.iter().any(is_open);
        is_due.then(|| self.take_later(ask))?
    }

    /// A place on the least busy server with room of the lowest priority that has any.
    fn take_later(&self, ask: &PickContext<'_>) -> Option<&ServerPlan> {
        let open = self.later.iter().filter(|(_, server)| server.has_room(ask));
        let first = open.min_by_key(|(priority, server)| (*priority, server.state.in_flight()));
        first.and_then(|(_, server)| self.take(server, ask))
    }
}

/// The part of what the file says of a group that is in use: `scaler * healthy / configured`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    scaler: Ratio,
    healthy: u64,
    configured: u64,
}

impl Part {
    /// A part that does not depend on health.
    pub(crate) fn scaled(scaler: Ratio) -> Self {
        Self { scaler, healthy: 1, configured: 1 }
    }

    /// Whether no server is left that could carry anything.
    pub(crate) fn is_nothing(self) -> bool {
        self.healthy == 0
    }

    /// This part of `n`, rounded down once: 4 is two thirds of 6.
    pub(crate) fn of(self, n: u64) -> u64 {
        let scaled = u128::from(n) * u128::from(self.scaler.as_ppm()) * u128::from(self.healthy);
        let whole = u128::from(Ratio::ONE.as_ppm()) * u128::from(self.configured.max(1));
        u64::try_from(scaled / whole).unwrap_or(u64::MAX)
    }
}

/// The lowest priority so far with its count, and one server more.
fn with(lowest: Option<(u16, usize)>, priority: u16) -> Option<(u16, usize)> {
    match lowest {
        Some((before, count)) if before == priority => Some((before, count + 1)),
        Some((before, _)) if before < priority => lowest,
        _ => Some((priority, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(servers: &[(u16, bool)]) -> (Option<u16>, Ratio) {
        let tier = PriorityTier::of(servers.iter().copied());
        (tier.healthy.map(|it| it.0), tier.healthy_share())
    }

    #[test]
    fn the_next_priority_is_active_when_nobody_of_the_first_is_healthy() {
        let both = [(10, true), (10, false), (20, true)];
        assert_eq!(active(&both), (Some(10), Ratio::percent(50)));
        let standby = [(10, false), (10, false), (20, true), (20, true), (20, true)];
        assert_eq!(active(&standby), (Some(20), Ratio::ONE), "never more than is configured");
        assert_eq!(active(&[(10, false), (20, false)]).0, None);
        assert_eq!(active(&[]).0, None);
    }
}
