//! Whether the objective is breached alike at every load: by chance or by what requests are, not
//! for want of capacity.
//!
//! Of a service that is late with 2 % of its requests whatever the load, one trial in some holds by
//! luck, the sooner the fewer requests it has. So a search that goes down until one holds would
//! find a load. It ends instead where the lowest of its long trials together say with confidence
//! that they spend more than they may, by a power of the rate that is smaller than that of any
//! service that is late for want of capacity, and where one user alone, who has no queue before
//! them, spends about as much.

use std::fmt;

use loadline_core::units::Rate;
use loadline_measure::objective::Spent;

use super::{
    Search, SearchPhase,
    evidence::CONFIRM_ALLOWED,
    point::{Point, points},
    rates::{nearest, rate_of, scale},
    runs::Run,
    scatter::{self, Scatter},
};

/// What long trials spend alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alike {
    /// The lowest and the highest rate of these trials.
    pub(super) from: Rate,
    pub(super) to: Rate,
    /// What they spent as a multiple of what the objective allows.
    pub(super) spent: f64,
}

impl fmt::Display for Alike {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, spent } = self;
        write!(
            formatter,
            "trials from {from} to {to} spent {spent:.1} times what the objective allows, about as \
             much at every load: want of capacity is not the reason"
        )
    }
}

impl Search {
    /// What the lowest long trials and one user alone spend alike, where that is too much.
    pub(super) fn breached_alike(&self) -> Option<Alike> {
        if self.stage == SearchPhase::Bracket {
            return None;
        }
        let long = self.long_runs();
        let criteria = long.iter().map(|run| run.spent.len()).min()?;
        let of = |criterion: usize| {
            let alone = *self.ladder.alone().get(criterion)?;
            of_criterion(points(&long, criterion, self.cycle), alone)
        };
        (0..criteria).find_map(of)
    }

    /// The load of the next long trial where the line seems to lie below what one user alone gets,
    /// who breached the objective or had too few requests to tell: apart from the others, until
    /// they show whether load counts.
    pub(super) fn apart(&self, long: &[&Run], upper: Option<Rate>) -> Option<Rate> {
        let (rate, alone) = (self.ladder.rungs.first()?.throughput, self.ladder.alone());
        let few = |spent: &Spent| (f64::MIN_POSITIVE..CONFIRM_ALLOWED).contains(&spent.allowed);
        let is_met = alone.iter().all(|spent| spent.pressure() <= 1.0 && !few(spent));
        if is_met || upper.is_none_or(|upper| upper > rate) || long.len() >= SPREAD_TRIALS {
            return None;
        }
        let rises = |criterion| rises(&points(long, criterion, self.cycle));
        let part = SPREAD[long.len() % SPREAD.len()];
        (!(0..alone.len()).any(rises)).then(|| scale(rate, part))
    }
}

/// Looks at the lowest points, then at more and more of them: those near an overload spend more.
fn of_criterion(mut points: Vec<Point>, alone: Spent) -> Option<Alike> {
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    (FEWEST..=points.len()).find_map(|count| of_lowest(&points[..count], alone))
}

fn of_lowest(points: &[Point], alone: Spent) -> Option<Alike> {
    let (first, last) = (points.first()?, points.last()?);
    let allowed: f64 = points.iter().map(|point| point.allowed).sum();
    let spent = points.iter().map(|point| point.spent).sum::<f64>() / allowed;
    if spent <= 1.0 || last.x - first.x < WIDE {
        return None;
    }
    let power = power(points)?;
    let expected = alone.allowed * spent;
    let is_like_one_user =
        (alone.spent - expected).abs() <= SURE * (power.dispersion * expected).sqrt() + 1.0;
    let [from, to] = [first, last].map(|point| nearest(rate_of(point.x.exp()), ROUND));
    (power.level > 0.0 && power.lowest > 0.0 && power.at_most < LEAST_POWER && is_like_one_user)
        .then_some(Alike { from, to, spent })
}

/// Whether the lower points spend less, beyond chance, than if what is spent grew as the rate does.
fn rises(points: &[Point]) -> bool {
    let sum = |points: &[&Point], of: &dyn Fn(&Point) -> f64| -> f64 {
        points.iter().map(|point| of(point)).sum()
    };
    let all: Vec<&Point> = points.iter().collect();
    let allowed = sum(&all, &|point| point.allowed);
    let centre = sum(&all, &|point| point.x * point.allowed) / allowed;
    let share = sum(&all, &|point| point.spent) / allowed;
    let lower: Vec<&Point> = all.into_iter().filter(|point| point.x < centre).collect();
    let expected = sum(&lower, &|point| point.allowed * share * (point.x - centre).exp());
    sum(&lower, &|point| point.spent) + SURE * expected.sqrt() < expected
}

/// By what power of the rate points spend.
struct Power {
    /// What it is at most.
    at_most: f64,
    /// The logarithm of what is spent over what is allowed, at least: at the lowest rate, which is
    /// likely, and in the middle, with confidence.
    lowest: f64,
    level: f64,
    dispersion: f64,
}

