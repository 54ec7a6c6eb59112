//! The distributions behind the intervals, all of them from the incomplete beta function.

/// The probability of `k` hits at most in `n` independent draws that hit with probability `p`.
pub(super) fn binomial_at_most(k: u64, n: u64, p: f64) -> f64 {
    if k >= n { 1.0 } else { beta((n - k) as f64, (k + 1) as f64, 1.0 - p) }
}

/// What a Student's t variable of so many degrees of freedom stays below with probability `p`,
/// from 0.5 to 1.
#[must_use]
pub fn student_quantile(p: f64, freedom: f64) -> f64 {
    // P(T > t) = I(f / (f + t^2); f / 2, 1 / 2) / 2, falling in t.
    let above = |t: f64| beta(freedom / 2.0, 0.5, freedom / (freedom + t * t)) / 2.0;
    bisect(0.0, WIDEST, |t| above(t) <= 1.0 - p)
}

/// What a standard normal variable stays below with probability `p`, from 0.5 to 1.
pub(super) fn normal_quantile(p: f64) -> f64 {
    let above = |z: f64| libm::erfc(z / core::f64::consts::SQRT_2) / 2.0;
    bisect(0.0, WIDEST, |z| above(z) <= 1.0 - p)
}

/// The regularised incomplete beta function I(x; a, b) by Lentz's continued fraction (Press et
/// al., Numerical Recipes, 6.4); a and b above zero, x from 0 to 1.
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let ends = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b);
    let front = libm::exp(ends + a * libm::log(x) + b * libm::log1p(-x));
    // The fraction converges fast below its mean; beyond it the mirrored one does.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    // It takes about the square root of the larger argument.
    let most = 100 + 10 * libm::sqrt(a.max(b)) as u64;
    for step in 1..=most {
        let (m, twice) = (step as f64, 2.0 * step as f64);
        let even = m * (b - m) * x / ((a + twice - 1.0) * (a + twice));
        let odd = -(a + m) * (a + b + m) * x / ((a + twice) * (a + twice + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < PRECISE {
            break;
        }
    }
    value
}

/// Where between the ends it becomes true.
fn bisect(mut low: f64, mut high: f64, is_true: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_true(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Beyond every quantile that is asked for: t of one degree at 99.9 % is 318.
const WIDEST: f64 = 1e4;
/// From [`WIDEST`] down to 1e-12.
const HALVINGS: u32 = 54;
/// Where the fraction has converged.
const PRECISE: f64 = 1e-14;
/// Stands for zero where it would be divided by.
const TINY: f64 = 1e-300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert!((normal_quantile(0.975) - 1.959_964).abs() < 1e-6);
        for (freedom, t) in [(1.0, 12.706_2), (9.0, 2.262_16), (19.0, 2.093_02), (1e6, 1.959_97)] {
            assert!((student_quantile(0.975, freedom) - t).abs() < 1e-4, "{freedom}");
        }
    }

    #[test]
    fn the_binomial_is_exact_where_it_is_small_and_holds_where_it_is_large() {
        assert!((binomial_at_most(2, 5, 0.5) - 0.5).abs() < 1e-12);
        assert!((binomial_at_most(0, 10, 0.1) - 0.348_678_440_1).abs() < 1e-10);
        assert_eq!(binomial_at_most(5, 5, 0.5), 1.0);
        // The median of a binomial lies at its mean, within one.
        let n = 1_000_000_000;
        let middle = binomial_at_most(n / 100 * 99, n, 0.99);
        assert!((middle - 0.5).abs() < 1e-4, "{middle}");
    }
}
