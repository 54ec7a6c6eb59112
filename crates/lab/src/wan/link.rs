//! What becomes of a packet on one direction between two hosts, without a clock.
//!
//! ```text
//! lost with the probability `loss`
//! leave = when the link's limit has let it go, or the instant it came
//! due   = max(leave + delay + draw(0..jitter) - compensation, due of the one before)
//! held  = due + draw(0..max(jitter, 1 ms)), with the probability `reorder`; nobody waits for it
//! ```

use loadline_core::{
    time::{Duration, Instant},
    units::{BitRate, Bytes, Ratio},
};
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

use super::shaper::Shaper;
use crate::topology::{Limit, LinkSpec};

/// One link at work.
#[derive(Clone, Debug)]
pub(super) struct Link {
    spec: LinkSpec,
    shaper: Option<Shaper>,
    last_due: Instant,
    draws: Xoshiro256PlusPlus,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketFate {
    /// It arrives at this instant, in order.
    Due(Instant),
    /// It arrives at this instant, and others may pass it.
    Held(Instant),
    /// It is lost by chance.
    Lost,
    /// The queue of the link was full.
    NoRoom,
}

impl Link {
    /// A link on which nothing is under way. The topology's `seed` and the two hosts give its
    /// draws, so that other links' packets change nothing here.
    pub(super) fn new(spec: LinkSpec, seed: u64) -> Self {
        // Hosts number less than 2^16; the generator's seeding mixes neighbouring numbers well.
        let own = seed ^ ((spec.from as u64) << 48) ^ ((spec.to as u64) << 32);
        Self {
            spec,
            shaper: spec.limit.map(Shaper::new),
            last_due: Instant::ZERO,
            draws: Xoshiro256PlusPlus::seed_from_u64(own),
        }
    }

    /// Uses `spec` from `now` on; later packets may pass those under way.
    pub(super) fn change(&mut self, now: Instant, spec: LinkSpec) {
        self.spec = spec;
        self.last_due = Instant::ZERO;
        match (&mut self.shaper, spec.limit) {
            (Some(shaper), Some(limit)) => shaper.change(now, limit),
            (shaper, limit) => *shaper = limit.map(Shaper::new),
        }
    }

    pub(super) fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Whether TCP that came uncut is to be cut: each packet meets its own fate then.
    pub(super) fn tells_packets_apart(&self) -> bool {
        let by_chance = self.spec.loss > Ratio::ZERO || self.spec.reorder > Ratio::ZERO;
        by_chance || self.spec.limit.is_some_and(is_slow)
    }

    /// The fate of a packet of `size` that comes at `at`, which may not decrease from call to
    /// call. The machine itself takes `compensation` for the way.
    pub(super) fn carry(&mut self, at: Instant, size: Bytes, compensation: Duration) -> PacketFate {
        if self.happens(self.spec.loss) {
            return PacketFate::Lost;
        }
        let leave = match &mut self.shaper {
            Some(shaper) => match shaper.admit(at, size) {
                Some(leave) => leave,
                None => return PacketFate::NoRoom,
            },
            None => at,
        };
        let way = self.spec.delay + self.up_to(self.spec.jitter);
        let due = self.last_due.max(leave + way.saturating_sub(compensation));
        self.last_due = due;
        if self.happens(self.spec.reorder) {
            let held = self.up_to(self.spec.jitter.max(HELD_BACK));
            return PacketFate::Held(due + held);
        }
        PacketFate::Due(due)
    }

    fn happens(&mut self, share: Ratio) -> bool {
        share > Ratio::ZERO && self.draws.random_range(0..Ratio::ONE.as_ppm()) < share.as_ppm()
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        match most.as_nanos() {
            0 => Duration::ZERO,
            nanos => Duration::from_nanos(self.draws.random_range(0..=nanos)),
        }
    }
}

/// Whether an uncut piece of TCP would take so long there that it shows: 64 KiB take 0.5 ms at
/// 1 Gbit/s.
pub(super) fn is_slow(limit: Limit) -> bool {
    limit.rate < FAST
}

const FAST: BitRate = BitRate::new(1_000_000_000);

/// A few packets pass meanwhile, at the rates of studies.
const HELD_BACK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKET: Bytes = Bytes::new(1_500);

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn plain() -> LinkSpec {
        LinkSpec::new(0, 1, millis(55))
    }

    fn fates(spec: LinkSpec, count: u64) -> Vec<PacketFate> {
        let mut link = Link::new(spec, 7);
        (0..count).map(|i| link.carry(at(100 * i), PACKET, Duration::ZERO)).collect()
    }

    #[test]
    fn a_plain_link_takes_its_delay_less_what_the_machine_takes() {
        let mut link = Link::new(plain(), 0);
        let due = link.carry(at(10), PACKET, Duration::from_micros(40));
        assert_eq!(due, PacketFate::Due(at(54_970)));
        let mut short = Link::new(LinkSpec::new(0, 1, Duration::from_micros(10)), 0);
        assert_eq!(short.carry(at(10), PACKET, Duration::from_micros(40)), PacketFate::Due(at(10)));
    }

