//! Where the load line lies, with confidence, from what runs spent of what they were allowed.
//!
//! Near the load line what is spent grows exponentially with the rate, as the tail of a queue does
//! (Erlang 1917: `P(wait > t) = C exp(-(c mu - rate) t)`), beyond what is spent at any rate because
//! some jobs are long or fail whatever else is there: a run at rate r, allowed m, is expected to
//! spend `m (rest + (1 - rest) exp(slope (r / line - 1)))`. Late requests come in bursts, of which a run holds few,
//! so what is spent varies as in a count times a dispersion (quasi-likelihood: McCullagh, Nelder
//! 1989), of which only the runs themselves show how large it is. Integrated over the dispersion,
//! the likelihood of a line and a slope is that of Student's t, `(1 + D / n)^(-n/2)`, D the deviance
//! of n runs; where the runs vary less than counts do it is that of counts, `exp(-D/2)`.
//!
//! It is computed on a grid of lines and slopes and summed over the slopes ([`SLOPE`] says which
//! are likely beforehand). The median is the estimate. So all runs count as what they are: those
//! that spent nothing, those all at one rate, and those that show no rise, which leave the line
//! uncertain and not unknown.

use loadline_core::units::Rate;
use loadline_measure::objective::Spent;

use super::{rates::rate_of, runs::Run};

/// Where the spending crosses what is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    pub(super) at: Rate,
    /// The ends of the interval of 95 % confidence.
    pub(super) low: Rate,
    pub(super) high: Rate,
    /// Half the width of the interval of 99 % confidence, as a logarithm: for the search, which
    /// looks at it after each trial.
    pub(super) reach: f64,
    /// By what power of the rate the spending grows.
    pub(super) slope: f64,
    /// From how many runs.
    pub(super) runs: usize,
}

/// What a run says of one criterion.
#[derive(Clone, Copy, Debug)]
struct Point {
    x: f64,
    spent: f64,
    allowed: f64,
    /// How much it counts: less, the further from the line.
    weight: f64,
}

/// The runs of a criterion, and the share of what it allows that is spent at any rate.
struct Points {
    near: Vec<Point>,
    rest: f64,
}

/// The lowest crossing of any criterion by `runs`; none where nothing was spent, or with fewer than
/// [`FEWEST`] of them. What is spent at any rate is seen in `all`.
pub(super) fn crossing(runs: &[&Run], all: &[&Run]) -> Option<Crossing> {
    let criteria = all.iter().map(|run| run.spent.len()).min()?;
    let of = |runs: &[&Run], criterion: usize| {
        let point = |run: &&Run| {
            let Spent { spent, allowed } = run.spent[criterion];
            Point { x: run.offered.as_per_sec_f64().ln(), spent, allowed, weight: 1.0 }
        };
        let usable = |point: &Point| point.spent.is_finite() && point.allowed > 0.0;
        runs.iter().map(point).filter(usable).collect::<Vec<_>>()
    };
    let line = |criterion| of_criterion(of(runs, criterion), &of(all, criterion));
    (0..criteria).filter_map(line).min_by_key(|crossing| crossing.at)
}

/// Fits all points, then lets those count more and more that the fit has near the limit: further
/// off the power is another. Which they are depends on their rates and not on what they spent.
fn of_criterion(near: Vec<Point>, all: &[Point]) -> Option<Crossing> {
    if near.len() < FEWEST || near.iter().all(|point| point.spent <= 0.0) {
        return None;
    }
    let mut points = Points { near, rest: 0.0 };
    let mut found = Posterior::of(&points).crossing(&points);
    for (times, widest) in NEARER {
        let at = found.at.as_per_sec_f64().max(1e-3).ln();
        let reach = (times.ln() / found.slope).clamp(NEAREST, widest);
        points.rest = rest(all, at);
        for point in &mut points.near {
            point.weight = 1.0 / (1.0 + ((point.x - at) / reach).powi(6));
        }
        if points.count() < FEWEST as f64 {
            break;
        }
        found = Posterior::of(&points).crossing(&points);
    }
    Some(found)
}

