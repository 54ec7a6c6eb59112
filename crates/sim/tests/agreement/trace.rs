//! What a trace and a record tell of a run.

use std::collections::BTreeMap;

use loadline_core::{time::Duration, units::Rate};
use loadline_sim::{
    Arrivals, ServiceTime, Simulation,
    scenario::ServerModel,
    trace::{Fact, Outcome, Place, Step, What},
};

use crate::fleets::one_server;

fn steps_of(facts: &[Fact]) -> BTreeMap<u64, Vec<Step>> {
    let mut steps: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
    for fact in facts {
        if let What::Request(number, step) = fact.what {
            steps.entry(number).or_default().push(step);
        }
    }
    steps
}

#[test]
fn a_trace_tells_each_step_of_each_request_and_changes_nothing() {
    let scenario = || one_server(ServerModel::default(), Rate::per_sec(50), 200, 3);
    let plain = Simulation::new(scenario()).run();
    let mut traced = Simulation::traced(scenario());
    let mut facts = traced.facts();
    while traced.step() {
        facts.extend(traced.facts());
    }
    let in_flight = |run: &Simulation| -> u32 {
        let plans = run.plans().flat_map(|plan| plan.services.iter());
        plans.flat_map(|service| &service.groups).map(|group| group.state().in_flight()).sum()
    };
    assert_eq!(in_flight(&traced), 0);
    assert_eq!(traced.finish(), plain);
    let steps = steps_of(&facts);
    assert!(steps.len() as u64 >= plain.planned, "only {} requests", steps.len());
    let asks = Step::Asks { source: 0, edge: Some(0), tries: 0 };
    let server = Place { service: 0, group: 0, server: 0 };
    let sent = Step::Sent { server, overflow: false };
    let whole = [asks, sent, Step::Response(200), Step::Over(Outcome::Served)];
    assert!(steps.values().all(|steps| *steps == whole), "{steps:?}");
    let first = facts.first().map(|fact| &fact.what);
    let groups = vec![(0, vec![0])];
    assert_eq!(first, Some(&What::Planned { edge: 0, service: 0, groups }));
}

/// Ten requests a second, the last of them a millisecond after the last point of the timeline.
#[test]
fn the_peak_of_a_group_is_not_that_of_the_instant_in_which_the_run_ends() {
    let millis = Duration::from_millis;
    let model = ServerModel { time: ServiceTime::Constant(millis(1)), ..ServerModel::default() };
    let mut scenario = one_server(model, Rate::per_sec(10), 100, 1);
    let times = (0..=100).map(|n| millis(100 * n + 1));
    scenario.sources[0].arrivals = Arrivals::Listed(times.collect());
    scenario.lasts = millis(10_002);
    let simulation = Simulation::new(scenario).run().simulation.unwrap();
    let group = &simulation.groups[0];
    assert!(group.peak_per_s < 12.0, "{}", group.peak_per_s);
    let given = group.moments.iter().map(|it| it.rate_per_s);
    assert!(given.clone().all(|rate| rate > 9.0), "{:?}", given.collect::<Vec<_>>());
}
