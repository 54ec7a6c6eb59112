//! Least requests: the server with the fewest requests in flight for its weight.
//!
//! Chooses the open server with the least `(in_flight + 1) / weight`; among equals the first from
//! a random place on, so that an idle group is not all sent to its first server. Looks at every
//! server unless it meets an idle one of the largest weight.
//!
//! When all are full nobody is chosen. Not for many edges in front of few servers: each sees only
//! its own requests, and all pick the same idle server at the same moment; use power of two.

use crate::{plan::ServerPlan, policy::start_at};

pub(super) fn choose(
    servers: &[ServerPlan],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
) -> Option<&ServerPlan> {
    let (before, after) = servers.split_at(start_at(draw, servers.len()));
    let candidates = after.iter().chain(before).filter(|server| open(server));
    candidates.reduce(|best, server| if is_less_loaded(server, best) { server } else { best })
}

/// Compares `(in_flight + 1) / weight` without dividing.
pub(super) fn is_less_loaded(left: &ServerPlan, right: &ServerPlan) -> bool {
    let load = |server: &ServerPlan| u64::from(server.state.in_flight()) + 1;
    load(left) * u64::from(right.weight) < load(right) * u64::from(left.weight)
}
