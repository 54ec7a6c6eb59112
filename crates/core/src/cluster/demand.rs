//! Estimates the demand of clients for a service from counters.
//!
//! The mean of what has come since demand changed last, and of the last seconds at most
//! (exponential). Demand has changed where the last periods, be they few or many, are more than
//! three standard deviations above the mean, or four below it: the mean begins anew with those that
//! say so most clearly (generalised likelihood ratio; Willsky and Jones, 1976).
//!
//! The variance is that of a Poisson count, times what requests that come in batches make of it:
//! the index of dispersion of counts (Cox and Lewis, 1966).

use crate::time::{Duration, Instant};

/// Requests per second, as they come.
#[derive(Clone, Debug)]
pub struct Demand {
    /// When it was looked last, and how many had come.
    last: Option<(Instant, u64)>,
    /// Requests per second.
    mean: f64,
    /// How long it has been a mean of, in seconds; [`MEMORY`] at most.
    age: f64,
    /// Variance by mean of what comes in a period, 1 at least.
    dispersion: f64,
    /// What came in the last periods, and how long each was, in seconds: a ring.
    recent: [(f64, f64); PERIODS],
    at: usize,
    /// How many of them there have been since demand changed.
    known: usize,
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            last: None,
            mean: 0.0,
            age: 0.0,
            dispersion: 1.0,
            recent: [(0.0, 0.0); PERIODS],
            at: 0,
            known: 0,
        }
    }
}

impl Demand {
    /// Takes in how many have come since the beginning.
    pub fn count(&mut self, now: Instant, total: u64) {
        let Some((since, before)) = self.last else {
            self.last = Some((now, total));
            return;
        };
        let seconds = now.since(since).as_secs_f64();
        if seconds < SHORTEST {
            return;
        }
        self.last = Some((now, total));
        let came = total.saturating_sub(before) as f64;
        if self.known == PERIODS {
            // It belongs to no change that is still to be found.
            self.disperse(PERIODS - 1);
        }
        self.recent[self.at] = (came, seconds);
        self.at = (self.at + 1) % PERIODS;
        self.known = (self.known + 1).min(PERIODS);
        self.age = (self.age + seconds).min(MEMORY);
        self.mean += (came / seconds - self.mean) * (seconds / self.age).min(1.0);
        if let Some((periods, came, seconds)) = self.change() {
            // What came before the change says as much about the variance as ever.
            (periods..self.known).for_each(|back| self.disperse(back));
            self.mean = came / seconds;
            (self.known, self.age) = (periods, seconds);
        }
    }

    /// Adds the period `back` periods before the last one to the variance.
    fn disperse(&mut self, back: usize) {
        let (came, seconds) = self.period(back);
        let expected = self.mean * seconds;
        if expected > 0.0 {
            // One period that is unlike the others says little about what is usual.
            let squared = (came - expected) * (came - expected) / expected;
            let squared = squared.min(9.0 * self.dispersion);
            self.dispersion += (squared - self.dispersion) * (seconds / DISPERSION_MEMORY).min(1.0);
            self.dispersion = self.dispersion.max(1.0);
        }
    }

    fn period(&self, back: usize) -> (f64, f64) {
        self.recent[(self.at + PERIODS - 1 - back) % PERIODS]
    }

    /// The run of last periods farthest from the mean, if far enough that demand has changed:
    /// number of periods, requests, seconds.
    fn change(&self) -> Option<(usize, f64, f64)> {
        let (mut came, mut seconds, mut found, mut most) = (0.0, 0.0, None, 1.0);
        if self.mean <= 0.0 {
            return None;
        }
        for back in 0..self.known {
            let (more, lasted) = self.period(back);
            (came, seconds) = (came + more, seconds + lasted);
            let expected = self.mean * seconds;
            let variance = self.dispersion * expected.max(came).max(1.0);
            let chance = if came > expected { RISE } else { FALL };
            let far = (came - expected) * (came - expected) / (chance * chance * variance);
            if far > most && seconds >= STEP {
                (most, found) = (far, Some((back + 1, came, seconds)));
            }
        }
        found
    }

    /// Requests per thousand seconds.
    #[must_use]
    pub fn per_thousand_seconds(&self) -> u64 {
        libm::round(self.mean * 1e3) as u64
    }

