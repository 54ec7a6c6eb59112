//! When the requests of an open loop are due: at a rate, in stages, or as a file lists them.

use std::sync::Arc;

use loadline_core::{
    time::Duration,
    units::{Count, Rate},
};
use loadline_measure::record::{Arrivals, Stage};

use crate::{
    curve::{Curve, ONE},
    plan::Until,
    schedule::Schedule,
};

/// The planned instants of an open loop, before it is said where they end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    shape: Shape,
    arrivals: Arrivals,
    seed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Steady(Rate),
    Stages(Arc<[Stage]>),
    Listed(Arc<[Duration]>),
}

impl Timetable {
    /// The same rate throughout; `seed` says which of the plans with random arrivals.
    #[must_use]
    pub fn steady(rate: Rate, arrivals: Arrivals, seed: u64) -> Self {
        Self { shape: Shape::Steady(rate), arrivals, seed }
    }

    /// Stages one after another; nothing is planned after the last.
    #[must_use]
    pub fn stages(stages: Vec<Stage>, arrivals: Arrivals, seed: u64) -> Self {
        Self { shape: Shape::Stages(stages.into()), arrivals, seed }
    }

    /// At these instants after the start, which are put in order.
    #[must_use]
    pub fn listed(mut instants: Vec<Duration>) -> Self {
        instants.sort_unstable();
        Self { shape: Shape::Listed(instants.into()), arrivals: Arrivals::Listed, seed: 0 }
    }

    /// How the instants lie.
    #[must_use]
    pub const fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// Which of the plans with random arrivals.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The stages; none where the rate is the same throughout or the instants are listed.
    #[must_use]
    pub fn parts(&self) -> &[Stage] {
        match &self.shape {
            Shape::Stages(stages) => stages,
            Shape::Steady(_) | Shape::Listed(_) => &[],
        }
    }

    /// The instants, where they are listed.
    pub(crate) fn listing(&self) -> Option<&[Duration]> {
        match &self.shape {
            Shape::Listed(instants) => Some(instants),
            Shape::Stages(_) | Shape::Steady(_) => None,
        }
    }

    /// The end that it has by itself: that of the last stage or listed instant. A steady rate has
    /// none.
    #[must_use]
    pub fn end(&self) -> Option<Until> {
        match &self.shape {
            Shape::Steady(_) => None,
            Shape::Stages(_) => Some(Until::Elapsed(self.curve().lasts())),
            Shape::Listed(instants) => Some(Until::Requests(instants.len() as u64)),
        }
    }

    /// The planned instants up to `until`, or to its own end where that is earlier.
    #[must_use]
    pub fn instants(&self, until: Until) -> Schedule {
        match &self.shape {
            Shape::Listed(instants) => Schedule::listed(Arc::clone(instants), until),
            _ => Schedule::along(self.curve(), self.arrivals, self.seed, until),
        }
    }

    /// How many requests it holds up to `until`; with random arrivals their mean, rounded up.
    #[must_use]
    pub fn planned(&self, until: Until) -> u64 {
        let curve = self.curve();
        let reached = |span| u64::try_from(curve.integral(span).div_ceil(ONE)).unwrap_or(u64::MAX);
        match (&self.shape, until) {
            (Shape::Listed(instants), Until::Requests(all)) => all.min(instants.len() as u64),
            (Shape::Listed(instants), Until::Elapsed(span)) => {
                instants.partition_point(|at| *at < span) as u64
            }
            (_, Until::Requests(all)) => all.min(reached(Duration::MAX)),
            (_, Until::Elapsed(span)) => reached(span),
        }
    }

