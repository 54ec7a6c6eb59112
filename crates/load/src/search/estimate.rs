//! Where the load line lies, with confidence, from what runs spent of what they were allowed.
//!
//! Near the load line what is spent grows as a power of the rate, so the expected spending of a run
//! is `allowed * exp(a + b x)`, x the logarithm of its rate, and the line is where that is what was
//! allowed: `a + b x = 0`. a and b are fitted by quasi-likelihood (McCullagh, Nelder 1989): what
//! is spent varies as in a count, times a dispersion that the runs themselves show. Late requests
//! come in bursts, of which a run holds few; taking each run as one draw counts them as what they
//! are.
//!
//! The rates that the runs do not contradict are Fieller's interval (1954): those x where
//! `(a + b x)^2 <= t^2 phi var(a + b x)`, phi the dispersion, t Student's quantile.

use loadline_core::units::Rate;
use loadline_measure::{objective::Spent, statistics::student_quantile};

use super::{rates::rate_of, runs::Run};

/// Where the spending crosses what is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    pub(super) at: Rate,
    /// The ends of the interval of 95 % confidence.
    pub(super) low: Rate,
    pub(super) high: Rate,
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
}

/// The line `a + b x` with x from `centre`, and how sure it is.
#[derive(Clone, Copy, Debug)]
struct Fit {
    centre: f64,
    a: f64,
    b: f64,
    /// The covariance of a and b: of a, of both, of b.
    var: [f64; 3],
    runs: usize,
}

/// The lowest crossing of any criterion; none where no criterion rises significantly with the
/// rate, or with fewer than [`FEWEST`] runs.
pub(super) fn crossing(runs: &[&Run]) -> Option<Crossing> {
    lowest(runs, of_criterion)
}

/// The lowest crossing of any criterion if spending grew by the least power there is.
pub(super) fn by_least_slope(runs: &[&Run]) -> Option<Crossing> {
    lowest(runs, of_least_slope)
}

fn lowest(runs: &[&Run], line: impl Fn(&[Point]) -> Option<Crossing>) -> Option<Crossing> {
    let criteria = runs.iter().map(|run| run.spent.len()).min()?;
    let of = |criterion: usize| {
        let point = |run: &&Run| {
            let Spent { spent, allowed } = run.spent[criterion];
            Point { x: run.rate.as_per_sec_f64().ln(), spent, allowed }
        };
        let usable = |point: &Point| point.spent.is_finite() && point.allowed > 0.0;
        runs.iter().map(point).filter(usable).collect::<Vec<_>>()
    };
    let crossings = (0..criteria).filter_map(|criterion| line(&of(criterion)));
    crossings.min_by_key(|crossing| crossing.at)
}

/// Fits all points, then those alone that the fit has nearer and nearer to the limit, as long as
/// they show a rise: further off the power is another. Which they are depends on their rates and
/// not on what they spent.
fn of_criterion(points: &[Point]) -> Option<Crossing> {
    let mut found = fit(points)?.crossing()?;
    for (times, widest) in NEARER {
        let at = found.at.as_per_sec_f64().ln();
        let reach = (times.ln() / found.slope).min(widest);
        let near = |point: &&Point| (point.x - at).abs() <= reach;
        let kept: Vec<Point> = points.iter().filter(near).copied().collect();
        match fit(&kept).and_then(|fit| fit.crossing()) {
            Some(crossing) => found = crossing,
            None => break,
        }
    }
    Some(found)
}

/// Where the runs show no significant rise: the crossing if spending grew by the least power there
/// is, in proportion to the rate. What rises faster is crossed nearer to where the runs were made.
fn of_least_slope(points: &[Point]) -> Option<Crossing> {
    let freedom = points.len().checked_sub(1).filter(|freedom| *freedom >= 2)?;
    let spent: f64 = points.iter().map(|point| point.spent).sum();
    let at: f64 = points.iter().map(|point| point.allowed * point.x.exp()).sum();
    if spent <= 0.0 {
        return None;
    }
    let each = spent / at;
    let squares = |point: &Point| {
        let mean = point.allowed * point.x.exp() * each;
        (point.spent - mean).powi(2) / mean
    };
    let dispersion = points.iter().map(squares).sum::<f64>() / freedom as f64;
    let reach = (student(freedom) * (dispersion.max(1.0) / spent).sqrt()).min(2f64.ln());
    let rate = |factor: f64| rate_of((factor.clamp(-FAR, FAR)).exp() / each);
    Some(Crossing {
        at: rate(0.0),
        low: rate(-reach),
        high: rate(reach),
        slope: 1.0,
        runs: points.len(),
    })
}

