//! Draws by weight, in constant time, from the one random number a request brings.
//!
//! [`ByWeight`] is an alias table: slot `i` of `n` keeps its own server with probability `keep_i`
//! and gives another one otherwise, so that every server comes up in proportion to its weight.
//! The whole part of `draw * n / 2^64` is the slot, the fraction decides between the two.
//!
//! Where the drawn server is closed it is drawn again, which is exactly the distribution over the
//! open ones; after [`DRAWS_MAX`] draws the open ones are counted, which is exact as well.
//! Source: A. J. Walker 1977, M. D. Vose 1991.

use alloc::{boxed::Box, vec::Vec};

use crate::decide::plan::ServerPlan;

/// Places of servers, drawn by the weights of the plan.
#[derive(Debug)]
pub(super) struct ByWeight {
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The place is the slot's own when the fraction of the draw is at most this, in 2^-32.
    keep: u32,
    /// The place otherwise.
    other: u32,
}

impl ByWeight {
    /// The table for the weights of these servers, at least one.
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let total: u64 = servers.iter().map(|server| u64::from(server.weight)).sum();
        let len = servers.len() as u64;
        // What is left of each server, in parts of which a slot holds `total`.
        let mut left: Vec<u64> = servers.iter().map(|s| u64::from(s.weight) * len).collect();
        let mut slots: Box<[Slot]> =
            (0..servers.len()).map(|at| Slot { keep: u32::MAX, other: at as u32 }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..servers.len()).partition(|at| left[*at] < total);
        while let (Some(few), Some(many)) = (small.pop(), large.last().copied()) {
            let keep = (u128::from(left[few]) << 32) / u128::from(total);
            slots[few] = Slot { keep: keep as u32, other: many as u32 };
            left[many] -= total - left[few];
            if left[many] < total {
                large.pop();
                small.push(many);
            }
        }
        Self { slots }
    }

    /// The place that `draw` gives.
    pub(super) fn place(&self, draw: u64) -> usize {
        let product = u128::from(draw) * self.slots.len() as u128;
        let (own, fraction) = ((product >> 64) as usize, (product as u64 >> 32) as u32);
        let slot = self.slots[own];
        if fraction <= slot.keep { own } else { slot.other as usize }
    }

    /// Draws among the open servers.
    pub(super) fn open<'a>(
        &self,
        servers: &'a [ServerPlan],
        draw: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let weight = |server: &ServerPlan| u64::from(server.weight);
        open_by(servers, draw, open, |draw| self.place(draw), || weight)
    }
}

/// Draws with `place` until an open server comes up, at last by the `weights` of the open ones.
pub(super) fn open_by<W: Fn(&ServerPlan) -> u64>(
    servers: &[ServerPlan],
    mut draw: u64,
    open: impl Fn(&ServerPlan) -> bool,
    place: impl Fn(u64) -> usize,
    weights: impl FnOnce() -> W,
) -> Option<&ServerPlan> {
    for _ in 0..DRAWS_MAX {
        let server = &servers[place(draw)];
        if open(server) {
            return Some(server);
        }
        draw = splitmix64(draw);
    }
    let weight = weights();
    let total = servers.iter().filter(|server| open(server)).map(&weight).sum();
    if total == 0 {
        return None;
    }
    let mut mark = part(draw, total);
    let mut rest = servers.iter().filter(|server| open(server));
    rest.find(|server| {
        let here = mark < weight(server);
        mark = mark.wrapping_sub(weight(server));
        here
    })
}

/// Another number from a number, as if drawn anew: the finalizer of SplitMix64.
pub(crate) fn splitmix64(draw: u64) -> u64 {
    let z = draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `whole`, evenly drawn; zero where `whole` is.
pub(crate) fn part(draw: u64, whole: u64) -> u64 {
    ((u128::from(draw) * u128::from(whole)) >> 64) as u64
}

/// With half of the servers closed, one request in 256 counts them.
const DRAWS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{assert_shares, counts, servers};
    use alloc::vec;
    use proptest::prelude::*;

    proptest! {
        /// The chance of each place, added up over all slots, is its share of the weights.
        #[test]
        fn the_table_gives_every_place_its_share(
            weights in prop::collection::vec(1u32..100_000, 1..80),
        ) {
            let table = ByWeight::new(&servers(&weights));
            let mut chances = vec![0.0; weights.len()];
            for (own, slot) in table.slots.iter().enumerate() {
                let keep = (f64::from(slot.keep) + 1.0) / 4_294_967_296.0;
                chances[own] += keep;
                chances[slot.other as usize] += 1.0 - keep;
            }
            let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for (chance, weight) in chances.iter().zip(&weights) {
                let expected = f64::from(*weight) / total * weights.len() as f64;
                prop_assert!(libm::fabs(chance - expected) < 1e-6, "{} for {}", chance, expected);
            }
        }
    }

    #[test]
    fn closed_servers_leave_the_proportions_of_the_others_alone() {
        let servers = servers(&[5, 1, 3, 2]);
        let table = ByWeight::new(&servers);
        let open = |server: &ServerPlan| !matches!(server.index, 0);
        let counts = counts(4, |draw| table.open(&servers, draw, open));
        assert_shares(&counts, &[0.0, 1.0, 3.0, 2.0]);
    }

    #[test]
    fn where_nearly_all_are_closed_the_open_ones_are_counted_by_weight() {
        let servers = servers(&[100_000, 100_000, 1, 3]);
        let table = ByWeight::new(&servers);
        let counts = counts(4, |draw| table.open(&servers, draw, |server| server.index > 1));
        assert_shares(&counts, &[0.0, 0.0, 1.0, 3.0]);
        assert!(table.open(&servers, 5, |_| false).is_none());
    }
}
