//! Latency weighted: at random, the faster a server answers the more often.
//!
//! Chooses an open server `i` with probability in proportion to `weight_i / latency_i`, where
//! latency is the average over eight answers ([`crate::decide::average::LatencyAverage`]); a server
//! that has not answered yet counts as fast as the fastest. So a server twice as slow is given half
//! as much, and every one is given something, so that all stay measured.
//!
//! The running sums of the shares are kept as atomics and made anew by whichever request comes
//! first after [`REFRESH`]; the others search them meanwhile. A search that meets sums half old,
//! half new still ends at a server, by a share that is at most that old.
//!
//! When all are full nobody is chosen. Not where latency comes from load alone: equal servers then
//! trade shares back and forth, slowly; least requests is quicker and calmer. Not where errors are
//! fast, without ejection: a server that fails at once looks like the best one.
//!
//! Source: shares in inverse proportion to a cost, as in weighted random; the refresh is ours.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{
    decide::{
        plan::ServerPlan,
        policy::{
            About,
            draw::{open_by, part},
            refresh::Refresh,
        },
    },
    time::{Duration, Instant},
};

pub(super) const ABOUT: About = About {
    name: "latency-weighted",
    meaning: "At random, with weights in inverse proportion to measured latency.",
    prefers: true,
    ..About::PLAIN
};

/// The shares as they were a moment ago.
#[derive(Debug)]
pub(crate) struct LatencyWeighted {
    /// For each server the sum of the shares up to its own.
    sums: Box<[AtomicU64]>,
    refresh: Refresh,
}

impl LatencyWeighted {
    pub(super) fn new(servers: &[ServerPlan]) -> Self {
        let sums = servers.iter().map(|_| AtomicU64::new(0)).collect();
        let policy = Self { sums, refresh: Refresh::default() };
        policy.find(servers);
        policy
    }

    pub(super) fn choose<'a>(
        &self,
        servers: &'a [ServerPlan],
        now: Instant,
        draw: u64,
        open: impl Fn(&ServerPlan) -> bool,
    ) -> Option<&'a ServerPlan> {
        if self.refresh.is_due(now, REFRESH) {
            self.find(servers);
        }
        let shares = || {
            let fastest = fastest(servers);
            move |server: &ServerPlan| share(server, fastest)
        };
        open_by(servers, draw, open, |draw| self.place(draw), shares)
    }

    fn find(&self, servers: &[ServerPlan]) {
        let fastest = fastest(servers);
        let mut sum = 0;
        for (slot, server) in self.sums.iter().zip(servers) {
            sum += share(server, fastest);
            slot.store(sum, Relaxed);
        }
    }

    fn place(&self, draw: u64) -> usize {
        let total = self.sums.last().map_or(0, |sum| sum.load(Relaxed));
        let mark = part(draw, total);
        let place = self.sums.partition_point(|sum| sum.load(Relaxed) <= mark);
        // Half-renewed sums may all be at or below the mark.
        place.min(self.sums.len() - 1)
    }
}

/// The least latency that is known of the servers, in nanoseconds.
fn fastest(servers: &[ServerPlan]) -> u64 {
    let known = servers.iter().map(|s| s.state.latency().as_nanos()).filter(|nanos| *nanos > 0);
    known.min().unwrap_or(LATENCY_MIN)
}

fn share(server: &ServerPlan, fastest: u64) -> u64 {
    let latency = match server.state.latency().as_nanos() {
        0 => fastest,
        nanos => nanos,
    };
    ((u64::from(server.weight) << SHARE_BITS) / latency.max(LATENCY_MIN)).max(1)
}

/// Short against the eight answers an average follows a change in, long against a request.
const REFRESH: Duration = Duration::from_millis(10);

/// Nanoseconds; what is faster differs by chance. It also keeps sums of 65,536 shares in 64 bits.
const LATENCY_MIN: u64 = 1_000_000;

/// The share of a server of weight 1 and a latency of 1 ns, as a power of two: one of 60 s and
/// the least weight still has a share of 18.
const SHARE_BITS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::testing::{answer_after, assert_shares, counts, everyone, servers};

    const NOW: Instant = Instant::from_nanos(5_000_000_000);

    #[test]
    fn shares_are_weights_over_latencies_and_the_unknown_is_fast() {
        let servers = servers(&[1, 1, 3, 1]);
        answer_after(&servers, &[10, 20, 30, 0]);
        let policy = LatencyWeighted::new(&servers);
        let counts = counts(4, |draw| policy.choose(&servers, NOW, draw, everyone));
        assert_shares(&counts, &[2.0, 1.0, 2.0, 2.0]);
    }

    #[test]
    fn a_change_of_latency_counts_after_ten_milliseconds() {
        let servers = servers(&[1, 1]);
        let policy = LatencyWeighted::new(&servers);
        let at = |now| counts(2, |draw| policy.choose(&servers, now, draw, everyone));
        assert_shares(&at(NOW), &[1.0, 1.0]);
        answer_after(&servers, &[10, 90]);
        assert_shares(&at(NOW + Duration::from_millis(9)), &[1.0, 1.0]);
        assert_shares(&at(NOW + Duration::from_millis(10)), &[9.0, 1.0]);
    }

    #[test]
    fn closed_servers_leave_the_proportions_of_the_others_alone() {
        let servers = servers(&[1; 4]);
        answer_after(&servers, &[1, 1, 100, 300]);
        let policy = LatencyWeighted::new(&servers);
        let slow = |server: &ServerPlan| server.index >= 2;
        let counts = counts(4, |draw| policy.choose(&servers, NOW, draw, slow));
        assert_shares(&counts, &[0.0, 0.0, 3.0, 1.0]);
        assert!(policy.choose(&servers, NOW, 1, |_| false).is_none());
    }
}
