//! Response time against rate as points on a terminal.

use std::fmt::Write as _;

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::record::Latency;
use loadline_report::{digits, millis};

/// The plot with its line ends: `o` the mean, `*` the 99th percentile, `^` what lies above the
/// picture, `|` the load line; empty with fewer than two points.
pub(super) fn draw(points: &[(Rate, Latency)], line: Option<Rate>) -> String {
    let Some(last) = points.last().filter(|_| points.len() > 1) else { return String::new() };
    let right = last.0.as_per_sec_f64();
    let top = top(points, line);
    let mut rows = vec![vec![' '; COLUMNS]; ROWS];
    let column =
        |rate: Rate| ((rate.as_per_sec_f64() / right * COLUMNS as f64) as usize).min(COLUMNS - 1);
    if let Some(line) = line {
        rows.iter_mut().for_each(|row| row[column(line)] = '|');
    }
    for (rate, latency) in points {
        for (time, mark) in [(latency.p99, '*'), (latency.mean, 'o')] {
            let height = (time.as_millis_f64() / top.as_millis_f64() * ROWS as f64) as usize;
            let (row, mark) = if height < ROWS { (ROWS - 1 - height, mark) } else { (0, '^') };
            rows[row][column(*rate)] = mark;
        }
    }
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let label = if index == 0 { millis(top) } else { String::new() };
        let cells: String = row.iter().collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{label:>9} |{}", cells.trim_end());
    }
    let _ = writeln!(text, "{:>9} +{}", "0", "-".repeat(COLUMNS));
    let end = format!("{}/s", digits(right));
    let _ = writeln!(text, "{:>9}  0{end:>width$}", "", width = COLUMNS - 1);
    text
}

/// Twice the highest percentile up to the load line, so that what lies beyond does not flatten the
/// curve; the highest there is where that is less, or where there is no line.
fn top(points: &[(Rate, Latency)], line: Option<Rate>) -> Duration {
    let highest = |limit: Rate| {
        let within = points.iter().filter(|(rate, _)| *rate <= limit);
        within.map(|(_, latency)| latency.p99).max().unwrap_or_default()
    };
    let all = highest(Rate::milli_per_sec(u64::MAX)).max(Duration::from_nanos(1));
    match line.map(highest).filter(|below| *below > Duration::ZERO) {
        Some(below) => all.min(below * 2),
        None => all,
    }
}

/// With the scale beside it a line fits 80 columns.
const COLUMNS: usize = 64;

const ROWS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_rises_to_the_right_and_what_is_too_high_is_marked() {
        let point = |rate, ms| {
            let time = Duration::from_millis(ms);
            (Rate::per_sec(rate), Latency { mean: time / 2, p99: time, ..Latency::default() })
        };
        let points = [point(10, 10), point(50, 20), point(100, 900)];
        let text = draw(&points, Some(Rate::per_sec(50)));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), ROWS + 2);
        assert!(lines.iter().all(|line| line.len() <= 80), "{text}");
        assert!(lines[0].starts_with("  40.0 ms |") && lines[0].ends_with('^'), "{text}");
        assert_eq!(text.matches('*').count(), 2, "{text}");
        assert!(lines[ROWS + 1].ends_with("100/s"), "{text}");
        assert_eq!(draw(&points[..1], None), "");
    }
}
