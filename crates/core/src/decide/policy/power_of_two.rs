//! Power of two choices: the less loaded of two servers drawn at random.
//!
//! Draws two different servers by weight and chooses the open one with the lesser
//! `in_flight / weight`, the first drawn among equals. If both are closed it draws again,
//! at last it looks at every server.
//!
//! When all are full nobody is chosen. Not for a single edge with servers so slow that one queue
//! more matters: least requests sees them all for little more. Good for many edges: two that see
//! the same loads still choose differently, so no herd forms.
//!
//! Source: M. Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001.

use crate::decide::{
    plan::ServerPlan,
    policy::{
        About,
        draw::{ByWeight, part, splitmix64},
        least::least_open,
        load,
    },
};

pub(super) const ABOUT: About = About {
    name: "power-of-two",
    meaning: "The less loaded of two drawn at random.",
    prefers: true,
    ..About::PLAIN
};

/// The weights as a table.
#[derive(Debug)]
pub(crate) struct PowerOfTwo {
    by_weight: ByWeight,
}

impl PowerOfTwo {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        Self { by_weight: ByWeight::new(servers) }
    }

    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        draw: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let is_cheaper = |one: &ServerPlan, other: &ServerPlan| load(one) < load(other);
        cheaper_of_two((&self.by_weight, servers), draw, open, is_cheaper, load)
    }
}

/// The cheaper open one of two different servers drawn by weight; the first if they are equal.
/// After [`PAIRS_MAX`] pairs without an open one, the open server of least cost.
pub(super) fn cheaper_of_two<'a>(
    (by_weight, servers): (&ByWeight, &'a [ServerPlan]),
    mut draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    is_cheaper: impl Fn(&ServerPlan, &ServerPlan) -> bool,
    cost: impl Fn(&ServerPlan) -> f64,
) -> Option<&'a ServerPlan> {
    for _ in 0..PAIRS_MAX {
        let (first, second) = pair(by_weight, servers.len(), draw);
        let (first, second) = (&servers[first], &servers[second]);
        match (open(first), open(second)) {
            (true, true) if is_cheaper(second, first) => return Some(second),
            (true, _) => return Some(first),
            (false, true) => return Some(second),
            (false, false) => draw = splitmix64(draw),
        }
    }
    least_open(servers, draw, open, |_, server| cost(server))
}

/// Two different places; the same twice where there is only one.
fn pair(by_weight: &ByWeight, len: usize, draw: u64) -> (usize, usize) {
    let first = by_weight.place(draw);
    let other = splitmix64(draw);
    match by_weight.place(other) {
        // A heavy server drawn twice: any of the others then, by their loads it is decided.
        second if second == first => {
            let step = 1 + part(splitmix64(other), len as u64 - 1) as usize;
            (first, (first + step) % len)
        }
        second => (first, second),
    }
}

/// With half of the servers closed, one request in 256 looks at all of them.
const PAIRS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{assert_shares, counts, everyone, load_with, servers};

    /// Of four equal servers with different loads, the one of rank `r` wins against those behind
    /// it: 3, 2, 1 and 0 of the six pairs.
    #[test]
    fn of_every_pair_the_less_loaded_wins() {
        let servers = servers(&[1; 4]);
        load_with(&servers, &[1, 2, 3, 4]);
        let policy = PowerOfTwo::new(&servers);
        let counts = counts(4, |draw| policy.choose(&servers, draw, everyone));
        assert_shares(&counts, &[3.0, 2.0, 1.0, 0.0]);
    }

    #[test]
    fn idle_equals_are_chosen_equally_often() {
        let servers = servers(&[1; 5]);
        let policy = PowerOfTwo::new(&servers);
        assert_shares(&counts(5, |draw| policy.choose(&servers, draw, everyone)), &[1.0; 5]);
    }

    #[test]
    fn loads_are_compared_by_weight() {
        let servers = servers(&[1, 3]);
        let policy = PowerOfTwo::new(&servers);
        for (in_flight, expected) in [([2, 4], 1), ([1, 6], 0)] {
            load_with(&servers, &in_flight);
            let counts = counts(2, |draw| policy.choose(&servers, draw, everyone));
            assert_eq!(counts[expected], counts.iter().sum::<f64>(), "{in_flight:?}");
        }
    }

    #[test]
    fn the_one_open_server_is_found_and_a_single_server_is_a_pair() {
        let many = servers(&[1; 200]);
        let policy = PowerOfTwo::new(&many);
        let found = policy.choose(&many, 77, |server| server.index == 150);
        assert_eq!(found.map(|server| server.index), Some(150));
        assert!(policy.choose(&many, 77, |_| false).is_none());
        let one = servers(&[1]);
        assert!(PowerOfTwo::new(&one).choose(&one, 77, everyone).is_some());
    }
}
