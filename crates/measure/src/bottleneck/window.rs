//! When a series has reached a level for good rather than for a moment.

use crate::{record::ResourceRecord, statistics::sample::mean};
use loadline_core::time::Duration;

/// How long a level must hold.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// As a number of samples, at least one.
    pub(super) samples: usize,
    /// As a time.
    pub(super) span: Duration,
}

impl Window {
    /// The window for a run of this length and interval.
    pub(super) fn of(record: &ResourceRecord) -> Self {
        Self::over(record.elapsed, record.interval)
    }

    /// The window for a series of this length, with this time from one value to the next.
    pub(super) fn over(elapsed: Duration, interval: Duration) -> Self {
        let wanted = (elapsed / RUN_PART).max(SHORTEST).as_nanos();
        let samples = wanted.div_ceil(interval.as_nanos().max(1)).max(FEWEST);
        Self { samples: samples as usize, span: interval * samples }
    }

    /// The first value from which on the mean over the window reaches `level`; the value itself
    /// reaches it too.
    pub(super) fn reached(self, series: &[f64], level: f64) -> Option<usize> {
        series.windows(self.samples).position(|window| window[0] >= level && mean(window) >= level)
    }
}

/// The highest value and where it stands; none of nothing.
pub(super) fn highest(series: &[f64]) -> Option<(usize, f64)> {
    series.iter().copied().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// A twentieth of the run: five minutes of load have to show it for 15 s.
const RUN_PART: u64 = 20;

/// Over a second, clock ticks of 10 ms add up to a share that is right to 2 %.
const SHORTEST: Duration = Duration::from_secs(1);

/// Fewer samples would let a single one decide.
const FEWEST: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_second_or_a_twentieth_of_the_run_or_three_samples() {
        let window = |elapsed, interval| {
            Window::over(Duration::from_millis(elapsed), Duration::from_millis(interval)).samples
        };
        assert_eq!(window(5_000, 100), 10);
        assert_eq!(window(300_000, 1_000), 15);
        assert_eq!(window(20_000, 1_000), 3);
        assert_eq!(window(0, 0), 1_000_000_000, "an interval of zero does not divide by zero");
    }

    #[test]
    fn a_level_is_reached_where_it_holds_and_not_by_a_burst() {
        let window = Window { samples: 3, span: Duration::from_secs(3) };
        assert_eq!(window.reached(&[0.1, 1.0, 0.1, 0.1, 1.0, 0.9, 1.0, 1.0], 0.95), Some(4));
        assert_eq!(window.reached(&[1.0, 1.0, 0.2, 1.0, 1.0], 0.95), None);
        assert_eq!(window.reached(&[1.0], 0.95), None);
    }
}
