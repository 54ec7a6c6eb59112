//! The open server of the least cost, found by looking at all of them.
//!
//! Most servers are open, and asking each costs more than comparing them. So the first pass
//! compares all, those at their limit in flight last, without a branch that could be guessed
//! wrong; only the winner is asked. If it is closed for another reason (its rate, a failed
//! attempt), a second pass asks everyone.
//!
//! Among equals it is the next in order, as in start-time fair queueing: each server has a
//! tag that grows by its step when it is chosen, and the least tag has its turn. With steps in
//! inverse proportion to weights, those that are tied again and again are chosen in proportion to
//! their weights, evenly spaced. A server that was not tied for long, or is new, has kept no more
//! than [`TURNS_KEPT`] turns of the slowest. Two workers that choose at the same moment may take
//! the same turn.
//!
//! Source: P. Goyal, H. Vin, H. Cheng, Start-time Fair Queueing, 1996.

use core::{
    hint::select_unpredictable,
    sync::atomic::{AtomicU16, Ordering::Relaxed},
};

use crate::decide::{plan::ServerPlan, policy::draw::part};

/// How far the tags of servers move on.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    /// By place; 1 for each where there is none.
    pub each: &'a [u32],
    /// The largest.
    pub longest: u32,
}

/// The open server of the least cost, where `cost` is below 2^63; it has had its turn then.
pub(super) fn least<'a>(
    servers: &'a [ServerPlan],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    cost: impl Fn(usize, &ServerPlan) -> u64,
    steps: &Steps<'_>,
) -> Option<&'a ServerPlan> {
    choose_best(servers, best_of_all(servers, draw, &cost), draw, open, cost, steps)
}

/// The best, found by looking at all.
pub(super) fn best_of_all(
    servers: &[ServerPlan],
    draw: u64,
    cost: impl Fn(usize, &ServerPlan) -> u64,
) -> Best {
    let start = part(draw, servers.len() as u64) as usize;
    let best = Best { place: start, ..Best::NONE };
    let best = best.or_of(&servers[start..], start, &cost);
    best.or_of(&servers[..start], 0, &cost)
}

/// Chooses `best`, or the best open server if it is closed, and counts its turn.
pub(super) fn choose_best<'a>(
    servers: &'a [ServerPlan],
    best: Best,
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    cost: impl Fn(usize, &ServerPlan) -> u64,
    steps: &Steps<'_>,
) -> Option<&'a ServerPlan> {
    let winner = servers.get(best.place)?;
    let (place, winner) = match open(winner) {
        true => (best.place, winner),
        false => {
            let cost_and_tag = |at, server: &ServerPlan| (cost(at, server), tag(server));
            place_of_least(servers, draw, open, cost_and_tag)?
        }
    };
    let step = steps.each.get(place).copied().unwrap_or(1);
    take_turn(servers, winner, best.newest, (step, steps.longest));
    Some(winner)
}

/// Chooses the next server of these places and counts its turn; none if it is closed.
pub(super) fn next_of<'a>(
    servers: &'a [ServerPlan],
    places: &[AtomicU16],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
) -> Option<&'a ServerPlan> {
    let (before, after) = places.split_at(part(draw, places.len() as u64) as usize);
    let best = after.iter().chain(before).fold(Best::NONE, |best, place| {
        let at = usize::from(place.load(Relaxed));
        best.or(at, &servers[at], 0)
    });
    let winner = servers.get(best.place).filter(|winner| open(winner))?;
    take_turn(servers, winner, best.newest, (1, 1));
    Some(winner)
}

/// Moves the tag of who has been chosen on by its step, of which `longest` is the largest; `newest`
/// is the largest tag of all. It is counted as a change when a place is taken on the server, which
/// is next.
fn take_turn(
    servers: &[ServerPlan],
    winner: &ServerPlan,
    newest: u64,
    (step, longest): (u32, u32),
) {
    let behind = newest.saturating_sub(TURNS_KEPT * u64::from(longest));
    let next = tag(winner).max(behind) + u64::from(step);
    winner.state.tag.store(next, Relaxed);
    if next > TAG_MAX {
        servers.iter().for_each(|server| server.state.begin_turns_anew());
    }
}

pub(super) fn tag(server: &ServerPlan) -> u64 {
    server.state.tag.load(Relaxed)
}

/// The same by asking everyone, for any cost, and without turns: among equals it is the first from
/// a random place on.
pub(super) fn least_open<C: PartialOrd>(
    servers: &[ServerPlan],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    cost: impl Fn(usize, &ServerPlan) -> C,
) -> Option<&ServerPlan> {
    place_of_least(servers, draw, open, cost).map(|best| best.1)
}

