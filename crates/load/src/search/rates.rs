//! Rates as the search tries them: multiples, middles, and steps of a grid.

use loadline_core::units::Rate;

/// The geometric mean: the middle of what is a ratio.
pub(super) fn between(lower: Rate, upper: Rate) -> Rate {
    rate_of((lower.as_per_sec_f64() * upper.as_per_sec_f64()).sqrt())
}

pub(super) fn scale(rate: Rate, factor: f64) -> Rate {
    rate_of(rate.as_per_sec_f64() * factor)
}

pub(super) fn ratio(above: Rate, below: Rate) -> f64 {
    above.as_per_sec_f64() / below.as_per_sec_f64()
}

pub(super) fn rate_of(per_sec: f64) -> Rate {
    Rate::milli_per_sec((per_sec * 1e3).round() as u64)
}

/// The rate of a grid, each a `step` above the one before, that is nearest: so runs near each
/// other are runs at the same rate, and count together.
pub(super) fn nearest(rate: Rate, step: f64) -> Rate {
    on_grid(rate, step, f64::round)
}

/// The highest rate of the grid that is not above.
pub(super) fn at_most(rate: Rate, step: f64) -> Rate {
    on_grid(rate, step, |index| (index + 0.1).floor())
}

fn on_grid(rate: Rate, step: f64, to_whole: impl Fn(f64) -> f64) -> Rate {
    let each = step.ln_1p();
    let index = to_whole(rate.as_per_sec_f64().max(1e-3).ln() / each);
    let exact = (index * each).exp();
    // Three digits that matter, or the decimals of the grid where it is finer.
    let unit = 10f64.powf((exact * step).log10().floor() - 1.0);
    rate_of((exact / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_near_each_other_are_one_and_steps_are_even() {
        for per_sec in [0.7, 3.0, 48.3, 999.0, 12_345.0] {
            let rate = nearest(rate_of(per_sec), 0.02);
            assert_eq!(nearest(scale(rate, 1.008), 0.02), rate, "{per_sec}");
            assert_eq!(at_most(rate, 0.02), rate, "{per_sec}");
            let next = nearest(scale(rate, 1.02), 0.02).as_per_sec_f64() / rate.as_per_sec_f64();
            assert!((1.015..1.025).contains(&next), "{per_sec}: {next}");
            assert!(at_most(scale(rate, 1.01), 0.02) == rate, "{per_sec}");
        }
    }
}
