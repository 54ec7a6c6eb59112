//! The capacity search against queues whose capacity is known, and hidden from it.
//!
//! Each server is a simulation that is exact event by event. Its true capacity, the highest rate
//! at which its stationary 99th percentile keeps the limit, comes from a formula where there is
//! one, and is otherwise written down and checked by a run far longer than any trial.

mod queues;

use loadline_core::{
    record::{Arrivals, CapacityRecord, Fault, Purpose, Verdict},
    time::Duration,
    units::Rate,
};
use loadline_load::{
    Timetable, Until,
    search::{Config, Measured, Observation, Search, Step},
};
use queues::{Kind, Server};

/// Runs a search against `server`; `spoil` may change what was measured.
fn search(
    server: &Server,
    config: Config,
    mut spoil: impl FnMut(Rate, &mut Measured),
) -> CapacityRecord {
    let mut search = Search::new(config);
    loop {
        let observation = match search.next() {
            Step::Ladder { users, duration } => {
                Observation::Run(server.closed(users as usize, duration.as_secs_f64(), 1))
            }
            Step::Trial { rate, duration, seed, .. } => {
                let timetable = Timetable::steady(rate, Arrivals::Poisson, seed);
                let instants = timetable.instants(Until::Elapsed(duration));
                let mut measured = server.open(instants.map(Duration::as_secs_f64), seed);
                spoil(rate, &mut measured);
                Observation::Run(measured)
            }
            Step::CoolDown { .. } => Observation::Cooled { at_rest: true },
            Step::Done(record) => return *record,
        };
        search.observe(observation);
    }
}

fn run(server: &Server, config: Config) -> CapacityRecord {
    search(server, config, |_, _| {})
}

/// A hundred searches of the default length: at least 95 within 3 % of `exact` requests per second,
/// and at least 90 whose interval holds it.
#[expect(clippy::print_stderr, reason = "the figures belong into the log of the test")]
fn assert_found(server: &Server, exact: f64) {
    let found = |seed| {
        let record = run(server, Config { seed, ..Config::default() });
        let line = record.found.unwrap_or_else(|| panic!("seed {seed}: {:?}", record.verdict));
        let holds = |rate: Rate| rate.as_per_sec_f64();
        let covers = holds(line.interval.low) <= exact && exact <= holds(line.interval.high);
        (line.rate.as_per_sec_f64() / exact - 1.0, covers, seconds(&record.trials))
    };
    let runs: Vec<_> = (0..RUNS).map(found).collect();
    let near = runs.iter().filter(|(error, _, _)| error.abs() <= 0.03).count();
    let covering = runs.iter().filter(|(_, covers, _)| *covers).count();
    let mean = |of: fn(&(f64, bool, f64)) -> f64| runs.iter().map(of).sum::<f64>() / RUNS as f64;
    eprintln!(
        "{:?}: {near} of {RUNS} within 3 %, mean error {:.2} %, {covering} intervals hold it, \
         {:.0} s of trials",
        server.kind,
        100.0 * mean(|run| run.0),
        mean(|run| run.2),
    );
    assert!(near >= 95, "{near} of {RUNS} within 3 % of {exact}/s: {runs:?}");
    assert!(covering >= 90, "{covering} of {RUNS} intervals hold {exact}/s: {runs:?}");
}

fn seconds(trials: &[loadline_core::record::Trial]) -> f64 {
    trials.iter().map(|trial| trial.lasts.as_secs_f64()).sum()
}

/// A run of a million requests and more at the written capacity meets its limit to a fiftieth.
fn assert_exact(server: &Server, exact: f64) {
    let ratio = server.long_run_p99(exact, 3_000_000, 11) / server.limit;
    assert!((ratio - 1.0).abs() < 0.03, "p99 at {exact}/s is {ratio} of the limit");
}

/// P(T > t) of the time T at an M/M/c queue in order of arrival, with job length 1/mu (Erlang C
/// and the sum of wait and job).
fn sojourn_tail(rate: f64, cores: i32, mu: f64, time: f64) -> f64 {
    let load = rate / mu;
    let cores_f = f64::from(cores);
    let (mut term, mut sum) = (1.0, 0.0);
    for busy in 0..cores {
        sum += term;
        term *= load / f64::from(busy + 1);
    }
    let waiting = term * cores_f / (cores_f - load);
    let waits = waiting / (sum + waiting);
    let spare = cores_f * mu - rate;
    let job = (-mu * time).exp();
    job + waits * mu / (spare - mu) * (job - (-spare * time).exp())
}

#[test]
fn two_cores_with_jobs_of_one_length() {
    assert_exact(&M_D_2.0, M_D_2.1);
    assert_found(&M_D_2.0, M_D_2.1);
}

#[test]
fn four_cores_with_exponential_jobs() {
    let server = Server { kind: Kind::Exponential { cores: 4 }, job: 0.001, limit: 0.008 };
    let (mut low, mut high) = (1_000.0, 3_999.0);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        let tail = sojourn_tail(middle, 4, 1.0 / server.job, server.limit);
        if tail < 0.01 { low = middle } else { high = middle }
    }
    assert_exact(&server, low);
    assert_found(&server, low);
}

#[test]
fn a_core_that_all_jobs_share() {
    assert_exact(&SHARING.0, SHARING.1);
    assert_found(&SHARING.0, SHARING.1);
}

