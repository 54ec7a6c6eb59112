//! How slow the slowest cycle is that shows in the latencies.
//!
//! A service that collects garbage, flushes or runs a batch every so often is late in bursts. A
//! trial shorter than several such cycles sees none of them or too many, so its verdict is luck.
//! Bursts are what lies late without a pause of [`PAUSE`]; those that together hold most of what
//! was late count, and the time looked at over their number is the cycle. Where answers are late
//! most of the time, or in one burst only, no cycle shows.

use loadline_core::time::Duration;

/// What was late in runs near the load line, run by run.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    looked: Duration,
    late: Duration,
    /// In which run, when in it and how much.
    bursts: Vec<(u32, Duration, f64)>,
    runs: u32,
}

impl Lateness {
    /// Adds a run of this length, in which so much was late at these instants, in their order.
    pub(super) fn add(&mut self, lasts: Duration, late: &[(Duration, f64)]) {
        self.looked = self.looked + lasts;
        self.runs += 1;
        let (mut from, mut last) = (Duration::ZERO, None);
        for (at, count) in late {
            match (self.bursts.last_mut(), last) {
                (Some(burst), Some(last)) if at.saturating_sub(last) <= PAUSE => burst.2 += count,
                _ => {
                    self.late = self.late + last.unwrap_or(from).saturating_sub(from);
                    from = *at;
                    self.bursts.push((self.runs, *at, *count));
                }
            }
            last = Some(*at);
        }
        self.late = self.late + last.unwrap_or(from).saturating_sub(from);
    }

    /// From one burst to the next; none where there is no such thing.
    pub(super) fn cycle(&self) -> Option<Duration> {
        if self.late.as_secs_f64() > MOSTLY * self.looked.as_secs_f64() {
            return None;
        }
        let mut bursts = self.bursts.clone();
        bursts.sort_by(|one, other| other.2.total_cmp(&one.2));
        let enough = MOST * bursts.iter().map(|burst| burst.2).sum::<f64>();
        let mut sum = 0.0;
        bursts.retain(|burst| {
            let counts = sum < enough;
            sum += burst.2;
            counts
        });
        if bursts.len() < FEWEST {
            return None;
        }
        bursts.sort_by_key(|burst| (burst.0, burst.1));
        let pairs = bursts.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let mut between: Vec<_> = pairs.map(|pair| pair[1].1.saturating_sub(pair[0].1)).collect();
        between.sort_unstable();
        // Runs that mostly hold one burst say how far two are apart by their number alone.
        if between.len() * 3 < bursts.len() {
            return self.is_even(&bursts).then(|| self.looked / bursts.len() as u64);
        }
        let rank = |share: usize| between[between.len() * share / 4];
        let spread = rank(3).saturating_sub(rank(1));
        (spread <= rank(2).scale(EVEN)).then(|| rank(2))
    }

    /// Whether all runs hold about as many bursts: bursts by chance are one by one as likely.
    fn is_even(&self, bursts: &[(u32, Duration, f64)]) -> bool {
        let count = |run| bursts.iter().filter(|burst| burst.0 == run).count() as f64;
        let counts: Vec<f64> = (1..=self.runs).map(count).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        squares / (counts.len() - 1).max(1) as f64 <= EVEN * mean
    }
}

/// Responses that are late this far from each other are so for reasons of their own.
const PAUSE: Duration = Duration::from_millis(500);

/// A service that is late for more of the time is not late in bursts.
const MOSTLY: f64 = 0.5;

/// The bursts that hold this share of what was late count; small ones between them are chance.
const MOST: f64 = 0.9;

/// What comes at regular times is spread by less than this part of its mean: by chance it is 1 and
/// more.
const EVEN: f64 = 0.6;

/// One burst is no cycle, and neither is what came twice by chance.
const FEWEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Late for `lasts` ms every `every` ms, with a little lateness by chance each second.
    fn lateness(every: u64, lasts: u64) -> Lateness {
        let mut lateness = Lateness::default();
        for run in 0..4 {
            let late = (0..100).filter_map(|slice| {
                let at = run * 10_000 + slice * 100;
                let burst = (at % every < lasts).then_some(9.0);
                let chance = (slice % 10 == 3).then_some(0.2);
                Some((Duration::from_millis(slice * 100), burst.or(chance)?))
            });
            lateness.add(Duration::from_secs(10), &late.collect::<Vec<_>>());
        }
        lateness
    }

    #[test]
    fn the_cycle_of_the_bursts_is_found_in_runs_that_are_hardly_longer() {
        let cycle = lateness(7_000, 400).cycle().expect("six bursts").as_secs_f64();
        assert!((5.5..8.5).contains(&cycle), "{cycle}");
        let cycle = lateness(2_000, 200).cycle().expect("twenty bursts").as_secs_f64();
        assert!((1.7..2.6).contains(&cycle), "{cycle}");
    }

    #[test]
    fn what_is_late_always_or_once_has_no_cycle() {
        assert_eq!(lateness(500, 400).cycle(), None);
        assert_eq!(Lateness::default().cycle(), None);
        let mut once = Lateness::default();
        once.add(Duration::from_secs(10), &[(Duration::from_secs(4), 50.0)]);
        assert_eq!(once.cycle(), None);
    }
}
