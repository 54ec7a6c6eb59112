//! The open server of the least cost, found by looking at all of them.
//!
//! Most servers are open, and asking each costs more than comparing them. So the first pass
//! compares all, those at their limit in flight last, without a branch that could be guessed
//! wrong; only the winner is asked. If it is closed for another reason (its rate, a failed
//! attempt), a second pass asks everyone.
//!
//! Among equals it is the first from a random place on, so that an idle group is not all sent to
//! its first server.

use core::hint::select_unpredictable;

use crate::{plan::ServerPlan, policy::draw::part};

/// The open server of the least cost, where `cost` is below 2^63.
pub(super) fn least(
    servers: &[ServerPlan],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    cost: impl Fn(usize, &ServerPlan) -> u64,
) -> Option<&ServerPlan> {
    let start = part(draw, servers.len() as u64) as usize;
    let cost_or_full = |at: usize, server: &ServerPlan| {
        let full = server.state.in_flight() >= server.limits.in_flight;
        cost(at, server) | (u64::from(full) << 63)
    };
    let mut best = (u64::MAX, start);
    best = least_of(&servers[start..], start, best, cost_or_full);
    best = least_of(&servers[..start], 0, best, cost_or_full);
    let winner = servers.get(best.1)?;
    if open(winner) {
        return Some(winner);
    }
    least_open(servers, draw, open, cost)
}

/// The same by asking everyone; for any cost.
pub(super) fn least_open<C: PartialOrd>(
    servers: &[ServerPlan],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    cost: impl Fn(usize, &ServerPlan) -> C,
) -> Option<&ServerPlan> {
    let start = part(draw, servers.len() as u64) as usize;
    let (before, after) = servers.split_at(start);
    let places = (start..).zip(after).chain((0..).zip(before));
    let candidates = places.filter(|(_, server)| open(server));
    let costs = candidates.map(|(at, server)| (cost(at, server), server));
    costs.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|best| best.1)
}

/// The lesser of `best` and the servers, which stand at `offset` on.
fn least_of(
    servers: &[ServerPlan],
    offset: usize,
    best: (u64, usize),
    cost: impl Fn(usize, &ServerPlan) -> u64,
) -> (u64, usize) {
    (offset..).zip(servers).fold(best, |best, (at, server)| {
        let cost = cost(at, server);
        let less = cost < best.0;
        let cost = select_unpredictable(less, cost, best.0);
        (cost, select_unpredictable(less, at, best.1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{assert_shares, counts, draws, everyone, load_with, servers};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn in_flight(_: usize, server: &ServerPlan) -> u64 {
        u64::from(server.state.in_flight())
    }

    proptest! {
        /// Whatever is closed or full: the choice is open, and no open server costs less.
        #[test]
        fn it_is_the_cheapest_of_the_open_ones(
            loads in prop::collection::vec((0u32..5, any::<bool>(), any::<bool>()), 1..40),
            draw: u64,
        ) {
            let mut servers = servers(&Vec::from_iter(loads.iter().map(|_| 1)));
            for (server, load) in servers.iter_mut().zip(&loads) {
                server.limits.in_flight = if load.2 { load.0 } else { u32::MAX };
            }
            load_with(&servers, &Vec::from_iter(loads.iter().map(|load| load.0)));
            let is_open = |server: &ServerPlan| {
                loads[usize::from(server.index)].1
                    && server.state.in_flight() < server.limits.in_flight
            };
            let cheapest = servers.iter().filter(|s| is_open(s)).map(|s| s.state.in_flight()).min();
            let chosen = least(&servers, draw, is_open, in_flight);
            prop_assert!(chosen.is_none_or(is_open));
            prop_assert_eq!(chosen.map(|server| server.state.in_flight()), cheapest);
        }
    }

    #[test]
    fn equals_are_chosen_equally_often() {
        let servers = servers(&[1; 7]);
        let counts = counts(7, |draw| least(&servers, draw, everyone, in_flight));
        assert_shares(&counts, &[1.0; 7]);
    }

    #[test]
    fn over_capacity_a_full_server_is_chosen_after_those_with_room() {
        let mut servers = servers(&[1; 3]);
        load_with(&servers, &[1, 8, 9]);
        servers[0].limits.in_flight = 1;
        let chosen = |draw| least(&servers, draw, everyone, in_flight).map(|s| s.index);
        assert!(draws().take(20).all(|draw| chosen(draw) == Some(1)));
    }
}
