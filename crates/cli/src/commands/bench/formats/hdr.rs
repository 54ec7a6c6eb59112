//! The response times by percentile, as HdrHistogram and wrk2 print them: the plotter of
//! HdrHistogram reads it, <https://hdrhistogram.github.io/HdrHistogram/plotFiles.html>.
//!
//! The percentiles are those of HdrHistogram's iterator with five ticks in each half of the
//! distance to 100 %: 0, 10, ... 50, 55, ... 75, 77.5 and so on. Values are in milliseconds.

use std::fmt::Write as _;

use loadline_measure::record::{LoadRecord, Spread};

/// The lines, with their ends.
pub(super) fn write(record: &LoadRecord) -> String {
    let [value, percentile, total, inverse] =
        ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];
    let mut text = format!("{value:>12} {percentile:>14} {total:>10} {inverse:>14}\n\n");
    percentiles(&mut text, &record.spreads.response);
    let latency = &record.response;
    let (mean, stddev) = (latency.mean.as_millis_f64(), latency.stddev.as_millis_f64());
    let (max, count) = (latency.max.as_millis_f64(), latency.count);
    line(&mut text, format_args!("#[Mean    = {mean:>12.3}, StdDeviation   = {stddev:>12.3}]"));
    line(&mut text, format_args!("#[Max     = {max:>12.3}, Total count    = {count:>12}]"));
    text
}

fn percentiles(text: &mut String, spread: &Spread) {
    let all = spread.count();
    let (mut level, mut below) = (0.0, 0);
    for bin in &spread.0 {
        below += bin.count;
        let value = bin.up_to.as_millis_f64();
        let reached = 100.0 * below as f64 / all as f64;
        while level <= reached {
            let share: f64 = level / 100.0;
            let inverse = 1.0 / (1.0 - share);
            line(text, format_args!("{value:>12.3} {share:.12} {below:>10} {inverse:>14.2}"));
            level += step(level);
            // At the longest time the library takes one step and then all.
            if below == all {
                line(text, format_args!("{value:>12.3} {:.12} {all:>10}", 1.0));
                break;
            }
        }
    }
}

/// From one percentile to the next.
fn step(level: f64) -> f64 {
    let halvings = (100.0 / (100.0 - level)).log2().floor() + 1.0;
    100.0 / (TICKS * halvings.exp2())
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to a string cannot fail");
}

/// As the Java and C libraries have it by default.
const TICKS: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::time::Duration;
    use loadline_measure::record::{Bin, Latency, Spreads};

    fn record(bins: impl IntoIterator<Item = (u64, u64)>) -> LoadRecord {
        let bin = |(ms, count)| Bin { up_to: Duration::from_millis(ms), count };
        let response = Spread(bins.into_iter().map(bin).collect());
        let latency = Latency { count: response.count(), ..Latency::default() };
        let spreads = Spreads { response, ..Spreads::default() };
        LoadRecord { response: latency, spreads, ..LoadRecord::default() }
    }

    #[test]
    fn the_percentiles_are_those_of_the_library() {
        let text = write(&record((1..=1_000).map(|ms| (ms, 1))));
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("       Value     Percentile TotalCount 1/(1-Percentile)"));
        assert_eq!(lines.next(), Some(""));
        for expected in [
            "       1.000 0.000000000000          1           1.00",
            "     100.000 0.100000000000        100           1.11",
            "     200.000 0.200000000000        200           1.25",
            "     300.000 0.300000000000        300           1.43",
            "     400.000 0.400000000000        400           1.67",
            "     500.000 0.500000000000        500           2.00",
            "     550.000 0.550000000000        550           2.22",
        ] {
            assert_eq!(lines.next(), Some(expected));
        }
        assert!(
            text.contains("\n     775.000 0.775000000000        775           4.44\n"),
            "{text}"
        );
        assert!(text.contains("\n    1000.000 1.000000000000       1000\n#[Mean"), "{text}");
    }

    #[test]
    fn a_run_without_an_answer_has_no_percentile() {
        assert_eq!(write(&record([])).lines().filter(|line| !line.starts_with('#')).count(), 2);
    }

    #[test]
    fn times_all_alike_are_the_longest() {
        let text = write(&record([(5, 7)]));
        let rows: Vec<_> = text.lines().skip(2).take(2).collect();
        assert_eq!(
            rows,
            [
                "       5.000 0.000000000000          7           1.00",
                "       5.000 1.000000000000          7",
            ]
        );
    }
}
