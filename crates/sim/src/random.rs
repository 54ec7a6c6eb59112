//! Random numbers from a seed: the same in every run, on every machine.

use libm::{cos, log, sqrt};

/// A splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
///
/// Everything that draws has a stream of its own, so that a change in one place leaves the draws of
/// all others as they were.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this number under a seed.
    #[must_use]
    pub const fn stream(seed: u64, number: u64) -> Self {
        Self(mixed(seed ^ mixed(number.wrapping_add(GOLDEN))))
    }

    /// The next number, uniform over all of `u64`.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mixed(self.0)
    }

    /// Uniform above 0 and below 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Exponential, of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -log(self.uniform())
    }

    /// Normal, of mean 0 and variance 1 (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let angle = core::f64::consts::TAU * self.uniform();
        sqrt(2.0 * self.exponential()) * cos(angle)
    }
}

const fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The odd number nearest to 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        const DRAWS: usize = 200_000;
        let drawn: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / DRAWS as f64;
        let variance = drawn.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        (mean, variance)
    }

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let mut random = Random::stream(1, 1);
        let near = |(mean, variance): (f64, f64), of: (f64, f64)| {
            assert!((mean - of.0).abs() < 0.01, "mean {mean} for {}", of.0);
            assert!((variance - of.1).abs() < 0.02, "variance {variance} for {}", of.1);
        };
        near(moments(|| random.uniform()), (0.5, 1.0 / 12.0));
        near(moments(|| random.exponential()), (1.0, 1.0));
        near(moments(|| random.normal()), (0.0, 1.0));
    }

    #[test]
    fn streams_of_one_seed_have_nothing_in_common() {
        let (mut one, mut other) = (Random::stream(1, 1), Random::stream(1, 2));
        let product = (0..100_000).map(|_| (one.uniform() - 0.5) * (other.uniform() - 0.5));
        let covariance = product.sum::<f64>() / 100_000.0;
        assert!(covariance.abs() < 0.002, "{covariance}");
    }
}
