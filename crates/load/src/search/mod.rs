//! The capacity search: a pure state machine from measured runs to the load line.
//!
//! ```text
//! Ladder --> Bisection (bracket, curve, goals that grow stricter) --> Confirmation --> Done
//!   each breached trial: --> CoolDown --> back
//! ```
//! [`Search::next`] says what to run, [`Search::observe`] takes what came of it; there is no clock
//! and no I/O here, so the same search runs against a service and against a simulated queue.
//!
//! - ladder: a closed loop with 1, 2, 4 ... users, which cannot overload the service by much and
//!   shows its throughput (`ladder`, and `scalability` for the law fitted to it);
//! - bisection: open-loop trials in the manner of RFC 9971, first short, then longer and repeated
//!   (`loads` for what accepts a load, `bisect` for which comes next);
//! - confirmation: longer runs, each at a lower load than the one before, until one meets the
//!   objective.
//!
//! A run whose generator was at fault decides nothing and is made again; three in a row end the
//! search, with what is known by then.

mod bisect;
mod estimate;
mod knee;
mod ladder;
mod loads;
mod outcome;
mod scalability;

use std::collections::VecDeque;

use loadline_core::{
    record::{
        Arrivals, CapacityRecord, Criterion, Fault, Latency, LoadRecord, Purpose, Trial, Verdict,
    },
    time::Duration,
    units::{Rate, Ratio},
};

use bisect::{Ask, Range, scale};
use ladder::Ladder;
use loads::{Goal, Loads};

/// What to search and how long to look.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is loaded, for the record.
    pub target: String,
    /// The objective as it is judged, for the record.
    pub objective: String,
    /// How the planned instants of trials lie, for the record.
    pub arrivals: Arrivals,
    /// What the seeds of the trials come from.
    pub seed: u64,
    /// How long a rung of the ladder lasts.
    pub rung: Duration,
    /// The most users of a rung.
    pub most_users: u32,
    /// How long the first, short trials last.
    pub first_trial: Duration,
    /// How long a trial lasts that counts in full at the end.
    pub last_trial: Duration,
    /// The time of such trials that decides a load.
    pub duration_sum: Duration,
    /// The share of that time that may breach the objective at an accepted load.
    pub exceed: Ratio,
    /// How close the accepted and the refused load must come, as a share of the refused one.
    pub width: Ratio,
    /// How long a confirming run lasts.
    pub confirm: Duration,
    /// The highest load that may be tried.
    pub highest: Rate,
    /// The most open-loop runs; a search that needs more is not going to end.
    pub most_trials: usize,
    /// The share of the load line that is to stay free.
    pub headroom: Ratio,
}

impl Default for Config {
    /// Two to five minutes for a service of some hundred requests per second or more.
    fn default() -> Self {
        Self {
            target: String::new(),
            objective: String::new(),
            arrivals: Arrivals::Poisson,
            seed: 1,
            rung: Duration::from_secs(3),
            most_users: 1_024,
            first_trial: Duration::from_secs(3),
            last_trial: Duration::from_secs(10),
            duration_sum: Duration::from_secs(30),
            exceed: Ratio::percent(50),
            width: Ratio::percent(2),
            confirm: Duration::from_secs(30),
            highest: Rate::per_sec(1_000_000),
            most_trials: 100,
            headroom: Ratio::percent(20),
        }
    }
}

impl Config {
    /// A look of half a minute: shorter trials, a wider goal.
    #[must_use]
    pub fn quick(self) -> Self {
        Self {
            rung: Duration::from_millis(500),
            first_trial: Duration::from_millis(500),
            last_trial: Duration::from_secs(1),
            duration_sum: Duration::from_secs(3),
            width: Ratio::percent(4),
            confirm: Duration::from_secs(3),
            ..self
        }
    }

