//! Weighted random: any server, in proportion to its weight.
//!
//! Chooses an open server `i` with probability `weight_i / sum of the weights of open servers`,
//! in constant time from an alias table (see [`draw`](super::draw)).
//!
//! When all are full nobody is chosen. Not where queues matter: of `n` servers under a load of
//! one request each, the busiest has about `ln n / ln ln n`; power of two costs as little and has
//! `ln ln n`. Good where many edges must not fall into step with one another.
//!
//! Source: A. J. Walker 1977 for the table; M. Mitzenmacher 2001 for the queues.

use crate::decide::{
    plan::ServerPlan,
    policy::{About, draw::ByWeight},
};

pub(super) const ABOUT: About =
    About { name: "random", meaning: "Weighted random.", ..About::PLAIN };

/// The weights as a table.
#[derive(Debug)]
pub(crate) struct Random {
    by_weight: ByWeight,
}

impl Random {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        Self { by_weight: ByWeight::new(servers) }
    }

    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        draw: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        self.by_weight.open(servers, draw, open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{assert_shares, counts, everyone, load_with, servers};

    #[test]
    fn every_server_is_given_its_share_whatever_it_has_to_do() {
        let servers = servers(&[100, 300, 50, 550]);
        load_with(&servers, &[900, 0, 0, 5]);
        let policy = Random::new(&servers);
        let counts = counts(4, |draw| policy.choose(&servers, draw, everyone));
        assert_shares(&counts, &[100.0, 300.0, 50.0, 550.0]);
    }
}