/// Iteratively reweighted least squares for the logarithmic link.
fn fit(points: &[Point]) -> Option<Fit> {
    if points.len() < FEWEST {
        return None;
    }
    let allowed: f64 = points.iter().map(|point| point.allowed).sum();
    let spent: f64 = points.iter().map(|point| point.spent).sum();
    if spent <= 0.0 {
        return None;
    }
    let centre = points.iter().map(|point| point.x * point.allowed).sum::<f64>() / allowed;
    let (mut a, mut b) = ((spent / allowed).ln(), 1.0);
    let mut information = [0.0; 3];
    for _ in 0..STEPS {
        let mut score = [0.0; 2];
        information = [0.0; 3];
        for point in points {
            let x = point.x - centre;
            let mean = point.allowed * (a + b * x).clamp(-FAR, FAR).exp();
            let missed = point.spent - mean;
            score = [score[0] + missed, score[1] + missed * x];
            let [i, j, k] = information;
            information = [i + mean, j + mean * x, k + mean * x * x];
        }
        let [i, j, k] = information;
        let det = i * k - j * j;
        if det <= i * k * 1e-9 {
            return None;
        }
        let step = [(k * score[0] - j * score[1]) / det, (i * score[1] - j * score[0]) / det];
        // Long steps leave the region where the expansion holds.
        let short = (1.0 / step[0].abs()).min(STEEP / 4.0 / step[1].abs()).min(1.0);
        a += short * step[0];
        b = (b + short * step[1]).clamp(-STEEP, STEEP);
    }
    let squares = |point: &Point| {
        let mean = point.allowed * (a + b * (point.x - centre)).clamp(-FAR, FAR).exp();
        (point.spent - mean).powi(2) / mean
    };
    let freedom = points.len() - 2;
    let dispersion = points.iter().map(squares).sum::<f64>() / freedom as f64;
    let [i, j, k] = information;
    let scale = dispersion.max(1.0) / (i * k - j * j);
    let fit = Fit { centre, a, b, var: [k * scale, -j * scale, i * scale], runs: points.len() };
    (a.is_finite() && b.is_finite() && scale.is_finite()).then_some(fit)
}

impl Fit {
    fn crossing(&self) -> Option<Crossing> {
        let Self { a, b, var, .. } = *self;
        let bound = student(self.runs - 2).powi(2);
        // (a + b x)^2 <= bound (var0 + 2 var1 x + var2 x^2)
        let square = b * b - bound * var[2];
        let linear = 2.0 * (a * b - bound * var[1]);
        let root = (linear * linear - 4.0 * square * (a * a - bound * var[0])).sqrt();
        if !(b > 0.0 && square > 0.0 && root.is_finite()) {
            return None;
        }
        let at = |x: f64| rate_of((self.centre + x).clamp(-FAR, FAR).exp());
        Some(Crossing {
            at: at(-a / b),
            low: at((-linear - root) / (2.0 * square)),
            high: at((-linear + root) / (2.0 * square)),
            slope: b,
            runs: self.runs,
        })
    }
}

/// The two-sided 99 % quantile of Student's t; 99 and not 95: the search looks at the interval
/// after each trial and stops when it is narrow.
fn student(freedom: usize) -> f64 {
    student_quantile(0.995, freedom.max(1) as f64)
}

/// Two of a line and one of a dispersion leave nothing to be sure by.
const FEWEST: usize = 5;

/// Runs that spend between a part and a multiple of this of what is allowed lie on one power, at
/// most so far apart as a logarithm of the rate.
const NEARER: [(f64, f64); 5] = [(6.0, 0.6), (3.0, 0.35), (3.0, 0.35), (1.8, 0.2), (1.8, 0.2)];

/// Steps of each fit.
const STEPS: usize = 40;

/// A steeper rise than this power is a wall.
const STEEP: f64 = 400.0;

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
