//! What the runs so far say of the load line, and how sure that is.

use loadline_core::{time::Duration, units::Rate};
use loadline_measure::objective::Spent;

use super::{
    CONFIRMATIONS, MEASURE_PART, Search, SearchPhase,
    cycle::Lateness,
    estimate::{self, Crossing},
    rates::scale,
    runs::{self, Bounds, Run},
};

impl Search {
    /// Where the line through these runs crosses what is allowed.
    pub(super) fn crossing(&self, long: &[&Run]) -> Option<Crossing> {
        let lowest = long.iter().map(|run| run.rate).min()?;
        let light = |run: &&Run| run.rate <= scale(lowest, LIGHT);
        let light: Vec<&Run> = self.runs.iter().filter(light).collect();
        estimate::crossing(long, &runs::spending(light), self.cycle)
    }

    /// The bounds that the long runs show, or all runs where these show only one.
    pub(super) fn bounds(&self) -> Bounds {
        let long = self.long_runs();
        let found = runs::bounds(&long);
        match (found.lower, found.upper) {
            (Some(_), Some(_)) => found,
            _ => runs::bounds(&self.runs.iter().collect::<Vec<_>>()),
        }
    }

    /// The runs that count for the line: at least half as long as trials are by now, or were before
    /// they were made longer because they differed.
    pub(super) fn long_runs(&self) -> Vec<&Run> {
        if self.stage == SearchPhase::Bracket {
            return Vec::new();
        }
        let long = self.long_trial().scale(2f64.powi(-self.doubled)) / 2;
        self.runs[self.before..].iter().filter(|run| run.lasts >= long).collect()
    }

    /// Long enough to hold several of the slowest cycle, as far as the time of the search goes, and
    /// many times what a request takes.
    pub(super) fn long_trial(&self) -> Duration {
        let most = self.config.last_trial;
        let least = (self.ladder.slowest_at_rest() * RESPONSES).max(most.scale(LEAST_TRIAL));
        let least = least.scale(2f64.powi(self.doubled)).min(most);
        let Some(cycle) = self.cycle else { return least };
        let longest = self.config.within.scale(TRIAL_PART).max(most);
        let whole = (least.as_secs_f64() / cycle.as_secs_f64()).ceil() as u64;
        let fits = (longest.as_secs_f64() / cycle.as_secs_f64()).floor() as u64;
        (cycle * whole.max(CYCLES).min(fits)).clamp(least, longest)
    }

    /// Makes trials longer where lateness has a slow cycle.
    pub(super) fn look_for_cycle(&mut self) {
        let Some(near) = self.near() else { return };
        let mut lateness = Lateness::default();
        let range = scale(near, 1.0 - ROUND)..=scale(near, 1.0 + ROUND);
        for run in self.runs.iter().filter(|run| range.contains(&run.rate)) {
            lateness.add(run.begun, run.lasts, &run.late);
        }
        // What was seen once is not forgotten when a few trials see less of it.
        self.cycle = lateness.cycle().max(self.cycle.map(|before| before.scale(0.8)));
    }

    /// Makes trials longer where what they spend differs too much to say how sure a few are.
    pub(super) fn look_at_variation(&mut self) {
        let varies = |line: Crossing| line.variation > MOST_VARIATION;
        let varies = self.crossing(&self.long_runs()).is_some_and(varies);
        if self.stage == SearchPhase::Measure
            && varies
            && self.long_trial() < self.config.last_trial
        {
            self.doubled += 1;
        }
    }

    fn near(&self) -> Option<Rate> {
        let bounds = self.bounds();
        let line = self.crossing(&self.long_runs()).map(|line| line.at);
        line.or(bounds.lower).or(bounds.upper)
    }

    /// Whether it is time to confirm what is known.
    pub(super) fn is_late(&self) -> bool {
        self.elapsed + self.long_trial() >= self.config.within.scale(MEASURE_PART)
    }

    /// Whether the line is known well enough.
    pub(super) fn is_known(&self) -> bool {
        let long = self.long_runs();
        self.crossing(&long).is_some_and(|line| {
            line.runs >= FEWEST_NEAR && line.fit_error <= self.enough() && line.drift.abs() <= DRIFT
        })
    }

