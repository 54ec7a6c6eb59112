//! Prequal: the server with room that answers soonest, by what servers say and what the edge knows.
//!
//! Where others send requests to the same servers too, and there are more than the
//! [probe pool](crate::decide::probe_pool) holds, it is Prequal as published: of the servers in the
//! pool those are hot that have more requests in flight than the quantile 0.7 of what is answered.
//! Among cold ones the least latency wins; where all are hot, the fewest requests. Weights play no
//! part there.
//!
//! An edge that is alone, or has few servers, need not sample: it knows its own requests in flight
//! at each of them exactly, and adds those of others where servers report them. It chooses by
//!
//! `cost = ((in_flight + 1) * slowness - 1) / weight`
//!
//! where the slowness is 1 for all that are alike, so that it is least requests for them, with
//! their turns. It is more for those whose [latency](crate::decide::relative_latency) is more than
//! twice that of the others with as much to do; a server that is not asked for it is forgiven after
//! a hundred of its latencies. That is what small fleets need: the published rule is worse than
//! least requests there, for it chooses by latencies that differ by chance.
//!
//! When all are full nobody is chosen. Not for requests that are ten times as long on some servers
//! because of what they ask, not of where.
//!
//! Source: B. Wydrowski, R. Kleinberg, S. Rumble, A. Archer, Load is not what you should balance:
//! Introducing Prequal, NSDI 2024. A server that fails fast draws no requests by it ("sinkholing",
//! there solved by undisclosed means): here as for every policy that prefers the quick.

use alloc::{boxed::Box, vec};

use crate::{
    decide::{
        ledger::GroupState,
        plan::ServerPlan,
        policy::{About, least::least, least_requests::Weights},
        probe_pool::POOL,
        relative_latency::TYPICAL,
    },
    time::Instant,
};

pub(super) const ABOUT: About = About {
    name: "prequal",
    meaning: "The server with room that answers soonest, by what the edge knows and what servers \
              report; in the simulator by probes as well.",
    prefers: true,
    ..About::PLAIN
};

/// The weights, and where each server is.
#[derive(Debug)]
pub(crate) struct Prequal {
    weights: Weights,
    /// By the index of a server its place among those that can be chosen; [`NOWHERE`] for others.
    places: Box<[u16]>,
}

impl Prequal {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let last = servers.iter().map(|server| usize::from(server.index)).max().unwrap_or(0);
        let mut places = vec![NOWHERE; last + 1].into_boxed_slice();
        for (server, place) in servers.iter().zip(0..) {
            places[usize::from(server.index)] = place;
        }
        Self { weights: Weights::new(servers), places }
    }

    pub(super) fn choose<'a>(
        &self,
        (group, servers): (&GroupState, &'a [ServerPlan]),
        (now, draw): (Instant, u64),
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let at = |index: u16| servers.get(usize::from(*self.places.get(usize::from(index))?));
        if servers.len() > POOL && !group.probes.is_alone() {
            let own = |index: u16| {
                let server = at(index).filter(|server| open(server))?;
                Some(server.state.in_flight())
            };
            if let Some(chosen) = group.probes.choose(now, draw, own).and_then(at) {
                return Some(chosen);
            }
        }
        let fastest = servers.iter().map(|server| server.state.relative_latency()).min();
        let usual = fastest.unwrap_or(TYPICAL).max(USUAL_MIN);
        let costs = self.weights.costs();
        let cost = |place: usize, server: &ServerPlan| {
            let in_flight = server.state.in_flight_of_all(now).min(IN_FLIGHT_MAX);
            let slowness = slowness(server, now, usual);
            ((u64::from(in_flight) + 1) * slowness - PARTS) * u64::from(costs[place])
        };
        least(servers, draw, open, cost, &self.weights.steps())
    }
}

/// How much slower than the others a server is, in [`PARTS`]; one where they are alike.
fn slowness(server: &ServerPlan, now: Instant, usual: u32) -> u64 {
    if server.state.relative_latency() <= 2 * usual {
        return PARTS;
    }
    let (slowness, usual) = (u64::from(server.state.slowness(now)), u64::from(usual));
    if slowness <= 2 * usual { PARTS } else { (slowness * PARTS / usual).min(SLOWNESS_MAX) }
}

