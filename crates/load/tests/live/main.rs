//! The generator against real sockets on the loopback: every way a request can end, both loops.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod http2;
mod http3;
mod loops;
mod outcomes;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod routes;
mod secure;
mod server;
mod tls;

use loadline_core::time::Duration;
use loadline_load::{LoadPlan, Until};
use loadline_measure::record::LoadRecord;

/// One user who sends `requests` to `url`, with a short patience.
fn one_user(url: &str, requests: u64) -> LoadPlan {
    let mut plan = LoadPlan::closed(url, 1, Until::Requests(requests)).unwrap();
    plan.timeout = Duration::from_secs(5);
    plan
}

/// Runs the plan to its end.
fn run(plan: &LoadPlan) -> LoadRecord {
    let never = std::future::pending();
    let measured = loadline_load::runtime()
        .unwrap()
        .block_on(loadline_load::measure(plan, |_| (), never))
        .unwrap();
    assert_accounts(&measured);
    measured
}

/// A figure is right, or the generator says of itself that it was kept from its work.
#[expect(clippy::print_stdout, reason = "says which figure was not judged")]
fn assert_or_kept(is_right: bool, record: &LoadRecord, what: &str) {
    if !is_right {
        let faults = &record.generator.faults;
        assert!(!faults.is_empty(), "{what}");
        println!("not judged, {what}: {faults:?}");
    }
}

/// What holds for every record, whatever happened.
fn assert_accounts(record: &LoadRecord) {
    let outcomes = record.outcomes;
    assert_eq!(outcomes.total(), record.planned, "{outcomes:?}");
    assert_eq!(record.response.count, outcomes.ok);
    assert_eq!(record.service.count, outcomes.ok);
    assert_eq!(record.lag.count, record.planned - outcomes.dropped);
    let answered = outcomes.ok + outcomes.client_error + outcomes.server_error;
    assert_eq!(record.statuses.values().sum::<u64>(), answered);
    let ended = record.moments.iter().map(|moment| moment.outcomes.total()).sum::<u64>();
    let planned = record.moments.iter().map(|moment| moment.planned).sum::<u64>();
    assert_eq!((ended, planned), (record.planned, record.planned), "the sums over all moments");
    assert_eq!(record.moments.last().map_or(0, |moment| moment.in_flight), 0);
}
