//! What the router counts, and how late it was.

use hdrhistogram::Histogram;
use loadline_core::time::Duration;

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
    /// The longest the router was busy between two looks at its ports: a packet that came
    /// meanwhile began its way so much later at most, which no lateness shows.
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

/// Lateness while it is gathered.
pub(super) struct LateHistogram(Histogram<u64>);

impl LateHistogram {
    pub(super) fn new() -> Self {
        let empty = Histogram::new_with_bounds(1, LONGEST.as_nanos(), DIGITS);
        Self(empty.expect("the bounds and digits are constants within the histogram's range"))
    }

    pub(super) fn note(&mut self, late: Duration) {
        self.0.saturating_record(late.as_nanos());
    }

    pub(super) fn summary(&self) -> Lateness {
        let quantile = |share| Duration::from_nanos(self.0.value_at_quantile(share));
        Lateness {
            count: self.0.len(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: Duration::from_nanos(self.0.max()),
        }
    }

    pub(super) fn clear(&mut self) {
        // `clear` would keep the largest.
        self.0.reset();
    }
}

/// Longer counts as this long.
const LONGEST: Duration = Duration::from_secs(60);
/// Within 1 %.
const DIGITS: u8 = 2;
