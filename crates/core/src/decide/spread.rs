//! `when_full = "spread"`: what exceeds the capacity of all groups goes to all of them, in
//! proportion to their capacities.

use crate::decide::{
    ledger::reserve,
    permit::Permit,
    plan::{GroupPlan, PickContext, ServerPlan, ServicePlan},
};

impl ServicePlan {
    /// Sends over capacity, in proportion to it: what the service does when it is full and its
    /// rule is `spread`. None where every server was tried.
    #[must_use]
    pub fn spread(&self, ask: &PickContext<'_>) -> Option<Permit> {
        let worth = self.spread_unit();
        let shares = self.groups.iter().map(|group| worth(group).unwrap_or(0));
        let total: u64 = shares.clone().sum();
        let mut mark = ((u128::from(ask.draw) * u128::from(total)) >> 64) as u64;
        let drawn = shares.clone().position(|share| {
            let here = mark < share;
            mark = mark.saturating_sub(share);
            here
        });
        let first = drawn.unwrap_or(0);
        let order = (first..self.groups.len()).chain(0..first);
        order.into_iter().find_map(|at| self.groups[at].admit_over_capacity(ask, self))
    }

    /// The unit in which full groups are compared, the same for all.
    fn spread_unit(&self) -> Unit {
        let said_of_all = |unit: &Unit| self.groups.iter().all(|group| unit(group).is_some());
        SPREAD_UNITS.into_iter().find(said_of_all).unwrap_or(GroupPlan::server_count)
    }
}

impl GroupPlan {
    /// Gives a permit whatever the limits say.
    fn admit_over_capacity(&self, ask: &PickContext<'_>, service: &ServicePlan) -> Option<Permit> {
        let untried = |server: &ServerPlan| !ask.tried.contains(&server.state.id());
        let server = self.chooser.choose(self, ask, untried)?;
        reserve(&self.state.in_flight, u32::MAX);
        server.state.reserve(u32::MAX);
        if self.auto.is_some() {
            self.state.auto.enter(u32::MAX);
        }
        let mut permit = self.permit(server, ask.now, service.overflow_reason(self, ask));
        permit.terms.over_capacity = true;
        self.state.over_capacity.add();
        Some(permit)
    }

    /// The `max_rate` of the group or of its servers, in requests per thousand seconds, so that
    /// shares of rates from 0.001/s are whole numbers.
    fn rate_limit(&self) -> Option<u64> {
        self.rate_per_sec.map(|per_sec| (per_sec * 1e3) as u64 + 1)
    }

    /// The requests it may have in flight.
    fn place_limit(&self) -> Option<u64> {
        Some(self.places()).filter(|places| *places < u32::MAX).map(u64::from)
    }

    /// The requests that end in it in a thousand seconds while it is full.
    fn throughput(&self) -> Option<u64> {
        let per_sec = self.freed_per_sec();
        (per_sec > 0.0).then_some((per_sec * 1e3) as u64 + 1)
    }

    /// Its servers, for groups of which nothing better is known.
    fn server_count(&self) -> Option<u64> {
        Some(self.servers.len() as u64)
    }
}

/// What is said of a group in some unit, if it is.
type Unit = fn(&GroupPlan) -> Option<u64>;

/// Units in which full groups are compared: the first that all of them have.
const SPREAD_UNITS: [Unit; 3] =
    [GroupPlan::rate_limit, GroupPlan::place_limit, GroupPlan::throughput];