    /// Forgets the first half of the long runs if the second half shows another service: it warmed
    /// up, grew or filled.
    pub(super) fn forget_another_service(&mut self) {
        let long = self.long_runs();
        let another = self.crossing(&long).is_some_and(|line| {
            self.stage == SearchPhase::Measure && line.drift.abs() > DRIFT && self.is_precise(&line)
        });
        if another && !self.is_late() {
            self.before += (self.runs.len() - self.before) / 2;
            self.note(
                "the service changed while it was measured: earlier trials do not count".into(),
            );
        }
    }

    /// Whether the line will be known well enough once it is confirmed as well.
    pub(super) fn is_precise(&self, crossing: &Crossing) -> bool {
        let lasted = self.long_trial() * crossing.runs as u64;
        let confirm = self.confirm() * u64::from(CONFIRMATIONS);
        let share = lasted.as_secs_f64() / (lasted + confirm).as_secs_f64();
        let luck = 1.0 + LUCK / (2.0 * crossing.freedom).sqrt();
        crossing.runs >= FEWEST_NEAR
            && lasted >= self.config.duration_sum
            && crossing.fit_error * share.sqrt() * luck <= self.enough()
    }

    /// The standard error at which the line is known well enough. It is smaller once a search has
    /// taken long: what takes long varies much, and shows a small error by luck more often.
    fn enough(&self) -> f64 {
        let [begins, ends] = LONG_PARTS.map(|part| self.config.within.scale(part));
        let is_long = (begins..ends).contains(&self.elapsed);
        ERROR * if is_long { LONG_ERROR } else { 1.0 } * self.precision()
    }

    /// How long a confirming run lasts.
    pub(super) fn confirm(&self) -> Duration {
        self.config.confirm.max(self.long_trial())
    }

    /// The time in which long trials at this rate come to enough requests to say that it holds: a
    /// few of them may be late. Nothing where they have.
    pub(super) fn missing(&self, rate: Rate) -> Duration {
        let Some(last) = self.runs.last() else { return Duration::ZERO };
        let planned = last.offered.as_per_sec_f64() * last.lasts.as_secs_f64();
        let long = self.long_runs();
        let counted = runs::spending(long.into_iter().filter(|run| run.rate == rate));
        let requests = |(criterion, spent): (usize, &Spent)| {
            let allowed = counted.get(criterion).map_or(0.0, |counted| counted.allowed);
            let share = spent.allowed / planned;
            (share > 0.0 && allowed < CONFIRM_ALLOWED)
                .then(|| (CONFIRM_ALLOWED + MORE_ALLOWED - allowed) / share)
        };
        let requests = last.spent.iter().enumerate().filter_map(requests).fold(0.0, f64::max);
        Duration::from_nanos((requests / rate.as_per_sec_f64() * 1e9) as u64)
    }
}

/// A load is confirmed by so many requests that three may be late: where as many are as may be,
/// none is by luck in 1 of 20 cases.
pub(super) const CONFIRM_ALLOWED: f64 = 3.0;

/// Random arrivals may come to a little less than planned.
const MORE_ALLOWED: f64 = 0.3;

/// No trial takes more than this part of the time.
const TRIAL_PART: f64 = 0.07;

/// What is late at this share of the load and below is late by itself and not for others' sake.
const LIGHT: f64 = 0.6;

/// The standard error at which the line is known well enough, as a share of the precision: 95 of
/// 100 searches are to be within all of it.
const ERROR: f64 = 0.9;

/// A search has taken long after the first part of its time; the error is to be smaller by this
/// factor then. After the second what is left is for confirming.
const LONG_PARTS: [f64; 2] = [0.16, 0.42];
const LONG_ERROR: f64 = 0.6;

/// An error of few runs is more often smaller than it looks when it is small: the share by which it
/// is taken to be larger, times the standard error that a standard error has.
const LUCK: f64 = 0.4;

/// Trials that differ by more than this share of what they may spend are made longer.
const MOST_VARIATION: f64 = 1.0;

/// The halves of the runs that differ by more standard errors are of a service that changed.
const DRIFT: f64 = 2.0;

/// A long trial lasts so many times what all but few requests take where nobody else asks, and at
/// least this part of the longest.
const RESPONSES: u64 = 150;
const LEAST_TRIAL: f64 = 0.4;

/// Long trials near the line that must be there before its error is trusted.
const FEWEST_NEAR: usize = 6;

/// A trial lasts over so many of the slowest cycle.
const CYCLES: u64 = 5;

/// Runs within this share of the line show its cycle.
const ROUND: f64 = 0.15;