#[test]
fn what_was_found_can_be_read_from_the_record() {
    let record = run(&M_D_2.0, Config::default());
    assert_eq!(record.verdict, Verdict::Found);
    let line = record.found.as_ref().expect("it was found");
    assert!(line.interval.low <= line.rate && line.rate <= line.interval.high);
    let share = line.max_rate.as_per_sec_f64() / line.rate.as_per_sec_f64();
    assert!((share - 0.8).abs() < 0.001, "20 % stay free, {share} is used");
    let confirmed = record.trials.last().expect("there were trials");
    assert_eq!(
        (confirmed.purpose, confirmed.rate, confirmed.met),
        (Purpose::Confirmation, line.rate, true)
    );
    let (accepted, refused) = (record.accepted.expect("a bound"), record.refused.expect("a bound"));
    assert!(accepted.rate < refused.rate && refused.breached > refused.met);
    assert!(record.rungs.len() >= 4 && record.rungs.iter().all(|rung| !rung.suspect));
    let law = record.scalability.expect("four sound rungs");
    let peak = law.peak_per_s.expect("two cores level off");
    assert!((3_000.0..5_000.0).contains(&peak), "{law:?}");
    assert!(record.knee.is_some_and(|knee| knee.rate <= refused.rate));
    assert!(record.curve.points.is_sorted_by_key(|point| point.0));
}

#[test]
fn a_server_that_cannot_meet_its_objective_at_all_is_told_from_a_slow_search() {
    let server = Server { kind: Kind::Fixed { cores: 1 }, job: 0.01, limit: 0.005 };
    let record = run(&server, Config::default());
    assert_eq!((record.verdict, record.found), (Verdict::NoLoadMeets, None));
    assert!(record.accepted.is_none() && record.refused.is_some());
}

#[test]
fn a_ceiling_below_the_load_line_is_an_answer_too() {
    let config = Config { highest: Rate::per_sec(500), ..Config::default() };
    let record = run(&M_D_2.0, config);
    assert_eq!((record.verdict, record.refused), (Verdict::AtLeast, None));
    assert_eq!(record.accepted.map(|bound| bound.rate), Some(Rate::per_sec(500)));
}

#[test]
fn a_generator_that_gives_out_ends_the_search_and_breaches_nothing() {
    let fault = Fault { what: "the generator's CPU was busy".into(), advice: "use two".into() };
    let record = search(&M_D_2.0, Config::default(), |rate, measured| {
        if rate > Rate::per_sec(2_400) {
            measured.met = false;
            measured.faults = vec![fault.clone()];
        }
    });
    assert_eq!((record.verdict, record.found), (Verdict::GeneratorInvalid, None));
    assert_eq!(record.refused, None, "an invalid trial refuses nothing");
    assert!(record.notes.iter().any(|note| note.contains("busy") && note.contains("use two")));
}

#[test]
fn one_invalid_trial_is_made_again() {
    let mut first = true;
    let record = search(&M_D_2.0, Config::default(), |_, measured| {
        if std::mem::take(&mut first) {
            measured.faults = vec![Fault { what: "a pause".into(), advice: "none".into() }];
        }
    });
    assert_eq!(record.verdict, Verdict::Found);
    assert_eq!(record.trials[0].rate, record.trials[1].rate);
}

#[test]
fn a_short_dip_well_below_the_line_does_not_end_in_it() {
    let mut dips = 1;
    let record = search(&M_D_2.0, Config::default(), |rate, measured| {
        if dips > 0 && rate < Rate::per_sec(2_000) {
            dips -= 1;
            measured.met = false;
        }
    });
    let line = record.found.expect("found all the same");
    assert!((line.rate.as_per_sec_f64() / M_D_2.1 - 1.0).abs() < 0.04, "{line:?}");
}

#[test]
fn each_breach_is_followed_by_a_rest_that_is_told_where_it_is_not_had() {
    let mut search = Search::new(Config::default());
    let rest = Measured {
        achieved: Rate::per_sec(100),
        response: loadline_core::record::Latency {
            count: 300,
            mean: Duration::from_millis(10),
            p50: Duration::from_millis(10),
            ..Default::default()
        },
        ..Measured::default()
    };
    search.observe(Observation::Run(rest.clone()));
    assert!(matches!(search.next(), Step::Trial { .. }), "far breached: the ladder ends");
    search.observe(Observation::Cooled { at_rest: true });
    assert!(matches!(search.next(), Step::Trial { .. }), "no answer to the step");
    search.observe(Observation::Run(rest));
    assert_eq!(search.next(), Step::CoolDown { at_rest: Duration::from_millis(16) });
    search.observe(Observation::Cooled { at_rest: false });
    search.observe(Observation::Interrupted);
    let Step::Done(record) = search.next() else { panic!("interrupted") };
    assert_eq!(record.verdict, Verdict::Interrupted);
    assert!(record.notes.iter().any(|note| note.contains("did not come back")));
}

const RUNS: u64 = 100;

/// The capacity by interpolation between runs of 32 million requests.
const M_D_2: (Server, f64) =
    (Server { kind: Kind::Fixed { cores: 2 }, job: 0.000_5, limit: 0.004 }, 3_401.2);

/// As [`M_D_2`].
const SHARING: (Server, f64) =
    (Server { kind: Kind::Sharing, job: 0.000_25, limit: 0.006 }, 2_834.6);