fn place_of_least<C: PartialOrd>(
    servers: &[ServerPlan],
    draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    cost: impl Fn(usize, &ServerPlan) -> C,
) -> Option<(usize, &ServerPlan)> {
    let start = part(draw, servers.len() as u64) as usize;
    let (before, after) = servers.split_at(start);
    let places = (start..).zip(after).chain((0..).zip(before));
    let candidates = places.filter(|(_, server)| open(server));
    let costs = candidates.map(|(at, server)| (cost(at, server), (at, server)));
    costs.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|best| best.1)
}

/// The best so far.
#[derive(Clone, Copy)]
pub(super) struct Best {
    /// Its cost, then its tag.
    pub cost: u128,
    pub place: usize,
    /// The largest tag of all.
    pub newest: u64,
}

impl Best {
    pub(super) const NONE: Self = Self { cost: u128::MAX, place: usize::MAX, newest: 0 };

    /// The better of both, without a branch that could be guessed wrong.
    pub(super) fn better(self, other: Self) -> Self {
        let less = other.cost < self.cost;
        Self {
            cost: select_unpredictable(less, other.cost, self.cost),
            place: select_unpredictable(less, other.place, self.place),
            newest: self.newest.max(other.newest),
        }
    }

    /// The better of it and the servers, which stand at `offset` on.
    pub(super) fn or_of(
        self,
        servers: &[ServerPlan],
        offset: usize,
        cost: impl Fn(usize, &ServerPlan) -> u64,
    ) -> Self {
        let servers = (offset..).zip(servers);
        servers.fold(self, |best, (at, server)| best.or(at, server, cost(at, server)))
    }

    /// The better of it and a server.
    fn or(self, at: usize, server: &ServerPlan, cost: u64) -> Self {
        let tag = tag(server);
        let cost = u128::from(cost_with_limit(server, cost)) << 64 | u128::from(tag);
        self.better(Self { cost, place: at, newest: tag })
    }
}

/// The cost of a server, above all others if it is at its limit in flight.
pub(super) fn cost_with_limit(server: &ServerPlan, cost: u64) -> u64 {
    let full = server.state.in_flight() >= server.limits.in_flight;
    cost | u64::from(full) << 63
}

/// Enough to make up for turns that were lost to load, little enough that a server which comes
/// back is not flooded.
const TURNS_KEPT: u64 = 4;

/// Beyond it all begin anew, centuries before numbers end.
pub(super) const TAG_MAX: u64 = (1 << 47) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{counts, draws, everyone, load_with, servers};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const EQUAL: Steps<'_> = Steps { each: &[], longest: 1 };

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
            let chosen = least(&servers, draw, is_open, in_flight, &EQUAL);
            prop_assert!(chosen.is_none_or(is_open));
            prop_assert_eq!(chosen.map(|server| server.state.in_flight()), cheapest);
        }
    }

    #[test]
    fn equals_have_their_turns() {
        let servers = servers(&[1; 7]);
        let counts = counts(7, |draw| least(&servers, draw, everyone, in_flight, &EQUAL));
        let (fewest, most) = (counts.iter().copied().reduce(f64::min), counts.iter().copied());
        assert!(most.reduce(f64::max).unwrap() - fewest.unwrap() <= 1.0, "{counts:?}");
    }

    #[test]
    fn a_server_that_comes_back_is_not_given_all_it_has_missed() {
        let servers = servers(&[1; 4]);
        let others = |server: &ServerPlan| server.index != 3;
        for draw in draws().take(900) {
            least(&servers, draw, others, in_flight, &EQUAL).unwrap();
        }
        let next =
            draws().take(40).flat_map(|draw| least(&servers, draw, everyone, in_flight, &EQUAL));
        let given = next.filter(|server| server.index == 3).count();
        assert!((10..=10 + TURNS_KEPT as usize).contains(&given), "{given}");
    }

    #[test]
    fn over_capacity_a_full_server_is_chosen_after_those_with_room() {
        let mut servers = servers(&[1; 3]);
        load_with(&servers, &[1, 8, 9]);
        servers[0].limits.in_flight = 1;
        let chosen = |draw| least(&servers, draw, everyone, in_flight, &EQUAL).map(|s| s.index);
        assert!(draws().take(20).all(|draw| chosen(draw) == Some(1)));
    }
}
