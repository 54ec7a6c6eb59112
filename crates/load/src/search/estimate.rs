//! Where the load line lies, with confidence, from what runs spent of what they were allowed.
//!
//! Near the load line what is spent grows as a power of the rate, so the expected spending of a run
//! is `allowed * exp(a + b x)`, x the logarithm of its rate, and the line is where that is what was
//! allowed: `a + b x = 0`. a and b are fitted by quasi-likelihood (McCullagh, Nelder 1989): what
//! is spent varies as in a count, times a dispersion that the runs themselves show (`scatter`).
//!
//! Few runs say little of the power. It is taken to be lognormal before any was made
//! ([`POWER`], [`POWER_SPREAD`]): runs round the line hardly need it, and where all of them lie to
//! one side the interval is as wide as what is not known of it.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::{objective::Spent, statistics::student_quantile};

use super::{
    point::{Point, points},
    rates::rate_of,
    runs::Run,
    scatter::{self, Scatter},
};

/// Where the spending crosses what is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    pub(super) at: Rate,
    /// The standard error, as a share of it.
    pub(super) error: f64,
    /// The same with a part ([`POWER_PART`]) of what a power that is not well known adds: by it a
    /// search ends.
    pub(super) fit_error: f64,
    /// The ends of the interval of 95 % confidence.
    pub(super) low: Rate,
    pub(super) high: Rate,
    /// By what power of the rate the spending grows.
    pub(super) slope: f64,
    /// The coefficient of variation of what a run spends at the line.
    pub(super) variation: f64,
    /// How much more the first half of the runs spent than the second at the same rate, in standard
    /// errors.
    pub(super) drift: f64,
    /// The degrees of freedom of its error.
    pub(super) freedom: f64,
    /// From how many runs.
    pub(super) runs: usize,
}

/// The line `a + b x` with x from `centre`, and how sure it is.
#[derive(Clone, Copy, Debug)]
struct Fit {
    centre: f64,
    a: f64,
    b: f64,
    /// The covariance of a and b: of a, of both, of b.
    var: [f64; 3],
    drift: f64,
    variation: f64,
    freedom: f64,
    runs: usize,
}

/// The lowest crossing of any criterion; none with fewer than [`FEWEST`] runs, or where nothing was
/// spent. `light` is what each criterion spends under light load.
pub(super) fn crossing(
    runs: &[&Run],
    light: &[Spent],
    cycle: Option<Duration>,
) -> Option<Crossing> {
    let criteria = runs.iter().map(|run| run.spent.len()).min()?;
    let base = |criterion: usize| {
        let known = light.get(criterion).filter(|light| light.allowed >= ENOUGH_LIGHT);
        known.map_or(0.0, |light| (light.spent / light.allowed).min(MOST_BASE))
    };
    let crossings = (0..criteria)
        .filter_map(|criterion| of_criterion(&points(runs, criterion, cycle), base(criterion)));
    crossings.min_by_key(|crossing| crossing.at)
}

/// Fits all points, then those alone that the fit has nearer and nearer to the limit, as long as
/// there are enough of them: further off the power is another. Which they are depends on their
/// rates and not on what they spent.
fn of_criterion(points: &[Point], base: f64) -> Option<Crossing> {
    let mut found = fit(points, base)?.crossing();
    for (times, widest) in NEARER {
        let at = found.at.as_per_sec_f64().ln();
        let reach = (times.ln() / found.slope).min(widest);
        let near = |point: &&Point| (point.x - at).abs() <= reach;
        let kept: Vec<Point> = points.iter().filter(near).copied().collect();
        match fit(&kept, base) {
            Some(fit) => found = fit.crossing(),
            None => break,
        }
    }
    Some(found)
}