/// What runs far below the line spend together of what they are allowed.
fn rest(points: &[Point], line: f64) -> f64 {
    let below = points.iter().filter(|point| point.x < line + FAR_BELOW.ln());
    let sum = below.fold((0.0, 0.0), |sum, point| (sum.0 + point.spent, sum.1 + point.allowed));
    (sum.0 / sum.1.max(f64::MIN_POSITIVE)).min(MOST_REST)
}

/// How likely the line lies where, as a logarithm of the rate.
struct Posterior {
    from: f64,
    step: f64,
    /// Density at `from` and each step after it, the highest one 1.
    density: Vec<f64>,
    /// The mean of the logarithm of the slope.
    slope: f64,
}

impl Posterior {
    /// On a grid over all that the points leave possible, made finer round what they do not
    /// contradict.
    fn of(points: &Points) -> Self {
        let low = points.near.iter().map(|point| point.x).fold(f64::INFINITY, f64::min);
        let high = points.near.iter().map(|point| point.x).fold(f64::NEG_INFINITY, f64::max);
        let mut found = Self::between(points, low - BEYOND, high + BEYOND);
        for _ in 0..2 {
            let first = found.density.iter().position(|it| *it > FAINT).unwrap_or(0);
            let last = found.density.iter().rposition(|it| *it > FAINT).unwrap_or(first);
            let at = |index: usize| found.from + index as f64 * found.step;
            found = Self::between(points, at(first.saturating_sub(1)), at((last + 1).min(GRID)));
        }
        found
    }

    fn between(points: &Points, from: f64, to: f64) -> Self {
        let step = (to - from) / GRID as f64;
        let slopes: Vec<f64> = (0..SLOPES.2)
            .map(|index| {
                let part = f64::from(index) / f64::from(SLOPES.2 - 1);
                SLOPES.0 * (SLOPES.1 / SLOPES.0).powf(part)
            })
            .collect();
        let mut logs = Vec::with_capacity((GRID + 1) * slopes.len());
        for index in 0..=GRID {
            let line = from + index as f64 * step;
            logs.extend(slopes.iter().map(|slope| points.likelihood(line, *slope)));
        }
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut all, mut sum) = (0.0, 0.0);
        let of_line = |logs: &[f64]| {
            let each = logs.iter().zip(&slopes).map(|(log, slope)| {
                let likely = (log - most).exp();
                all += likely;
                sum += likely * slope.ln();
                likely
            });
            each.sum()
        };
        let mut density: Vec<f64> = logs.chunks(slopes.len()).map(of_line).collect();
        let highest = density.iter().copied().fold(0.0, f64::max);
        density.iter_mut().for_each(|it| *it /= highest);
        Self { from, step, density, slope: sum / all }
    }

    fn crossing(&self, points: &Points) -> Crossing {
        let at = |share: f64| rate_of(self.quantile(share).exp());
        Crossing {
            at: at(0.5),
            low: at(0.025),
            high: at(0.975),
            reach: 0.5 * (self.quantile(0.995) - self.quantile(0.005)),
            slope: self.slope.exp(),
            runs: points.near.iter().filter(|point| point.weight > 0.5).count(),
        }
    }

    fn quantile(&self, share: f64) -> f64 {
        let pairs = || self.density.windows(2).map(|pair| 0.5 * (pair[0] + pair[1]));
        let wanted = share * pairs().sum::<f64>();
        let mut sum = 0.0;
        for (index, each) in pairs().enumerate() {
            if sum + each >= wanted {
                return self.from + self.step * (index as f64 + (wanted - sum) / each.max(1e-300));
            }
            sum += each;
        }
        self.from + self.step * GRID as f64
    }
}

impl Points {
    fn count(&self) -> f64 {
        self.near.iter().map(|point| point.weight).sum()
    }

    /// The logarithm of how likely they are, and the slope beforehand.
    fn likelihood(&self, line: f64, slope: f64) -> f64 {
        let deviance = |point: &Point| {
            let power = (slope * (point.x - line).exp_m1()).clamp(-FAR, FAR).exp();
            let share = self.rest + (1.0 - self.rest) * power;
            let expected = point.allowed * share;
            let over = if point.spent > 0.0 { (point.spent / expected).ln() } else { 0.0 };
            2.0 * point.weight * (point.spent * over - point.spent + expected)
        };
        let (all, count) = (self.near.iter().map(deviance).sum::<f64>(), self.count());
        let beforehand = (slope / SLOPE.0).ln() / SLOPE.1;
        -0.5 * count * (all / count).ln_1p() - 0.5 * beforehand * beforehand
    }
}

