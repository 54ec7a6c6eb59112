//! A limit of rate with a queue before it, without a clock.
//!
//! Packets leave one behind the other. One that comes at `t` while those before it take until
//! `free` has left completely at
//!
//! ```text
//! leave = max(t, free) + size / rate
//! ```
//!
//! and is dropped where what waits then, `(free - t) * rate`, and itself are more than the queue.

use loadline_core::{
    time::{Duration, Instant},
    units::{BitRate, Bytes},
};

use crate::topology::Limit;

/// One limit at work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaper {
    limit: Limit,
    free: Instant,
}

impl Shaper {
    /// Nothing is under way.
    pub(super) fn new(limit: Limit) -> Self {
        Self { limit, free: Instant::ZERO }
    }

    /// Uses `limit` from `now` on: bytes that wait then are sent at the new rate first.
    pub(super) fn change(&mut self, now: Instant, limit: Limit) {
        let waiting = Bytes::new(carried(self.limit.rate, self.free.since(now)));
        self.free = now + time_for(limit.rate, waiting);
        self.limit = limit;
    }

    /// When a packet of `size` that comes at `at` has left; none where it is dropped. `at` may not
    /// decrease from call to call.
    pub(super) fn admit(&mut self, at: Instant, size: Bytes) -> Option<Instant> {
        let waiting = carried(self.limit.rate, self.free.since(at));
        if waiting.saturating_add(size.get()) > self.limit.queue.get() {
            return None;
        }
        self.free = self.free.max(at) + time_for(self.limit.rate, size);
        Some(self.free)
    }
}

/// The time of `size` at `rate`, rounded up so that the rate is never exceeded.
fn time_for(rate: BitRate, size: Bytes) -> Duration {
    let bit_nanos = u128::from(size.get()) * BITS * NANOS;
    let nanos = bit_nanos.div_ceil(u128::from(rate.bits_per_sec().max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The bytes that pass at `rate` in `span`, rounded down.
fn carried(rate: BitRate, span: Duration) -> u64 {
    let bit_nanos = u128::from(span.as_nanos()) * u128::from(rate.bits_per_sec());
    u64::try_from(bit_nanos / (BITS * NANOS)).unwrap_or(u64::MAX)
}

const BITS: u128 = 8;
const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shaper(megabits: u64, queue: u64) -> Shaper {
        let rate = BitRate::new(megabits * 1_000_000);
        Shaper::new(Limit { rate, queue: Bytes::new(queue) })
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    const PACKET: Bytes = Bytes::new(1_500);

    #[test]
    fn packets_leave_one_behind_the_other() {
        let mut shaper = shaper(100, 1_000_000);
        assert_eq!(shaper.admit(at(0), PACKET), Some(at(120)));
        assert_eq!(shaper.admit(at(0), PACKET), Some(at(240)));
        assert_eq!(shaper.admit(at(1_000), PACKET), Some(at(1_120)));
    }

    #[test]
    fn a_full_queue_drops_and_takes_again_when_it_has_drained() {
        let mut shaper = shaper(100, 3_000);
        assert!(shaper.admit(at(0), PACKET).is_some());
        assert!(shaper.admit(at(0), PACKET).is_some());
        assert_eq!(shaper.admit(at(0), PACKET), None);
        assert_eq!(shaper.admit(at(119), PACKET), None);
        assert_eq!(shaper.admit(at(120), PACKET), Some(at(360)));
    }

    #[test]
    fn a_link_that_gets_faster_takes_packets_again_as_soon_as_the_new_rate_makes_room() {
        let mut shaper = shaper(1, 100_000);
        // 99 kB, which take 792 ms at the old rate and 7.92 at the new one.
        let admitted = (0..100).filter(|_| shaper.admit(at(0), PACKET).is_some()).count();
        assert_eq!(admitted, 66);
        let limit = Limit { rate: BitRate::new(100_000_000), ..shaper.limit };
        shaper.change(at(0), limit);
        assert_eq!(shaper.admit(at(1_000), PACKET), Some(at(8_040)));
    }

    #[test]
    fn a_link_that_gets_slower_takes_longer_for_what_waits() {
        let mut shaper = shaper(100, 10_000);
        let admitted = (0..10).filter(|_| shaper.admit(at(0), PACKET).is_some()).count();
        assert_eq!(admitted, 6);
        let limit = Limit { rate: BitRate::new(1_000_000), ..shaper.limit };
        shaper.change(at(0), limit);
        assert_eq!(shaper.admit(at(0), PACKET), None);
        assert_eq!(shaper.admit(at(12_000), PACKET), Some(at(84_000)));
    }

    #[test]
    fn a_queue_of_250_kilobytes_at_125_megabits_holds_16_milliseconds() {
        let mut shaper = shaper(125, 250_000);
        let last = (0..1_000).filter_map(|_| shaper.admit(at(0), Bytes::new(1_250))).last();
        assert_eq!(last, Some(at(16_000)));
    }

    proptest! {
        #[test]
        fn in_every_window_no_more_leaves_than_the_rate_and_a_packet(
            rate in 1_000u64..20_000_000_000,
            queue in 2_000u64..1_000_000,
            packets in prop::collection::vec((0u64..1_000_000, 1u64..66_000), 1..100),
        ) {
            let rate = BitRate::new(rate);
            let mut shaper = Shaper::new(Limit { rate, queue: Bytes::new(queue) });
            let mut now = Instant::ZERO;
            let mut left: Vec<(Instant, u64)> = Vec::new();
            for (gap, size) in packets {
                now = now + Duration::from_nanos(gap);
                if let Some(leave) = shaper.admit(now, Bytes::new(size)) {
                    prop_assert!(leave > now);
                    let wait = leave.since(now);
                    let most = time_for(rate, Bytes::new(queue + 1)) + Duration::from_nanos(1);
                    prop_assert!(wait <= most, "{wait} in a queue of {most}");
                    left.push((leave, size));
                }
            }
            for (first, &(begin, _)) in left.iter().enumerate() {
                let mut sum = 0;
                for &(end, size) in &left[first + 1..] {
                    sum += size;
                    prop_assert!(sum <= carried(rate, end.since(begin)));
                }
            }
        }
    }
}
