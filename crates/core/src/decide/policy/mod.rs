//! How a server is chosen inside a group: one file each, one closed list.
//!
//! A policy says in its `ABOUT` how it is called, what it does, and whether it is the default; all
//! that tells of policies reads it here ([`PolicyKind`]). It has two functions: `new` makes what it
//! needs to know (a schedule, a table) when a plan is made; `choose` picks among the servers that
//! are open, for one request, without allocating, locking or reading a clock. `None` means no
//! server is open.
//!
//! | policy | looks at | for |
//! |---|---|---|
//! | `round_robin` | the next in order | equal servers, equal requests |
//! | `random` | nothing | many edges, no state |
//! | `least_requests` | all loads | one edge, requests of unequal cost |
//! | `power_of_two` | two loads | many edges, requests of unequal cost |
//! | `prequal` | all loads, who is slow; probes | servers that others use too, or unlike ones |
//! | `peak_ewma` | two loads and latencies | servers that slow down now and then |
//! | `lowest_latency` | all latencies | few requests, servers at unequal distance |
//! | `latency_weighted` | all latencies | servers of lastingly unequal speed |
//! | `maglev` | a key | caches in the servers |
//! | `bounded_hash` | a key and loads | the same, with keys of unequal heat |
//!
//! `managed` is round robin by weights that the `manager`(crate::decide::manager) makes.

use core::{cell::Cell, sync::atomic::Ordering::Relaxed};

use crate::{
    decide::plan::{GroupPlan, PickContext, ServerPlan},
    time::Duration,
};

mod bounded_hash;
pub(crate) mod draw;
mod latency_weighted;
mod least;
mod least_of_many;
mod least_requests;
mod lowest_latency;
pub mod maglev;
mod managed;
mod peak_ewma;
mod power_of_two;
mod prequal;
mod random;
mod refresh;
mod round_robin;
#[cfg(test)]
mod testing;

/// What a policy says of itself.
#[derive(Debug)]
struct About {
    /// In the file, "least-requests" and so on.
    name: &'static str,
    /// A sentence for whoever writes the file.
    meaning: &'static str,
    /// Whether it needs a hash of the request.
    hashes: bool,
    /// Whether some servers are given more requests than others of their weight.
    prefers: bool,
    /// Whether services have it that name none.
    is_default: bool,
}

impl About {
    /// Shares by weight alone.
    const PLAIN: Self =
        Self { name: "", meaning: "", hashes: false, prefers: false, is_default: false };
}

/// How a server is chosen inside a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each has its meaning from its own file")]
pub enum PolicyKind {
    RoundRobin,
    Random,
    LeastRequests,
    PowerOfTwo,
    Prequal,
    PeakEwma,
    LowestLatency,
    LatencyWeighted,
    Maglev,
    BoundedHash,
    Managed,
}

impl PolicyKind {
    /// Every policy, in the order of the documentation.
    pub const ALL: &'static [Self] = &[
        Self::RoundRobin,
        Self::Random,
        Self::LeastRequests,
        Self::PowerOfTwo,
        Self::Prequal,
        Self::PeakEwma,
        Self::LowestLatency,
        Self::LatencyWeighted,
        Self::Maglev,
        Self::BoundedHash,
        Self::Managed,
    ];

    /// That of services that name none.
    pub const DEFAULT: Self = {
        let mut index = 0;
        while !Self::ALL[index].about().is_default {
            index += 1;
        }
        Self::ALL[index]
    };

    const fn about(self) -> &'static About {
        match self {
            Self::RoundRobin => &round_robin::ABOUT,
            Self::Random => &random::ABOUT,
            Self::LeastRequests => &least_requests::ABOUT,
            Self::PowerOfTwo => &power_of_two::ABOUT,
            Self::Prequal => &prequal::ABOUT,
            Self::PeakEwma => &peak_ewma::ABOUT,
            Self::LowestLatency => &lowest_latency::ABOUT,
            Self::LatencyWeighted => &latency_weighted::ABOUT,
            Self::Maglev => &maglev::ABOUT,
            Self::BoundedHash => &bounded_hash::ABOUT,
            Self::Managed => &managed::ABOUT,
        }
    }

    /// The name in the file, "least-requests" and so on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// What it does, in a sentence.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.about().meaning
    }

    /// Whether the policy needs a hash of the request.
    #[must_use]
    pub const fn hashes(self) -> bool {
        self.about().hashes
    }
}

/// A policy with what it has built for the servers of one group.
#[derive(Debug)]
pub(crate) enum Chooser {
    RoundRobin(round_robin::RoundRobin),
    Random(random::Random),
    LeastRequests(least_requests::LeastRequests),
    PowerOfTwo(power_of_two::PowerOfTwo),
    Prequal(prequal::Prequal),
    PeakEwma(peak_ewma::PeakEwma),
    LowestLatency(lowest_latency::LowestLatency),
    LatencyWeighted(latency_weighted::LatencyWeighted),
    Maglev(maglev::Maglev),
    BoundedHash(bounded_hash::BoundedHash),
}

