//! Whole searches in virtual time, and what they found beside the truth.

use loadline_core::{time::Duration, units::Rate};
use loadline_load::{
    Timetable, Until,
    search::{Config, Measured, Observation, Search, Step},
};
use loadline_measure::{
    objective::Objective,
    record::{Arrivals, CapacityRecord, Verdict},
};

use super::{
    observe::{Observer, seconds},
    server::{Ended, Host, Server, Source},
};

/// A server, what is asked of it and the load line: the highest rate at which it keeps to that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    pub(crate) slo: Slo,
    pub(crate) exact: f64,
    /// The seconds in which whoever counts what is late, at the load line alone and with a slope
    /// that is known, knows it to 2 % in 95 of 100 cases.
    pub(crate) floor_s: f64,
}

/// An objective.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slo {
    /// This percentile, in percent, below so many milliseconds, and few errors.
    Percentile(f64, f64),
    /// Errors below so many percent.
    Errors(f64),
}

impl Slo {
    pub(crate) fn objective(self) -> Objective {
        let text = match self {
            Self::Percentile(percent, ms) => format!("p{percent}<{ms}ms, errors<1%"),
            Self::Errors(percent) => format!("errors<{percent}%"),
        };
        text.parse().expect("an objective")
    }

    /// Whether the request spends of what the objective allows, and what share may.
    pub(crate) fn spends(self, request: &Ended) -> bool {
        let failed = request.ending != super::server::Ending::Ok;
        match self {
            Self::Percentile(_, ms) => failed || (request.at - request.came) * 1e3 >= ms,
            Self::Errors(_) => failed,
        }
    }

    pub(crate) fn allowed(self) -> f64 {
        match self {
            Self::Percentile(percent, _) => 1.0 - percent / 100.0,
            Self::Errors(percent) => percent / 100.0,
        }
    }
}

/// A search under way, and the time of its world.
struct World {
    host: Host,
    objective: Objective,
    within: f64,
    now: f64,
}

/// Runs a search against a server of this kind, and says how long it took.
pub(crate) fn search(kind: &Kind, config: Config, trace: bool) -> (CapacityRecord, f64) {
    let within = config.within.as_secs_f64();
    let host = Host::new(kind.server, config.seed);
    let mut world = World { host, objective: kind.slo.objective(), within, now: 0.0 };
    let mut search = Search::new(config);
    loop {
        let observation = match search.next() {
            Step::Done(record) => return (*record, world.now),
            Step::Ladder { users, duration } => world.rung(users as usize, duration.as_secs_f64()),
            Step::Trial { rate, duration, seed, .. } => world.trial(rate, duration, seed),
            Step::CoolDown { at_rest } => world.cool_down(at_rest),
        };
        if trace {
            print(world.now, &search.next(), &observation);
        }
        search.observe(seconds(world.now), observation);
    }
}

#[expect(clippy::print_stderr, reason = "what was asked for, beside the table")]
fn print(now: f64, step: &Step, observation: &Observation) {
    let step = match step {
        Step::Ladder { users, duration } => format!("{users} users for {duration}"),
        Step::Trial { rate, duration, purpose, .. } => format!("{purpose:?} {rate} for {duration}"),
        Step::CoolDown { .. } | Step::Done(_) => return,
    };
    let Observation::Run(run) = observation else { return };
    let spent = run.spent.iter().map(|it| format!("{:.2}", it.spent / it.allowed));
    let spent = spent.collect::<Vec<_>>().join(", ");
    eprintln!("{now:6.1} s {step}: {}, p99 {}, spent {spent}", run.achieved, run.response.p99);
}

impl World {
    fn rung(&mut self, users: usize, lasts: f64) -> Observation {
        self.measure(Source::closed(users, self.now, lasts), lasts)
    }

    fn trial(&mut self, rate: Rate, duration: Duration, seed: u64) -> Observation {
        let timetable = Timetable::steady(rate, Arrivals::Poisson, seed);
        let begun = self.now;
        let instants = timetable.instants(Until::Elapsed(duration));
        let source = Source::open(instants.map(|due| begun + due.as_secs_f64()));
        self.measure(source, duration.as_secs_f64())
    }

    /// As the command does it: one user for a while, again until the median is that of a rest.
    fn cool_down(&mut self, at_rest: Duration) -> Observation {
        let begun = self.now;
        loop {
            let source = Source::closed(1, self.now, PROBE);
            let Some(measured) = self.run(source, PROBE) else { return Observation::OutOfTime };
            let rested = measured.response.count > 0 && measured.response.p50 <= at_rest;
            if rested || self.now - begun >= (self.within / 10.0).min(30.0) {
                return Observation::Cooled { at_rest: rested };
            }
        }
    }

    fn measure(&mut self, source: Source<'_>, lasts: f64) -> Observation {
        self.run(source, lasts).map_or(Observation::OutOfTime, |it| Observation::Run(Box::new(it)))
    }

    /// A run and the time that it takes: until all is answered, or cut off where that takes long.
    fn run(&mut self, source: Source<'_>, lasts: f64) -> Option<Measured> {
        let mut observer = Observer::new(self.now, lasts, &self.objective);
        let begun = self.now;
        let cut = begun + lasts + (self.within / 20.0).min(30.0);
        let ended = self.host.serve(source, cut.min(self.within), |request| observer.add(request));
        self.now = ended.max(begun + lasts);
        if self.now >= self.within {
            return None;
        }
        let measured = observer.measured(self.now, &self.objective);
        self.now += BETWEEN;
        Some(measured)
    }
}

/// What a search found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// How far off the load is, as a share; none where none was found.
    pub(crate) error: Option<f64>,
    /// Whether the interval holds the exact one.
    pub(crate) covers: bool,
    /// How wide the interval is to either side, as a share.
    pub(crate) reach: f64,
    /// How long the search took, in seconds.
    pub(crate) took: f64,
    pub(crate) verdict: Verdict,
}

/// What searches with these seeds find.
pub(crate) fn searches(
    kind: &Kind,
    config: &Config,
    seeds: std::ops::Range<u64>,
    trace: bool,
) -> Vec<Found> {
    let of = |rate: Rate| rate.as_per_sec_f64();
    let found = |seed| {
        let config = Config { seed, ..config.clone() };
        let (record, took) = search(kind, config, trace);
        let line = record.found.as_ref();
        let interval = line.map(|line| (of(line.interval.low), of(line.interval.high)));
        Found {
            error: line.map(|line| of(line.rate) / kind.exact - 1.0),
            covers: interval.is_some_and(|it| it.0 <= kind.exact && kind.exact <= it.1),
            reach: interval.map_or(f64::NAN, |it| 0.5 * (it.1 / it.0 - 1.0)),
            took,
            verdict: record.verdict,
        }
    };
    seeds.map(found).collect()
}

/// How long a probe of a cool-down lasts.
const PROBE: f64 = 0.2;

/// From the end of a run to the begin of the next.
const BETWEEN: f64 = 0.05;
