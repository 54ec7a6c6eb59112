//! What the router counts, and how late it was.

use loadline_core::time::Duration;
use loadline_measure::statistics::Times;

/// Everything counted since the start or the last
/// [`reset`](super::RouterHandle::reset_counters).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// One entry a link, in the order of sender and receiver.
    pub links: Vec<LinkCounters>,
    /// Packets for an address that no host has, or to which no link goes.
    pub unroutable: u64,
    /// What was neither IPv4 nor IPv6, or cut short.
    pub malformed: u64,
    /// Packets that were due but that the receiver's interface did not take.
    pub refused: u64,
    /// How late packets were written.
    pub lateness: Lateness,
    /// Longest time between two looks at the ports. A packet that came meanwhile may have started
    /// that much too late, which `lateness` does not show.
    pub longest_turn: Duration,
    /// What the router's thread used of a processor.
    pub processor_time: Duration,
}

/// One direction between two hosts. Each packet offered is in exactly one of `packets`, `lost`
/// and the three drops; TCP that the kernel sends uncut counts as the packets it will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// The sender's place in the topology.
    pub from: usize,
    /// The receiver's place in the topology.
    pub to: usize,
    /// Packets carried.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that found no room in the queue of the sender's up limit.
    pub dropped_up: u64,
    /// Packets that found no room in the queue of the link.
    pub dropped_queue: u64,
    /// Packets that found no room in the queue of the receiver's down limit.
    pub dropped_down: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets carried that were held back for others to pass.
    pub reordered: u64,
}

/// How long after its due instant a packet was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Writes: packets, or larger pieces of TCP carried uncut.
    pub count: u64,
    /// Median.
    pub p50: Duration,
    /// 90th percentile.
    pub p90: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// The latest.
    pub max: Duration,
}

impl Lateness {
    /// Of what was gathered, within [`LATENESS_DIGITS`].
    pub(super) fn of(times: &Times) -> Self {
        Self {
            count: times.count(),
            p50: times.quantile(0.5),
            p90: times.quantile(0.9),
            p99: times.quantile(0.99),
            max: times.longest(),
        }
    }
}

/// Within 1 %.
pub(super) const LATENESS_DIGITS: u8 = 2;