const NOWHERE: u16 = u16::MAX;

/// The fastest of many servers owes some of its speed to chance.
const USUAL_MIN: u32 = TYPICAL / 4 * 3;

/// Costs stay below 2^63: requests below 2^20, slowness below 2^10, weights at most 2^31.
const IN_FLIGHT_MAX: u32 = (1 << 20) - 2;
const PARTS: u64 = 16;
const SLOWNESS_MAX: u64 = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decide::{
            policy::testing::{counts, everyone, load_with, servers},
            probe_pool::ProbeResult,
        },
        time::Duration,
    };

    const NOW: Instant = Instant::from_nanos(9_000_000_000);

    fn probed(group: &GroupState, server: u16, in_flight: u32, millis: u64) {
        let result = ProbeResult { in_flight, latency: Duration::from_millis(millis) };
        group.probes.record(NOW, (server, 0), result, (100, 3));
    }

    #[test]
    fn an_edge_that_is_alone_with_equal_servers_chooses_by_requests_in_flight() {
        let servers = servers(&[1, 2, 3]);
        let (policy, group) = (Prequal::new(&servers), GroupState::default());
        for (in_flight, expected) in [([0, 2, 3], 0), ([1, 1, 3], 1), ([1, 2, 0], 2)] {
            load_with(&servers, &in_flight);
            let chosen = policy.choose((&group, &servers), (NOW, 5), everyone);
            assert_eq!(chosen.map(|server| server.index), Some(expected), "{in_flight:?}");
        }
    }

    #[test]
    fn idle_servers_have_their_turns() {
        let servers = servers(&[1; 40]);
        let (policy, group) = (Prequal::new(&servers), GroupState::default());
        let counts = counts(40, |draw| policy.choose((&group, &servers), (NOW, draw), everyone));
        assert!(counts.iter().all(|count| (*count - 1000.0).abs() <= 1.0), "{counts:?}");
    }

    #[test]
    fn a_slow_server_is_given_a_request_where_all_others_have_many() {
        let servers = servers(&[1; 3]);
        let (policy, group) = (Prequal::new(&servers), GroupState::default());
        for _ in 0..200 {
            for (server, millis) in servers.iter().zip([10, 10, 80]) {
                server.state.learn(&group, 0, Duration::from_millis(millis));
            }
        }
        let slowness = servers[2].state.slowness(NOW) / TYPICAL;
        assert!((4..=16).contains(&slowness), "{slowness}");
        for (in_flight, slow) in [([1, 1, 0], false), ([2, 2, 0], false), ([20, 20, 0], true)] {
            load_with(&servers, &in_flight);
            let chosen = policy.choose((&group, &servers), (NOW, 5), everyone);
            assert_eq!(chosen.map(|server| server.index) == Some(2), slow, "{in_flight:?}");
        }
    }

    #[test]
    fn among_many_edges_the_servers_that_answered_are_chosen_from() {
        let servers = servers(&[1; 100]);
        let (policy, group) = (Prequal::new(&servers), GroupState::default());
        for _ in 0..100 {
            probed(&group, 7, 2, 50);
            probed(&group, 8, 2, 20);
        }
        probed(&group, 9, 30, 5);
        let chosen = policy.choose((&group, &servers), (NOW, 5), everyone);
        assert_eq!(chosen.map(|server| server.index), Some(8));
        let closed = |server: &ServerPlan| server.index != 7;
        probed(&group, 8, 2, 20);
        let chosen = policy.choose((&group, &servers), (NOW, 5), closed);
        assert_eq!(chosen.map(|server| server.index), Some(8));
    }

    #[test]
    fn requests_of_others_count_where_servers_report_them() {
        let servers = servers(&[1; 2]);
        let (policy, group) = (Prequal::new(&servers), GroupState::default());
        servers[0].state.report_in_flight(NOW, 3);
        load_with(&servers, &[0, 2]);
        let at = |now| policy.choose((&group, &servers), (now, 5), everyone).map(|it| it.index);
        assert_eq!(at(NOW), Some(1));
        assert_eq!(at(NOW + Duration::from_secs(2)), Some(0));
    }
}
