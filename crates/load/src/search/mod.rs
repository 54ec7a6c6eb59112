//! The capacity search: a pure state machine from measured runs to the load line.
//!
//! ```text
//! Ladder --> Bracket --> Measure --> Confirm --> Done
//!                           ^           | breached, or not sure yet
//!   each breached trial: --> CoolDown --> back
//! ```
//! [`Search::next`] says what to run, [`Search::observe`] takes what came of it and how late it is;
//! there is no clock and no I/O here, so the same search runs against a service and against a
//! simulated queue.
//!
//! - ladder: a closed loop with 1, 2, 4 ... users, which cannot overload the service by much and
//!   shows its throughput (`ladder`, and `scalability` for the law fitted to it). Where more users
//!   get no more, they stay for a while: caches warm up, and an autoscaler adds what it has;
//! - bracket: short open-loop trials below the highest throughput, then bisecting;
//! - measure: long trials on either side of the load line, each over several of the slowest cycle
//!   that shows in what was late (`cycle`), until the line through all of them crosses the limit
//!   with an error that is small enough (`estimate`, `scatter`, `evidence`);
//! - confirm: [`CONFIRMATIONS`] more trials at a load a little below the crossing. All long trials
//!   at that load count together (`runs`): the objective must hold over all of them, they must
//!   have so many requests that three may be late, and the estimate of all trials must not lie
//!   below. Otherwise there are more long trials, if the error asks for them, and the next load is
//!   confirmed. The load line is where the line through all trials, these included, crosses.
//!
//! Where one user and the lowest long trials breach the objective alike it ends: no load meets it
//! (`alike`).
//!
//! The search ends within the time it is given; what it could not measure in it makes the interval
//! wider. A run whose generator was at fault decides nothing and is made again; three in a row end
//! the search, with what is known by then, and so does a generator that is lost.

mod alike;
mod config;
mod cycle;
mod estimate;
mod evidence;
mod knee;
mod ladder;
mod outcome;
mod point;
mod rates;
mod runs;
mod scalability;
mod scatter;
mod step;

use std::collections::VecDeque;

use loadline_core::{
    time::Duration,
    units::{Count, Rate},
};
use loadline_measure::record::{Purpose, Trial, Verdict};
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};

pub use config::Config;
use ladder::Ladder;
use rates::{at_most, between, nearest, ratio, scale};
use runs::Run;
pub use step::{Measured, NoAnswer, Observation, Step};

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    config: Config,
    ladder: Ladder,
    range: Option<Range>,
    stage: SearchPhase,
    /// All valid runs, in the order of time.
    runs: Vec<Run>,
    /// How many runs were made before those that count for the line.
    before: usize,
    trials: Vec<Trial>,
    /// The loads that were to be confirmed and were not.
    refused: Vec<Rate>,
    /// Loads well below the line still to be tried for the curve; none before it is their turn.
    curve: Option<VecDeque<Rate>>,
    /// The slowest cycle that shows in what was late near the line.
    cycle: Option<Duration>,
    /// How often trials were made twice as long because they differed too much.
    doubled: i32,
    /// Since the search began.
    elapsed: Duration,
    /// Whether the service is yet to come to rest after a breach.
    hot: bool,
    /// Invalid runs since the last valid one.
    invalid: u32,
    notes: Vec<String>,
    step: Step,
}

/// The start and the bounds of a search.
#[derive(Clone, Copy, Debug)]
struct Range {
    lowest: Rate,
    guess: Rate,
    highest: Rate,
}