/// Iteratively reweighted least squares for the logarithmic link, with what is known of the power
/// before.
fn fit(points: &[Point], base: f64) -> Option<Fit> {
    if points.len() < FEWEST {
        return None;
    }
    let allowed: f64 = points.iter().map(|point| point.allowed).sum();
    let spent: f64 = points.iter().map(|point| point.spent).sum();
    if spent <= 0.0 {
        return None;
    }
    let centre = points.iter().map(|point| point.x * point.allowed).sum::<f64>() / allowed;
    // What is expected, and of that what rises with the rate.
    let mean = |a: f64, b: f64, point: &Point| {
        let rises = (1.0 - base) * (a + b * (point.x - centre)).clamp(-FAR, FAR).exp();
        if rises < FULL {
            (point.allowed * (base + rises), point.allowed * rises)
        } else {
            (point.allowed * (base + FULL), 0.0)
        }
    };
    let seen = |point: &Point| point.spent.min(point.allowed * (base + FULL));
    let within: Vec<Scatter> = points.iter().map(|point| point.scatter).collect();
    let (mut a, mut b, mut dispersion) = ((spent / allowed).clamp(0.1, 2.0).ln(), POWER, 1.0);
    let mut freedom = 1.0;
    let mut information = [0.0; 3];
    for _ in 0..STEPS {
        // Of a, and of the logarithm of b, which is where the prior is normal.
        let prior = dispersion / POWER_SPREAD.powi(2);
        let mut score = [0.0, -(b / POWER).ln() * prior];
        information = [0.0, 0.0, prior];
        for point in points {
            let x = (point.x - centre) * b;
            let (mean, rises) = mean(a, b, point);
            let missed = (seen(point) - mean) * rises / mean;
            score = [score[0] + missed, score[1] + missed * x];
            let weight = rises * rises / mean;
            let [i, j, k] = information;
            information = [i + weight, j + weight * x, k + weight * x * x];
        }
        let [i, j, k] = information;
        let det = i * k - j * j;
        if det <= 0.0 {
            return None;
        }
        let step = [(k * score[0] - j * score[1]) / det, (i * score[1] - j * score[0]) / det];
        // Long steps leave the region where the expansion holds.
        let short = (1.0 / step[0].abs()).min(0.5 / step[1].abs()).min(1.0);
        a += short * step[0];
        b = (b * (short * step[1]).exp()).clamp(FLAT, STEEP);
        let squares = |point: &Point| {
            let (mean, _) = mean(a, b, point);
            (seen(point) - mean).powi(2) / mean
        };
        let between = points.iter().map(squares).sum::<f64>();
        (dispersion, freedom) = scatter::dispersion(between, (points.len() - 2) as f64, &within);
    }
    let [i, j, k] = information;
    let scale = dispersion / (i * k - j * j);
    let var = [k * scale, -j * scale, i * scale];
    let half = |points: &[Point]| {
        let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
        (sum(&|point| seen(point)), sum(&|point| mean(a, b, point).0))
    };
    let (early, late) = points.split_at(points.len() / 2);
    let ((one, of_one), (other, of_other)) = (half(early), half(late));
    let drift =
        (one / of_one - other / of_other) / (dispersion * (1.0 / of_one + 1.0 / of_other)).sqrt();
    let variation = (dispersion * points.len() as f64 / allowed).sqrt();
    let fit = Fit { centre, a, b, var, drift, variation, freedom, runs: points.len() };
    (a.is_finite() && b.is_finite() && scale.is_finite()).then_some(fit)
}

impl Fit {
    /// The line crosses at `x = -a / b`; its error is that of both to the first order, times what a
    /// lognormal b adds to the root of the mean of `1 / b^2`: a power that is not well known may be
    /// a small one.
    fn crossing(&self) -> Crossing {
        let Self { centre, a, b, var, drift, variation, freedom, runs } = *self;
        let x = -a / b;
        let variance = (var[0] - 2.0 * a * var[1] + a * a * var[2]) / (b * b);
        let with_power = |part: f64| variance.max(0.0).sqrt() * (part * var[2].min(1.0)).exp();
        let (error, fit_error) = (with_power(1.0), with_power(POWER_PART));
        let reach = student(freedom) * error;
        let at = |x: f64| rate_of((centre + x).clamp(-FAR, FAR).exp());
        let (at, low, high) = (at(x), at(x - MISSED * reach), at(x + reach));
        Crossing { at, error, fit_error, low, high, slope: b, drift, variation, freedom, runs }
    }
}

/// The two-sided 95 % quantile of Student's t.
fn student(freedom: f64) -> f64 {
    student_quantile(0.975, freedom.max(1.0))
}

/// Runs lie round the line, where a power that is not well known costs less than it may.
const POWER_PART: f64 = 0.8;

/// Few runs more often miss a rare burst than that they hold one too many: so much further down the
/// line may lie than up.
const MISSED: f64 = 1.5;

/// Two of a line and one of a dispersion leave nothing to be sure by.
const FEWEST: usize = 4;

