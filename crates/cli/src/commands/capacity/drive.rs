//! Runs what a search asks for, and says on the standard error what is being tried.

use std::{
    cell::{Cell, RefCell},
    io::{self, Write as _},
    time,
};

use loadline_core::{time::Duration, units::Rate};
use loadline_load::{
    LoadPlan, Pattern, Progress, Timetable, Until,
    agents::AgentError,
    search::{Config, Measured, NoAnswer, Observation, Search, Step},
};
use loadline_measure::{
    objective::{Objective, Rest},
    record::{Arrivals, CapacityRecord, LoadRecord, Purpose},
};
use loadline_report::{millis, per_second};
use tokio::{runtime::Runtime, sync::Notify};

use crate::commands::{
    bench::page::one_of_several,
    generators::{Generators, With},
    stop_signal::StopSignal,
};

/// How runs are made beyond what the search says.
pub(super) struct Pace {
    pub(super) arrivals: Arrivals,
    pub(super) max_in_flight: u32,
    /// The longest wait for the service to come to rest.
    pub(super) cool_down: Duration,
    pub(super) quiet: bool,
}

impl Pace {
    /// An open loop for so long.
    fn trial(&self, timetable: Timetable, duration: Duration) -> Pattern {
        let until = Until::Elapsed(duration);
        Pattern::Open { timetable, until, max_in_flight: Some(self.max_in_flight) }
    }
}

/// Searches with runs of `plan` under the patterns that the search asks for.
pub(super) fn run(
    config: Config,
    objective: &Objective,
    plan: &LoadPlan,
    pace: &Pace,
    with: &With,
) -> anyhow::Result<CapacityRecord> {
    let runtime = loadline_load::runtime()?;
    let mut stop = runtime.block_on(async { StopSignal::new() })?;
    let generators = runtime.block_on(with.connect(&mut stop))?;
    let trial = Timetable::steady(config.highest, pace.arrivals, config.seed);
    generators.check(&LoadPlan { pattern: pace.trial(trial, config.rung), ..plan.clone() })?;
    let driver = Driver {
        objective,
        plan,
        pace,
        runtime,
        generators: RefCell::new(generators),
        stop: RefCell::new(stop),
        begun: time::Instant::now(),
        within: config.within.to_std(),
        has_measured: Cell::new(false),
    };
    let started = time::SystemTime::now().duration_since(time::UNIX_EPOCH).unwrap_or_default();
    driver.say(&format!("this takes {} at most", span(config.within)));
    let mut search = Search::new(config);
    loop {
        let known = search.cycle();
        let observation = match search.next() {
            Step::Done(mut record) => {
                record.started_unix_ms = u64::try_from(started.as_millis()).unwrap_or_default();
                return Ok(*record);
            }
            Step::Ladder { users, duration } => driver.rung(users, duration)?,
            Step::CoolDown { at_rest } => driver.cool_down(at_rest)?,
            Step::Trial { rate, duration, seed, purpose } => {
                let timetable = Timetable::steady(rate, pace.arrivals, seed);
                driver.trial(&search, timetable, rate, duration, purpose)?
            }
        };
        search.observe(Duration::from_std(driver.begun.elapsed()), observation);
        if let Some((cycle, trial)) = search.cycle().filter(|_| known.is_none()) {
            let (cycle, trial) = (cycle.as_secs_f64(), trial.as_secs_f64());
            driver.say(&format!("late about every {cycle:.1} s: trials last {trial:.0} s"));
        }
    }
}

/// Minutes, or the seconds of what is shorter.
fn span(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} minutes", seconds / 60.0),
    }
}

struct Driver<'a> {
    objective: &'a Objective,
    plan: &'a LoadPlan,
    pace: &'a Pace,
    runtime: Runtime,
    generators: RefCell<Generators>,
    stop: RefCell<StopSignal>,
    begun: time::Instant,
    within: time::Duration,
    /// Whether a run was made: what becomes of the generators later ends a search that has begun.
    has_measured: Cell<bool>,
}