/// Fewer say nothing of how much runs vary.
const FEWEST: usize = 4;

/// Runs that spend between a part and a multiple of this of what is allowed lie on one power, at
/// most so far apart as a logarithm of the rate ...
const NEARER: [(f64, f64); 4] = [(8.0, 0.5), (4.0, 0.25), (3.0, 0.12), (3.0, 0.1)];

/// ... and always if they are no further apart than this.
const NEAREST: f64 = 0.02;

/// The median of the slopes that services have, and the standard deviation of their logarithm: 3
/// where most lateness does not come from load, 60 where jobs are even and the limit is generous.
const SLOPE: (f64, f64) = (12.0, 0.8);

/// From the least slope, at which late requests grow in proportion to the rate, to a wall, in so
/// many steps.
const SLOPES: (f64, f64, u32) = (1.0, 300.0, 20);

/// Runs at a lower part of the load line show what is spent at any rate, at most this.
const FAR_BELOW: f64 = 0.8;
const MOST_REST: f64 = 0.8;

/// Steps of the grid of lines.
const GRID: usize = 60;

/// The line is looked for so far beyond the rates of all runs, as a logarithm.
const BEYOND: f64 = 0.7;

/// A density below this part of the highest is none.
const FAINT: f64 = 1e-4;

/// Exponents beyond this are out of the numbers that rates have.
const FAR: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::time::Duration;

    /// Runs from 900 to 1,100/s of a service whose line is at 1,000/s.
    fn runs(noise: &[f64]) -> Vec<Run> {
        let run = |(index, noise): (usize, &f64)| {
            let rate = 900.0 + 28.0 * index as f64;
            let spent = 100.0 * (rate / 1_000.0).powi(10) * noise.exp();
            let spent = vec![Spent { spent, allowed: 100.0 }];
            Run { rate: rate_of(rate), lasts: Duration::from_secs(10), spent, late: Vec::new() }
        };
        noise.iter().enumerate().map(run).collect()
    }

    #[test]
    fn the_interval_holds_the_line_and_is_as_wide_as_the_noise_makes_it() {
        let noise = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0];
        let of = |size: f64| {
            let runs = runs(&noise.map(|one| size * one));
            crossing(&runs.iter().collect::<Vec<_>>()).unwrap()
        };
        let (quiet, loud) = (of(0.05), of(0.3));
        for found in [&quiet, &loud] {
            assert!(found.low < Rate::per_sec(1_000) && Rate::per_sec(1_000) < found.high);
            assert!(found.low < found.at && found.at < found.high);
            assert!((found.at.as_per_sec_f64() / 1_000.0 - 1.0).abs() < 0.02, "{found:?}");
        }
        let width = |found: &Crossing| found.high.as_per_sec_f64() - found.low.as_per_sec_f64();
        assert!(width(&loud) > 1.5 * width(&quiet), "{quiet:?} {loud:?}");
    }

    #[test]
    fn noise_without_a_trend_gives_no_crossing() {
        let flat = |rates: &[u64], spent: &[f64]| {
            let run = |(rate, spent): (&u64, &f64)| Run {
                rate: Rate::per_sec(*rate),
                lasts: Duration::from_secs(10),
                spent: vec![Spent { spent: *spent, allowed: 100.0 }],
                late: Vec::new(),
            };
            rates.iter().zip(spent).map(run).collect::<Vec<_>>()
        };
        for runs in [
            flat(&[10, 11, 12, 13, 14, 15], &[90.0, 10.0, 90.0, 10.0, 90.0, 10.0]),
            flat(&[10, 11, 12], &[10.0, 100.0, 1_000.0]),
            flat(&[10; 6], &[90.0, 10.0, 90.0, 10.0, 90.0, 10.0]),
            flat(&[10, 11, 12, 13, 14, 15], &[0.0; 6]),
        ] {
            assert_eq!(crossing(&runs.iter().collect::<Vec<_>>()), None);
        }
    }
}
