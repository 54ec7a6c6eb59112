//! The capacity search: a pure state machine from measured runs to the load line.
//!
//! ```text
//! Ladder --> Bracket --> Measure --> Confirm --> Done
//!                           ^           | breached: lower
//!   each breached trial: --> CoolDown --> back
//! ```
//! [`Search::next`] says what to run, [`Search::observe`] takes what came of it and how late it is;
//! there is no clock and no I/O here, so the same search runs against a service and against a
//! simulated queue.
//!
//! - ladder: a closed loop with 1, 2, 4 ... users, which cannot overload the service by much and
//!   shows its throughput (`ladder`, and `scalability` for the law fitted to it);
//! - bracket: short open-loop trials, doubling, halving, then bisecting;
//! - measure: long trials on either side of the load line, each over several of the slowest cycle
//!   that shows in what was late (`cycle`), until the line through all of them crosses the limit
//!   in an interval that is narrow enough (`estimate`);
//! - confirm: [`CONFIRMATIONS`] more trials at a load a little below the crossing. All long trials
//!   at that load count together (`runs`): the objective must hold over all of them, and the
//!   estimate of all trials must not lie below. Otherwise the next lower load is confirmed.
//!
//! The search ends within the time it is given; what it could not measure in it makes the interval
//! wider. A run whose generator was at fault decides nothing and is made again; three in a row end
//! the search, with what is known by then.

mod change;
mod config;
mod cycle;
mod estimate;
mod knee;
mod ladder;
mod outcome;
mod rates;
mod runs;
mod scalability;
mod step;

use std::collections::VecDeque;

use loadline_core::{time::Duration, units::{Count, Rate}};
use loadline_measure::record::{Purpose, Trial, Verdict};

pub use config::Config;
use cycle::Lateness;
use estimate::Crossing;
use ladder::Ladder;
use rates::{at_most, between, nearest, scale};
use runs::{Bounds, Run, Runs};
pub use step::{Measured, Observation, Step};

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    config: Config,
    ladder: Ladder,
    range: Option<Range>,
    stage: SearchPhase,
    runs: Vec<Run>,
    /// How many runs came before a change of the service and count no more.
    stale: usize,
    trials: Vec<Trial>,
    /// Loads well below the line still to be tried for the curve; none before it is their turn.
    curve: Option<VecDeque<Rate>>,
    /// The slowest cycle that shows in what was late near the line.
    cycle: Option<Duration>,
    /// Since the search began.
    elapsed: Duration,
    /// Whether the service is yet to come to rest after a breach.
    hot: bool,
    /// Invalid runs since the last valid one.
    invalid: u32,
    notes: Vec<String>,
    step: Step,
}

/// Where a search begins and what it may try.
#[derive(Clone, Copy, Debug)]
struct Range {
    lowest: Rate,
    guess: Rate,
    highest: Rate,
}

/// What trials are for now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SearchPhase {
    Bracket,
    Measure,
    /// At this load, of which so many confirming runs were made.
    Confirm {
        rate: Rate,
        made: u32,
        refused: u32,
    },
}

