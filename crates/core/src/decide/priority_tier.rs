//! The active priority tier of a group: its servers of the lowest priority of which one is healthy
//! (RFC 2782). The others stand by.
//!
//! What the file says of a group is meant for the servers of its first priority, `configured` of
//! them. A server that is down takes its part away, since the others inherit nothing of it; one
//! that is drained leaves its part to the others of its priority, so
//! `healthy share = min(healthy / undrained * all / configured, 1)`, the first three of the active
//! tier. A priority all of whose servers are drained does not count as the first.
//!
//! Whoever stands by takes a request in two cases: every server of the active tier failed it, or
//! each of them is about to be ejected, or is back from an ejection with all the others and has not
//! answered since. Such a one is given one request at a time, which shows how it does, and the
//! others are spared that.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::{
        ledger::ServerState,
        plan::{GroupPlan, PickContext, ServerPlan},
    },
    units::Ratio,
};

/// How a server counts among those of its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Healthy,
    /// Down, ejected or in maintenance.
    Unhealthy,
    /// It leaves its part to the others.
    Drained,
}

/// The first priority of a group's servers, and the active one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriorityTier {
    first: Option<OfPriority>,
    /// None while no server is healthy.
    active: Option<OfPriority>,
}

/// How many servers have a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OfPriority {
    priority: u16,
    all: usize,
    undrained: usize,
    healthy: usize,
}

impl Counted {
    /// The same of a server that is given nothing.
    pub(crate) fn without_health(self) -> Self {
        if self == Self::Healthy { Self::Unhealthy } else { self }
    }
}

impl PriorityTier {
    /// Of servers, each with its priority and how it counts.
    pub(crate) fn of(servers: &(impl Iterator<Item = (u16, Counted)> + Clone)) -> Self {
        let lowest = |counts: fn(Counted) -> bool| {
            let priorities = servers.clone().filter(|it| counts(it.1)).map(|it| it.0);
            priorities.min().map(|priority| OfPriority::new(priority, servers.clone()))
        };
        Self {
            first: lowest(|counted| counted != Counted::Drained),
            active: lowest(|counted| counted == Counted::Healthy),
        }
    }

    /// Whether servers of this priority are in the active tier.
    pub(crate) fn is_of(&self, priority: u16) -> bool {
        self.active.is_some_and(|active| active.priority == priority)
    }

    /// Whether healthy servers of this priority stand by.
    pub(crate) fn is_before(&self, priority: u16) -> bool {
        self.active.is_some_and(|active| active.priority < priority)
    }

    /// How many servers are healthy, and of how many: of backups at most as many as are configured,
    /// with those whose part they have taken.
    pub(crate) fn healthy(&self) -> (usize, usize) {
        let Some(first) = self.first else { return (0, 0) };
        match self.active {
            Some(backups) if backups.priority != first.priority => {
                let healthy = backups.healthy * backups.all / backups.undrained.max(1);
                (healthy.min(first.all), first.all)
            }
            _ => (first.healthy, first.undrained),
        }
    }

    /// The part of what the file says that the group can carry.
    pub(crate) fn healthy_share(&self) -> Ratio {
        let Part { healthy, configured, .. } = self.part(Ratio::ONE);
        Ratio::part(healthy, configured)
    }

