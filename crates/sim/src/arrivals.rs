//! When requests come.

use std::sync::Arc;

use loadline_core::{
    time::{Duration, Instant},
    units::Rate,
};

use crate::random::Random;

/// When the requests of a source come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// An open loop: requests do not depend on earlier ones.
    Open {
        /// How they lie.
        spacing: Spacing,
        /// The rate over time: one stage after another, the last one for ever.
        stages: Arc<[Stage]>,
    },
    /// A closed loop: each user sends a request after the response to the last.
    Closed {
        /// How many.
        users: u32,
        /// What a user waits from a response to the next request.
        think: Duration,
        /// How many requests they send in all; until the end of the run if none.
        requests: Option<u64>,
    },
    /// At these times since the start, in order.
    Listed(Arc<[Duration]>),
}

/// How arrivals lie at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// At even distances.
    Constant,
    /// Independent of each other: exponential distances.
    Poisson,
    /// So many at the same instant, at exponential distances from burst to burst.
    Bursts(u32),
}

/// A part of the time, in which the rate changes evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// The rate at its beginning.
    pub from: Rate,
    /// The rate at its end.
    pub to: Rate,
    /// How long it lasts.
    pub lasts: Duration,
}

/// The arrivals of an open source, one after another.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    spacing: Spacing,
    segments: Vec<Segment>,
    /// Which segment it is in.
    segment: usize,
    /// Seconds since the start.
    at: f64,
    /// How many more come at this instant.
    left: u32,
}

/// A rate that changes evenly, in seconds since the start and requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    begin: f64,
    end: f64,
    rate: f64,
    /// What the rate gains per second.
    slope: f64,
}

/// What the rate is multiplied by, from when to when.
pub(crate) type Factor = (Instant, Option<Instant>, f64);

impl Clock {
    /// The arrivals from the start until `lasts`.
    pub(crate) fn new(
        spacing: Spacing,
        stages: &[Stage],
        lasts: Duration,
        factors: &[Factor],
    ) -> Self {
        let segments = segments(stages, lasts.as_secs_f64(), factors);
        Self { spacing, segments, segment: 0, at: 0.0, left: 0 }
    }

    /// The next arrival; none where none comes any more.
    pub(crate) fn next(&mut self, random: &mut Random) -> Option<Instant> {
        if self.left == 0 {
            let (size, distance) = match self.spacing {
                Spacing::Constant => (1, 1.0),
                Spacing::Poisson => (1, random.exponential()),
                Spacing::Bursts(size) => (size, random.exponential() * f64::from(size)),
            };
            self.advance(distance)?;
            self.left = size.max(1);
        }
        self.left -= 1;
        Some(Instant::ZERO + Duration::from_nanos((self.at * 1e9) as u64))
    }

    /// Goes on until the rate has added up to `distance` requests (time change of a point process:
    /// Cinlar, "Introduction to Stochastic Processes", 1975, section 4.7).
    fn advance(&mut self, mut distance: f64) -> Option<()> {
        loop {
            let Segment { begin, end, rate, slope } = *self.segments.get(self.segment)?;
            let rate = rate + slope * (self.at - begin);
            let rest = end - self.at;
            if let Some(after) = time_for(distance, rate, slope).filter(|after| *after <= rest) {
                self.at += after;
                return Some(());
            }
            distance -= rate * rest + slope * rest * rest / 2.0;
            self.at = end;
            self.segment += 1;
        }
    }
}

impl Stage {
    /// This rate for ever.
    #[must_use]
    pub const fn constant(rate: Rate) -> Self {
        Self { from: rate, to: rate, lasts: Duration::MAX }
    }
}

/// The stages as segments until `lasts`, cut where a factor begins or ends. The last stage goes on
/// at the rate of its end.
fn segments(stages: &[Stage], lasts: f64, factors: &[Factor]) -> Vec<Segment> {
    let mut lines = Vec::new();
    let mut begin = 0.0;
    for stage in stages {
        let (from, to) = (stage.from.as_per_sec_f64(), stage.to.as_per_sec_f64());
        let long = stage.lasts.as_secs_f64();
        let slope = if long > 0.0 { (to - from) / long } else { 0.0 };
        lines.push(Segment { begin, end: begin + long, rate: from, slope });
        begin += long;
    }
    if let Some(last) = stages.last() {
        let rate = last.to.as_per_sec_f64();
        lines.push(Segment { begin, end: f64::INFINITY, rate, slope: 0.0 });
    }
    let second = |at: Instant| at.as_nanos() as f64 / 1e9;
    let ends = factors.iter().flat_map(|(begin, end, _)| [Some(*begin), *end]).flatten();
    let mut cuts: Vec<f64> = ends.map(second).chain([0.0, lasts]).collect();
    cuts.extend(lines.iter().map(|line| line.begin));
    cuts.retain(|cut| *cut <= lasts);
    cuts.sort_by(f64::total_cmp);
    cuts.dedup();
    let pieces = cuts.windows(2).filter_map(|ends| {
        let line = lines.iter().find(|line| line.begin <= ends[0] && ends[0] < line.end)?;
        let holds = |(begin, end, _): &&Factor| {
            second(*begin) <= ends[0] && end.is_none_or(|end| ends[0] < second(end))
        };
        let factor: f64 = factors.iter().filter(holds).map(|(.., factor)| factor).product();
        let rate = (line.rate + line.slope * (ends[0] - line.begin)) * factor;
        Some(Segment { begin: ends[0], end: ends[1], rate, slope: line.slope * factor })
    });
    pieces.collect()
}