impl Driver<'_> {
    fn rung(&self, users: u32, duration: Duration) -> anyhow::Result<Observation> {
        let until = Until::Elapsed(duration);
        let pattern = Pattern::Closed { users, think: Duration::ZERO, until };
        let run = match self.measure(pattern, Some(duration))? {
            Ok(run) => run,
            Err(ended) => return Ok(ended),
        };
        if users == 1
            && let Some(none) = NoAnswer::of(&run)
        {
            return Err(none.into());
        }
        if let Some(addresses) = one_of_several(&run).filter(|_| users == 1) {
            self.say(&addresses);
        }
        let measured = self.judge(run);
        let throughput = per_second(measured.achieved);
        let plural = if users == 1 { "" } else { "s" };
        self.say(&format!("{users} user{plural}: {throughput}, {}", told(&measured)));
        Ok(Observation::Run(Box::new(measured)))
    }

    fn trial(
        &self,
        search: &Search,
        timetable: Timetable,
        rate: Rate,
        duration: Duration,
        purpose: Purpose,
    ) -> anyhow::Result<Observation> {
        let pattern = self.pace.trial(timetable, duration);
        let measured = match self.measure(pattern, Some(duration))? {
            Ok(run) => self.judge(run),
            Err(ended) => return Ok(ended),
        };
        let purpose = match purpose {
            Purpose::Bracket => "bracket",
            Purpose::Curve => "curve",
            Purpose::Bisection => "bisect",
            Purpose::Confirmation => "confirm",
        };
        let known = match search.bracket() {
            (None, None) => String::new(),
            (lower, upper) => {
                let end = |rate: Option<Rate>| rate.map_or("?".to_owned(), per_second);
                format!(" [before: {} to {}]", end(lower), end(upper))
            }
        };
        let seconds = duration.as_secs_f64();
        let rate = per_second(rate);
        self.say(&format!("{purpose} {rate} for {seconds:.1} s: {}{known}", told(&measured)));
        Ok(Observation::Run(Box::new(measured)))
    }

    /// Asks with one user at a time until the median answer is back where it was.
    fn cool_down(&self, at_rest: Duration) -> anyhow::Result<Observation> {
        let begun = time::Instant::now();
        loop {
            let until = Until::Elapsed(PROBE);
            let pattern = Pattern::Closed { users: 1, think: Duration::ZERO, until };
            let run = match self.measure(pattern, None)? {
                Ok(run) => run,
                Err(ended) => return Ok(ended),
            };
            let rested = run.outcomes.ok > 0 && run.response.p50 <= at_rest;
            let waited = begun.elapsed();
            if rested || waited >= self.pace.cool_down.to_std().min(self.within / COOL_DOWN_PART) {
                let end = if rested { "at rest again" } else { "still busy" };
                if !rested || waited >= NOTABLE {
                    self.say(&format!("cool down: {end} after {:.1} s", waited.as_secs_f64()));
                }
                return Ok(Observation::Cooled { at_rest: rested });
            }
        }
    }

    /// The run of a pattern that is planned for so long, or what ended the search instead. What is
    /// under way long after the plan is cut off and counts as failed.
    fn measure(
        &self,
        pattern: Pattern,
        planned: Option<Duration>,
    ) -> anyhow::Result<Result<LoadRecord, Observation>> {
        let mut plan = self.plan.clone();
        plan.pattern = pattern;
        plan.late_after = self.objective.late_after();
        let left = self.within.saturating_sub(self.begun.elapsed());
        let overlong = Notify::new();
        let progress = |now: &Progress| {
            // By the clock of the run, which begins when its server was found.
            if planned.is_some_and(|planned| self.has_waited(now, planned)) {
                overlong.notify_one();
            }
        };
        let ended = Cell::new(None);
        let mut signal = self.stop.borrow_mut();
        let stop = async {
            tokio::select! {
                () = overlong.notified() => {}
                () = tokio::time::sleep(left) => ended.set(Some(Observation::OutOfTime)),
                () = signal.received() => ended.set(Some(Observation::Interrupted)),
            }
        };
        let mut generators = self.generators.borrow_mut();
        let run = match self.runtime.block_on(generators.measure(&plan, progress, stop)) {
            Err(error) if self.has_measured.get() && error.is::<AgentError>() => {
                return Ok(Err(Observation::GeneratorLost(error.to_string())));
            }
            run => run?,
        };
        self.has_measured.set(true);
        // Where the cut was the search's own, what it cut off has failed.
        Ok(ended.take().map_or(Ok(LoadRecord { interrupted: false, ..run }), Err))
    }

    /// Whether what is under way after a plan of so long has been waited for: as long as it could
    /// be in time, and while the objective depends on whether it fails.
    fn has_waited(&self, now: &Progress, planned: Duration) -> bool {
        let part = |part: u32| Duration::from_std(self.within / part);
        let in_time = self.objective.late_for_all_after().map_or(Duration::ZERO, |it| it + SLACK);
        let in_time = part(DRAIN_PART).max(in_time);
        let longest = part(LAST_PART).max(in_time).min(self.plan.timeout);
        let waited = now.elapsed.saturating_sub(planned);
        let failed = now.outcomes.failed();
        let rest = Rest { planned: now.planned, failed, in_flight: now.in_flight };
        waited >= longest || waited >= in_time && !self.objective.depends_on(rest)
    }

    fn judge(&self, mut run: LoadRecord) -> Measured {
        let judged = self.objective.judge(&run);
        let suits = self.objective.suits(&run.model);
        run.objective = Some(judged);
        let mut measured = Measured::of(&run, self.objective);
        if !suits {
            // What compares with a planned rate says nothing of a closed loop.
            measured.criteria.retain(|criterion| !criterion.text.contains("target"));
            measured.met = measured.criteria.iter().all(|criterion| criterion.met);
        }
        measured
    }

    fn say(&self, text: &str) {
        if !self.pace.quiet {
            let elapsed = self.begun.elapsed().as_secs();
            // Progress that nobody can read is no reason to end a search.
            let _ = writeln!(io::stderr(), "{elapsed:>4} s  {text}");
        }
    }
}

