//! Users of a closed loop: how many there are, and when they ask again.

use loadline_core::{
    time::{Duration, Instant},
    units::{Bytes, Rate},
};
use loadline_sim::{
    Arrivals, OutageKind, Pauses, Scenario, ServiceTime, Simulation,
    scenario::{Cache, ClientRetry, Discipline, Fault, Objects, Selector, ServerModel, Trouble},
    trace::{Fact, Step, What},
};

use crate::fleets::one_server;

/// Ten users, of whom each asks again 100 us after a failure: 100,000 requests in a second.
#[test]
fn users_whose_requests_fail_at_once_do_not_keep_the_run_from_its_end() {
    let mut scenario = users(10, Duration::ZERO);
    let down = Trouble::Outage(OutageKind::Down);
    scenario.faults = vec![from_the_beginning(down)];
    let record = Simulation::new(scenario).run();
    assert_eq!(record.outcomes.ok, 0);
    assert!((99_000..=100_010).contains(&record.planned), "{}", record.planned);
}

#[test]
fn users_whose_requests_a_cache_answers_do_not_keep_the_run_from_its_end() {
    let mut scenario = users(10, Duration::ZERO);
    scenario.objects = vec![Some(Objects::new((1, 1.0), (Bytes::new(1_000), 0.0), None))];
    scenario.caches = vec![cache()];
    let record = Simulation::new(scenario).run();
    assert_eq!(record.outcomes.ok, record.planned);
    assert!((99_000..=100_010).contains(&record.planned), "{}", record.planned);
}

/// 100 ms of work behind 60 ms of way: 160 ms.
#[test]
fn a_response_that_comes_when_its_client_has_gone_is_no_success() {
    for (gives_up, ok) in [(150, false), (170, true)] {
        let model = ServerModel {
            time: ServiceTime::Constant(Duration::from_millis(100)),
            cores: 100,
            ..ServerModel::default()
        };
        let mut scenario = one_server(model, Rate::per_sec(10), 10, 1);
        scenario.sources[0].distance = Duration::from_millis(60);
        scenario.sources[0].gives_up = Some(Duration::from_millis(gives_up));
        let record = Simulation::new(scenario).run();
        let expected = if ok { record.planned } else { 0 };
        assert_eq!(record.outcomes.ok, expected, "gives up after {gives_up} ms");
    }
}

#[test]
fn a_client_that_is_too_far_away_for_its_patience_gets_nothing_of_a_cache_either() {
    let mut scenario = users(10, Duration::from_millis(10));
    scenario.objects = vec![Some(Objects::new((1, 1.0), (Bytes::new(1_000), 0.0), None))];
    scenario.caches = vec![cache()];
    scenario.sources[0].distance = Duration::from_millis(60);
    scenario.sources[0].gives_up = Some(Duration::from_millis(50));
    let record = Simulation::new(scenario.clone()).run();
    assert_eq!(record.outcomes.ok, 0);
    assert!(record.planned > 0);
    scenario.sources[0].gives_up = Some(Duration::from_millis(70));
    let record = Simulation::new(scenario).run();
    assert_eq!(record.outcomes.ok, record.planned);
}

/// Twice 10 ms of work and 200 ms of way, and 50 to 100 ms in between.
#[test]
fn what_a_client_tries_again_goes_there_and_back_again() {
    let model = ServerModel {
        time: ServiceTime::Constant(Duration::from_millis(10)),
        ..ServerModel::default()
    };
    let mut scenario = one_server(model, Rate::per_sec(1), 10, 1);
    scenario.warm_up = Duration::ZERO;
    scenario.sources[0].arrivals = Arrivals::Listed([Duration::ZERO].into());
    scenario.sources[0].distance = Duration::from_millis(200);
    scenario.sources[0].retry = ClientRetry { times: 1, after: Duration::from_millis(100) };
    let errors = Trouble::Errors(1.0);
    let lasts = Some(Duration::from_millis(50));
    scenario.faults = vec![Fault { lasts, ..from_the_beginning(errors) }];
    let record = Simulation::new(scenario).run();
    assert_eq!(record.outcomes.ok, 1);
    let took = record.response.max;
    let expected = Duration::from_millis(469)..=Duration::from_millis(521);
    assert!(expected.contains(&took), "{took}");
}

/// The server pauses now and then until it stands still for ever.
#[test]
fn a_server_with_pauses_that_stalls_to_the_end_does_not_keep_the_run_from_it() {
    let pauses = Pauses { every: Duration::from_secs(3), lasts: Duration::from_millis(200) };
    let model = ServerModel { pauses: Some(pauses), ..server() };
    let mut scenario = one_server(model, Rate::per_sec(10), 10, 1);
    scenario.warm_up = Duration::ZERO;
    let at = Instant::ZERO + Duration::from_millis(500);
    scenario.faults = vec![Fault { at, ..from_the_beginning(Trouble::Stall) }];
    let record = Simulation::new(scenario).run();
    assert!(record.outcomes.ok < record.planned, "{:?}", record.outcomes);
}