    #[test]
    fn jitter_spreads_over_its_band_and_keeps_the_order() {
        let spec = LinkSpec { delay: millis(125), jitter: millis(5), ..plain() };
        let mut link = Link::new(spec, 1);
        // A second apart, so that nobody waits for the one before.
        let ways: Vec<f64> = (0..1_000)
            .map(|i| match link.carry(at(1_000_000 * i), PACKET, Duration::ZERO) {
                PacketFate::Due(due) => due.since(at(1_000_000 * i)).as_millis_f64(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(ways.iter().all(|way| (125.0..=130.0).contains(way)));
        let mean = ways.iter().sum::<f64>() / 1_000.0;
        assert!((mean - 127.5).abs() < 0.2, "{mean}");
        assert!(ways.iter().any(|way| *way < 125.1) && ways.iter().any(|way| *way > 129.9));
    }

    #[test]
    fn a_thousandth_of_loss_is_within_its_binomial_interval() {
        let spec = LinkSpec { loss: Ratio::ppm(1_000), ..plain() };
        let count = 1_000_000;
        let lost =
            fates(spec, count).iter().filter(|fate| **fate == PacketFate::Lost).count() as f64;
        // Mean 1000, standard deviation 31.6; this seed is one of those within 2.6 of them.
        assert!((lost - 1_000.0).abs() < 2.6 * 31.6, "{lost}");
    }

    #[test]
    fn a_link_may_lose_everything() {
        let spec = LinkSpec { loss: Ratio::ONE, ..plain() };
        assert!(fates(spec, 100).iter().all(|fate| *fate == PacketFate::Lost));
    }

    #[test]
    fn packets_held_back_are_passed_by_those_behind() {
        let spec = LinkSpec { reorder: Ratio::percent(10), ..plain() };
        let fates = fates(spec, 10_000);
        let held = fates.iter().filter(|fate| matches!(fate, PacketFate::Held(_))).count();
        assert!((800..1_200).contains(&held), "{held}");
        let passed = fates.windows(2).filter(|pair| match pair {
            [PacketFate::Held(first), PacketFate::Due(second)] => second < first,
            _ => false,
        });
        // Packets are 0.1 ms apart and held for up to 1 ms: nine of ten are passed by the next.
        assert!(passed.count() > held * 7 / 10);
    }

    #[test]
    fn one_seed_gives_one_outcome_and_another_seed_another() {
        let spec = LinkSpec { loss: Ratio::percent(20), jitter: millis(3), ..plain() };
        let run = |seed, spec: LinkSpec| {
            let mut link = Link::new(spec, seed);
            (0..100).map(|i| link.carry(at(i), PACKET, Duration::ZERO)).collect::<Vec<_>>()
        };
        assert_eq!(run(5, spec), run(5, spec));
        assert_ne!(run(5, spec), run(6, spec));
        assert_ne!(run(5, spec), run(5, spec.back()));
    }

    #[test]
    fn a_changed_link_applies_at_once() {
        let mut link = Link::new(plain(), 0);
        assert_eq!(link.carry(at(0), PACKET, Duration::ZERO), PacketFate::Due(at(55_000)));
        link.change(at(100), LinkSpec { delay: millis(1), ..plain() });
        assert_eq!(link.carry(at(100), PACKET, Duration::ZERO), PacketFate::Due(at(1_100)));
        link.change(at(200), LinkSpec { loss: Ratio::ONE, ..plain() });
        assert_eq!(link.carry(at(200), PACKET, Duration::ZERO), PacketFate::Lost);
    }

    proptest! {
        #[test]
        fn whatever_the_link_packets_in_order_arrive_in_order_and_never_too_early(
            delay in 0u64..100_000,
            jitter in 0u64..10_000,
            rate in prop::option::of(1_000_000u64..10_000_000_000),
            shares in (0u32..500_000, 0u32..500_000),
            seed: u64,
            packets in prop::collection::vec((0u64..2_000, 40u64..1_500), 1..200),
        ) {
            let limit = rate.map(|rate| Limit {
                rate: BitRate::new(rate),
                queue: Bytes::new(50_000),
            });
            let (delay, jitter) = (Duration::from_micros(delay), Duration::from_micros(jitter));
            let (loss, reorder) = (Ratio::ppm(shares.0), Ratio::ppm(shares.1));
            let spec = LinkSpec { delay, jitter, limit, loss, reorder, ..plain() };
            let mut link = Link::new(spec, seed);
            let (mut now, mut last) = (Instant::ZERO, Instant::ZERO);
            for (gap, size) in packets {
                now = now + Duration::from_micros(gap);
                match link.carry(now, Bytes::new(size), Duration::ZERO) {
                    PacketFate::Due(due) => {
                        prop_assert!(due >= last && due >= now + delay);
                        last = due;
                    }
                    PacketFate::Held(due) => prop_assert!(due >= last && due >= now + delay),
                    PacketFate::Lost => prop_assert!(loss > Ratio::ZERO),
                    PacketFate::NoRoom => prop_assert!(limit.is_some()),
                }
            }
        }
    }
}
