//! The bend of the response-time curve by Kneedle (Satopaa, Albrecht, Irwin, Raghavan, "Finding a
//! Kneedle in a Haystack", 2011), for a convex curve that rises.
//!
//! Rate and mean response time are scaled to 0..1 over the range looked at; the knee is where the
//! curve hangs furthest below its chord, x - y. Which point that is depends on the range (Ley 2009;
//! Gunther, "Mind Your Knees and Queues", 2009), so the range belongs to the result and the result
//! is a hint.

use loadline_core::units::Rate;
use loadline_measure::record::{Knee, Latency};

/// The knee of `points`, which rise in rate; none with fewer than five, or where the curve is as
/// good as straight.
pub(super) fn find(points: &[(Rate, Latency)]) -> Option<Knee> {
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < FEWEST {
        return None;
    }
    let scaled = |value: f64, from: f64, to: f64| (value - from) / (to - from);
    let rate = |point: &(Rate, Latency)| point.0.as_per_sec_f64();
    let mean = |point: &(Rate, Latency)| point.1.mean.as_millis_f64();
    let lowest = points.iter().map(mean).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(mean).fold(0.0, f64::max);
    let depth = |point: &(Rate, Latency)| {
        scaled(rate(point), rate(first), rate(last)) - scaled(mean(point), lowest, highest)
    };
    let (knee, depth) = points
        .iter()
        .map(|point| (point.0, depth(point)))
        .max_by(|one, other| one.1.total_cmp(&other.1))?;
    let found = depth.is_finite() && depth > SHALLOW;
    found.then_some(Knee { rate: knee, from: first.0, to: last.0, depth })
}

/// Fewer points have a furthest one, but no curve.
const FEWEST: usize = 5;

/// A curve closer to its chord than this has no bend to speak of.
const SHALLOW: f64 = 0.1;

#[cfg(test)]
mod tests {
    use loadline_core::time::Duration;

    use super::*;

    fn curve(mean_ms: impl Fn(f64) -> f64) -> Vec<(Rate, Latency)> {
        let point = |rate: u64| {
            let mean = Duration::from_micros((mean_ms(rate as f64) * 1e3) as u64);
            (Rate::per_sec(rate), Latency { mean, ..Latency::default() })
        };
        (1..=19).map(|step| point(step * 5)).collect()
    }

    #[test]
    fn a_hyperbola_bends_where_its_slope_is_that_of_the_chord() {
        // M/M/1, 10 ms, scaled over 5/s to 95/s: the slope of 1 / (1 - rho) is that of its chord,
        // 1 / ((1 - 0.05) (1 - 0.95)), at rho = 1 - sqrt(0.0475) = 0.782.
        let knee = find(&curve(|rate| 10.0 / (1.0 - rate / 100.0))).unwrap();
        assert_eq!(knee.rate, Rate::per_sec(80));
        assert_eq!((knee.from, knee.to), (Rate::per_sec(5), Rate::per_sec(95)));
        assert!(knee.depth > 0.6, "{knee:?}");
    }

    #[test]
    fn a_straight_line_and_a_flat_one_have_no_knee() {
        assert_eq!(find(&curve(|rate| rate)), None);
        assert_eq!(find(&curve(|_| 10.0)), None);
        assert_eq!(find(&[]), None);
    }
}
