//! Servers that answer with more 5xx than the others of their group, at 200 requests a second.

use std::sync::Arc;

use loadline_core::{
    controller::{Change, Controller, Input, Output},
    fleet::{Capacity, Ejection, PolicyKind, Service},
    plan::{Ask, Decision, Plan},
    time::{Duration, Instant},
};

use crate::fleets::{fleet, group};

/// What happened to servers, and when, in milliseconds.
#[derive(Debug, Default)]
struct Story {
    ejected: Vec<(u64, usize)>,
    reasons: Vec<String>,
    /// Requests that failed, of how many.
    failed: usize,
    sent: usize,
}

/// Sends requests every 5 ms that are answered at once, and fails those of the servers for which
/// `fails` holds.
fn run(service: Service, seconds: u64, fails: impl Fn(usize, u64) -> bool) -> Story {
    let mut controller = Controller::new(Instant::ZERO, fleet(service));
    let mut plan: Option<Arc<Plan>> = None;
    let mut story = Story::default();
    for millis in 1..=seconds * 1_000 {
        let now = Instant::ZERO + Duration::from_millis(millis);
        if controller.next_deadline().is_some_and(|deadline| deadline <= now) {
            controller.handle(now, Input::Tick);
        }
        hear(&mut controller, &mut plan, &mut story, millis);
        let draw = millis.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let ask = Ask { now, key: 0, draw, tried: &[], stick: None };
        let known = plan.as_ref().filter(|_| millis.is_multiple_of(5));
        let Some(Decision::Send(permit)) = known.map(|plan| plan.services[0].pick(&ask)) else {
            continue;
        };
        story.sent += 1;
        if fails(permit.place().1, millis) {
            story.failed += 1;
            if permit.answered_5xx(now) {
                controller.handle(now, Input::Errs { server: permit.server() });
            }
        } else {
            permit.answered(now);
        }
        permit.finish(now);
        controller.check_invariants();
    }
    story
}

fn hear(controller: &mut Controller, plan: &mut Option<Arc<Plan>>, story: &mut Story, millis: u64) {
    while let Some(output) = controller.poll() {
        match output {
            Output::Publish(next) => *plan = Some(next),
            Output::Notice(notice) => {
                if let Change::Outlier(server, _, evidence) = notice.change {
                    let address = server.to_string();
                    let place = (0..9).find(|n| address.contains(&format!(".{n}:")));
                    story.ejected.push((millis, place.expect("one of the group")));
                    story.reasons.push(evidence.to_string());
                }
            }
            Output::Check { .. } => {}
        }
    }
}

fn four(policy: PolicyKind) -> Service {
    let groups = vec![group("near", 0, 4, Capacity::default())];
    Service { policy, groups, ..Service::named("web") }
}

#[test]
fn a_server_that_fails_everything_costs_few_requests_whatever_the_policy() {
    for policy in PolicyKind::ALL.into_iter().filter(|policy| !policy.hashes()) {
        let story = run(four(policy), 8, |server, _| server == 2);
        let (first, server) = story.ejected[0];
        assert!(server == 2 && first <= 1_000, "{policy:?}: {story:?}");
        // Out for 1, 2 and 4 s, with three errors or a few more at each return.
        assert!(story.ejected.iter().all(|it| it.1 == 2), "{policy:?}: {story:?}");
        let share = story.failed as f64 / story.sent as f64;
        assert!(share < 0.05, "{policy:?}: {share} of the requests failed; {story:?}");
        assert!(story.reasons[0].contains("answers were 5xx, 0 of "), "{:?}", story.reasons);
    }
}

#[test]
fn nobody_is_ejected_where_all_fail_alike_or_two_requests_in_a_row_fail() {
    for policy in [PolicyKind::LeastRequests, PolicyKind::RoundRobin, PolicyKind::PeakEwma] {
        let story = run(four(policy), 8, |_, millis| millis > 2_000 && millis < 5_000);
        assert_eq!(story.ejected, [], "{policy:?}");
        let story = run(four(policy), 8, |server, millis| server == 1 && millis % 1_000 <= 40);
        assert_eq!(story.ejected, [], "{policy:?}: two in a row every second");
        let mut off = four(policy);
        off.ejection = Some(Ejection { excess_5xx: None, ..Ejection::default() });
        let story = run(off, 4, |server, _| server == 2);
        assert_eq!(story.ejected, [], "{policy:?}: switched off");
        assert!(story.failed * 5 <= story.sent * 2, "{policy:?}: {story:?}");
    }
}

#[test]
fn no_more_than_share_max_of_a_group_are_out() {
    let story = run(four(PolicyKind::RoundRobin), 8, |server, _| server != 3);
    let mut out: Vec<usize> = story.ejected.iter().map(|it| it.1).collect();
    out.sort_unstable();
    out.dedup();
    assert!(!out.contains(&3), "{story:?}");
    // A second at most of the time is one more of them in, on trial.
    let early = story.ejected.iter().filter(|(at, _)| *at < 900).count();
    assert!(early <= 2, "two of four at a time: {story:?}");
}