impl Search {
    /// A search that has not begun.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let step = Step::Ladder { users: 1, duration: config.rung };
        Self {
            config,
            ladder: Ladder::default(),
            range: None,
            stage: SearchPhase::Bracket,
            runs: Vec::new(),
            stale: 0,
            trials: Vec::new(),
            curve: None,
            cycle: None,
            elapsed: Duration::ZERO,
            hot: false,
            invalid: 0,
            notes: Vec::new(),
            step,
        }
    }

    /// What to run; the same until it was observed.
    #[must_use]
    pub fn next(&self) -> Step {
        self.step.clone()
    }

    /// The highest load that held and the lowest that did not, by the trials as they stand.
    #[must_use]
    pub fn bracket(&self) -> (Option<Rate>, Option<Rate>) {
        let bounds = self.bounds();
        (bounds.lower, bounds.upper)
    }

    /// The slowest cycle that shows in what was late, and how long trials last for it.
    #[must_use]
    pub fn cycle(&self) -> Option<(Duration, Duration)> {
        self.cycle.map(|cycle| (cycle, self.long_trial()))
    }

    /// Takes what came of the step that [`Search::next`] asked for, so long after the search
    /// began; what is no response to it is ignored.
    pub fn observe(&mut self, elapsed: Duration, observation: Observation) {
        self.elapsed = self.elapsed.max(elapsed);
        match (self.step.clone(), observation) {
            (Step::Done(_), _) => return,
            (_, Observation::Interrupted) => {
                self.step = self.end(Verdict::Interrupted);
                return;
            }
            (_, Observation::OutOfTime) => {
                self.step = self.end_of_time();
                return;
            }
            (Step::Ladder { users, duration }, Observation::Run(measured)) => {
                self.climb(users, duration, *measured);
            }
            (Step::Trial { rate, duration, seed, purpose }, Observation::Run(measured)) => {
                self.record(rate, duration, seed, purpose, *measured);
            }
            (Step::CoolDown { at_rest }, Observation::Cooled { at_rest: cooled }) => {
                self.hot = false;
                if !cooled {
                    self.note(format!(
                        "the service did not come back to {at_rest} after a breach; later trials \
                         may have found it still busy"
                    ));
                }
            }
            _ => return,
        }
        self.step = self.decide();
    }

    fn climb(&mut self, users: u32, duration: Duration, measured: Measured) {
        self.ladder.add(users, duration, &measured);
        for fault in measured.faults {
            self.note(format!("{users} users: {}; the ladder ends there", fault.what));
        }
    }

    fn record(
        &mut self,
        rate: Rate,
        lasts: Duration,
        seed: u64,
        purpose: Purpose,
        measured: Measured,
    ) {
        let valid = measured.faults.is_empty();
        self.hot = !measured.met;
        self.invalid = if valid { 0 } else { self.invalid + 1 };
        let Measured { achieved, response, planned, met, pressure, criteria, faults, spent, late } =
            measured;
        if valid {
            self.runs.push(Run { rate, offered: offered(rate, lasts, planned), lasts, spent, late });
            if let SearchPhase::Confirm { made, .. } = &mut self.stage {
                *made += 1;
            }
            self.look_for_change();
        }
        self.trials.push(Trial {
            purpose,
            rate,
            lasts,
            seed,
            achieved,
            response,
            met,
            pressure,
            criteria,
            faults,
        });
    }

    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    fn decide(&mut self) -> Step {
        if self.invalid >= INVALID_IN_A_ROW {
            return self.end(Verdict::GeneratorInvalid);
        }
        if self.left() < self.config.first_trial {
            return self.end_of_time();
        }
        if self.hot {
            let at_rest = self.ladder.at_rest();
            return Step::CoolDown { at_rest: at_rest.scale(AT_REST) + AT_REST_LEAST };
        }
        if self.range.is_none()
            && self.elapsed < self.config.within.scale(LADDER_PART)
            && let Some(users) = self.ladder.next(&self.config)
        {
            return Step::Ladder { users, duration: self.config.rung };
        }
        let range = *self.range.get_or_insert_with(|| {
            let guess = self.ladder.guess().max(LOWEST).min(self.config.highest);
            let lowest =
                scale(guess, 1.0 / self.ladder.depth()).max(LOWEST).min(self.config.highest);
            Range { lowest, guess, highest: self.config.highest }
        });
        if self.stage == SearchPhase::Bracket
            && let Some(step) = self.bracketing(&range)
        {
            return step;
        }
        self.look_for_cycle();
        if self.stage == SearchPhase::Measure
            && let Some(step) = self.measuring(&range)
        {
            return step;
        }
        self.confirming()
    }

    /// The next short trial; none where the bounds are as close as such trials can tell.
    fn bracketing(&mut self, range: &Range) -> Option<Step> {
        let bounds = self.bounds();
        let rate = match (bounds.lower, bounds.upper) {
            (None, None) => range.guess,
            (None, Some(upper)) if upper <= range.lowest => {
                return Some(self.end(Verdict::NoLoadMeets));
            }
            (None, Some(upper)) => scale(upper, 0.5).max(range.lowest),
            (Some(lower), None) if lower >= range.highest => {
                self.stage = SearchPhase::Measure;
                return None;
            }
            (Some(lower), None) => scale(lower, 2.0).min(range.highest),
            (Some(lower), Some(upper)) => {
                if let Some(point) = self.curve_point(lower) {
                    return Some(self.trial(point, self.config.first_trial, Purpose::Curve));
                }
                let close = self.step_of(BRACKET_STEPS);
                let late = self.elapsed >= self.config.within.scale(BRACKET_PART);
                if late || upper.as_per_sec_f64() <= lower.as_per_sec_f64() * close {
                    self.stage = SearchPhase::Measure;
                    return None;
                }
                between(lower, upper)
            }
        };
        let both = bounds.lower.is_some() && bounds.upper.is_some();
        let purpose = if both { Purpose::Bisection } else { Purpose::Bracket };
        Some(self.trial(rate, self.config.first_trial, purpose))
    }

    /// The next load of the curve, where one is still to be tried.
    fn curve_point(&mut self, lower: Rate) -> Option<Rate> {
        let shares = || CURVE.map(|share| scale(lower, share)).into_iter().collect();
        self.curve.get_or_insert_with(shares).pop_front()
    }

    /// The next long trial; none where enough is known, or no more time for it.
    fn measuring(&mut self, range: &Range) -> Option<Step> {
        let duration = self.long_trial();
        let line = self.line();
        let long = self.long_runs();
        let bounds = runs::bounds(&long);
        let made = long.len();
        if bounds.lower.is_some_and(|lower| lower >= range.highest) {
            return (made >= 2)
                .then(|| self.end(Verdict::AtLeast))
                .or_else(|| Some(self.trial(range.highest, duration, Purpose::Bisection)));
        }
        if self.is_enough(line.as_ref(), &long) {
            self.stage = self.next_to_confirm(None, 0);
            return None;
        }
        let rate = match line {
            Some(line) => {
                let apart = (APART.ln() / line.slope).clamp(0.75 * self.width(), WIDEST);
                let side = [1.0, -1.0][made % 2];
                scale(self.within_bounds(line.at), (side * apart).exp())
            }
            None => self.bounds().lower.unwrap_or(range.guess),
        };
        let rate = nearest(rate, self.width() / 2.0).max(range.lowest).min(range.highest);
        Some(self.trial(rate, duration, Purpose::Bisection))
    }

    /// Whether long trials need not go on: the interval is narrow, or the time for them is over.
    fn is_enough(&self, line: Option<&Crossing>, long: &[&Run]) -> bool {
        let lasted: Duration = long.iter().map(|run| run.lasts).sum();
        let enough = long.len() >= FEWEST_LONG && lasted >= self.config.duration_sum;
        let reach = line.map_or(f64::INFINITY, |line| line.reach);
        let needs = self.long_trial() + self.confirming_run() * u64::from(CONFIRMATIONS);
        let over = |time: Duration| self.elapsed + needs >= time;
        let known = long.len() >= FEWEST_LONG && reach <= WIDE;
        (enough && reach <= self.width().ln_1p())
            || (known && over(self.config.aim))
            || over(self.config.within.scale(SAFE))
    }

    /// Near what was tried, whatever the fit has beyond it.
    fn within_bounds(&self, at: Rate) -> Rate {
        let Bounds { lower, upper } = self.bounds();
        let at = lower.map_or(at, |lower| at.max(scale(lower, 0.9)));
        upper.map_or(at, |upper| at.min(scale(upper, 1.1)))
    }

    /// The next confirming run, or the end.
    fn confirming(&mut self) -> Step {
        let SearchPhase::Confirm { rate, made, refused } = self.stage else {
            return self.end(Verdict::Unconfirmed);
        };
        if made >= CONFIRMATIONS {
            if self.holds(rate) {
                return self.end(Verdict::Found);
            }
            self.stage = self.next_to_confirm(Some(rate), refused + 1);
        }
        let SearchPhase::Confirm { rate, made, .. } = self.stage else {
            return self.end(Verdict::Unconfirmed);
        };
        if rate < LOWEST {
            return self.end(Verdict::Unconfirmed);
        }
        let missing = u64::from(CONFIRMATIONS.saturating_sub(made).max(1));
        let fits = self.left().scale(SAFE) / missing;
        self.trial(rate, self.confirming_run().min(fits), Purpose::Confirmation)
    }

    fn confirming_run(&self) -> Duration {
        self.config.confirm.max(self.long_trial())
    }

    /// The load to confirm: the highest of a fine grid where the line crosses or below it. One that
    /// did not hold is tried again while the line lies above it, and then lower ones, further down
    /// each time.
    fn next_to_confirm(&self, refused: Option<Rate>, times: u32) -> SearchPhase {
        let step = self.width() / GRID;
        let Bounds { lower, upper } = self.bounds();
        let at = match (self.line(), lower) {
            (Some(line), _) => self.within_bounds(line.at),
            (None, Some(lower)) => lower,
            (None, None) => scale(upper.unwrap_or(LOWEST), 0.9),
        };
        let rate = at_most(at, step);
        match refused {
            Some(refused) if rate >= refused && times <= PATIENCE => {
                SearchPhase::Confirm { rate: refused, made: CONFIRMATIONS - 1, refused: times }
            }
            Some(refused) => {
                let stride = (step * 2f64.powi(times.saturating_sub(PATIENCE) as i32)).min(0.5);
                let rate = at_most(rate.min(scale(refused, 1.0 - stride)), step);
                SearchPhase::Confirm { rate, made: 0, refused: times }
            }
            None => SearchPhase::Confirm { rate, made: 0, refused: times },
        }
    }

    /// Whether the objective holds over all long runs at this rate, and all runs together do not
    /// say that the line lies below.
    fn holds(&self, rate: Rate) -> bool {
        let long = self.long_runs();
        let same = long.iter().copied().filter(|run| run.rate == rate);
        let line = self.line().map_or(rate, |line| line.at);
        runs::pressure(same) <= 1.0 && rate <= scale(line, 1.0 + self.width() / GRID)
    }

    /// Where the line crosses, by the long runs, or by all while there are few of these.
    fn line(&self) -> Option<Crossing> {
        let long = self.long_runs();
        let all = self.counted().long(Duration::ZERO);
        estimate::crossing(&all, &all)
    }

    fn bounds(&self) -> Bounds {
        let long = self.long_runs();
        let found = runs::bounds(&long);
        match (found.lower, found.upper) {
            (Some(_), Some(_)) => found,
            _ => runs::bounds(&self.counted().long(Duration::ZERO)),
        }
    }

    /// The runs that count for the line: at least half as long as trials are where no slow cycle shows.
    fn long_runs(&self) -> Vec<&Run> {
        if self.stage == SearchPhase::Bracket {
            return Vec::new();
        }
        self.counted().long(self.config.last_trial / 2)
    }

    /// Long enough to hold several of the slowest cycle, as far as the time of the search goes.
    fn long_trial(&self) -> Duration {
        let cycles = self.cycle.unwrap_or_default() * CYCLES;
        let most = self.config.within.scale(TRIAL_PART).max(self.config.last_trial);
        cycles.clamp(self.config.last_trial, most)
    }

    fn counted(&self) -> Runs<'_> {
        Runs(&self.runs[self.stale..])
    }

    /// Whether the service has become another since it was measured first: then what came before
    /// counts no more, and the line is bracketed anew.
    fn look_for_change(&mut self) {
        if self.stage != SearchPhase::Measure {
            return;
        }
        let lasting = self.config.last_trial / 2;
        let (long, all) = (self.long_runs(), self.counted().0);
        let changed = self.line().and_then(|line| change::since(&long, &line));
        let Some(since) = changed.or_else(|| change::beyond(&long, all)) else { return };
        let first = all.iter().enumerate().filter(|(_, run)| run.lasts >= lasting).nth(since);
        self.stale += first.map_or(0, |(index, _)| index);
        let seconds = self.elapsed.as_secs_f64();
        self.note(format!(
            "after {seconds:.0} s the service carried another load than before: what was measured \
             first does not count"
        ));
        self.stage = SearchPhase::Bracket;
    }

    fn look_for_cycle(&mut self) {
        let Some(near) = self.near() else { return };
        let mut lateness = Lateness::default();
        let range = scale(near, 1.0 - ROUND)..=scale(near, 1.0 + ROUND);
        for run in self.runs.iter().filter(|run| range.contains(&run.rate)) {
            lateness.add(run.lasts, &run.late);
        }
        // What was seen once is not forgotten when a few trials see less of it.
        self.cycle = lateness.cycle().max(self.cycle.map(|before| before.scale(0.8)));
    }

    fn near(&self) -> Option<Rate> {
        let bounds = self.bounds();
        let line = self.line().map(|line| line.at);
        line.or(bounds.lower).or(bounds.upper)
    }

    fn width(&self) -> f64 {
        self.config.width.as_f64().max(1e-3)
    }

    /// The factor of so many steps of the width.
    fn step_of(&self, steps: f64) -> f64 {
        1.0 + self.width() * steps
    }

    fn left(&self) -> Duration {
        self.config.within.saturating_sub(self.elapsed)
    }

    fn trial(&self, rate: Rate, duration: Duration, purpose: Purpose) -> Step {
        let seed = self.config.seed.wrapping_mul(SEEDS).wrapping_add(self.trials.len() as u64);
        let enough = rate.interval() * FEWEST_REQUESTS;
        let duration = duration.max(enough).min(self.left());
        Step::Trial { rate, duration, seed, purpose }
    }

    /// The time is over: what was confirmed by then is found, the rest is what is known.
    fn end_of_time(&self) -> Step {
        match self.stage {
            SearchPhase::Confirm { rate, made, .. } if made > 0 && self.holds(rate) => {
                self.end(Verdict::Found)
            }
            _ => self.end(Verdict::OutOfTime),
        }
    }

    fn end(&self, verdict: Verdict) -> Step {
        Step::Done(Box::new(outcome::record(self, verdict)))
    }
}

