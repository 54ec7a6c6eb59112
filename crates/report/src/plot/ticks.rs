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

/// A tick as text, without a fraction that says nothing.
pub(crate) fn label(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
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
        assert_eq!(label(100.0), "100");
        assert_eq!(label(0.5), "0.5");
        assert_eq!(label(0.0), "0");
    }
}
