//! How what was late is scattered: how sure what runs spent is.
//!
//! Late requests come in bursts, so that their number varies by more than a count of independent
//! events: by the dispersion, variance over mean. A few runs hardly say how large that is; the
//! windows of half a second of which they consist say it much better, where these are independent
//! of each other.

use loadline_core::time::Duration;

use super::runs::Run;
use crate::moments::interval;

/// How what was late is scattered over the windows of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Scatter {
    /// How much was late.
    late: f64,
    /// The variance of that, as far as windows are independent of each other.
    variance: f64,
    /// Windows less one.
    freedom: f64,
}

/// Of the `spent` of a criterion in this run; nothing known where that is not requests that were
/// late. Windows last as long as the `cycle` of the service, where it has one: shorter ones are not
/// independent of each other.
pub(super) fn of(run: &Run, spent: f64, cycle: Option<Duration>) -> Scatter {
    let short = (interval(Some(run.lasts)) * 5).min(LONGEST_WINDOW);
    let window = cycle.unwrap_or(short).max(short).as_secs_f64();
    let count = (run.lasts.as_secs_f64() / window).round() as usize;
    let mut sums = vec![0.0; count];
    for (at, late) in &run.late {
        // A moment ends at its instant.
        let index = (at.as_secs_f64() / window - 1e-3).max(0.0) as usize;
        if let Some(sum) = sums.get_mut(index.min(count.saturating_sub(1))) {
            *sum += late;
        }
    }
    let late: f64 = sums.iter().sum();
    // Another criterion may count other requests.
    let times = spent / late;
    if count < 2 || !(0.3..3.0).contains(&times) {
        return Scatter::default();
    }
    let (windows, freedom) = (count as f64, (count - 1) as f64);
    let mean = late / windows;
    let squares = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>();
    Scatter { late: spent, variance: squares * windows / freedom * times * times, freedom }
}

/// The dispersion of what runs spent and its degrees of freedom: by the sum of squares between
/// them, which has `freedom`, and by what shows within each.
pub(super) fn dispersion(between: f64, freedom: f64, within: &[Scatter]) -> (f64, f64) {
    let sum = |of: fn(&Scatter) -> f64| within.iter().map(of).sum::<f64>();
    let (late, windows) = (sum(|it| it.late), sum(|it| it.freedom).min(WINDOWS * freedom));
    let alone = between / freedom;
    let inside = if late > 0.0 { sum(|it| it.variance) / late } else { 0.0 };
    // Runs that differ by more than their windows differ for reasons that last longer.
    if alone > inside * (1.0 + MORE * (2.0 / freedom).sqrt()) {
        return (alone.max(1.0), freedom);
    }
    let all = freedom + windows;
    (((between + inside * windows) / all).max(1.0), all)
}

/// Windows are longer than most bursts of late requests, and much shorter than a run.
const LONGEST_WINDOW: Duration = Duration::from_secs(1);

/// The windows of a run count as so many runs at most.
const WINDOWS: f64 = 4.0;

/// Runs differ by more than windows explain where they do by so many standard errors.
const MORE: f64 = 1.3;

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of ten seconds in which so many requests were late in each tenth of a second.
    fn run(late: impl Fn(u64) -> f64) -> Run {
        let late = (0..100).map(|tenth| (Duration::from_millis(100 * (tenth + 1)), late(tenth)));
        let late = late.filter(|late| late.1 > 0.0).collect();
        Run { lasts: Duration::from_secs(10), late, ..Run::at(1_000) }
    }

    #[test]
    fn bursts_disperse_as_many_as_come_together() {
        let bursts = run(|tenth| if tenth % 20 == 7 { 30.0 } else { 0.0 });
        let scatter = of(&bursts, 150.0, None);
        assert!((scatter.variance / 150.0 - 30.0).abs() < 10.0, "{scatter:?}");
        assert_eq!(scatter.freedom, 19.0);
        let even = of(&run(|_| 1.5), 150.0, None);
        assert!(even.variance < 1.0, "each window has as many: {even:?}");
    }

    #[test]
    fn bursts_that_a_cycle_brings_are_as_even_as_the_cycles_are() {
        let cycle = Some(Duration::from_secs(2));
        let bursts = run(|tenth| if tenth % 20 == 7 { 30.0 } else { 0.0 });
        let scatter = of(&bursts, 150.0, cycle);
        assert_eq!((scatter.variance, scatter.freedom), (0.0, 4.0));
        let uneven = run(|tenth| if tenth % 20 == 7 { (tenth / 20 * 15) as f64 } else { 0.0 });
        assert!(of(&uneven, 150.0, cycle).variance > 1_000.0);
    }

    #[test]
    fn runs_that_differ_by_more_than_their_windows_count_alone() {
        let scatter = of(&run(|tenth| f64::from(tenth % 20 == 7) * 30.0), 150.0, None);
        let (alike, by_windows) = dispersion(6.0 * 20.0, 6.0, &[scatter; 8]);
        assert!((20.0..35.0).contains(&alike) && by_windows == 30.0, "{alike} {by_windows}");
        assert_eq!(dispersion(6.0 * 200.0, 6.0, &[scatter; 8]), (200.0, 6.0));
    }

    #[test]
    fn what_is_no_count_of_late_requests_is_judged_between_runs_alone() {
        let run = run(|_| 1.0);
        assert_eq!(of(&run, 9_000.0, None), Scatter::default());
        assert_eq!(of(&Run::at(1_000), 3.0, None), Scatter::default());
        assert_eq!(dispersion(40.0, 4.0, &[Scatter::default(); 6]), (10.0, 4.0));
    }
}