/// The purpose of the present trials.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SearchPhase {
    Bracket,
    Measure,
    /// Confirms this load; so many confirming runs were made.
    Confirm {
        rate: Rate,
        made: u32,
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
            before: 0,
            refused: Vec::new(),
            trials: Vec::new(),
            curve: None,
            cycle: None,
            doubled: 0,
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
            (_, Observation::GeneratorLost(why)) => {
                self.note(why);
                self.step = self.end(Verdict::GeneratorInvalid);
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
                        "the service did not come back to {:.1} ms after a breach; later trials \
                         may have found it still busy",
                        at_rest.as_millis_f64()
                    ));
                }
            }
            _ => return,
        }
        self.step = self.decide();
    }

    fn climb(&mut self, users: u32, duration: Duration, measured: Measured) {
        self.ladder.add((users, self.config.highest), duration, &measured);
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
        self.hot = !measured.met && runs::worst(&measured.spent) > OVERLOAD;
        self.invalid = if valid { 0 } else { self.invalid + 1 };
        let Measured { achieved, planned, response, met, pressure, criteria, faults, spent, late } =
            measured;
        if valid {
            let begun = self.elapsed.saturating_sub(lasts);
            let offered = Count::new(planned) / lasts;
            self.runs.push(Run { rate, offered, begun, lasts, spent, late });
            if let SearchPhase::Confirm { made, .. } = &mut self.stage {
                *made += 1;
            }
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
            && let Some((users, stays)) = self.ladder.next(&self.config)
        {
            if self.elapsed < self.config.within.scale(LADDER_PART) {
                let duration = if stays { self.config.rung * STAYS } else { self.rung() };
                return Step::Ladder { users, duration };
            }
            if self.ladder.best() > Rate::default() {
                self.note(STILL_GREW.into());
            }
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
        self.look_at_variation();
        if let Some(alike) = self.breached_alike() {
            self.note(alike.to_string());
            return self.end(Verdict::NoLoadMeets);
        }
        if let SearchPhase::Confirm { rate, made } = self.stage
            && made >= CONFIRMATIONS
            && self.missing(rate) == Duration::ZERO
        {
            let holds = self.holds(rate);
            if holds && (self.is_late() || self.is_known()) {
                return self.end(Verdict::Found);
            }
            if !holds {
                self.refused.push(rate);
            }
            self.stage = SearchPhase::Measure;
        }
        self.forget_another_service();
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
            (None, Some(upper)) => self.ladder.below(upper).max(range.lowest),
            (Some(lower), None) if lower >= range.highest => {
                self.stage = SearchPhase::Measure;
                return None;
            }
            (Some(lower), None) => self.ladder.above(lower).min(range.highest),
            (Some(lower), Some(upper)) => {
                if let Some(point) = self.curve_point(lower) {
                    return Some(self.trial(point, self.config.first_trial, Purpose::Curve));
                }
                let late = self.elapsed >= self.config.within.scale(BRACKET_PART);
                if late || upper.as_per_sec_f64() <= lower.as_per_sec_f64() * CLOSE {
                    self.stage = SearchPhase::Measure;
                    self.before = self.runs.len();
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
        let long = self.long_runs();
        let (bounds, crossing) = (runs::bounds(&long), self.crossing(&long));
        let made = long.len();
        let precise = crossing.is_some_and(|crossing| self.is_precise(&crossing));
        let all = self.bounds();
        let apart = self.apart(&long, all.upper);
        let rate = match (bounds.lower, bounds.upper) {
            (Some(lower), _) if lower >= range.highest => {
                let missing = self.missing(range.highest);
                let is_enough = made >= 2 && missing == Duration::ZERO;
                let duration = duration.max(missing / 2);
                return is_enough
                    .then(|| self.end(Verdict::AtLeast))
                    .or_else(|| Some(self.trial(range.highest, duration, Purpose::Bisection)));
            }
            _ if self.is_late() || precise => {
                self.stage = self.next_to_confirm();
                return None;
            }
            _ if let Some(apart) = apart => apart,
            (None, None) => match (all.lower, all.upper) {
                (Some(lower), Some(upper)) => between(lower, upper),
                (lower, _) => lower.unwrap_or(range.guess),
            },
            (None, Some(upper)) => match all.lower.filter(|lower| *lower < upper && made <= 2) {
                Some(lower) => between(lower, upper),
                None => {
                    let further = self.outward(made, crossing.map(|line| ratio(upper, line.at)));
                    scale(upper, 1.0 / further).max(range.lowest)
                }
            },
            (Some(lower), None) => match all.upper.filter(|upper| lower < *upper && made <= 2) {
                Some(upper) => between(lower, upper),
                None => {
                    let further = self.outward(made, crossing.map(|line| ratio(line.at, lower)));
                    scale(lower, further).min(range.highest)
                }
            },
            (Some(lower), Some(upper)) => {
                let at = crossing.map_or_else(|| between(lower, upper), |crossing| crossing.at);
                let at = at
                    .max(scale(lower, 1.0 - self.precision()))
                    .min(scale(upper, 1.0 + self.precision()));
                let reach = crossing.map_or(0.0, |crossing| APART.ln() / crossing.slope);
                let reach = reach.min(WIDEST);
                let side = f64::from(self.draw().random_range(-1..=1)) + HIGHER;
                scale(at, (side * reach).exp()).min(range.highest)
            }
        };
        let rate = nearest(rate, self.precision() / 2.0).max(LOWEST).min(range.highest);
        Some(self.trial(rate, duration, Purpose::Bisection))
    }

    /// How far beyond all long trials the next one is, as a ratio: as far as their line says, if
    /// there is one yet, else further each time.
    fn outward(&self, made: usize, line: Option<f64>) -> f64 {
        let doubled = 2f64.powi(made.saturating_sub(1).min(6) as i32);
        let step = 2.0 * self.precision();
        line.unwrap_or(1.0 + step * doubled).clamp((1.0 + step).min(2.0), 2.0)
    }

    /// The next confirming run, or the end.
    fn confirming(&mut self) -> Step {
        let SearchPhase::Confirm { rate, made } = self.stage else {
            return self.end(Verdict::Unconfirmed);
        };
        if rate < LOWEST {
            return self.end(Verdict::Unconfirmed);
        }
        let runs = u64::from(CONFIRMATIONS.saturating_sub(made).max(1));
        let missing = self.missing(rate);
        let fits = self.left().scale(SAFE) / runs;
        if missing > fits * runs {
            let seconds = missing.as_secs_f64();
            self.note(format!(
                "to confirm {rate} takes {seconds:.0} s, since requests are few at so low a load; \
                 give it more time (--within)"
            ));
        }
        if fits < (self.long_trial() / 4).max(missing / runs) {
            return self.end_of_time();
        }
        self.trial(rate, self.confirm().max(missing / runs).min(fits), Purpose::Confirmation)
    }

    /// The load to confirm: a little below where the line crosses, more each time one was refused.
    fn next_to_confirm(&self) -> SearchPhase {
        let long = self.long_runs();
        let bounds = runs::bounds(&long);
        let all = self.bounds();
        let more = SHADE_MORE * self.refused.len() as f64;
        let at = match (self.crossing(&long), bounds.lower.or(all.lower)) {
            (Some(line), _) => {
                let late = if self.is_late() { SHADE_LATE } else { 0.0 };
                let known = (SHADE * line.error).min(SHADE_KNOWN * self.precision());
                let shade = known.max(SHADE_UNKNOWN * line.error) + (late + more) * line.error;
                scale(line.at, 1.0 - shade.min(0.5))
            }
            (None, Some(lower)) => {
                let refused = self.refused.iter().min().copied().unwrap_or(lower);
                lower.min(scale(refused, 1.0 - self.precision()))
            }
            (None, None) => scale(bounds.upper.or(all.upper).unwrap_or(LOWEST), 0.9),
        };
        SearchPhase::Confirm { rate: at_most(at, self.precision() / 8.0), made: 0 }
    }

    /// Whether the objective holds over all long runs at this rate, which are enough of them, and
    /// all runs together do not say that the line lies below.
    fn holds(&self, rate: Rate) -> bool {
        let long = self.long_runs();
        let same = long.iter().copied().filter(|run| run.rate == rate);
        let line = self.crossing(&long).map_or(rate, |line| line.at);
        runs::pressure(same) <= 1.0
            && rate <= scale(line, 1.0 + 1e-3)
            && self.missing(rate) == Duration::ZERO
    }

    /// Long enough for some hundreds of responses, by what the rung before had.
    fn rung(&self) -> Duration {
        let most = self.config.rung;
        let enough = (self.ladder.best().interval() * RUNG_REQUESTS).clamp(most / 4, most);
        if self.ladder.rungs.is_empty() { most } else { enough }
    }

    fn precision(&self) -> f64 {
        self.config.precision.as_f64().max(1e-3)
    }

    /// A draw that no cycle of the service keeps step with.
    fn draw(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.seed_of_next())
    }

    /// The seed of the next trial.
    fn seed_of_next(&self) -> u64 {
        self.config.seed.wrapping_mul(SEEDS).wrapping_add(self.trials.len() as u64)
    }

    fn left(&self) -> Duration {
        self.config.within.saturating_sub(self.elapsed)
    }

    fn trial(&self, rate: Rate, duration: Duration, purpose: Purpose) -> Step {
        let seed = self.seed_of_next();
        let enough = rate.interval() * FEWEST_REQUESTS;
        let duration = duration.max(enough).min(self.left());
        Step::Trial { rate, duration, seed, purpose }
    }

    /// The time is over: what was confirmed by then is found, the rest is what is known.
    fn end_of_time(&self) -> Step {
        match self.stage {
            SearchPhase::Confirm { rate, made } if made > 0 && self.holds(rate) => {
                self.end(Verdict::Found)
            }
            _ => self.end(Verdict::OutOfTime),
        }
    }

    fn end(&self, verdict: Verdict) -> Step {
        Step::Done(Box::new(outcome::record(self, verdict)))
    }
}

/// So many confirming runs are made at a load, and count together.
pub const CONFIRMATIONS: u32 = 2;

/// Parts of the time after which the ladder, the bracket and the long trials end.
const LADDER_PART: f64 = 0.2;
const BRACKET_PART: f64 = 0.3;
const MEASURE_PART: f64 = 0.7;

/// What is left is shared out less this, for what runs take beyond their plan.
const SAFE: f64 = 0.9;

/// Short trials bring the bounds so near to each other.
const CLOSE: f64 = 1.15;

/// A load is confirmed so many standard errors below the line, but no more precisions ...
const SHADE: f64 = 1.3;
const SHADE_KNOWN: f64 = 1.5;

/// ... and so many where the error is larger than that, and more for each that was refused.
const SHADE_UNKNOWN: f64 = 0.4;
const SHADE_MORE: f64 = 0.25;

/// When there is no time for many more it is to hold at once.
const SHADE_LATE: f64 = 0.3;

/// Load that stays to see whether the service grows stays so many rungs.
const STAYS: u64 = 5;

/// What a search says that had no time to wait for the service.
const STILL_GREW: &str = "throughput still grew when there was no more time for more users: the \
     service may carry more once it is warm; give it more time (--within, or no --quick)";

/// A rung of the ladder is as long as so many responses take.
const RUNG_REQUESTS: u64 = 500;

/// Long trials to either side of the line spend this many times more or less than is allowed ...
const APART: f64 = 1.5;

/// ... and above it more than below: what is late more often is counted sooner ...
const HIGHER: f64 = 0.4;

/// ... but are no further from it than this, as a logarithm.
const WIDEST: f64 = 0.15;

/// A trial that spent more than this multiple of what is allowed overloaded the service: it gets a
/// rest. What spends a little more than is allowed is as near to the line as what spends less.
const OVERLOAD: f64 = 3.0;

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
const CURVE: [f64; 2] = [0.3, 0.6];

/// A trial is made longer where it would have fewer requests.
const FEWEST_REQUESTS: u64 = 10;

/// An odd number whose multiples lie far apart, so that no two searches share the seed of a trial.
const SEEDS: u64 = 0x9E37_79B9_7F4A_7C15;