    /// How long it takes up to `until`: to the last instant, with random arrivals in the mean.
    #[must_use]
    pub fn lasts(&self, until: Until) -> Duration {
        let curve = self.curve();
        match (&self.shape, until) {
            (Shape::Listed(instants), _) => {
                let planned = self.planned(until) as usize;
                match until {
                    Until::Elapsed(span) if planned < instants.len() => span,
                    _ => instants[..planned].last().copied().unwrap_or_default(),
                }
            }
            (_, Until::Requests(all)) => {
                curve.due(ONE.saturating_mul(u128::from(all))).unwrap_or(curve.lasts())
            }
            (_, Until::Elapsed(span)) => span.min(curve.lasts()),
        }
    }

    /// The mean rate up to `until`. Of listed instants it is that of the distances between them
    /// where it ends with the last.
    #[must_use]
    pub fn mean_rate(&self, until: Until) -> Rate {
        let planned = self.planned(until);
        match (&self.shape, until) {
            (Shape::Steady(rate), _) => *rate,
            (Shape::Listed(instants), _)
                if matches!(until, Until::Requests(_)) || planned == instants.len() as u64 =>
            {
                Count::new(planned.saturating_sub(1)) / self.lasts(until)
            }
            _ => Count::new(planned) / self.lasts(until),
        }
    }

    /// The highest rate at any time; of listed instants the most in any second.
    #[must_use]
    pub fn peak_rate(&self) -> Rate {
        let Shape::Listed(instants) = &self.shape else { return self.curve().peak() };
        let within = |(first, at): (usize, &Duration)| {
            let end = *at + Duration::from_secs(1);
            instants.partition_point(|other| *other < end) - first
        };
        Rate::per_sec(instants.iter().enumerate().map(within).max().unwrap_or(0) as u64)
    }

    fn curve(&self) -> Curve {
        match &self.shape {
            Shape::Steady(rate) => Curve::steady(*rate),
            Shape::Stages(stages) => Curve::new(stages),
            Shape::Listed(_) => Curve::new(&[]),
        }
    }
}

/// Why a file does not list instants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrivalsError {
    /// A line is no time.
    #[error("line {line}, `{text}`, is no time; write seconds since the start, `0.25`, or `250ms`")]
    Form {
        /// Number of the line, from 1.
        line: usize,
        /// Text of the line.
        text: String,
    },
    /// A line lies before the one above it.
    #[error("line {line}, `{text}`, is earlier than the one before it; put them in order")]
    Order {
        /// Number of the line, from 1.
        line: usize,
        /// Text of the line.
        text: String,
    },
    /// There is no instant.
    #[error("it lists no instant; write one a line, in seconds since the start")]
    Nothing,
}

/// Reads a list of instants for [`Timetable::listed`]: one a line, in seconds since the start
/// (`0.25`) or with a unit (`250ms`), never decreasing. What follows a `#` is a comment; empty
/// lines do not matter.
///
/// # Errors
/// [`ArrivalsError`] naming the first line that is wrong.
pub fn parse_arrivals_file(text: &str) -> Result<Vec<Duration>, ArrivalsError> {
    let mut instants: Vec<Duration> = Vec::new();
    for (whole, line) in text.lines().zip(1..) {
        let (text, _comment) = whole.split_once('#').unwrap_or((whole, ""));
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let at =
            instant(text).ok_or_else(|| ArrivalsError::Form { line, text: text.to_owned() })?;
        if instants.last().is_some_and(|last| at < *last) {
            return Err(ArrivalsError::Order { line, text: text.to_owned() });
        }
        instants.push(at);
    }
    if instants.is_empty() { Err(ArrivalsError::Nothing) } else { Ok(instants) }
}

