//! How hard the compressor tries, by how busy its worker is.
//!
//! Compression is the one part of a proxy's work that can be done worse on purpose. A worker that
//! has no time left makes everybody wait, those most who asked for little. So the effort goes down
//! a step at a time while the worker is busy for more than [`BUSY`] of the time, and up again when
//! it has been busy for less than [`CALM`] of it for a while.
//!
//! The way up is a trial: nobody knows what the next step costs before it is taken. Where it costs
//! too much, the worker is busy at once and the step is taken back; then the next trial waits twice
//! as long, up to [`TRIAL_MAX`], so that a load that lies between two steps is at the wrong one
//! for a second in a minute. A step that has held for that long makes the next trial a short one.

use super::Algorithm;
use crate::{
    fleet::Levels,
    time::{Duration, Instant},
    units::Ratio,
};

/// How hard the compressor tries. The first is the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// At the levels of the file.
    #[default]
    Full,
    /// At about half of the CPU time.
    Reduced,
    /// At the lowest levels that are worth it.
    Least,
    /// Not at all.
    Off,
}

impl Effort {
    /// All of them, from the most to the least.
    pub const ALL: [Self; 4] = [Self::Full, Self::Reduced, Self::Least, Self::Off];

    /// The level of `algorithm`, as its own documentation counts them, never above that of the
    /// file; none where nothing is compressed.
    #[must_use]
    pub fn level(self, algorithm: Algorithm, levels: Levels) -> Option<i32> {
        let most = match (self, algorithm) {
            (Self::Full, _) => i32::MAX,
            (Self::Reduced, Algorithm::Gzip) => 3,
            (Self::Reduced, Algorithm::Brotli | Algorithm::Zstd) => 1,
            (Self::Least, Algorithm::Gzip) => 1,
            (Self::Least, Algorithm::Brotli) => 0,
            (Self::Least, Algorithm::Zstd) => -1,
            (Self::Off, _) => return None,
        };
        Some(most.min(levels.of(algorithm).cast_signed()))
    }

    fn lower(self) -> Option<Self> {
        Self::ALL.get(self as usize + 1).copied()
    }

    fn higher(self) -> Option<Self> {
        (self as usize).checked_sub(1).map(|place| Self::ALL[place])
    }
}

/// What finds the effort of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Governor {
    effort: Effort,
    /// When the effort changed last, and whether upwards.
    changed: Option<(Instant, bool)>,
    /// Since when the worker has been calm.
    calm_since: Option<Instant>,
    /// How long it has to be calm until more is tried.
    trial: Option<Duration>,
}

impl Governor {
    /// The effort for what begins now.
    #[must_use]
    pub const fn effort(&self) -> Effort {
        self.effort
    }

    /// Takes in which share of the time between two looks the worker ran, or waited for a core.
    /// There is a look every [`PERIOD`], but none while nothing is to be compressed.
    pub fn observe(&mut self, (before, now): (Instant, Instant), busy: Ratio) {
        let held = self.changed.map(|(at, _)| now.since(at));
        if self.changed.is_some_and(|(at, up)| up && now.since(at) >= TRIAL_MAX) {
            self.trial = None;
        }
        if busy > CALM {
            self.calm_since = None;
        }
        if busy > BUSY {
            // What a change brings is not seen before a whole period has passed.
            let is_settled = held.is_none_or(|held| held >= PERIOD);
            if let Some(lower) = self.effort.lower().filter(|_| is_settled) {
                self.note_failed_trial(now);
                self.change(lower, now, false);
            }
        } else if busy <= CALM {
            let calm = now.since(*self.calm_since.get_or_insert(before));
            self.rise(now, calm);
        }
    }

    /// Takes as many steps up as there is time for in so long a calm. It is longer than one takes
    /// only where nobody has looked.
    fn rise(&mut self, now: Instant, mut calm: Duration) {
        let trial = self.trial.unwrap_or(TRIAL_MIN);
        while let Some(higher) = self.effort.higher().filter(|_| calm >= trial) {
            self.change(higher, now, true);
            calm = calm.saturating_sub(trial);
        }
    }

    /// Waits longer for the next trial if this step down takes one back.
    fn note_failed_trial(&mut self, now: Instant) {
        let is_trial = self.changed.is_some_and(|(at, up)| up && now.since(at) < TRIAL_MIN);
        if is_trial {
            let waited = self.trial.unwrap_or(TRIAL_MIN);
            self.trial = Some((waited + waited).min(TRIAL_MAX));
        }
    }

    fn change(&mut self, to: Effort, now: Instant, up: bool) {
        self.effort = to;
        self.changed = Some((now, up));
        self.calm_since = None;
    }
}

/// How often a worker is looked at.
pub const PERIOD: Duration = Duration::from_millis(500);

/// Above this share the effort goes down. At 85 % the queue of an M/M/1 server is already 5 long.
const BUSY: Ratio = Ratio::percent(85);

/// At or below this share it goes up, in the end. Half of what is left above it is room for the
/// next step.
const CALM: Ratio = Ratio::percent(60);

/// How long a worker has to be calm before more is tried.
const TRIAL_MIN: Duration = Duration::from_secs(5);

