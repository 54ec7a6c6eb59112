//! The universal scalability law, fitted to a closed ladder.
//!
//! X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), Gunther 1993 and arXiv 0808.1431. With
//! y = N / X it is linear: y = (1 + alpha (N - 1) + beta N (N - 1)) / gamma = a + b (N - 1) +
//! c N (N - 1). The squares of the relative residuals of y are minimised with a, b and c not below
//! zero: with three unknowns every set of them that may be non-zero is solved, and the best
//! solution without a negative one is taken.

use loadline_measure::record::{Rung, Scalability};

/// Fits the law to the rungs that Little's law holds for; none where there are fewer than four.
pub(super) fn fit(rungs: &[Rung]) -> Option<Scalability> {
    let points: Vec<(f64, f64)> = rungs
        .iter()
        .filter(|rung| !rung.suspect && rung.throughput.as_milli_per_sec() > 0)
        .map(|rung| (f64::from(rung.users), rung.throughput.as_per_sec_f64()))
        .collect();
    if points.len() < FEWEST {
        return None;
    }
    let ([a, b, c], squares) = FREE
        .iter()
        .filter_map(|free| solve(&points, free))
        .min_by(|one, other| one.1.total_cmp(&other.1))?;
    let (gamma, alpha, beta) = (1.0 / a, b / a, c / a);
    let law = |n: f64| gamma * n / (1.0 + alpha * (n - 1.0) + beta * n * (n - 1.0));
    let peak_users = (beta > 0.0 && alpha < 1.0).then(|| ((1.0 - alpha) / beta).sqrt().max(1.0));
    let levels_off = (alpha > 0.0).then(|| gamma / alpha);
    let peak = peak_users.map(law).or(levels_off);
    let measured = points.iter().map(|(_, x)| *x).fold(0.0, f64::max);
    Some(Scalability {
        gamma_per_s: gamma,
        alpha,
        beta,
        residual_share: (squares / points.len() as f64).sqrt(),
        rungs: u32::try_from(points.len()).unwrap_or(u32::MAX),
        peak_users,
        peak_per_s: peak,
        extrapolated: peak.is_none_or(|peak| peak > measured * (1.0 + EXTRAPOLATION)),
    })
}

/// The coefficients with the least squares where only `free` ones may differ from zero, and those
/// squares; none where one is negative or they are not determined.
fn solve(points: &[(f64, f64)], free: &[usize]) -> Option<([f64; 3], f64)> {
    let row = |n: f64, x: f64| {
        let y = n / x;
        [1.0 / y, (n - 1.0) / y, n * (n - 1.0) / y]
    };
    let size = free.len();
    let mut system = vec![vec![0.0; size + 1]; size];
    for &(n, x) in points {
        let terms = row(n, x);
        for (i, &one) in free.iter().enumerate() {
            for (j, &other) in free.iter().enumerate() {
                system[i][j] += terms[one] * terms[other];
            }
            system[i][size] += terms[one];
        }
    }
    let solution = eliminate(system)?;
    let mut coefficients = [0.0; 3];
    for (&which, value) in free.iter().zip(solution) {
        coefficients[which] = value;
    }
    if coefficients[0] <= 0.0 || coefficients.iter().any(|value| *value < 0.0) {
        return None;
    }
    let residual = |&(n, x): &(f64, f64)| {
        let terms = row(n, x);
        1.0 - terms.iter().zip(coefficients).map(|(term, value)| term * value).sum::<f64>()
    };
    Some((coefficients, points.iter().map(|point| residual(point).powi(2)).sum()))
}

/// Solves a system of linear equations, the right side in the last column, by elimination with
/// pivoting; none where it is singular.
fn eliminate(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = rows.len();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|one, other| rows[*one][column].abs().total_cmp(&rows[*other][column].abs()))?;
        rows.swap(column, pivot);
        let head = rows[column].clone();
        if head[column].abs() < f64::MIN_POSITIVE {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            let factor = row[column] / head[column];
            for (cell, above) in row.iter_mut().zip(&head) {
                *cell -= factor * above;
            }
        }
    }
    Some((0..size).map(|index| rows[index][size] / rows[index][index]).collect())
}

/// Three coefficients through fewer points say nothing about the law.
const FEWEST: usize = 4;

/// A peak further above the best rung than this was not seen but computed.
const EXTRAPOLATION: f64 = 0.05;

/// Which of a, b and c may differ from zero.
const FREE: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[0, 2], &[0]];

#[cfg(test)]
mod tests {
    use loadline_core::units::Rate;
    use loadline_measure::record::Latency;

    use super::*;

    fn rungs(law: impl Fn(f64) -> f64) -> Vec<Rung> {
        let rung = |users: u32| Rung {
            users,
            throughput: Rate::milli_per_sec((law(f64::from(users)) * 1e3) as u64),
            response: Latency::default(),
            met: true,
            little_error: 0.0,
            suspect: false,
        };
        (0..6).map(|power| rung(1 << power)).collect()
    }

    #[test]
    fn the_coefficients_of_an_exact_law_are_found_again() {
        let law = |n: f64| 1_000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0));
        let fit = fit(&rungs(law)).unwrap();
        assert!((fit.gamma_per_s - 1_000.0).abs() < 0.1, "{fit:?}");
        assert!((fit.alpha - 0.05).abs() < 1e-4 && (fit.beta - 0.002).abs() < 1e-5, "{fit:?}");
        let users = fit.peak_users.unwrap();
        assert!((users - (0.95f64 / 0.002).sqrt()).abs() < 0.1, "{users}");
        assert!(!fit.extrapolated && fit.residual_share < 1e-4, "{fit:?}");
    }

    #[test]
    fn throughput_that_grows_faster_than_users_gives_no_negative_coefficient() {
        let fit = fit(&rungs(|n| 10.0 * n.powf(1.1))).unwrap();
        assert_eq!((fit.alpha, fit.beta, fit.peak_per_s), (0.0, 0.0, None));
        assert!(fit.extrapolated && fit.residual_share > 0.05, "{fit:?}");
    }

    #[test]
    fn a_law_that_levels_off_has_a_ceiling_and_no_peak() {
        let fit = fit(&rungs(|n| 100.0 * n / (1.0 + 0.25 * (n - 1.0)))).unwrap();
        assert_eq!(fit.peak_users, None);
        assert!((fit.peak_per_s.unwrap() - 400.0).abs() < 1.0, "{fit:?}");
        assert!(fit.extrapolated, "32 users are at 366/s, the ceiling is a good tenth above");
    }

    #[test]
    fn three_rungs_are_too_few() {
        let mut rungs = rungs(|n| 10.0 * n);
        rungs.iter_mut().skip(3).for_each(|rung| rung.suspect = true);
        assert_eq!(fit(&rungs), None);
    }
}