/// Quasi-likelihood as in `estimate`, with nothing known of the power before.
fn power(points: &[Point]) -> Option<Power> {
    if points.len() < FEWEST {
        return None;
    }
    let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
    let (spent, allowed) = (sum(&|point| point.spent), sum(&|point| point.allowed));
    let centre = sum(&|point| point.x * point.allowed) / allowed;
    let (mut a, mut b, mut information) = ((spent / allowed).ln(), 0.0, [0.0; 3]);
    let mean = |a: f64, b: f64, point: &Point| {
        point.allowed * (a + b * (point.x - centre)).clamp(-FAR, FAR).exp()
    };
    for _ in 0..STEPS {
        let weighted = |by: &dyn Fn(&Point) -> f64| sum(&|point| mean(a, b, point) * by(point));
        let [i, j, k] = [
            weighted(&|_| 1.0),
            weighted(&|point| point.x - centre),
            weighted(&|point| (point.x - centre).powi(2)),
        ];
        let missed = |point: &Point| point.spent - mean(a, b, point);
        let score = [sum(&missed), sum(&|point| missed(point) * (point.x - centre))];
        let det = i * k - j * j;
        information = [i / det, j / det, k / det];
        let step = (i * score[1] - j * score[0]) / det;
        a += ((k * score[0] - j * score[1]) / det).clamp(-1.0, 1.0);
        b += step.clamp(-1.0, 1.0);
    }
    let squares = |point: &Point| {
        let mean = mean(a, b, point);
        (point.spent - mean).powi(2) / mean
    };
    let within: Vec<Scatter> = points.iter().map(|point| point.scatter).collect();
    let freedom = (points.len() - 2) as f64;
    let (dispersion, _) = scatter::dispersion(sum(&squares), freedom, &within);
    let [of_b, of_both, of_a] = information.map(|it| it * dispersion);
    let x = points.first()?.x - centre;
    let lowest = a + b * x - LIKELY * (of_a - 2.0 * x * of_both + x * x * of_b).sqrt();
    let level = a - SURE * of_a.sqrt();
    let at_most = b + SURE * of_b.sqrt();
    let is_known = lowest.is_finite() && level.is_finite() && at_most.is_finite();
    is_known.then_some(Power { at_most, lowest, level, dispersion })
}

/// A power of fewer is not known.
const FEWEST: usize = 4;

/// Trials lie so far apart at least, as a logarithm of the rate: by a half.
const WIDE: f64 = 0.4;

/// Where there is a queue, more wait and each of them for longer: what is late for want of capacity
/// grows faster than the rate.
const LEAST_POWER: f64 = 1.0;

/// So many standard errors are no chance, although it is looked for after each trial.
const SURE: f64 = 2.3;

/// Standard errors of what is likely.
const LIKELY: f64 = 1.6;

/// Loads that show whether load counts, as parts of what one user got ...
const SPREAD: [f64; 3] = [1.0, 0.5, 0.25];

/// ... in so many trials at most.
const SPREAD_TRIALS: usize = 9;

/// Rates are told to this share.
const ROUND: f64 = 0.01;

/// Steps of a fit.
const STEPS: usize = 12;

/// Exponents beyond this are out of the numbers that rates have.
const FAR: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Points from 20 to 80/s that spend this multiple of 5 at 40/s, by this power of the rate.
    fn points(times: f64, power: f64) -> Vec<Point> {
        let point = |index: i32| {
            let x = (20.0 * 2f64.powf(f64::from(index) / 5.0)).ln();
            let spent = 5.0 * times * (power * (x - 40f64.ln())).exp();
            let spent = spent * (1.0 + 0.2 * f64::from(index % 3 - 1));
            Point { x, spent, allowed: 5.0, scatter: Scatter::default() }
        };
        (0..=10).map(point).collect()
    }

    const ALONE: Spent = Spent { spent: 2.0, allowed: 1.0 };

    #[test]
    fn what_is_spent_alike_at_every_load_and_by_one_user_is_told_from_a_rise() {
        let alike = of_criterion(points(2.0, 0.0), ALONE).expect("twice what is allowed");
        assert!((1.7..2.3).contains(&alike.spent), "{alike:?}");
        assert!((19.5..20.5).contains(&alike.from.as_per_sec_f64()), "{alike}");
        for (times, power) in [(0.7, 0.0), (1.05, 0.0), (2.0, 2.0), (4.0, 5.0)] {
            assert_eq!(of_criterion(points(times, power), ALONE), None, "{times} {power}");
        }
    }

    #[test]
    fn a_few_points_show_a_rise_although_the_lowest_spent_nothing() {
        let of = |spent: [f64; 3]| {
            let point = |(spent, rate): (f64, f64)| {
                let (allowed, scatter) = (rate / 10.0, Scatter::default());
                Point { x: rate.ln(), spent, allowed, scatter }
            };
            rises(&spent.into_iter().zip([10.0, 5.0, 2.5]).map(point).collect::<Vec<_>>())
        };
        assert!(of([56.0, 0.0, 0.0]) && !of([56.0, 28.0, 14.0]) && !of([2.0, 0.0, 0.0]));
    }

    #[test]
    fn one_user_who_is_never_late_or_always_shows_that_load_counts() {
        let never = Spent { spent: 0.0, allowed: 10.0 };
        let always = Spent { spent: 100.0, allowed: 1.0 };
        for alone in [never, always] {
            assert_eq!(of_criterion(points(2.0, 0.0), alone), None, "{alone:?}");
        }
    }

    #[test]
    fn trials_near_an_overload_do_not_hide_what_the_lowest_spend_alike() {
        let mut all = points(2.0, 0.0);
        let overload = |at: f64| Point { x: at.ln(), spent: 300.0, ..all[0] };
        let overloads = [90.0, 95.0, 100.0].map(overload);
        all.extend(overloads);
        assert!(of_criterion(all, ALONE).is_some());
    }
}