/// Runs that spend between a part and a multiple of this of what is allowed lie on one power, at
/// most so far apart as a logarithm of the rate.
const NEARER: [(f64, f64); 4] = [(6.0, 0.6), (4.0, 0.35), (3.0, 0.35), (3.0, 0.2)];

/// The power by which spending grows, before any run says it: services of many kinds are between 2
/// (one that stalls now and then) and 100 (one that refuses what is over a rate) ...
const POWER: f64 = 12.0;

/// ... which is this standard deviation of its logarithm.
const POWER_SPREAD: f64 = 1.0;

/// What is spent beyond this multiple of what is allowed says only that it is much.
const FULL: f64 = 4.0;

/// Of an objective that light load alone nearly breaches so much is taken to be its own.
const MOST_BASE: f64 = 0.8;

/// What light load spends is not known from runs that allow less.
const ENOUGH_LIGHT: f64 = 50.0;

/// Steps of each fit.
const STEPS: usize = 40;

/// No power is smaller; a steeper rise is a wall.
const FLAT: f64 = 0.5;
const STEEP: f64 = 400.0;

/// Exponents beyond this are out of the numbers that rates have.
const FAR: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs from 900 to 1,100/s of a service whose line is at 1,000/s.
    fn runs(noise: &[f64]) -> Vec<Run> {
        let run = |(index, noise): (usize, &f64)| {
            let rate = 900.0 + 28.0 * index as f64;
            let spent = 100.0 * (rate / 1_000.0).powi(10) * noise.exp();
            let spent = vec![Spent { spent, allowed: 100.0 }];
            Run { offered: rate_of(rate), spent, ..Run::at(1_000) }
        };
        noise.iter().enumerate().map(run).collect()
    }

    fn of(runs: &[Run], light: f64) -> Option<Crossing> {
        let light = Spent { spent: light * 100.0, allowed: 100.0 };
        crossing(&runs.iter().collect::<Vec<_>>(), &[light], None)
    }

    fn far_off(found: &Crossing) -> f64 {
        (found.at.as_per_sec_f64() / 1_000.0 - 1.0).abs()
    }

    #[test]
    fn the_interval_holds_the_line_and_is_as_wide_as_the_noise_makes_it() {
        let noise = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0];
        let of = |size: f64| of(&runs(&noise.map(|one| size * one)), 0.0).unwrap();
        let (quiet, loud) = (of(0.05), of(0.3));
        for found in [&quiet, &loud] {
            assert!(found.low < Rate::per_sec(1_000) && Rate::per_sec(1_000) < found.high);
            assert!(found.low < found.at && found.at < found.high);
            assert!(far_off(found) < 0.02, "{found:?}");
        }
        assert!(loud.error > 1.5 * quiet.error, "{quiet:?} {loud:?}");
    }

    #[test]
    fn runs_far_beyond_the_line_say_no_more_than_that() {
        let mut all = runs(&[0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.1, -0.1]);
        for (run, times) in all.iter_mut().zip([30.0, 20.0]) {
            run.offered = rate_of(1_000.0 * (1.0 + 0.01 * times));
            run.spent = vec![Spent { spent: 100.0 * times, allowed: 100.0 }];
        }
        let found = of(&all, 0.0).unwrap();
        assert!(far_off(&found) < 0.03, "{found:?}");
    }

    #[test]
    fn what_is_late_under_light_load_too_does_not_flatten_the_rise() {
        let mut all = runs(&[0.0; 8]);
        for run in &mut all {
            let x = (run.offered.as_per_sec_f64() / 1_000.0).ln();
            run.spent[0].spent = 40.0 + 60.0 * (40.0 * x).exp();
        }
        let found = of(&all, 0.4).unwrap();
        assert!(far_off(&found) < 0.005 && found.slope > 25.0, "{found:?}");
    }

    #[test]
    fn runs_of_one_rate_are_extrapolated_by_what_is_usual() {
        let at = |spent: f64| {
            let run = Run { spent: vec![Spent { spent, allowed: 100.0 }], ..Run::at(900) };
            of(&vec![run; 6], 0.0)
        };
        assert_eq!(at(0.0), None, "nothing was spent");
        let found = at(50.0).unwrap();
        assert!(found.at > Rate::per_sec(900) && found.high > Rate::per_sec(940), "{found:?}");
        assert!(found.error > 0.015, "not known to be a power of 25: {found:?}");
    }
}
