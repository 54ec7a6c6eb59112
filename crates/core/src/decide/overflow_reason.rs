//! Why a request goes past the nearest group.
//!
//! The reason is looked for once a farther group has taken the request, so that nothing is looked
//! for where the nearest one takes it. A limit of the group comes before those of its servers, of
//! which the first in the file that is full is told.

use crate::{
    decide::plan::{GroupPlan, PickContext, ServicePlan},
    time::Instant,
};

/// Why a request went past the nearest group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowReason {
    /// None of its servers may be given requests.
    Out,
    /// It is below its failover threshold, and the group that got the request is not.
    Yields,
    /// The share of it that this edge may use has ended, and no other has come.
    Share,
    /// The `max_rate` of it or its servers.
    MaxRate,
    /// The `max_in_flight` of it or its servers.
    MaxInFlight,
    /// The `max_utilization` of it or its servers.
    MaxUtilization,
    /// The limit that was found by `capacity = "auto"`.
    LimitFound,
    /// The `max_connections` of its servers.
    MaxConnections,
    /// Its places are for requests that wait, or one came free just then.
    Full,
}

impl OverflowReason {
    /// Every reason, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Out,
        Self::Yields,
        Self::MaxRate,
        Self::MaxInFlight,
        Self::MaxUtilization,
        Self::MaxConnections,
        Self::LimitFound,
        Self::Share,
        Self::Full,
    ];

    /// The name in the access log and in spans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::Yields => "yields",
            Self::Share => "share",
            Self::MaxRate => "max-rate",
            Self::MaxInFlight => "max-in-flight",
            Self::MaxUtilization => "max-utilization",
            Self::LimitFound => "limit-found",
            Self::MaxConnections => "max-connections",
            Self::Full => "full",
        }
    }
}

impl ServicePlan {
    /// Why a request that this group takes goes past the nearest; none where this is the nearest.
    /// While that has room, sessions of other groups and requests that have failed there come for
    /// another reason.
    pub(crate) fn overflow_reason(
        &self,
        group: &GroupPlan,
        ask: &PickContext<'_>,
    ) -> Option<OverflowReason> {
        if group.index == self.nearest { None } else { self.passed_over(ask) }
    }

    /// Why the nearest group does not take this request; none where it would, had none of its
    /// servers failed it.
    fn passed_over(&self, ask: &PickContext<'_>) -> Option<OverflowReason> {
        let first = self.groups.first()?;
        if first.index != self.nearest {
            let is_open = self.groups.iter().any(|group| group.index == self.nearest);
            return Some(if is_open { OverflowReason::Yields } else { OverflowReason::Out });
        }
        let may_prefer_others = ask.stick.is_some() || !ask.tried.is_empty();
        if may_prefer_others && first.has_place_at(ask.now) {
            return None;
        }
        Some(first.full_by(ask.now).unwrap_or(OverflowReason::Full))
    }
}

impl GroupPlan {
    /// Which limit leaves no room at `now`; none where all do.
    fn full_by(&self, now: Instant) -> Option<OverflowReason> {
        if self.whole.is_some() && self.state.share_has_ended(now) {
            return Some(OverflowReason::Share);
        }
        let own = self.limits.full_by(&self.state.admission, self.state.in_flight(), now);
        let found = || (!self.has_found_room()).then_some(OverflowReason::LimitFound);
        own.or_else(found).or_else(|| {
            self.servers.iter().find_map(|server| {
                let (state, limits) = (&server.state, &server.limits);
                limits.full_by(&state.admission, state.in_flight(), now)
            })
        })
    }
}