/// Who thinks for longer than that is not held up further.
#[test]
fn users_who_think_ask_again_when_they_have_thought() {
    let mut scenario = users(10, Duration::from_millis(10));
    scenario.faults = vec![from_the_beginning(Trouble::Outage(OutageKind::Down))];
    let planned = Simulation::new(scenario).run().planned;
    assert!((990..=1_010).contains(&planned), "{planned}");
}

/// Each waits 90 ms between answers of 10 ms, so ten times a second.
#[test]
fn three_times_the_traffic_is_three_times_the_users() {
    let planned = |faults: Vec<Fault>| {
        let mut scenario = users(10, Duration::from_millis(90));
        scenario.lasts = Duration::from_secs(30);
        scenario.faults = faults;
        Simulation::new(scenario).run().planned
    };
    let traffic = |at, lasts, factor| {
        let at = Instant::ZERO + Duration::from_secs(at);
        let lasts = Some(Duration::from_secs(lasts)).filter(|lasts| *lasts > Duration::ZERO);
        Fault { at, lasts, what: Trouble::Traffic(factor), whom: Selector::default() }
    };
    for (faults, expected) in [
        (vec![], 3_000),
        (vec![traffic(0, 0, 3.0)], 9_000),
        (vec![traffic(10, 10, 3.0)], 5_000),
        (vec![traffic(10, 10, 3.0), traffic(15, 10, 0.5)], 4_000),
        (vec![traffic(10, 0, 0.0)], 1_000),
    ] {
        let found = planned(faults.clone());
        assert!((found as f64 / f64::from(expected) - 1.0).abs() < 0.02, "{found}: {faults:?}");
    }
}

/// Half of the responses is an error, so clients of one run try again and those of the other do
/// not. The same requests come to both.
#[test]
fn what_clients_try_again_leaves_what_comes_as_it_was() {
    let came = |what: &[Trouble]| {
        let mut scenario = one_server(server(), Rate::per_sec(50), 500, 1);
        scenario.sources[0].retry = ClientRetry { times: 2, after: Duration::from_millis(50) };
        scenario.faults = what.iter().map(|what| from_the_beginning(*what)).collect();
        let mut simulation = Simulation::traced(scenario);
        let mut came = Vec::new();
        while simulation.step() {
            let facts = simulation.facts().into_iter();
            came.extend(facts.filter(is_first).map(|fact| fact.at));
        }
        came
    };
    let as_it_is = came(&[]);
    assert!(as_it_is.len() > 400);
    assert_eq!(as_it_is, came(&[Trouble::Errors(0.5)]));
}

/// Each attempt fails or not by itself: all four of one in sixteen.
#[test]
fn a_client_that_tries_again_after_an_error_has_another_chance() {
    for discipline in [Discipline::FirstCome, Discipline::ProcessorSharing] {
        let model = ServerModel { discipline, ..server() };
        let mut scenario = one_server(model, Rate::per_sec(50), 2_000, 1);
        scenario.sources[0].retry = ClientRetry { times: 3, after: Duration::from_millis(10) };
        scenario.faults = vec![from_the_beginning(Trouble::Errors(0.5))];
        let outcomes = Simulation::new(scenario).run().outcomes;
        let failed = outcomes.server_error as f64 / outcomes.total() as f64;
        assert!((0.04..0.085).contains(&failed), "{failed}: {discipline:?}");
    }
}

/// Whether a request comes to its edge for the first time.
fn is_first(fact: &Fact) -> bool {
    matches!(fact.what, What::Request(_, Step::Asks { tries: 0, .. }))
}

/// So many users of one server, for a second.
fn users(users: u32, think: Duration) -> Scenario {
    let mut scenario = one_server(server(), Rate::per_sec(1), 1, 1);
    scenario.warm_up = Duration::ZERO;
    scenario.sources[0].arrivals = Arrivals::Closed { users, think, requests: None };
    scenario
}

fn cache() -> Cache {
    let stale_if_error = Duration::ZERO;
    Cache { edge: 0, size: Bytes::new(1_000_000), warm: 10, stale_if_error }
}

fn server() -> ServerModel {
    let time = ServiceTime::Constant(Duration::from_millis(10));
    ServerModel { time, cores: 100, ..ServerModel::default() }
}

fn from_the_beginning(what: Trouble) -> Fault {
    let at = Instant::ZERO + Duration::from_nanos(1);
    Fault { at, lasts: None, what, whom: Selector::default() }
}