/// What was asked for in a run of random arrivals, which is not quite its rate.
fn offered(rate: Rate, lasts: Duration, planned: u64) -> Rate {
    if planned == 0 || lasts == Duration::ZERO { rate } else { Count::new(planned) / lasts }
}

/// So many confirming runs are made at a load, and count together.
pub const CONFIRMATIONS: u32 = 2;

/// Parts of the time after which the ladder and the bracket end.
const LADDER_PART: f64 = 0.2;
const BRACKET_PART: f64 = 0.4;

/// Loads to confirm lie on a grid of so many steps a width ...
const GRID: f64 = 8.0;

/// ... of which one is taken after another, but strides after so many were refused.
const PATIENCE: u32 = 3;

/// No trial takes more than this part of the time.
const TRIAL_PART: f64 = 0.07;

/// What is left is shared out less this, for what runs take beyond their plan.
const SAFE: f64 = 0.9;

/// Short trials bring the bounds so many widths together.
const BRACKET_STEPS: f64 = 4.0;

/// Long trials that must be there before their interval is trusted.
const FEWEST_LONG: usize = 6;

/// An interval that reaches further to either side, as a logarithm, is no answer yet.
const WIDE: f64 = 0.5;

/// A trial lasts over so many of the slowest cycle.
const CYCLES: u64 = 5;

/// Long trials to either side of the line spend this many times more or less than is allowed ...
const APART: f64 = 1.8;

/// ... but are no further from it than this, as a logarithm.
const WIDEST: f64 = 0.05;

/// Runs within this share of the line show its cycle.
const ROUND: f64 = 0.15;

/// An invalid run may be an accident of the machine, and two when it is busy; three in a row are
/// none.
const INVALID_IN_A_ROW: u32 = 3;

/// A service is back at rest when its median is within this multiple of what it was ...
const AT_REST: f64 = 1.5;

/// ... and this much more, which is nothing to a person and much to a loopback.
const AT_REST_LEAST: Duration = Duration::from_millis(1);

/// The lowest load that is tried at all.
const LOWEST: Rate = Rate::milli_per_sec(100);

/// Shares of the first accepted load that are tried for the curve.
const CURVE: [f64; 3] = [0.25, 0.5, 0.75];

/// A trial is made longer where it would have fewer requests.
const FEWEST_REQUESTS: u64 = 10;

/// An odd number whose multiples lie far apart, so that no two searches share the seed of a trial.
const SEEDS: u64 = 0x9E37_79B9_7F4A_7C15;
