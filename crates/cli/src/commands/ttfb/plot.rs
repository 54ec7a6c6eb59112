//! The first requests of each target as points on a terminal, by number.

use std::fmt::Write as _;

use loadline_core::time::Duration;
use loadline_measure::record::{ProbeRecord, ProbeSample};
use loadline_report::scatter_top;

use crate::commands::series::figure;

/// Requests of each target that are drawn: those of the tutorial's picture.
pub(super) const SHOWN: usize = 500;

/// The plot, with its line ends; empty where there is nothing to draw.
pub(super) fn draw(record: &ProbeRecord) -> String {
    let series: Vec<_> = record
        .targets
        .iter()
        .map(|target| &target.samples[..target.samples.len().min(SHOWN)])
        .collect();
    let longest = series.iter().map(|samples| samples.len()).max().unwrap_or_default();
    let top = scatter_top(series.iter().copied().flatten().filter_map(ProbeSample::good_time));
    if top == Duration::ZERO {
        return String::new();
    }
    let mut plot = Plot::new(longest, round_up(top));
    // Backwards, so that the first target stands before the others.
    for (index, samples) in series.iter().enumerate().rev() {
        for sample in *samples {
            let fresh = record.keepalive && !sample.reused;
            plot.add(sample, if fresh { FRESH } else { mark(index) });
        }
    }
    plot.text(longest)
}

/// The mark of the target with this index; they repeat after six.
pub(super) fn mark(index: usize) -> char {
    ['*', 'o', '+', 'x', '#', '@'][index % 6]
}

struct Plot {
    /// Rows of points, the uppermost first.
    rows: Vec<Vec<char>>,
    failed: Vec<char>,
    top: Duration,
    /// How many requests share the columns.
    numbers: usize,
}

impl Plot {
    fn new(numbers: usize, top: Duration) -> Self {
        let columns = numbers.clamp(1, COLUMNS);
        Self { rows: vec![vec![' '; columns]; ROWS], failed: vec![' '; columns], top, numbers }
    }

    fn add(&mut self, sample: &ProbeSample, mark: char) {
        let columns = self.failed.len();
        let column = (sample.number as usize - 1) * columns / self.numbers.max(1);
        let Some(time) = sample.good_time() else {
            self.failed[column] = '!';
            return;
        };
        if time > self.top {
            self.rows[0][column] = BEYOND;
            return;
        }
        let share = time.as_secs_f64() / self.top.as_secs_f64();
        let row = ROWS - 1 - ((share * ROWS as f64) as usize).min(ROWS - 1);
        let cell = &mut self.rows[row][column];
        if *cell != BEYOND && *cell != FRESH {
            *cell = mark;
        }
    }

    fn text(&self, last: usize) -> String {
        let mut text = String::new();
        let mut line = |label: &str, cells: &[char]| {
            let cells: String = cells.iter().collect();
            let line = format!("  {label:>8} |{cells}");
            writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
        };
        for (row, cells) in self.rows.iter().enumerate() {
            // The label is that of the lower edge of its row, but for the uppermost.
            let label = match row {
                0 => figure(self.top),
                row if row + 1 == ROWS => "0".to_owned(),
                row if (row + 1).is_multiple_of(LABEL_EVERY) => {
                    figure(self.top * (ROWS - 1 - row) as u64 / ROWS as u64)
                }
                _ => String::new(),
            };
            line(&label, cells);
        }
        if self.failed.contains(&'!') {
            line("failed", &self.failed);
        }
        let width = self.failed.len();
        let numbers = if width > 8 { format!("1{last:>0$}", width - 1) } else { "1".to_owned() };
        text += &format!("  {:>8} +{}\n  {:>8}  {numbers}\n", "", "-".repeat(width), "request");
        text
    }
}

/// The least of 1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6 or 8 times a power of ten milliseconds that is at
/// least `top`, so that its quarters are short numbers.
fn round_up(top: Duration) -> Duration {
    let mut power = 1_000;
    loop {
        let steps = [10, 12, 16, 20, 24, 32, 40, 60, 80];
        let mut ends = steps.into_iter().map(|step| Duration::from_nanos(power * step / 10));
        match ends.find(|end| *end >= top) {
            Some(end) => return end,
            None if power > u64::MAX / 800 => return top,
            None => power *= 10,
        }
    }
}

/// With the labels of the y axis 80 columns at most.
const COLUMNS: usize = 66;
const ROWS: usize = 12;
/// A label at every quarter of the axis.
const LABEL_EVERY: usize = ROWS / 4;
/// Above the axis.
const BEYOND: char = '^';
/// On a connection opened for it, where others were kept.
const FRESH: char = 'N';

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::record::{ProbeOutcome, ProbeTarget};

    fn target(ms: impl Iterator<Item = u64>) -> ProbeTarget {
        let sample = |(number, ms): (u64, u64)| ProbeSample {
            number,
            time: (ms > 0).then(|| Duration::from_millis(ms)),
            outcome: if ms > 0 { ProbeOutcome::Ok } else { ProbeOutcome::Timeout },
            reused: number > 1,
            ..ProbeSample::default()
        };
        let samples = (1..).zip(ms).map(sample).collect();
        ProbeTarget { samples, ..ProbeTarget::default() }
    }

    fn draw_all(targets: Vec<ProbeTarget>, keepalive: bool) -> String {
        let text = draw(&ProbeRecord { targets, keepalive, ..ProbeRecord::default() });
        for line in text.lines() {
            assert!(line.len() <= 80, "{line}");
        }
        text
    }

    #[test]
    fn the_published_series_shows_its_two_levels() {
        let direct = target(std::iter::repeat_n(230, 600));
        let warming = target((0..600).map(|at| if at % 7 == 0 && at < 210 { 230 } else { 123 }));
        let text = draw_all(vec![direct, warming], false);
        let rows: Vec<_> = text.lines().collect();
        let at = |label: &str| rows.iter().position(|row| row.contains(label)).unwrap();
        assert_eq!(rows[0].trim_end(), format!("       240 |{}", "*".repeat(66)));
        let low = rows.iter().find(|row| row.contains("oooo")).unwrap();
        assert_eq!(low.matches('o').count(), 66, "{text}");
        assert!(at("180") < at("120") && at("120") < at("60.0"), "{text}");
        assert!(text.ends_with("500\n"), "the first 500 alone:\n{text}");
    }

    #[test]
    fn failures_a_new_connection_and_what_is_off_the_axis_are_marked() {
        let mut ms = vec![10; 60];
        (ms[20], ms[40]) = (0, 9_000);
        let text = draw_all(vec![target(ms.into_iter())], true);
        assert_eq!(text.matches(FRESH).count(), 1, "{text}");
        assert_eq!(text.matches(BEYOND).count(), 1, "{text}");
        let failed = text.lines().find(|line| line.contains("failed")).unwrap();
        assert_eq!(failed.find('!'), Some(12 + 20), "{text}");
    }

    #[test]
    fn nothing_to_draw_takes_no_room() {
        assert_eq!(draw_all(vec![target([0, 0].into_iter())], false), "");
        assert_eq!(draw_all(vec![], false), "");
        assert!(!draw_all(vec![target([5].into_iter())], false).is_empty());
    }

    #[test]
    fn the_axis_ends_at_a_number_with_short_quarters() {
        for (top, end) in [(230, 240), (123, 160), (1, 1), (81, 100), (7, 8)] {
            assert_eq!(round_up(Duration::from_millis(top)), Duration::from_millis(end), "{top}");
        }
        assert_eq!(round_up(Duration::MAX), Duration::MAX);
    }
}