impl Chooser {
    /// Prepares a policy for these servers, of which there is at least one.
    pub(crate) fn build(kind: PolicyKind, servers: &[ServerPlan]) -> Self {
        match kind {
            PolicyKind::RoundRobin | PolicyKind::Managed => {
                Self::RoundRobin(round_robin::RoundRobin::new(servers))
            }
            PolicyKind::Random => Self::Random(random::Random::new(servers)),
            PolicyKind::LeastRequests => {
                Self::LeastRequests(least_requests::LeastRequests::new(servers))
            }
            PolicyKind::PowerOfTwo => Self::PowerOfTwo(power_of_two::PowerOfTwo::new(servers)),
            PolicyKind::Prequal => Self::Prequal(prequal::Prequal::new(servers)),
            PolicyKind::PeakEwma => Self::PeakEwma(peak_ewma::PeakEwma::new(servers)),
            PolicyKind::LowestLatency => {
                Self::LowestLatency(lowest_latency::LowestLatency::new(servers))
            }
            PolicyKind::LatencyWeighted => {
                Self::LatencyWeighted(latency_weighted::LatencyWeighted::new(servers))
            }
            PolicyKind::Maglev => Self::Maglev(maglev::Maglev::new(servers)),
            PolicyKind::BoundedHash => Self::BoundedHash(bounded_hash::BoundedHash::new(servers)),
        }
    }

    /// Chooses among the servers for which `open` holds.
    ///
    /// A server whose last response was a 5xx has often answered at once, and looks idle for it. So
    /// policies that prefer the idle or the quick may only choose it for its share of requests.
    pub(crate) fn choose<'a>(
        &self,
        group: &'a GroupPlan,
        ask: &PickContext<'_>,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        if !group.policy.about().prefers {
            return self.choose_open(group, ask, open);
        }
        let passed_over = Cell::new(false);
        let fair = |server: &ServerPlan| {
            let is_fair = !server.state.errs.load(Relaxed) || has_share(group, server, ask.draw);
            passed_over.set(passed_over.get() || !is_fair);
            is_fair && open(server)
        };
        let chosen = self.choose_open(group, ask, fair);
        if chosen.is_none() && passed_over.get() {
            return self.choose_open(group, ask, open);
        }
        chosen
    }

    fn choose_open<'a>(
        &self,
        group: &'a GroupPlan,
        ask: &PickContext<'_>,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let servers = &group.servers;
        // A group may have been drawn by it (`spread`): among the requests of the group it is no
        // longer uniform.
        let draw = draw::splitmix64(ask.draw);
        match self {
            Self::RoundRobin(policy) => policy.choose(servers, &group.state.turn, open),
            Self::Random(policy) => policy.choose(servers, draw, open),
            Self::LeastRequests(policy) => policy.choose(servers, draw, open),
            Self::PowerOfTwo(policy) => policy.choose(servers, draw, open),
            Self::Prequal(policy) => policy.choose((&group.state, servers), (ask.now, draw), open),
            Self::PeakEwma(policy) => policy.choose(servers, (ask.now, draw), open),
            Self::LowestLatency(policy) => policy.choose(servers, (ask.now, draw), open),
            Self::LatencyWeighted(policy) => policy.choose(servers, ask.now, draw, open),
            Self::Maglev(policy) => policy.choose(servers, ask.key, open),
            Self::BoundedHash(policy) => {
                policy.choose(servers, group.state.in_flight(), ask.key, draw, open)
            }
        }
    }
}

/// Whether `draw` gives `server` this request as part of its share by weight.
fn has_share(group: &GroupPlan, server: &ServerPlan, draw: u64) -> bool {
    let own = draw::splitmix64(draw ^ draw::splitmix64(u64::from(server.index)));
    draw::part(own, group.total_weight) < u64::from(server.weight)
}

/// Requests in flight per weight. Equal fractions give equal numbers, because division is rounded
/// correctly. Servers that are idle are equal, so that weights decide among them.
fn load(server: &ServerPlan) -> f64 {
    f64::from(server.state.in_flight()) / f64::from(server.weight)
}

/// The longest latency that is as good as this one. An average over eight answers varies by a
/// third where answers vary as much as they last, and a millisecond is lost by the way.
fn alike_up_to(latency: Duration) -> Duration {
    latency * 2 + Duration::from_millis(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_a_name_and_a_meaning_of_its_own_and_one_is_the_default() {
        for policy in PolicyKind::ALL {
            let same = |other: &&PolicyKind| {
                other.name() == policy.name() || other.meaning() == policy.meaning()
            };
            assert_eq!(PolicyKind::ALL.iter().filter(same).count(), 1, "{policy:?}");
            assert!(policy.meaning().ends_with('.'), "{policy:?}");
        }
        let mut defaults = PolicyKind::ALL.iter().filter(|policy| policy.about().is_default);
        assert_eq!((defaults.next(), defaults.next()), (Some(&PolicyKind::DEFAULT), None));
    }
}