/// The same where trials have failed.
const TRIAL_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A worker with this much to do besides, and what compression costs it at each step, both as
    /// shares of its time in percent.
    struct Simulated {
        governor: Governor,
        now: Instant,
        costs: [u32; 4],
        /// The effort and how busy the worker was, period by period.
        seen: Vec<(Effort, u32)>,
    }

    impl Simulated {
        fn new(costs: [u32; 4]) -> Self {
            Self { governor: Governor::default(), now: Instant::ZERO, costs, seen: Vec::new() }
        }

        /// Lets time pass with `base` percent of other work, and random noise of so much more.
        fn run(&mut self, seconds: u64, base: u32, noise: u32) -> &[(Effort, u32)] {
            let from = self.seen.len();
            for _ in 0..seconds * 2 {
                let before = self.now;
                self.now = before + PERIOD;
                let draw = (self.now.as_nanos() ^ 0x9E37_79B9).wrapping_mul(0x2545_F491_4F6C_DD1D);
                let random = ((draw >> 33) % u64::from(noise + 1)) as u32;
                let effort = self.governor.effort();
                let busy = (base + self.costs[effort as usize] + random).min(100);
                self.seen.push((effort, busy));
                self.governor.observe((before, self.now), Ratio::percent(busy));
            }
            &self.seen[from..]
        }

        /// Lets so much time pass at once, of which it was busy for a tenth.
        fn rest(&mut self, millis: u64) -> Effort {
            let before = self.now;
            self.now = before + Duration::from_millis(millis);
            self.governor.observe((before, self.now), Ratio::percent(10));
            self.governor.effort()
        }

        /// A worker that has just had no time left for anything.
        fn overloaded() -> Self {
            let mut worker = Self::new([50, 25, 12, 0]);
            worker.run(10, 95, 0);
            assert_eq!(worker.governor.effort(), Effort::Off);
            worker
        }
    }

    fn changes(seen: &[(Effort, u32)]) -> usize {
        seen.windows(2).filter(|pair| pair[0].0 != pair[1].0).count()
    }

    #[test]
    fn a_surge_lowers_the_effort_within_two_seconds_and_its_end_raises_it_again() {
        let mut worker = Simulated::new([50, 25, 12, 0]);
        assert!(worker.run(10, 20, 0).iter().all(|seen| seen.0 == Effort::Full));
        let surge = worker.run(20, 70, 0);
        assert!(surge[4..].iter().all(|seen| seen.1 <= 85), "{surge:?}");
        assert_eq!(surge.last().map(|seen| seen.0), Some(Effort::Least));
        let after = worker.run(30, 20, 0);
        assert_eq!(after.last().map(|seen| seen.0), Some(Effort::Full), "{after:?}");
    }

    #[test]
    fn with_no_time_left_nothing_is_compressed() {
        let mut worker = Simulated::new([50, 25, 12, 0]);
        let seen = worker.run(10, 95, 0);
        assert!(seen[4..].iter().all(|seen| seen.0 == Effort::Off), "{seen:?}");
    }

    #[test]
    fn a_load_between_two_steps_is_at_the_wrong_one_for_two_seconds_in_a_minute() {
        // At the lower step it is calm, at the higher one it has no time.
        let mut worker = Simulated::new([70, 30, 12, 0]);
        worker.run(120, 30, 0);
        let seen = worker.run(600, 30, 0);
        let wrong = seen.iter().filter(|seen| seen.0 == Effort::Full).count();
        assert!(wrong <= 20 * 2, "{wrong} half seconds of 1200");
        assert!(changes(seen) <= 22, "{}", changes(seen));
        assert!(seen.iter().all(|seen| seen.0 <= Effort::Reduced));
    }

    #[test]
    fn noise_between_the_two_bounds_changes_nothing() {
        let mut worker = Simulated::new([30, 15, 8, 0]);
        assert_eq!(changes(worker.run(600, 32, 20)), 0);
    }

    #[test]
    fn after_a_long_calm_a_trial_comes_early_again() {
        let mut worker = Simulated::new([70, 30, 12, 0]);
        worker.run(300, 30, 0);
        // The trials have become rare. Then the load falls for good.
        worker.run(120, 5, 0);
        worker.run(5, 80, 0);
        let after = worker.run(20, 5, 0);
        assert_eq!(after.last().map(|seen| seen.0), Some(Effort::Full), "{after:?}");
    }

    #[test]
    fn a_request_every_two_seconds_is_compressed_again_soon_after_an_overload() {
        let mut worker = Simulated::overloaded();
        let efforts: Vec<_> = (0..9).map(|_| worker.rest(2_000)).collect();
        let [off, least, reduced, full] =
            [Effort::Off, Effort::Least, Effort::Reduced, Effort::Full];
        let expected = [off, off, least, least, least, reduced, reduced, reduced, full];
        assert_eq!(efforts, expected);
    }

    #[test]
    fn a_calm_in_which_nobody_looked_counts_as_one_in_which_somebody_did() {
        for (millis, effort) in [
            (4_000, Effort::Off),
            (6_000, Effort::Least),
            (12_000, Effort::Reduced),
            (600_000, Effort::Full),
        ] {
            assert_eq!(Simulated::overloaded().rest(millis), effort, "{millis} ms");
        }
        let mut worker = Simulated::new([50, 25, 12, 0]);
        worker.governor.observe((Instant::ZERO, Instant::ZERO + TRIAL_MAX), Ratio::percent(95));
        assert_eq!(worker.governor.effort(), Effort::Reduced, "no time in a whole minute");
    }

    #[test]
    fn a_level_falls_with_the_effort_and_is_never_above_that_of_the_file() {
        for algorithm in Algorithm::ALL {
            let least = Levels { gzip: 1, brotli: 0, zstd: 1 };
            for levels in [Levels::default(), least] {
                let steps: Vec<_> =
                    Effort::ALL.iter().map(|effort| effort.level(algorithm, levels)).collect();
                assert_eq!(steps[0], Some(levels.of(algorithm).cast_signed()));
                assert!(steps[..3].windows(2).all(|pair| pair[0] >= pair[1]), "{steps:?}");
                assert_eq!(steps[3], None);
            }
        }
    }
}
