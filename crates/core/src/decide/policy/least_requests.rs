//! Least requests: the server with the fewest requests in flight for its weight.
//!
//! Chooses the open server with the least `in_flight / weight`; equals have their turns by weight
//! ([`least`]), so that a group with nothing in flight is served round robin. It looks at every
//! server, or remembers what it saw ([`least_of_many`](crate::decide::policy::least_of_many)): that
//! is what keeps the longest queue of a group as short as one edge can keep it.
//!
//! When all are full nobody is chosen. Not for many edges in front of few servers: each sees only
//! its own requests, and all pick the same idle server at the same moment; use power of two.
//!
//! Source: nginx's `least_conn`, whose equals are served by weighted round robin too, here with
//! requests, not connections; HAProxy's `leastconn`.

use alloc::{boxed::Box, vec::Vec};

use crate::decide::{
    plan::ServerPlan,
    policy::{
        About,
        least::{Steps, best_of_all, choose_best},
        least_of_many::LeastOfMany,
    },
};

pub(super) const ABOUT: About = About {
    name: "least-requests",
    meaning: "Fewest requests in flight per weight.",
    prefers: true,
    is_default: true,
    ..About::PLAIN
};

/// The weights, and what is remembered of the loads where there are many.
#[derive(Debug)]
pub(crate) struct LeastRequests {
    weights: Weights,
    many: Option<LeastOfMany>,
}

impl LeastRequests {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let many = (servers.len() >= MANY).then(|| LeastOfMany::new(servers));
        Self { weights: Weights::new(servers), many }
    }

    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        draw: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let costs = &self.weights.costs[..servers.len()];
        let cost = |at: usize, server: &ServerPlan| {
            u64::from(server.state.in_flight()) * u64::from(costs[at])
        };
        let best = match &self.many {
            Some(many) => many.best(servers, draw, cost),
            None => best_of_all(servers, draw, cost),
        };
        choose_best(servers, best, draw, open, cost, &self.weights.steps())
    }
}

/// The weights in the form a comparison needs.
#[derive(Debug)]
pub(super) struct Weights {
    /// `scale / weight`, so that loads are compared by multiplying. Exact where the least common
    /// multiple of the weights is below [`SCALE_MAX`].
    costs: Box<[u32]>,
    costliest: u32,
}

impl Weights {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let weights: Vec<u64> = servers.iter().map(|server| u64::from(server.weight)).collect();
        let scale = common_multiple(&weights).unwrap_or(SCALE_MAX);
        let costs: Box<[u32]> =
            weights.iter().map(|weight| (scale / weight).max(1) as u32).collect();
        Self { costliest: costs.iter().copied().max().unwrap_or(1), costs }
    }

    /// What one request in flight costs, by place.
    pub(super) fn costs(&self) -> &[u32] {
        &self.costs
    }

    /// How far tags move on.
    pub(super) fn steps(&self) -> Steps<'_> {
        Steps { each: &self.costs, longest: self.costliest }
    }
}

/// From this many servers on it pays to remember the winners of blocks.
const MANY: usize = 24;

/// The least common multiple; none where it is not below [`SCALE_MAX`].
fn common_multiple(weights: &[u64]) -> Option<u64> {
    weights.iter().try_fold(1, |multiple, weight| {
        let next = multiple / gcd(multiple, *weight) * weight;
        (next < SCALE_MAX).then_some(next)
    })
}

/// The greatest common divisor.
pub(super) fn gcd(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { gcd(right, left % right) }
}

/// Costs stay below 2^63 for any count of requests in flight.
const SCALE_MAX: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{draws, everyone, load_with, servers};

    #[test]
    fn the_least_loaded_for_its_weight_is_chosen() {
        let servers = servers(&[1, 2, 3]);
        let policy = LeastRequests::new(&servers);
        for (in_flight, expected) in
            [([0, 2, 3], 0), ([1, 1, 3], 1), ([1, 2, 2], 2), ([1, 1, 0], 2)]
        {
            load_with(&servers, &in_flight);
            let chosen = draws().take(50).map(|draw| policy.choose(&servers, draw, everyone));
            assert!(chosen.flatten().all(|s| s.index == expected), "{in_flight:?}");
        }
    }

    /// Weights 97 to 105 have no small common multiple: loads are then right to one in 2^24.
    #[test]
    fn requests_that_stay_are_shared_in_proportion_to_weights() {
        for weights in [[100, 200, 300, 100], [97, 101, 103, 105], [99_991, 7, 50_000, 1]] {
            let servers = servers(&weights);
            let policy = LeastRequests::new(&servers);
            let total: u32 = weights.iter().sum();
            for draw in draws().take(2_000) {
                let server = policy.choose(&servers, draw, everyone).unwrap();
                let next = server.state.in_flight() + 1;
                server.state.in_flight.store(next, core::sync::atomic::Ordering::Relaxed);
            }
            for server in &servers {
                let share = 2_000.0 * f64::from(server.weight) / f64::from(total);
                let in_flight = f64::from(server.state.in_flight());
                assert!(
                    libm::fabs(in_flight - share) <= 2.0,
                    "{weights:?}: {in_flight} of {share}"
                );
            }
        }
    }
}
