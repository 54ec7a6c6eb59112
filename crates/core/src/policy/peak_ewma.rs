//! Peak EWMA: of two servers drawn at random, the one where the wait is expected to be shorter.
//!
//! Draws two different servers by weight and chooses the open one of the lesser cost:
//!
//! `cost = peak_latency * (in_flight + 1) / weight`
//!
//! The [peak latency](crate::average::PeakLatency) follows a slow answer at once and forgets it
//! over ten seconds, asked or not. A server that has not answered yet costs nothing while it is
//! idle, so that it is tried, and more than any other while its first answer is awaited, so that a
//! new server which hangs is not given every second request; between two such servers the less
//! loaded is chosen.
//!
//! When all are full nobody is chosen. Not where latency says more about the request than about
//! the server (pages beside downloads), and not without ejection: a server that fails every
//! request never gets a latency and stays attractive whenever it is idle.
//!
//! Source: Finagle's `PeakEwma` balancer with its penalty for servers without a measure; linkerd2
//! has the same formula and assumes a round-trip time instead.

use crate::{
    plan::ServerPlan,
    policy::{draw::ByWeight, load, power_of_two::cheaper_of_two},
    time::Instant,
};

/// The weights as a table.
#[derive(Debug)]
pub(crate) struct PeakEwma {
    by_weight: ByWeight,
}

impl PeakEwma {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        Self { by_weight: ByWeight::new(servers) }
    }

    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        (now, draw): (Instant, u64),
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        cheaper_of_two(&self.by_weight, servers, draw, open, |server| cost(server, now))
    }
}

fn cost(server: &ServerPlan, now: Instant) -> f64 {
    let peak = server.state.peak.at(now).as_nanos();
    match (peak, server.state.in_flight()) {
        (0, 0) => 0.0,
        (0, _) => PENALTY * load(server),
        _ => peak as f64 * load(server),
    }
}

/// Nanoseconds; longer than any latency, by far.
const PENALTY: f64 = 1e18;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        policy::testing::{counts, everyone, load_with, servers},
        time::Duration,
    };

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
        assert_eq!(winner([10, 20], [0, 0]), 0);
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