    /// Three goals: trials longer by the same factor each time, bounds closer by half and more.
    fn goals(&self) -> [Goal; 3] {
        let (first, last) = (self.first_trial.as_secs_f64(), self.last_trial.as_secs_f64());
        let growth = (last / first.max(1e-3)).max(1.0).sqrt();
        let sum = self.duration_sum.max(self.last_trial);
        let goal = |duration, sum, width| Goal {
            duration,
            sum,
            exceed: self.exceed.as_f64().clamp(0.0, 0.99),
            width: self.width.as_f64().max(1e-3) * width,
        };
        let middle = self.first_trial.scale(growth);
        [
            goal(self.first_trial, self.first_trial, 4.0),
            goal(middle, (middle * 2).min(sum), 2.0),
            goal(self.last_trial, sum, 1.0),
        ]
    }
}

/// What to run next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A closed loop of so many users without think time.
    Ladder {
        /// Users at a time.
        users: u32,
        /// For how long.
        duration: Duration,
    },
    /// An open loop.
    Trial {
        /// The planned rate.
        rate: Rate,
        /// For how long requests are planned.
        duration: Duration,
        /// Which plan of random arrivals.
        seed: u64,
        /// What it is for.
        purpose: Purpose,
    },
    /// Wait until a light probe finds the service back at rest: nothing in flight, and answers
    /// within this time again.
    CoolDown {
        /// The median response time to wait for.
        at_rest: Duration,
    },
    /// Nothing any more.
    Done(Box<CapacityRecord>),
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Of [`Step::Ladder`] and [`Step::Trial`].
    Run(Measured),
    /// Of [`Step::CoolDown`]: whether the service came to rest in the time there was.
    Cooled {
        /// It did.
        at_rest: bool,
    },
    /// Someone wants the search to end now.
    Interrupted,
}

/// What a search must know of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Successful answers per second.
    pub achieved: Rate,
    /// Their response times.
    pub response: Latency,
    /// Whether the objective was met.
    pub met: bool,
    /// The worst measured value as a multiple of its limit, where the objective gives one.
    pub pressure: Option<f64>,
    /// What was measured, by criterion.
    pub criteria: Vec<Criterion>,
    /// What makes the run invalid.
    pub faults: Vec<Fault>,
}

impl Measured {
    /// What a run says whose record holds its objective; a run without one meets it.
    #[must_use]
    pub fn of(run: &LoadRecord, pressure: Option<f64>) -> Self {
        let objective = run.objective.as_ref();
        Self {
            achieved: run.achieved,
            response: run.response.clone(),
            met: objective.is_none_or(loadline_core::record::ObjectiveRecord::is_met),
            pressure,
            criteria: objective.map_or_else(Vec::new, |objective| objective.criteria.clone()),
            faults: run.generator.faults.clone(),
        }
    }
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    config: Config,
    goals: [Goal; 3],
    ladder: Ladder,
    range: Option<Range>,
    loads: Loads,
    trials: Vec<Trial>,
    /// Loads well below the line still to be tried for the curve; none before it is their turn.
    curve: Option<VecDeque<Rate>>,
    /// The load of the next confirming run, and how many were breached.
    confirming: Option<(Rate, u32)>,
    /// Whether the service is yet to come to rest after a breach.
    hot: bool,
    /// Invalid runs since the last valid one.
    invalid: u32,
    notes: Vec<String>,
    step: Step,
}

