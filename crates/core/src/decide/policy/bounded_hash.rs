//! Consistent hashing with bounded loads: the same key to the same server, unless it is busy.
//!
//! Asks the servers that [Maglev](super::maglev)'s table prefers for the key, one after another,
//! and chooses the first open one that is below its bound
//!
//! `in_flight < c * (in_flight of the group + 1) * weight / sum of weights`, with `c = 1.25`,
//!
//! so no server has more than `ceil(1.25 * average)` in flight. A server always exists that is
//! below: if none of the preferred ones is, the least loaded one is chosen. Requests in flight on
//! servers that have left the group count into the average until they end.
//!
//! Maglev's table serves as the ring: it is one look instead of a binary search, its shares are
//! even without virtual nodes, and hashing the key again gives a server independent of the last,
//! where the walk along a ring sends all excess of a server to the same neighbours.
//!
//! When all are full nobody is chosen. With little in flight the bound is one or two requests per
//! server and keys move often; not for few requests at a time where a miss of the cache is
//! expensive: use Maglev.
//!
//! Source: Mirrokni, Thorup, Zadimoghaddam, Consistent Hashing with Bounded Loads, SODA 2018;
//! `c` as Vimeo published it for HAProxy's `hash-balance-factor`.

use crate::decide::{
    plan::ServerPlan,
    policy::{About, least::least_open, load, maglev::Maglev},
};

pub(super) const ABOUT: About = About {
    name: "bounded-hash",
    meaning: "Consistent hashing with bounded load of what `hash` names.",
    hashes: true,
    ..About::PLAIN
};

/// The table of preferences and what the bound needs.
#[derive(Debug)]
pub(crate) struct BoundedHash {
    table: Maglev,
    total_weight: u64,
}

impl BoundedHash {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let total_weight = servers.iter().map(|server| u64::from(server.weight)).sum();
        Self { table: Maglev::new(servers), total_weight }
    }

    /// Chooses; `in_flight` is that of the group, with the request that is to be placed.
    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        in_flight: u32,
        key: u64,
        draw: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let bound = BOUND_QUARTERS * u64::from(in_flight.max(1));
        let is_below = |server: &ServerPlan| {
            let used = 4 * u128::from(server.state.in_flight()) * u128::from(self.total_weight);
            used < u128::from(bound) * u128::from(server.weight)
        };
        let mut preferred = self.table.preferred(servers, key);
        let found = preferred.find(|server| is_below(server) && open(server));
        found.or_else(|| least_open(servers, draw, open, |_, server| load(server)))
    }
}

/// `c` in quarters. Less moves more keys, more lets a hot key load its server further.
const BOUND_QUARTERS: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{draws, everyone, load_with, servers};
    use alloc::vec;
    use core::sync::atomic::Ordering::Relaxed;
    use proptest::prelude::*;

    fn place<'a>(
        policy: &BoundedHash,
        servers: &'a [ServerPlan],
        in_flight: u32,
        key: u64,
    ) -> &'a ServerPlan {
        let server = policy.choose(servers, in_flight, key, key, everyone).unwrap();
        server.state.in_flight.fetch_add(1, Relaxed);
        server
    }

    proptest! {
        /// However hot the keys are and whatever the weights: requests that stay are spread so that
        /// no server is above its bound at any time.
        #[test]
        fn nobody_is_above_the_bound(
            weights in prop::collection::vec(1u32..10, 1..20),
            keys in prop::collection::vec(0u64..4, 1..300),
        ) {
            let servers = servers(&weights);
            let policy = BoundedHash::new(&servers);
            let total: u32 = weights.iter().sum();
            for (n, key) in (1..).zip(keys) {
                let server = place(&policy, &servers, n, key);
                let average = f64::from(n) * f64::from(server.weight) / f64::from(total);
                let bound = libm::ceil(1.25 * average);
                let load = f64::from(server.state.in_flight());
                // The least loaded by weight is at most at its average when it is given one more.
                prop_assert!(load <= bound, "{} in flight, bound {}", load, bound);
            }
        }
    }

    #[test]
    fn keys_stay_where_they_are_while_loads_are_even() {
        let servers = servers(&[1; 10]);
        let policy = BoundedHash::new(&servers);
        load_with(&servers, &[40; 10]);
        for key in draws().take(1_000) {
            let preferred = policy.table.choose(&servers, key, everyone).unwrap();
            let chosen = policy.choose(&servers, 401, key, 0, everyone).unwrap();
            assert_eq!(preferred.index, chosen.index);
        }
    }

    #[test]
    fn a_hot_key_fills_one_server_to_the_bound_and_then_always_the_same_next() {
        let servers = servers(&[1; 4]);
        let policy = BoundedHash::new(&servers);
        let mut counts = vec![0; 4];
        (1..=100).for_each(|n| counts[usize::from(place(&policy, &servers, n, 7).index)] += 1);
        counts.sort_unstable();
        assert_eq!(counts.iter().sum::<u32>(), 100);
        assert_eq!(counts[3], 32, "ceil(1.25 * 100 / 4) is the bound: {counts:?}");
    }

    #[test]
    fn where_only_busy_servers_are_open_the_least_busy_one_is_chosen() {
        let servers = servers(&[1; 4]);
        load_with(&servers, &[0, 0, 60, 50]);
        let policy = BoundedHash::new(&servers);
        for key in draws().take(100) {
            let chosen = policy.choose(&servers, 111, key, key, |server| server.index >= 2);
            assert_eq!(chosen.map(|server| server.index), Some(3));
        }
    }
}
