//! The latency of a server relative to the others of its group with as many requests in flight.
//!
//! The group keeps the median latency by the number of requests that were ahead of one, `L[n]`; no
//! server is faster with more to do, so what is typical for `n` is the least of `L[n]`, `L[n + 1]`
//! and so on. Nor does a load begin, when it is first seen, with less than is known of lower ones:
//! a short request may end first there. What has not been seen in some thousand responses is
//! forgotten. A server keeps the median of its latencies over what is typical:
//!
//! ```text
//! relative = median of latency / min(L[ahead], L[ahead + 1], ...)
//! ```
//! A mean would be made by a few long requests; these medians are not. They are followed by steps:
//! up by a part where a sample is above, down by it where it is below; that of a server by more
//! where two samples in a row are eight times as much, or as little.
//!
//! Source: the latency "at or near the current requests in flight" of Prequal (Wydrowski et al.,
//! NSDI 2024, section 4), here as a ratio, so that servers with unequal loads can be compared; Q.
//! Ma, S. Muthukrishnan, M. Sandler, Frugal Streaming for Estimating Quantiles, 2013.

use core::sync::atomic::Ordering::Relaxed;

use crate::{
    decide::atomic::{AtomicU32, AtomicU64},
    time::Duration,
};

/// The typical latencies of a group, in nanoseconds, by the requests ahead; zero where none is
/// known.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyByLoad {
    medians: [AtomicU64; LOADS],
    responses: AtomicU32,
    /// Those of the medians, a bit each, that have been recorded for since unused ones were
    /// forgotten.
    used: AtomicU32,
}

impl LatencyByLoad {
    /// Records the latency of a request with `ahead` others before it; gives the typical latency
    /// for that, without this one.
    fn record(&self, ahead: u32, latency: Duration) -> u64 {
        let at = place(ahead);
        self.forget_unused(at);
        let (lower, upper) = self.medians.split_at(at);
        let sample = latency.as_nanos().max(1);
        let typical = known(upper).min().unwrap_or(sample);
        let own = &self.medians[at];
        let next = match own.load(Relaxed) {
            0 => known(lower).fold(sample, u64::max),
            median => stepped(median, sample, STEPS).max(1),
        };
        own.store(next, Relaxed);
        typical
    }

    /// Forgets now and then the medians that have not been recorded for, so that none stays what is
    /// typical for lower loads when it is true no more.
    fn forget_unused(&self, recorded: usize) {
        self.used.fetch_or(1 << recorded, Relaxed);
        if !self.responses.fetch_add(1, Relaxed).is_multiple_of(MEMORY) {
            return;
        }
        let used = self.used.swap(0, Relaxed);
        let unused = self.medians.iter().enumerate().filter(|(at, _)| (used >> at) & 1 == 0);
        unused.for_each(|(_, median)| median.store(0, Relaxed));
    }
}

/// A server's latency beside what is typical, in parts of [`TYPICAL`]; zero before its first
/// response. The lowest bits say on which side the last sample was far off.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelativeLatency(AtomicU32);

impl RelativeLatency {
    /// Takes in how long a request took that had so many ahead of it.
    pub(crate) fn record(&self, group: &LatencyByLoad, ahead: u32, latency: Duration) {
        let typical = group.record(ahead, latency);
        let whole = u128::from(latency.as_nanos()) * u128::from(TYPICAL) / u128::from(typical);
        let sample = whole.min(u128::from(LARGEST)) as u64;
        let (median, sample) = (u64::from(self.get()), sample.max(1));
        let side = match sample {
            _ if sample / FAR > median => ABOVE,
            _ if sample < median / FAR => BELOW,
            _ => 0,
        };
        let again = side != 0 && self.0.load(Relaxed) & SIDES == side;
        let next = stepped(median, sample, if again { STEPS_FAR } else { STEPS });
        self.0.store(next.clamp(SMALLEST, LARGEST) as u32 & !SIDES | side, Relaxed);
    }

    /// In parts of [`TYPICAL`]; that before the first response.
    pub(crate) fn get(&self) -> u32 {
        match self.0.load(Relaxed) & !SIDES {
            0 => TYPICAL,
            known => known,
        }
    }
}

/// Those of these medians that are known.
fn known(medians: &[AtomicU64]) -> impl Iterator<Item = u64> {
    medians.iter().map(|it| it.load(Relaxed)).filter(|it| *it > 0)
}

/// A median after one more sample.
const fn stepped(median: u64, sample: u64, steps: u64) -> u64 {
    let step = median / steps;
    if sample > median { median.saturating_add(step) } else { median - step }
}

/// Where latencies are kept for so many requests ahead: each has its place up to 15, above that two
/// share each doubling.
const fn place(ahead: u32) -> usize {
    if ahead < 16 {
        return ahead as usize;
    }
    let doublings = ahead.ilog2();
    let upper = (ahead >> (doublings - 1)) & 1;
    let place = 16 + (doublings - 4) as usize * 2 + upper as usize;
    if place < LOADS { place } else { LOADS - 1 }
}

/// Relative latency of a server like the others.
pub(crate) const TYPICAL: u32 = 1 << 16;

const SMALLEST: u64 = TYPICAL as u64 >> 8;
const LARGEST: u64 = (TYPICAL as u64) << 12;

