//! The gamma distribution: service times of any mean and coefficient of variation.
//!
//! Its shape is 1 / cv^2. At cv = 1 it is the exponential distribution, below that it gathers
//! around the mean, above it has many short and a few long times.

/// A gamma distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gamma {
    shape: f64,
    scale: f64,
}

impl Gamma {
    /// Of this mean and coefficient of variation, both above zero.
    pub(super) fn new(mean: f64, cv: f64) -> Self {
        let shape = 1.0 / (cv * cv);
        Self { shape, scale: mean / shape }
    }

    /// The probability to be at most `value`: the regularised lower incomplete gamma function, by
    /// its series below the mean and by Lentz's continued fraction above.
    pub(super) fn within(&self, value: f64) -> f64 {
        let (shape, x) = (self.shape, value / self.scale);
        if x <= 0.0 {
            return 0.0;
        }
        let front = libm::exp(shape * libm::log(x) - x - libm::lgamma(shape));
        if x < shape + 1.0 { front * series(shape, x) } else { 1.0 - front * fraction(shape, x) }
    }
}

/// sum of x^n / (s (s + 1) ... (s + n))
fn series(shape: f64, x: f64) -> f64 {
    let mut term = 1.0 / shape;
    let mut sum = term;
    for n in 1..MOST_TERMS {
        term *= x / (shape + f64::from(n));
        sum += term;
        if term < sum * PRECISION {
            break;
        }
    }
    sum
}

/// 1 / (x + 1 - s - (1 (1 - s)) / (x + 3 - s - (2 (2 - s)) / (x + 5 - s - ...)))
fn fraction(shape: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - shape;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut product = d;
    for n in 1..MOST_TERMS {
        let n = f64::from(n);
        let a = -n * (n - shape);
        b += 2.0;
        d = 1.0 / not_zero(a * d + b);
        c = not_zero(b + a / c);
        product *= d * c;
        if (d * c - 1.0).abs() < PRECISION {
            break;
        }
    }
    product
}

fn not_zero(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

/// A shape of 10,000 needs some hundreds.
const MOST_TERMS: u32 = 100_000;

const PRECISION: f64 = 1e-15;

/// Stands for zero where a fraction divides by it.
const TINY: f64 = 1e-300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_with_a_closed_form_agree_with_it() {
        for x in [0.01, 0.3, 1.0, 2.0, 5.0, 30.0] {
            let exponential = Gamma::new(2.0, 1.0).within(x);
            assert!((exponential - (1.0 - libm::exp(-x / 2.0))).abs() < 1e-12, "{x}");
            let halves = Gamma::new(0.5, core::f64::consts::SQRT_2).within(x);
            assert!((halves - libm::erf(libm::sqrt(x))).abs() < 1e-12, "{x}");
            let erlang = Gamma::new(2.0, core::f64::consts::FRAC_1_SQRT_2).within(x);
            assert!((erlang - (1.0 - libm::exp(-x) * (1.0 + x))).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn a_needle_and_a_giant_are_still_distributions() {
        for cv in [0.01, 0.1, 3.0, 10.0] {
            let gamma = Gamma::new(1.0, cv);
            let steps = (0..4_000).map(|n| gamma.within(f64::from(n) / 1_000.0));
            assert!(steps.clone().zip(steps.skip(1)).all(|(a, b)| a <= b + 1e-12 && b <= 1.0));
            assert!(gamma.within(1_000.0 * cv) > 0.999_99, "{cv}");
        }
    }
}
