//! Round numbers for an axis.

/// Multiples of 1, 2 or 5 times a power of ten from zero to the first at or above `top`, about
/// `wanted` of them; the last is where the axis should end. `0` and `1` where `top` is not a
/// positive number.
pub(crate) fn ticks(top: f64, wanted: usize) -> Vec<f64> {
    if !top.is_finite() || top <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = top / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * power);
    let count = (top / step * 0.999_999).ceil() as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// Ticks as texts that tell them apart, without a fraction that says nothing: `0.02`, `15e-4`.
pub(crate) fn labels(ticks: &[f64]) -> Vec<String> {
    let step = match ticks {
        [first, second, ..] => second - first,
        _ => 1.0,
    };
    // The step has one digit that matters; its logarithm may be off by a rounding.
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    ticks.iter().map(|tick| label(*tick, decimals)).collect()
}

fn label(value: f64, decimals: usize) -> String {
    if decimals > MOST_DECIMALS && value != 0.0 {
        return format!("{:.0}e-{decimals}", value * 10f64.powi(decimals as i32));
    }
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// More find no room beside an axis.
const MOST_DECIMALS: usize = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_top() {
        assert_eq!(ticks(371.0, 4), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(ticks(200.0, 4), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(0.7, 2), [0.0, 0.5, 1.0]);
        for top in [1e-3, 0.99, 1.0, 7.3, 6396.8, 13_615.1] {
            let all = ticks(top, 5);
            assert!(*all.last().unwrap() >= top * 0.999_99, "{top}: {all:?}");
            assert!((3..=8).contains(&all.len()), "{top}: {all:?}");
        }
    }

    #[test]
    fn an_axis_without_data_still_has_ends() {
        for top in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ticks(top, 4), [0.0, 1.0]);
        }
    }

    #[test]
    fn labels_say_no_more_than_needed() {
        assert_eq!(labels(&[0.0, 50.0, 100.0]), ["0", "50", "100"]);
        assert_eq!(labels(&[0.0, 0.5, 1.0]), ["0", "0.5", "1"]);
        assert_eq!(labels(&ticks(0.004, 4)), ["0", "0.001", "0.002", "0.003", "0.004"]);
        assert_eq!(labels(&ticks(0.0015, 3)), ["0", "5e-4", "10e-4", "15e-4"]);
        assert_eq!(labels(&[0.0]), ["0"]);
    }

    proptest! {
        #[test]
        fn every_tick_of_a_small_or_large_axis_is_told_by_its_label(
            power in -6.0f64..6.0, wanted in 1usize..12,
        ) {
            let all = ticks(10f64.powf(power), wanted);
            for (tick, label) in all.iter().zip(labels(&all)) {
                let told: f64 = label.parse().unwrap();
                prop_assert!((told - tick).abs() <= 1e-9 * tick, "{} for {}", label, tick);
            }
        }
    }
}
