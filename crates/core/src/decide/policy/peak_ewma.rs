//! Peak EWMA: of two servers drawn at random, the one where the wait is expected to be shorter.
//!
//! Draws two different servers by weight and chooses the open one of the lesser cost:
//!
//! `cost = latency * (in_flight / weight + 1)`, weights in units of their mean
//!
//! Latency is the average over eight answers or, where that is more, the
//! [peak latency](crate::decide::average::PeakLatency), which follows slow responses at once. Both
//! are forgiven with time, so that whoever was slow is asked again. Two latencies of which one is
//! no more than twice the other and a millisecond count as equal: less is chance, and equal servers
//! would have unequal shares by it. A server that has not answered yet costs nothing while it is
//! idle, so that it is tried, and more than any other while its first response is awaited, so that
//! a new server which hangs is not given every second request; between two such servers the less
//! loaded is chosen.
//!
//! When all are full nobody is chosen. Not where latency says more about the request than about
//! the server (pages beside downloads).
//!
//! Source: Finagle's `PeakEwma` balancer with its penalty for servers without a measure, there with
//! peaks that take ten seconds to forget; linkerd2 has the same formula.

use crate::{
    decide::{
        plan::ServerPlan,
        policy::{About, alike_up_to, draw::ByWeight, load, power_of_two::cheaper_of_two},
    },
    time::{Duration, Instant},
};

pub(super) const ABOUT: About = About {
    name: "peak-ewma",
    meaning: "The cheaper of two drawn at random, by peak latency times requests in flight.",
    prefers: true,
    ..About::PLAIN
};

/// The weights as a table, and their mean.
#[derive(Debug)]
pub(crate) struct PeakEwma {
    by_weight: ByWeight,
    mean_weight: f64,
}

impl PeakEwma {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let total: f64 = servers.iter().map(|server| f64::from(server.weight)).sum();
        let mean_weight = total / servers.len() as f64;
        Self { by_weight: ByWeight::new(servers), mean_weight }
    }

    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        (now, draw): (Instant, u64),
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        let cost = |server: &ServerPlan| self.cost(server, latency(server, now));
        let is_cheaper = |one: &ServerPlan, other: &ServerPlan| {
            let (left, right) = (latency(one, now), latency(other, now));
            let (least, most) = (left.min(right), left.max(right));
            if least > Duration::ZERO && most <= alike_up_to(least) {
                return load(one) < load(other);
            }
            self.cost(one, left) < self.cost(other, right)
        };
        cheaper_of_two((&self.by_weight, servers), draw, open, is_cheaper, cost)
    }

    fn cost(&self, server: &ServerPlan, latency: Duration) -> f64 {
        let waiting = load(server) * self.mean_weight + 1.0;
        match (latency, server.state.in_flight()) {
            (Duration::ZERO, 0) => 0.0,
            (Duration::ZERO, _) => PENALTY * waiting,
            _ => latency.as_nanos() as f64 * waiting,
        }
    }
}

/// What is expected of the server; zero before its first response.
fn latency(server: &ServerPlan, now: Instant) -> Duration {
    server.state.peak.at(now).max(server.state.latency_at(now))
}

/// Nanoseconds; longer than any latency, by far.
const PENALTY: f64 = 1e18;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{counts, everyone, load_with, servers};

    /// Two servers, so that every draw compares both; gives who is chosen.
    fn winner(latencies: [u64; 2], in_flight: [u32; 2]) -> usize {
        let servers = servers(&[1, 1]);
        for (server, millis) in servers.iter().zip(latencies).filter(|(_, millis)| *millis > 0) {
            server.state.peak.record(Instant::from_nanos(1), Duration::from_millis(millis));
        }
        load_with(&servers, &in_flight);
        let policy = PeakEwma::new(&servers);
        let counts =
            counts(2, |draw| policy.choose(&servers, (Instant::from_nanos(1), draw), everyone));
        assert!(counts.contains(&0.0), "{latencies:?} {in_flight:?}: {counts:?}");
        usize::from(counts[0] == 0.0)
    }

    #[test]
    fn latency_times_queue_decides() {
        assert_eq!(winner([10, 30], [0, 0]), 0);
        assert_eq!(winner([10, 20], [2, 0]), 1);
        assert_eq!(winner([10, 500], [40, 0]), 0);
    }

    #[test]
    fn a_new_server_is_tried_once_and_then_waited_for() {
        assert_eq!(winner([10, 0], [0, 0]), 1);
        assert_eq!(winner([10, 0], [30, 1]), 0);
        assert_eq!(winner([0, 0], [2, 1]), 1);
    }
}