    /// The variance of what comes in a second.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.mean * self.dispersion
    }

    /// Margin above a demand of this variance, so that chance refuses few: two standard deviations
    /// of the requests of a second. Requests per thousand seconds.
    #[must_use]
    pub fn margin(variance: f64) -> u64 {
        libm::round(1e3 * MARGIN * libm::sqrt(variance)) as u64
    }

    /// Whether a demand, in requests per thousand seconds, is another than one that was told: by
    /// more than a twentieth and three times what chance makes of the mean, which follows from the
    /// margin.
    #[must_use]
    pub fn is_news(told: u64, now: u64, margin: u64) -> bool {
        let change = told.abs_diff(now) as f64;
        let chance = margin as f64 / MARGIN / libm::sqrt(2.0 * MEMORY);
        change > 500.0 && change > told.max(now) as f64 / 20.0 && change > NEWS * chance
    }

    /// Whether a margin is so much another that shares should be.
    #[must_use]
    pub fn is_other_margin(told: u64, now: u64) -> bool {
        told.abs_diff(now) > told.max(now) / 3 + 500
    }

    /// The shortest time in which requests are counted.
    pub const PERIOD: Duration = Duration::from_millis(50);
}

/// Seconds. A longer memory is surer of a demand that stays, and later where it changes slowly.
const MEMORY: f64 = 3.0;
const DISPERSION_MEMORY: f64 = 10.0;
const SHORTEST: f64 = 0.025;
const STEP: f64 = 0.09;

/// Standard deviations. What is taken for a fall and is none is refused meanwhile, so that takes
/// more.
const RISE: f64 = 3.0;
const FALL: f64 = 4.0;
const NEWS: f64 = 3.0;
const MARGIN: f64 = 2.0;

const PERIODS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn after(mut demand: Demand, begin: u64, counts: &[u64]) -> (Demand, u64) {
        let mut total = begin;
        for count in counts {
            let at = demand.last.map_or(Instant::ZERO, |(at, _)| at + Demand::PERIOD);
            demand.count(at, total);
            total += count;
        }
        (demand, total)
    }

    #[test]
    fn a_step_is_known_within_a_fifth_of_a_second() {
        let (demand, total) = after(Demand::default(), 0, &[5; 100]);
        assert!((95_000..=105_000).contains(&demand.per_thousand_seconds()));
        let (demand, _) = after(demand, total, &[15; 5]);
        let now = demand.per_thousand_seconds();
        assert!((250_000..=305_000).contains(&now), "{now}");
    }

    #[test]
    fn chance_is_no_news() {
        let is_news = |told, now| Demand::is_news(told, now, Demand::margin(now as f64 / 1e3));
        assert!(!is_news(100_000, 110_000));
        assert!(is_news(100_000, 115_000));
        assert!(is_news(0, 3_000));
        assert!(!is_news(10_000_000, 10_100_000));
    }

    /// Requests of these sizes at random, 100 a second on average.
    fn at_random(size: u64, seconds: u64) -> Vec<Demand> {
        let (mut demand, mut total, mut state) = (Demand::default(), 0, 88_172_645_463_325_252_u64);
        let mut left = 0.0;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            -libm::log(((state >> 11) + 1) as f64 / (1_u64 << 53) as f64) * size as f64
        };
        (0..seconds * 20)
            .map(|period| {
                left += 5.0;
                while left > 0.0 {
                    left -= next();
                    total += size;
                }
                demand.count(Instant::ZERO + Demand::PERIOD * period, total);
                demand.clone()
            })
            .collect()
    }

    #[test]
    fn of_random_arrivals_the_demand_that_is_told_is_seldom_a_tenth_too_small() {
        let all = at_random(1, 600);
        let small = all[100..].iter().filter(|it| it.per_thousand_seconds() < 90_000);
        let part = small.count() as f64 / all.len() as f64;
        assert!(part < 0.02, "{part}");
    }

    #[test]
    fn batches_are_no_change_of_demand_and_have_a_wider_margin() {
        let all = at_random(8, 600);
        let small = all[1_000..].iter().filter(|it| it.per_thousand_seconds() < 70_000);
        assert!((small.count() as f64) < 0.03 * all.len() as f64);
        let margins = all[1_000..].iter().map(|it| Demand::margin(it.variance()));
        let mean = margins.sum::<u64>() / (all.len() as u64 - 1_000);
        // Two deviations of 100 in batches of 8, which vary 8 times as much.
        assert!((45_000..65_000).contains(&mean), "{mean}");
    }
}