/// Up to 4,095 requests.
const LOADS: usize = 32;

/// A load is forgotten after this many responses at others, or up to twice as many.
const MEMORY: u32 = 4096;

/// A median moves by 1/64 with each sample: it then varies by an eighth where latencies are
/// exponential, and doubles in 45 samples.
const STEPS: u64 = 64;

/// Where samples are so many times off again and again it moves by 1/8, so that a server which
/// became 16 times slower is known for it after some thirty responses. One in 250 exponential ones
/// is so long, by chance.
const FAR: u64 = 8;
const STEPS_FAR: u64 = 8;

const SIDES: u32 = 3;
const ABOVE: u32 = 1;
const BELOW: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::policy::draw::splitmix64;
    use proptest::prelude::*;

    fn exponential(draw: u64) -> f64 {
        -libm::log((splitmix64(draw) >> 11) as f64 / (1u64 << 53) as f64 + 1e-17)
    }

    /// Of sixteen servers with one core each and unequal loads, one takes `slow` times as long.
    fn learned(slow: f64, kinds: f64) -> (f64, f64, f64) {
        let group = LatencyByLoad::default();
        let servers: [RelativeLatency; 16] = Default::default();
        for n in 0..16_000u64 {
            let (at, ahead) = ((n % 16) as usize, (splitmix64(n) % 4) as u32);
            let is_long = splitmix64(n ^ 7).is_multiple_of(20);
            let work = exponential(n ^ 99) * if is_long { kinds } else { 1.0 };
            let speed = if at == 3 { slow } else { 1.0 };
            let latency = Duration::from_millis(10).scale(work * speed * f64::from(ahead + 1));
            servers[at].record(&group, ahead, latency);
        }
        let of = |server: &RelativeLatency| f64::from(server.get()) / f64::from(TYPICAL);
        let others = || servers.iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, it)| of(it));
        (of(&servers[3]), others().fold(9.0, f64::min), others().fold(0.0, f64::max))
    }

    #[test]
    fn a_slow_server_is_told_from_others_whatever_they_had_to_do() {
        for kinds in [1.0, 100.0] {
            let (slow, least, most) = learned(16.0, kinds);
            assert!((4.0..32.0).contains(&slow), "{slow} for {kinds}");
            assert!(least > 0.5 && most < 2.0, "{least} to {most} for {kinds}");
        }
    }

    #[test]
    fn more_load_is_no_slower_server() {
        let group = LatencyByLoad::default();
        let [idle, busy] = [(); 2].map(|()| RelativeLatency::default());
        for _ in 0..200 {
            idle.record(&group, 0, Duration::from_millis(10));
            busy.record(&group, 9, Duration::from_millis(100));
        }
        assert!(busy.get().abs_diff(idle.get()) < TYPICAL / 8, "{busy:?} {idle:?}");
    }

    #[test]
    fn a_short_request_that_ends_first_at_a_new_load_makes_no_other_slow() {
        let group = LatencyByLoad::default();
        let [usual, busy] = [(); 2].map(|()| RelativeLatency::default());
        for n in 0..600 {
            usual.record(&group, n % 4, Duration::from_millis(10));
        }
        busy.record(&group, 40, Duration::from_micros(100));
        for n in 0..600 {
            usual.record(&group, n % 4, Duration::from_millis(10));
        }
        assert!(usual.get() < TYPICAL / 4 * 5, "{usual:?}");
    }

    #[test]
    fn a_load_that_is_seen_no_more_is_forgotten() {
        let group = LatencyByLoad::default();
        let [usual, busy] = [(); 2].map(|()| RelativeLatency::default());
        (0..200).for_each(|_| busy.record(&group, 40, Duration::from_millis(10)));
        let relative = |responses| {
            for _ in 0..responses {
                usual.record(&group, 0, Duration::from_millis(80));
            }
            usual.get() / TYPICAL
        };
        assert!(relative(1_000) >= 6);
        assert!(relative(3 * MEMORY) < 2);
    }

    #[test]
    fn a_server_that_recovers_is_known_for_it_soon() {
        let group = LatencyByLoad::default();
        let well: [RelativeLatency; 3] = Default::default();
        let ill = RelativeLatency::default();
        let responses = |millis| {
            for _ in 0..60 {
                well.iter().for_each(|it| it.record(&group, 0, Duration::from_millis(10)));
                ill.record(&group, 0, Duration::from_millis(millis));
            }
            ill.get() / TYPICAL
        };
        assert!(responses(160) >= 4);
        assert!(responses(10) < 2);
    }

    proptest! {
        /// Whatever is measured, figures stay in their bounds and places in the table.
        #[test]
        fn nothing_that_is_measured_is_too_much(
            samples in prop::collection::vec((any::<u32>(), any::<u64>()), 1..100),
        ) {
            let (group, server) = (LatencyByLoad::default(), RelativeLatency::default());
            for (ahead, nanos) in samples {
                server.record(&group, ahead, Duration::from_nanos(nanos));
                prop_assert!((SMALLEST..=LARGEST).contains(&u64::from(server.get())));
                prop_assert!(place(ahead) <= place(ahead.saturating_add(1)));
            }
        }
    }
}
