//! Progress on the standard error: a bar on a terminal, a line now and then in a log.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
};

use indicatif::{ProgressBar, ProgressStyle};
use loadline_core::time::Duration;
use loadline_load::Progress;
use loadline_report::millis;

/// How progress is shown.
pub(super) enum Display {
    Nothing,
    Bar(ProgressBar),
    /// Lines; holds when the next is due.
    Lines(Cell<Duration>),
}

impl Display {
    pub(super) fn new(quiet: bool) -> Self {
        match (quiet, io::stderr().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, false) => Self::Lines(Cell::new(LINE_EVERY)),
            (false, true) => {
                let style = ProgressStyle::with_template("{bar:12} {wide_msg}")
                    .expect("the template is a constant that parses");
                Self::Bar(ProgressBar::new(STEPS).with_style(style))
            }
        }
    }

    pub(super) fn show(&self, progress: &Progress) {
        match self {
            Self::Nothing => {}
            Self::Bar(bar) => {
                bar.set_message(line(progress));
                bar.set_position((progress.fraction * STEPS as f64) as u64);
            }
            Self::Lines(next) if progress.elapsed >= next.get() => {
                next.set(progress.elapsed + LINE_EVERY);
                // Progress that nobody can read is no reason to end a measurement.
                let _ = writeln!(io::stderr(), "{}", line(progress));
            }
            Self::Lines(_) => {}
        }
    }

    /// Takes the bar away, for the result to stand alone.
    pub(super) fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn line(progress: &Progress) -> String {
    format!(
        "{:.1} s, {:.0}/s ok, {} in flight, p50 {}, p99 {}, {} errors",
        progress.elapsed.as_secs_f64(),
        progress.rate.as_per_sec_f64(),
        progress.in_flight,
        millis(progress.p50),
        millis(progress.p99),
        progress.outcomes.failed(),
    )
}

const STEPS: u64 = 1_000;

/// Seldom enough not to fill a log.
const LINE_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::{record::Outcomes, units::Rate};

    #[test]
    fn a_line_says_how_the_run_stands() {
        let progress = Progress {
            elapsed: Duration::from_millis(2_500),
            fraction: 0.25,
            planned: 500,
            in_flight: 8,
            outcomes: Outcomes { ok: 490, timeout: 2, ..Outcomes::default() },
            rate: Rate::per_sec(199),
            p50: Duration::from_micros(38_400),
            p99: Duration::from_millis(371),
        };
        let expected = "2.5 s, 199/s ok, 8 in flight, p50 38.4 ms, p99 371 ms, 2 errors";
        assert_eq!(line(&progress), expected);
    }
}
