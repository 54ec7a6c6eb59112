//! Progress on the standard error: one line on a terminal, a line now and then in a log.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Write as _},
};

use indicatif::{ProgressBar, ProgressStyle};
use loadline_core::{time::Duration, units::Rate};
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
                let style = ProgressStyle::with_template("{percent:>3} % {wide_msg}")
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

/// What can be spared where a terminal is narrow comes last.
fn line(progress: &Progress) -> String {
    let elapsed = progress.elapsed.as_secs_f64();
    let errors = match progress.outcomes.failed() {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    };
    let in_flight = progress.in_flight;
    if progress.rate == Rate::default() {
        // A time of zero would look like a fast server where there was no response at all.
        return format!("{elapsed:.1} s, no answer ok, {errors}, {in_flight} in flight");
    }
    let rate = progress.rate.as_per_sec_f64();
    let (p50, p99) = (millis(progress.p50), millis(progress.p99));
    format!("{elapsed:.1} s, {rate:.0}/s ok, {errors}, p50 {p50}, p99 {p99}, {in_flight} in flight")
}

const STEPS: u64 = 1_000;

/// Seldom enough not to fill a log.
const LINE_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_measure::record::Outcomes;

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
        let expected = "2.5 s, 199/s ok, 2 errors, p50 38.4 ms, p99 371 ms, 8 in flight";
        assert_eq!(line(&progress), expected);
        let hung = Progress { rate: Rate::default(), p50: Duration::ZERO, ..progress };
        assert_eq!(line(&hung), "2.5 s, no answer ok, 2 errors, 8 in flight");
        let outcomes = Outcomes { reset: 1_234, ..Outcomes::default() };
        let busy = Progress { rate: Rate::per_sec(5_000), in_flight: 500, outcomes, ..progress };
        let told = line(&busy);
        assert!(told.len() <= 74, "80 columns less those of the percentage: {told}");
    }
}