/// Seconds with their fraction, or a duration with its unit.
fn instant(text: &str) -> Option<Duration> {
    let Ok(seconds) = text.parse::<f64>() else { return text.parse().ok() };
    let in_range = (0.0..=LATEST_SECS).contains(&seconds);
    in_range.then(|| Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// A hundred years, within which seconds become nanoseconds without overflow.
const LATEST_SECS: f64 = 100.0 * 365.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(n: u64) -> Until {
        Until::Elapsed(Duration::from_secs(n))
    }

    #[test]
    fn a_steady_rate_lasts_as_long_as_it_is_told() {
        let steady = Timetable::steady(Rate::per_sec(50), Arrivals::Poisson, 1);
        assert_eq!((steady.end(), steady.peak_rate()), (None, Rate::per_sec(50)));
        assert_eq!(steady.planned(seconds(10)), 500);
        assert_eq!(steady.lasts(Until::Requests(100)), Duration::from_secs(2));
        assert_eq!(steady.mean_rate(Until::Requests(1)), Rate::per_sec(50));
    }

    #[test]
    fn stages_have_an_end_and_a_mean_rate_of_their_own() {
        let stages = crate::parse_stages("10/s:10s, ..50/s:10s").unwrap();
        let staged = Timetable::stages(stages, Arrivals::Constant, 0);
        let end = staged.end().unwrap();
        assert_eq!(end, seconds(20));
        assert_eq!(staged.planned(end), 400);
        assert_eq!(staged.mean_rate(end), Rate::per_sec(20));
        assert_eq!(staged.mean_rate(seconds(10)), Rate::per_sec(10), "cut short after a stage");
        assert_eq!(staged.lasts(seconds(1_000)), Duration::from_secs(20));
        assert_eq!(staged.peak_rate(), Rate::per_sec(50));
        assert_eq!(staged.instants(seconds(1_000)).count(), 400);
    }

    #[test]
    fn listed_instants_are_planned_as_they_stand() {
        let text = "# by hand\n0\n0.5 # half a second\n\n750ms\n1s500ms\r\n2.5e0\n";
        let instants = parse_arrivals_file(text).unwrap();
        let millis: Vec<_> = instants.iter().map(|at| at.as_millis_f64()).collect();
        assert_eq!(millis, [0.0, 500.0, 750.0, 1_500.0, 2_500.0]);
        let listed = Timetable::listed(instants.clone());
        let end = listed.end().unwrap();
        assert_eq!(listed.instants(end).collect::<Vec<_>>(), instants);
        assert_eq!(listed.instants(seconds(1)).count(), 3);
        assert_eq!((listed.planned(end), listed.planned(seconds(1))), (5, 3));
        assert_eq!(listed.mean_rate(end), Rate::milli_per_sec(1_600));
        assert_eq!(listed.peak_rate(), Rate::per_sec(3));
    }

    #[test]
    fn a_list_that_is_over_before_its_time_lasts_to_its_last_instant() {
        let instants = (0..=20).map(|n| Duration::from_millis(500 * n)).collect();
        let listed = Timetable::listed(instants);
        let lasts = [9, 10, 11, 60].map(|until| listed.lasts(seconds(until)));
        assert_eq!(lasts, [9, 10, 10, 10].map(Duration::from_secs));
        assert_eq!(listed.mean_rate(seconds(60)), Rate::per_sec(2));
    }

    #[test]
    fn a_line_that_is_no_instant_is_named() {
        for (text, parts) in [
            ("0\nsoon\n", ["line 2, `soon`", "`250ms`"]),
            ("0\n-1", ["line 2, `-1`", "`0.25`"]),
            ("NaN", ["line 1", "`0.25`"]),
            ("inf", ["line 1", "`0.25`"]),
            ("1e300", ["line 1", "`0.25`"]),
            ("2\n1", ["line 2, `1`", "order"]),
            ("# nothing\n", ["no instant", "one a line"]),
        ] {
            let error = parse_arrivals_file(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_planned_is_what_is_counted(
            milli in 0u64..100_000, ms in 0u64..10_000, requests in 0u64..500,
        ) {
            let plan = Timetable::steady(Rate::milli_per_sec(milli), Arrivals::Constant, 0);
            for until in [Until::Elapsed(Duration::from_millis(ms)), Until::Requests(requests)] {
                prop_assert_eq!(plan.planned(until), plan.instants(until).count() as u64);
            }
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = parse_arrivals_file(&text);
        }
    }
}
