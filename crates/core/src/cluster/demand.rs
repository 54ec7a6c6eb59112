//! How much clients want of a service, from what is counted.
//!
//! A mean over about a second (exponential, `r += (x - r) * dt / (dt + 1 s)`), which random
//! arrivals of `r` a second move by `sqrt(r / 2)`. A step is not averaged: where the last fifth of
//! a second differs from the mean by more than three standard deviations of a Poisson count, it is
//! the new mean.

use crate::time::{Duration, Instant};

/// Requests per second, as they come.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// When it was looked last, and how many had come.
    last: Option<(Instant, u64)>,
    /// Requests per second.
    mean: f64,
    /// What came in the last periods, and how long each was, in seconds.
    recent: [(f64, f64); PERIODS],
    at: usize,
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
        self.recent[self.at] = (came, seconds);
        self.at = (self.at + 1) % PERIODS;
        self.mean += (came / seconds - self.mean) * seconds / (seconds + MEMORY);
        let (came, seconds) = self
            .recent
            .iter()
            .fold((0.0, 0.0), |(all, time), (came, seconds)| (all + came, time + seconds));
        let expected = self.mean * seconds;
        let deviation = libm::sqrt(expected.max(came).max(1.0));
        if seconds >= STEP && libm::fabs(came - expected) > 3.0 * deviation {
            self.mean = came / seconds;
        }
    }

    /// Requests per thousand seconds.
    #[must_use]
    pub fn per_thousand_seconds(&self) -> u64 {
        libm::round(self.mean * 1e3) as u64
    }

    /// Whether a demand, in requests per thousand seconds, is another than one that was told: by
    /// more than a twentieth and twice what chance makes of it.
    #[must_use]
    pub fn is_news(told: u64, now: u64) -> bool {
        let most = told.max(now) as f64 / 1e3;
        let change = told.abs_diff(now) as f64 / 1e3;
        change > 0.5 && change > most / 20.0 && change > 2.0 * libm::sqrt(most / (2.0 * MEMORY))
    }

    /// The shortest time in which requests are counted.
    pub const PERIOD: Duration = Duration::from_millis(50);
}

/// Seconds.
const MEMORY: f64 = 1.0;
const SHORTEST: f64 = 0.025;
const STEP: f64 = 0.15;

const PERIODS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!Demand::is_news(100_000, 112_000));
        assert!(Demand::is_news(100_000, 120_000));
        assert!(Demand::is_news(0, 3_000));
        assert!(!Demand::is_news(10_000_000, 10_100_000));
    }
}