impl Search {
    /// A search that has not begun.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let step = Step::Ladder { users: 1, duration: config.rung };
        Self {
            goals: config.goals(),
            config,
            ladder: Ladder::default(),
            range: None,
            loads: Loads::default(),
            trials: Vec::new(),
            curve: None,
            confirming: None,
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

    /// The highest accepted and the lowest refused load so far, by the trials as they stand.
    #[must_use]
    pub fn bracket(&self) -> (Option<Rate>, Option<Rate>) {
        let bounds = self.loads.bounds(&self.goals[0]);
        (bounds.lower, bounds.upper)
    }

    /// Takes what came of the step that [`Search::next`] asked for; what is no answer to it is
    /// ignored.
    pub fn observe(&mut self, observation: Observation) {
        match (self.step.clone(), observation) {
            (Step::Done(_), _) => return,
            (_, Observation::Interrupted) => {
                self.step = self.end(Verdict::Interrupted);
                return;
            }
            (Step::Ladder { users, duration }, Observation::Run(measured)) => {
                self.climb(users, duration, measured);
            }
            (Step::Trial { rate, duration, seed, purpose }, Observation::Run(measured)) => {
                self.record(rate, duration, seed, purpose, measured);
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
        if valid {
            self.loads.add(rate, lasts, measured.met);
        }
        if valid && purpose == Purpose::Confirmation && !measured.met {
            self.step_down();
        }
        let Measured { achieved, response, met, pressure, criteria, faults } = measured;
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

    fn step_down(&mut self) {
        if let Some((rate, breached)) = self.confirming {
            let doubled = 2f64.powi(breached.saturating_sub(EVEN_STRIDES).cast_signed());
            let stride = self.goals[2].width * CONFIRM_STRIDE * doubled;
            self.confirming = Some((scale(rate, 1.0 - stride.min(0.5)), breached + 1));
        }
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
        if self.trials.last().is_some_and(|last| self.is_confirmed_by(last)) {
            return self.end(Verdict::Found);
        }
        if self.hot {
            let at_rest = self.ladder.at_rest();
            return Step::CoolDown { at_rest: at_rest.scale(AT_REST) + AT_REST_LEAST };
        }
        if self.range.is_none()
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
        match self.confirming {
            Some((_, breached)) if breached >= MOST_CONFIRMATIONS => self.end(Verdict::Unconfirmed),
            Some((rate, _)) => self.trial(rate, self.config.confirm, Purpose::Confirmation),
            None if self.trials.len() >= self.config.most_trials => self.end(Verdict::Unconfirmed),
            None => self.narrow(&range),
        }
    }

    fn is_confirmed_by(&self, last: &Trial) -> bool {
        last.purpose == Purpose::Confirmation && last.met && last.faults.is_empty()
    }

    /// The next trial of the bisection, or the first confirming run after it.
    fn narrow(&mut self, range: &Range) -> Step {
        match bisect::next(&self.loads, &self.goals, range) {
            Ask::Trial { rate, goal: 0, bracketing } => {
                let purpose = if bracketing { Purpose::Bracket } else { Purpose::Bisection };
                self.trial(rate, self.goals[0].duration, purpose)
            }
            Ask::Trial { rate, goal, .. } => match self.curve_point() {
                Some(point) => self.trial(point, self.goals[0].duration, Purpose::Curve),
                None => self.trial(rate, self.goals[goal].duration, Purpose::Bisection),
            },
            Ask::Narrow { lower, upper } => {
                let rate = outcome::best_guess(self, lower, upper);
                self.confirming = Some((rate, 0));
                self.trial(rate, self.config.confirm, Purpose::Confirmation)
            }
            Ask::Ceiling { .. } => self.end(Verdict::AtLeast),
            Ask::Floor { .. } => self.end(Verdict::NoLoadMeets),
        }
    }

    /// The next load of the curve, where one is still to be tried.
    fn curve_point(&mut self) -> Option<Rate> {
        let lower = self.loads.bounds(&self.goals[0]).lower;
        let curve = self.curve.get_or_insert_with(|| {
            let shares = lower.map(|lower| CURVE.map(|share| scale(lower, share)));
            shares.into_iter().flatten().collect()
        });
        curve.pop_front()
    }

    fn trial(&self, rate: Rate, duration: Duration, purpose: Purpose) -> Step {
        let seed = self.config.seed.wrapping_mul(SEEDS).wrapping_add(self.trials.len() as u64);
        let enough = rate.interval() * FEWEST_REQUESTS;
        Step::Trial { rate, duration: duration.max(enough), seed, purpose }
    }

    fn end(&self, verdict: Verdict) -> Step {
        Step::Done(Box::new(outcome::record(self, verdict)))
    }
}

/// Between two confirming runs the load falls by this share of the goal width: at the very load
/// line every second run is breached, and that is no reason to go far from it.
const CONFIRM_STRIDE: f64 = 0.5;

/// After so many such strides each is twice as long as the one before.
const EVEN_STRIDES: u32 = 3;

/// After so many breached confirming runs the bracket was wrong.
const MOST_CONFIRMATIONS: u32 = 8;

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
