//! Smooth weighted round robin: every server in turn, heavier ones more often, evenly spaced.
//!
//! The sequence is nginx's: at each turn every server's credit grows by its weight, the one with
//! the most credit is chosen (the first among equals) and pays the sum of all weights. Weights
//! 5, 1, 1 give `a a b a c a a`. The sequence repeats after the sum of the weights, so it is made
//! once per plan; a turn is one addition to a counter that all workers share and that no reload
//! and no change of health resets.
//!
//! Weights are divided by their greatest common divisor; where the sequence would still be longer
//! than [`SLOTS_MAX`] they are rounded to fit. A server that is closed loses its turn, and the
//! counter moves on with it, so that its successor is not given two turns in each round.
//!
//! When all are full nobody is chosen. Not for requests of unequal cost or servers of unequal
//! speed: it looks at no load, and what is slow collects a queue.
//!
//! Source: nginx, commit 52327e0627f4 "Upstream: smooth weighted round-robin balancing".

use alloc::{boxed::Box, vec, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::decide::{
    plan::ServerPlan,
    policy::{About, least_requests::gcd},
};

pub(super) const ABOUT: About =
    About { name: "round-robin", meaning: "Smooth weighted round robin.", ..About::PLAIN };

/// The sequence of places, one round of it.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    schedule: Box<[u16]>,
}

impl RoundRobin {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let weights: Vec<u64> = servers.iter().map(|server| u64::from(server.weight)).collect();
        Self { schedule: smooth(&slots(&weights)) }
    }

    /// Chooses the next open server; `turn` is the position that workers share.
    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        turn: &AtomicU64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let turn_now = turn.fetch_add(1, Relaxed);
        let start = (turn_now % self.schedule.len() as u64) as usize;
        let (before, after) = self.schedule.split_at(start);
        let mut turns = after.iter().chain(before).take(SKIPS_MAX);
        let place = turns.position(|at| open(&servers[usize::from(*at)]));
        let Some(skipped) = place else {
            let (before, after) = servers.split_at(start % servers.len());
            return after.iter().chain(before).find(|server| open(server));
        };
        if skipped > 0 {
            turn.fetch_add(skipped as u64, Relaxed);
        }
        let slot = (start + skipped) % self.schedule.len();
        Some(&servers[usize::from(self.schedule[slot])])
    }
}

/// Turns per round for each weight: at least one, and in all at most [`SLOTS_MAX`] and one for
/// each server.
fn slots(weights: &[u64]) -> Vec<u64> {
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    let total = weights.iter().sum::<u64>() / divisor;
    let fit = |weight: u64| match total {
        ..=SLOTS_MAX => weight,
        _ => (weight * SLOTS_MAX / total).max(1),
    };
    weights.iter().map(|weight| fit(weight / divisor)).collect()
}

/// One round of nginx's sequence.
fn smooth(weights: &[u64]) -> Box<[u16]> {
    let total = weights.iter().sum::<u64>();
    if total == weights.len() as u64 {
        return (0..weights.len()).map(|at| at as u16).collect();
    }
    let total = total as i64;
    let mut credits = vec![0i64; weights.len()];
    let turn = |_| {
        let mut richest = 0;
        for (at, weight) in weights.iter().enumerate() {
            credits[at] += *weight as i64;
            if credits[at] > credits[richest] {
                richest = at;
            }
        }
        credits[richest] -= total;
        richest as u16
    };
    (0..total).map(turn).collect()
}

/// Turns per round: a weight is then right to 1/4096 of the group, and the sequence of a group of
/// a hundred servers is made within a millisecond.
const SLOTS_MAX: u64 = 4096;

/// Closed servers that are passed over by turns; after so many the next open one is taken as they
/// stand in the file.
const SKIPS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{everyone, servers};

    fn turns(weights: &[u32], len: usize) -> Vec<u16> {
        let (servers, turn) = (servers(weights), AtomicU64::new(0));
        let policy = RoundRobin::new(&servers);
        (0..len).map(|_| policy.choose(&servers, &turn, everyone).unwrap().index).collect()
    }

    #[test]
    fn the_sequence_is_that_of_nginx() {
        assert_eq!(turns(&[5, 1, 1], 7), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(turns(&[500, 100, 100], 7), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(turns(&[4, 3, 2, 1], 10), [0, 1, 2, 0, 1, 3, 0, 2, 1, 0]);
        assert_eq!(turns(&[100; 4], 6), [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn the_successor_of_a_closed_server_is_not_given_its_turns() {
        let (servers, turn) = (servers(&[1; 4]), AtomicU64::new(0));
        let policy = RoundRobin::new(&servers);
        let mut counts = [0; 4];
        for _ in 0..300 {
            let server = policy.choose(&servers, &turn, |server| server.index != 1).unwrap();
            counts[usize::from(server.index)] += 1;
        }
        assert_eq!(counts, [100, 0, 100, 100]);
    }

    #[test]
    fn a_new_plan_goes_on_where_the_last_one_was() {
        let (servers, turn) = (servers(&[1; 5]), AtomicU64::new(0));
        let first = RoundRobin::new(&servers).choose(&servers, &turn, everyone);
        let second = RoundRobin::new(&servers).choose(&servers, &turn, everyone);
        assert_eq!((first.unwrap().index, second.unwrap().index), (0, 1));
    }

    #[test]
    fn weights_that_need_a_long_round_are_right_to_a_four_thousandth() {
        let weights = [100_000, 33_333, 1];
        let policy = RoundRobin::new(&servers(&weights));
        let round = policy.schedule.len() as f64;
        assert!(policy.schedule.len() <= 4096 + 3, "{round}");
        for (at, weight) in weights.iter().enumerate() {
            let turns = policy.schedule.iter().filter(|place| usize::from(**place) == at).count();
            let error = turns as f64 / round - f64::from(*weight) / 133_334.0;
            assert!(turns > 0 && libm::fabs(error) < 1.0 / 4096.0, "{at}: {turns}");
        }
    }

    #[test]
    fn the_one_open_server_is_found_beyond_all_turns_that_are_tried() {
        let (servers, turn) = (servers(&[1; 500]), AtomicU64::new(7));
        let policy = RoundRobin::new(&servers);
        let last = policy.choose(&servers, &turn, |server| server.index == 499);
        assert_eq!(last.map(|server| server.index), Some(499));
        assert!(policy.choose(&servers, &turn, |_| false).is_none());
    }
}