/// Listed arrivals, multiplied by the factors in force: the whole part as copies, the rest by
/// chance; copies are spread evenly up to the next arrival.
pub(crate) fn listed_times(
    times: &[Duration],
    factors: &[Factor],
    random: &mut Random,
) -> Vec<Duration> {
    let factor_at = |at: Duration| -> f64 {
        let at = Instant::ZERO + at;
        let holds = |(begin, end, _): &&Factor| *begin <= at && end.is_none_or(|end| at < end);
        factors.iter().filter(holds).map(|(.., factor)| factor).product()
    };
    let mut all = Vec::new();
    for (index, at) in times.iter().enumerate() {
        let copies = (factor_at(*at) + random.uniform()) as u64;
        let until = times.get(index + 1).unwrap_or(at);
        let gap = until.saturating_sub(*at) / copies.max(1);
        all.extend((0..copies).map(|copy| *at + gap * copy));
    }
    all
}

/// Users of a closed loop where so many times the traffic comes: at least one where any does.
pub(crate) fn users_times(users: u32, factor: f64) -> u32 {
    let least = f64::from(u8::from(factor > 0.0 && users > 0));
    libm::round(f64::from(users) * factor).max(least) as u32
}

/// Seconds after which a rate with this slope has added up to `distance`; none if it never does.
fn time_for(distance: f64, rate: f64, slope: f64) -> Option<f64> {
    if slope == 0.0 {
        return (rate > 0.0).then(|| distance / rate);
    }
    let root = rate * rate + 2.0 * slope * distance;
    // The form that does not cancel where the slope is small.
    (root >= 0.0).then(|| 2.0 * distance / (rate + libm::sqrt(root)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(n)
    }

    fn times(mut clock: Clock, seed: u64) -> Vec<f64> {
        let mut random = Random::stream(seed, 3);
        let next = || clock.next(&mut random);
        std::iter::from_fn(next).map(|at| at.as_nanos() as f64 / 1e9).collect()
    }

    #[test]
    fn even_arrivals_are_one_interval_apart() {
        let stages = [Stage::constant(Rate::per_sec(4))];
        let clock = Clock::new(Spacing::Constant, &stages, Duration::from_secs(1), &[]);
        assert_eq!(times(clock, 1), [0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn a_ramp_brings_its_mean_rate_and_more_at_its_end() {
        let (from, to) = (Rate::per_sec(0), Rate::per_sec(200));
        let ramp = [Stage { from, to, lasts: Duration::from_secs(100) }];
        let clock = || Clock::new(Spacing::Poisson, &ramp, Duration::from_secs(100), &[]);
        let runs: Vec<Vec<f64>> = (0..50).map(|seed| times(clock(), seed)).collect();
        let early = |times: &Vec<f64>| times.iter().filter(|at| **at < 50.0).count();
        let (all, early) =
            (runs.iter().map(Vec::len).sum::<usize>(), runs.iter().map(early).sum::<usize>());
        assert!((all as f64 / 500_000.0 - 1.0).abs() < 0.005, "{all}");
        assert!((early as f64 / 125_000.0 - 1.0).abs() < 0.01, "{early}");
    }

    #[test]
    fn traffic_that_stops_for_a_while_comes_back() {
        let stages = [Stage::constant(Rate::per_sec(8))];
        let none = [(second(10), Some(second(20)), 0.0)];
        let lasts = Duration::from_secs(30);
        let times = times(Clock::new(Spacing::Constant, &stages, lasts, &none), 1);
        assert_eq!(times.len(), 160);
        assert!(times.iter().all(|at| *at <= 10.0 || *at > 20.0));
    }

    #[test]
    fn half_as_many_again_of_a_list_are_that_many_in_its_order() {
        let times: Vec<Duration> = (0..10_000).map(Duration::from_millis).collect();
        let factors = [(Instant::ZERO, None, 1.5), (second(5), None, 2.0)];
        let more = listed_times(&times, &factors, &mut Random::stream(1, 1));
        assert!(more.is_sorted());
        let early = more.iter().filter(|at| **at < Duration::from_secs(5)).count();
        assert!((early as f64 / 7_500.0 - 1.0).abs() < 0.02, "{early}");
        assert_eq!(more.len() - early, 15_000);
    }

    #[test]
    fn bursts_come_whole_at_the_rate_that_was_said() {
        let stages = [Stage::constant(Rate::per_sec(100))];
        let lasts = Duration::from_secs(1_000);
        let times = times(Clock::new(Spacing::Bursts(50), &stages, lasts, &[]), 1);
        assert!(times.chunks(50).all(|burst| burst.iter().all(|at| *at == burst[0])));
        assert!((times.len() as f64 / 100_000.0 - 1.0).abs() < 0.1, "{}", times.len());
    }
}
