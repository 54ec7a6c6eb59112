//! Where the load line lies, with confidence, from trials whose pressure is known.
//!
//! Pressure p is the worst measured value over its limit; the load line is where it crosses 1.
//! Close to it ln p = a + b ln(rate) nearly, so a weighted least-squares line (weight: the length
//! of the trial) through the trials round the bracket crosses zero at the estimate, and the set of
//! crossings that the trials do not contradict is Fieller's interval (1954): with centred
//! x = ln(rate) - mean, the x0 with (y + b x0)^2 <= t^2 s^2 (1/W + x0^2/S), s^2 the variance of
//! the residuals, W the sum of weights, S that of the squares of x, t Student's quantile.

use loadline_core::units::Rate;

use super::bisect::rate_of;

/// What a trial says of the load line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) rate: Rate,
    /// Above zero.
    pub(super) pressure: f64,
    /// Above zero.
    pub(super) weight: f64,
}

/// Where the line crosses the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    pub(super) at: Rate,
    /// The ends of the interval of 95 % confidence.
    pub(super) low: Rate,
    pub(super) high: Rate,
}

/// The crossing; none where the trials show no significant rise of pressure with rate, or are
/// fewer than four.
pub(super) fn crossing(points: &[Point]) -> Option<Crossing> {
    let freedom = points.len().checked_sub(2).filter(|freedom| *freedom >= 2)?;
    let total: f64 = points.iter().map(|point| point.weight).sum();
    let mean = |of: &dyn Fn(&Point) -> f64| {
        points.iter().map(|point| point.weight * of(point)).sum::<f64>() / total
    };
    let centre = mean(&|point| ln_rate(point));
    let level = mean(&|point| ln_pressure(point));
    let sum = |of: &dyn Fn(&Point) -> f64| total * mean(of);
    let spread = sum(&|point| (ln_rate(point) - centre).powi(2));
    let slope = sum(&|point| (ln_rate(point) - centre) * ln_pressure(point)) / spread;
    let residual = |point: &Point| ln_pressure(point) - level - slope * (ln_rate(point) - centre);
    let variance = sum(&|point| residual(point).powi(2)) / freedom as f64;
    let bound = student(freedom).powi(2) * variance;
    // A x0^2 + B x0 + C <= 0
    let a = slope * slope - bound / spread;
    let b = 2.0 * level * slope;
    let c = level * level - bound / total;
    let root = (b * b - 4.0 * a * c).sqrt();
    if !(slope > 0.0 && a > 0.0 && root.is_finite()) {
        return None;
    }
    let at = |x: f64| rate_of((centre + x).exp());
    Some(Crossing {
        at: at(-level / slope),
        low: at((-b - root) / (2.0 * a)),
        high: at((-b + root) / (2.0 * a)),
    })
}

fn ln_rate(point: &Point) -> f64 {
    point.rate.as_per_sec_f64().ln()
}

/// Far from the limit the pressure says nothing about where it is crossed.
fn ln_pressure(point: &Point) -> f64 {
    point.pressure.clamp(1.0 / FAR, FAR).ln()
}

/// The two-sided 95 % quantile of Student's t: from tables up to four degrees of freedom, above by
/// the first terms of its expansion round the normal quantile (Fisher and Cornish), within 1 %.
fn student(freedom: usize) -> f64 {
    match freedom {
        0 | 1 => 12.706,
        2 => 4.303,
        3 => 3.182,
        4 => 2.776,
        many => {
            let (z, n) = (1.960_f64, many as f64);
            let first = (z.powi(3) + z) / 4.0;
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            z + first / n + second / (n * n)
        }
    }
}

/// Pressures beyond this, either way, count as this.
const FAR: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn points(noise: &[f64]) -> Vec<Point> {
        let point = |(index, noise): (usize, &f64)| {
            let rate = 960.0 + 10.0 * index as f64;
            let pressure = (rate / 1_000.0).powi(10) * noise.exp();
            Point { rate: rate_of(rate), pressure, weight: 10.0 }
        };
        noise.iter().enumerate().map(point).collect()
    }

    #[test]
    fn the_interval_holds_the_line_and_is_as_wide_as_the_noise_makes_it() {
        let quiet = crossing(&points(&[0.01, -0.01, 0.0, -0.01, 0.01, 0.0, 0.01])).unwrap();
        let loud = crossing(&points(&[0.05, -0.05, 0.0, -0.05, 0.05, 0.0, 0.05])).unwrap();
        for found in [&quiet, &loud] {
            assert!(found.low < Rate::per_sec(1_000) && Rate::per_sec(1_000) < found.high);
            assert!(found.low < found.at && found.at < found.high);
        }
        let width = |found: &Crossing| found.high.as_per_sec_f64() - found.low.as_per_sec_f64();
        assert!(width(&quiet) < 3.0 && width(&loud) > 3.0 * width(&quiet), "{quiet:?} {loud:?}");
    }

    #[test]
    fn noise_without_a_trend_gives_no_crossing() {
        assert_eq!(crossing(&points(&[0.9, -0.9, 0.9, -0.9, 0.9, -0.9])), None);
        assert_eq!(crossing(&points(&[0.0, 0.1, 0.0])), None, "three points");
        let same = [Point { rate: Rate::per_sec(5), pressure: 1.0, weight: 1.0 }; 5];
        assert_eq!(crossing(&same), None, "one load");
    }

    #[test]
    fn the_quantiles_of_student_are_those_of_the_tables() {
        for (freedom, table) in [(2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (1_000, 1.962)] {
            assert!((student(freedom) / table - 1.0).abs() < 0.01, "{freedom}");
        }
    }
}