/// A run in a few words: what breached the objective, or how it was met.
fn told(measured: &Measured) -> String {
    if let Some(fault) = measured.faults.first() {
        return format!("invalid, {}", fault.what);
    }
    let breached = measured.criteria.iter().find(|criterion| !criterion.met);
    match breached {
        Some(criterion) => format!("breached, {} is {}", criterion.text, criterion.measured),
        None => format!("met, p99 {}", millis(measured.response.p99)),
    }
}

/// Long enough for a median, short enough not to wait for nothing.
const PROBE: Duration = Duration::from_millis(200);

/// Waiting for responses after a plan that meet no objective any more, for those that decide by
/// whether they fail, and for the service to rest, takes no more than these parts of the time of
/// the search.
const DRAIN_PART: u32 = 20;
const LAST_PART: u32 = 4;
const COOL_DOWN_PART: u32 = 10;

/// What a response may be late by the generator.
const SLACK: Duration = Duration::from_millis(100);

/// A shorter rest is not worth a line.
const NOTABLE: time::Duration = time::Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        net::{TcpListener, TcpStream},
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// A server that does so with each connection.
    fn server(answer: fn(TcpStream)) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                std::thread::spawn(move || answer(stream));
            }
        });
        url
    }

    /// Leaves every fifth request without an answer.
    fn hang_at_times(mut stream: TcpStream) {
        static REQUESTS: AtomicUsize = AtomicUsize::new(1);
        while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
            if REQUESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(5) {
                continue;
            }
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    }

    /// Works longer on each request than a quick search waits for what is late.
    fn work_long(mut stream: TcpStream) {
        while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
            std::thread::sleep(time::Duration::from_millis(1_700));
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    }

    /// A trial at 50/s and a rung of four users in a search for `objective` of so many seconds.
    fn observed(answer: fn(TcpStream), objective: &str, within: u64) -> [Measured; 2] {
        let objective = objective.parse().unwrap();
        let plan = LoadPlan::closed(&server(answer), 1, Until::Requests(1)).unwrap();
        let pace = Pace {
            arrivals: Arrivals::Constant,
            max_in_flight: 1_000,
            cool_down: Duration::ZERO,
            quiet: true,
        };
        let runtime = loadline_load::runtime().unwrap();
        let stop = RefCell::new(runtime.block_on(async { StopSignal::new() }).unwrap());
        let driver = Driver {
            objective: &objective,
            plan: &plan,
            pace: &pace,
            runtime,
            generators: RefCell::new(Generators::Here),
            stop,
            begun: time::Instant::now(),
            within: time::Duration::from_secs(within),
            has_measured: Cell::new(false),
        };
        let (rate, second) = (Rate::per_sec(50), Duration::from_secs(1));
        let timetable = Timetable::steady(rate, Arrivals::Constant, 0);
        let search = Search::new(Config::default());
        let trial = driver.trial(&search, timetable, rate, second, Purpose::Bracket);
        [trial, driver.rung(4, second)].map(|observed| match observed.unwrap() {
            Observation::Run(measured) => *measured,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_trial_in_which_requests_hang_beyond_its_end_is_breached() {
        for measured in observed(hang_at_times, "p99<1s, errors<1%", 20) {
            assert!(!measured.met, "{measured:?}");
        }
    }

    #[test]
    fn a_response_that_can_still_meet_the_objective_is_waited_for_in_a_quick_search_too() {
        for measured in observed(work_long, "p99<5s", 30) {
            assert!(measured.met, "{measured:?}");
        }
        for measured in observed(work_long, "p99<1s", 30) {
            assert!(!measured.met, "{measured:?}");
        }
    }

    /// Leaves it to others to be fast: every fifth request takes longer than a quick search waits
    /// for what is late.
    fn work_long_at_times(mut stream: TcpStream) {
        static REQUESTS: AtomicUsize = AtomicUsize::new(1);
        while matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
            if REQUESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(5) {
                std::thread::sleep(time::Duration::from_millis(1_700));
            }
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    }

    #[test]
    fn a_late_response_that_succeeds_is_no_error_in_a_quick_search_either() {
        for measured in observed(work_long, "errors<1%", 20) {
            assert!(measured.met, "{measured:?}");
        }
        for measured in observed(work_long_at_times, "p50<500ms, errors<1%", 20) {
            assert!(measured.met, "{measured:?}");
        }
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
}