    /// The same, of what is left by `scaler`.
    pub(crate) fn part(&self, scaler: Ratio) -> Part {
        let (Some(first), Some(active)) = (self.first, self.active) else {
            return Part { scaler, healthy: 0, configured: 1 };
        };
        let configured = active.undrained * first.all;
        let healthy = (active.healthy * active.all).min(configured);
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

    /// The same for a request that servers would fail which are about to be ejected, or that would
    /// be one more at servers that are back from an ejection: none where one of these has answered
    /// since or has no other request.
    pub(crate) fn spared(&self, ask: &PickContext<'_>) -> Option<&ServerPlan> {
        let is_in_doubt = |state: &ServerState| {
            state.errs.load(Relaxed) && state.errors_in_a_row.load(Relaxed) > 0
        };
        let is_open = |ServerPlan { state, .. }: &ServerPlan| {
            let is_busy = self.are_back && is_in_doubt(state) && state.in_flight() > 0;
            !is_busy && !state.is_given_up()
        };
        let is_due = !self.later.is_empty() && !self.servers.iter().any(is_open);
        is_due.then(|| self.take_later(ask))?
    }

    /// A place on the least busy server with room of the lowest priority that has any.
    fn take_later(&self, ask: &PickContext<'_>) -> Option<&ServerPlan> {
        let open = self.later.iter().filter(|(_, server)| server.has_room(ask));
        let first = open.min_by_key(|(priority, server)| (*priority, server.state.in_flight()));
        first.and_then(|(_, server)| self.take(server, ask))
    }
}

impl OfPriority {
    fn new(priority: u16, servers: impl Iterator<Item = (u16, Counted)>) -> Self {
        let none = Self { priority, all: 0, undrained: 0, healthy: 0 };
        servers.filter(|it| it.0 == priority).fold(none, |of, (_, counted)| Self {
            all: of.all + 1,
            undrained: of.undrained + usize::from(counted != Counted::Drained),
            healthy: of.healthy + usize::from(counted == Counted::Healthy),
            ..of
        })
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

    /// This part of `n`, rounded down once: 4 is two thirds of 6.
    pub(crate) fn of(self, n: u64) -> u64 {
        let scaled = u128::from(n) * u128::from(self.scaler.as_ppm()) * u128::from(self.healthy);
        let whole = u128::from(Ratio::ONE.as_ppm()) * u128::from(self.configured.max(1));
        u64::try_from(scaled / whole).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{
        Counted::{Drained, Healthy, Unhealthy},
        *,
    };

    fn share(servers: &[(u16, Counted)]) -> Ratio {
        PriorityTier::of(&servers.iter().copied()).healthy_share()
    }

    fn active(servers: &[(u16, Counted)]) -> (Option<u16>, Ratio) {
        let tier = PriorityTier::of(&servers.iter().copied());
        (tier.active.map(|it| it.priority), tier.healthy_share())
    }

    #[test]
    fn the_next_priority_is_active_when_nobody_of_the_first_is_healthy() {
        let both = [(10, Healthy), (10, Unhealthy), (20, Healthy)];
        assert_eq!(active(&both), (Some(10), Ratio::percent(50)));
        let (down, up) = ((10, Unhealthy), (20, Healthy));
        assert_eq!(active(&[down, down, up]), (Some(20), Ratio::percent(50)));
        let standby = [down, down, up, up, up];
        assert_eq!(active(&standby), (Some(20), Ratio::ONE), "never more than is configured");
        assert_eq!(active(&[(10, Unhealthy), (20, Unhealthy)]), (None, Ratio::ZERO));
        assert_eq!(active(&[(10, Drained), (20, Drained)]), (None, Ratio::ZERO));
        assert_eq!(active(&[]), (None, Ratio::ZERO));
    }

    #[test]
    fn a_drained_backup_leaves_its_part_to_the_other_backups() {
        let servers = |first, third, fourth| [(0, first), (0, first), (1, third), (1, fourth)];
        let told =
            |servers: &[(u16, Counted)]| PriorityTier::of(&servers.iter().copied()).healthy();
        for first in [Healthy, Unhealthy, Drained] {
            assert_eq!(share(&servers(first, Healthy, Healthy)), Ratio::ONE);
            assert_eq!(share(&servers(first, Healthy, Drained)), Ratio::ONE, "{first:?}");
        }
        assert_eq!(told(&servers(Unhealthy, Healthy, Drained)), (2, 2));
        assert_eq!(share(&servers(Unhealthy, Healthy, Unhealthy)), Ratio::percent(50));
        assert_eq!(share(&servers(Healthy, Healthy, Unhealthy)), Ratio::ONE);
    }

    /// The priorities of whoever counts so.
    fn lowest(servers: &[(u16, Counted)], counts: fn(Counted) -> bool) -> Option<u16> {
        servers.iter().filter(|it| counts(it.1)).map(|it| it.0).min()
    }

    /// How many of a priority count so.
    fn count(servers: &[(u16, Counted)], priority: u16, counted: Counted) -> usize {
        servers.iter().filter(|it| **it == (priority, counted)).count()
    }

    proptest! {
        #[test]
        fn a_drain_takes_nothing_away_where_others_can_take_its_part_and_whoever_is_down_does(
            servers in prop::collection::vec(
                (0_u16..3, prop::sample::select([Healthy, Unhealthy, Drained].to_vec())),
                1..12,
            ),
            which in any::<prop::sample::Index>(),
        ) {
            let (before, at) = (share(&servers), which.index(servers.len()));
            let reversed: Vec<_> = servers.iter().rev().copied().collect();
            prop_assert_eq!(share(&reversed), before, "in any order");
            let is_healthy = |it: Counted| it == Healthy;
            let Some(active) = lowest(&servers, is_healthy) else {
                prop_assert_eq!(before, Ratio::ZERO);
                return Ok(());
            };
            prop_assert!(before > Ratio::ZERO && before <= Ratio::ONE);

            let (priority, counted) = servers[at];
            let with = |counted| {
                let mut changed = servers.clone();
                changed[at].1 = counted;
                changed
            };
            let is_undrained = |it: Counted| it != Drained;
            let first = lowest(&servers, is_undrained);
            let (down, drained) = (with(Unhealthy), with(Drained));
            let stands_by = priority != active;
            if stands_by && lowest(&drained, is_undrained) == first && counted != Healthy {
                prop_assert_eq!(share(&drained), before, "it has no part now");
            }
            if stands_by && priority > active && counted != Drained {
                prop_assert_eq!(share(&drained), before, "it stands by");
                prop_assert_eq!(share(&down), before, "it stands by");
            }
            let others = count(&servers, active, Healthy);
            if !stands_by && counted == Healthy && others > 1 {
                prop_assert!(share(&down) <= before);
                if count(&servers, active, Unhealthy) == 0 {
                    prop_assert_eq!(share(&drained), before, "the others take its part");
                } else {
                    prop_assert!(share(&drained) >= share(&down), "they take some of it");
                }
            }
            let is_whole = |priority| count(&servers, priority, Drained) == 0;
            if let Some(first) = first.filter(|it| is_whole(*it) && is_whole(active)) {
                let configured = servers.iter().filter(|it| it.0 == first).count();
                let expected = Ratio::part(others.min(configured) as u64, configured as u64);
                prop_assert_eq!(before, expected, "where nobody is drained");
            }
        }
    }
}
